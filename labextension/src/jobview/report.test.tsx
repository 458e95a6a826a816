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
import { ShareReport } from './report';

const trans = nullTranslator.load('jupyter-hpc');

function show(jobReport: IHpcClient['jobReport']): HTMLElement[] {
  const client = { jobReport } as IHpcClient;
  render(<ShareReport {...{ client, id: '7', trans }} />);
  return screen.getAllByRole('button');
}

describe('the report of a job', () => {
  afterEach(() => {
    cleanup();
    vi.restoreAllMocks();
  });

  it.each([
    ['html', 'text/html', 0, 'Report'],
    ['json', 'application/json', 1, 'JSON']
  ] as const)('is a file of the kind %s', async (kind, type, place, name) => {
    const made = vi.fn((_: Blob) => 'blob:1');
    Object.assign(URL, { createObjectURL: made, revokeObjectURL: vi.fn() });
    const saved: string[] = [];
    vi.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(function (
      this: HTMLAnchorElement
    ) {
      saved.push(`${this.download} ${this.href}`);
    });
    const ask = vi.fn(() =>
      Promise.resolve({ file: `report-7.${kind}`, type, content: '<p>' })
    );
    const buttons = show(ask);
    const button = buttons[place];
    fireEvent.click(button);
    expect(button.textContent).toBe('Making the report…');
    for (const each of buttons) {
      expect(each).toHaveProperty('disabled', true);
    }
    await waitFor(() => expect(saved).toEqual([`report-7.${kind} blob:1`]));
    expect(ask).toHaveBeenCalledExactlyOnceWith('7', kind);
    expect(made.mock.calls[0][0].type).toBe(type);
    await waitFor(() => expect(button.textContent).toBe(name));
  });

  it('can be asked for again after a failure', async () => {
    const [button] = show(() => Promise.reject(new Error('away')));
    fireEvent.click(button);
    await waitFor(() => expect(button).toHaveProperty('disabled', false));
  });
});
