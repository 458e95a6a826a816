import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import { cleanup, render, screen } from '@testing-library/react';
import * as React from 'react';
import { afterEach, describe, expect, it } from 'vitest';

import type { ILocalPort, IPortStatus } from '../tokens';
import { Notice } from './notice';
import type { Resuming } from './resuming';

const trans = nullTranslator.load('jupyter_hpc');

/** A port that is gone, and what it had said last. */
function showGone(last: Partial<IPortStatus>): void {
  const status = {
    open: false,
    name: 'mini-2',
    state: 'ready',
    text: 'JupyterLab on cpu01.',
    jobId: '7',
    needsPerson: '',
    offers: [],
    ...last
  };
  const port = { phase: 'gone', status, name: status.name };
  const changed = new Signal<object, void>({});
  const props = {
    port: { ...port, changed } as unknown as ILocalPort,
    resuming: { resumed: null, changed } as unknown as Resuming,
    shell: { widgets: () => [][Symbol.iterator]() } as never
  };
  render(<Notice {...props} trans={trans} />);
}

describe('a port that is gone', () => {
  afterEach(cleanup);

  it('leaves the reason of the end, and the way back', () => {
    const text = 'Job 7 reached its time limit of 8 hours.';
    showGone({ state: 'ended', text });
    screen.getByRole('heading', { name: 'The session mini-2 has ended' });
    screen.getByText(text);
    screen.getByText('All open documents are saved.');
    screen.getByText(/in a terminal: jupyter-hpc connect mini-2/);
    expect(screen.queryByText(/still runs/)).toBeNull();
  });

  it.each([
    [
      { state: 'reconnecting', text: 'The host is silent.' },
      'The host is silent.'
    ],
    [{ needsPerson: 'A login needs you.' }, 'A login needs you.']
  ])('leaves the last word of a session that had not ended', (last, word) => {
    showGone(last);
    screen.getByRole('heading', { name: /does not run on this computer/ });
    screen.getByText(`It said last: ${word}`);
    screen.getByText('Whether job 7 still runs: jupyter-hpc status mini-2');
  });

  it('claims nothing of a session that was well', () => {
    showGone({ open: true });
    expect(screen.queryByText(/said last/)).toBeNull();
    screen.getByText('Whether job 7 still runs: jupyter-hpc status mini-2');
  });
});
