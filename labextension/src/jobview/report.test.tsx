import { nullTranslator } from '@jupyterlab/translation';
import {
  cleanup,
  fireEvent,
  render,
  screen,
  waitFor
} from '@testing-library/react';
import * as React from 'react';
import { afterEach, describe, expect, it, vi } from 'vitest';

import type { IHpcClient } from '../tokens';
import { ReportButton } from './report';

const trans = nullTranslator.load('jupyter-hpc');

function show(jobReport: IHpcClient['jobReport']): HTMLElement {
  const client = { jobReport } as IHpcClient;
  render(<ReportButton {...{ client, id: '7', trans }} />);
  return screen.getByRole('button');
}

describe('the report of a job', () => {
  afterEach(() => {
    cleanup();
    vi.restoreAllMocks();
  });

  it('is handed to the browser as a file', async () => {
    const made = vi.fn((_: Blob) => 'blob:1');
    Object.assign(URL, { createObjectURL: made, revokeObjectURL: vi.fn() });
    const saved: string[] = [];
    vi.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(function (
      this: HTMLAnchorElement
    ) {
      saved.push(`${this.download} ${this.href}`);
    });
    const ask = vi.fn(() =>
      Promise.resolve({ file: 'report-7.html', page: '<p>' })
    );
    const button = show(ask);
    fireEvent.click(button);
    expect(button.textContent).toBe('Making the report…');
    expect(button).toHaveProperty('disabled', true);
    await waitFor(() => expect(saved).toEqual(['report-7.html blob:1']));
    expect(ask).toHaveBeenCalledExactlyOnceWith('7');
    expect(made.mock.calls[0][0].type).toBe('text/html');
    await waitFor(() => expect(button.textContent).toBe('Report'));
  });

  it('can be asked for again after a failure', async () => {
    const button = show(() => Promise.reject(new Error('away')));
    fireEvent.click(button);
    await waitFor(() => expect(button).toHaveProperty('disabled', false));
  });
});
