import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

/** How a job or a run is, in the six words that are the same everywhere. */
export type StateWord =
  'waiting' | 'running' | 'done' | 'failed' | 'cancelled' | 'held';

/** The words of runs, and those of Slurm that are not said by their phase. */
const WORDS: Record<string, StateWord> = {
  waiting: 'waiting',
  'goes on': 'waiting',
  running: 'running',
  held: 'held',
  done: 'done',
  incomplete: 'failed',
  stopped: 'failed',
  failed: 'failed',
  cancelled: 'cancelled',
  PENDING: 'waiting',
  REQUEUED: 'waiting',
  CONFIGURING: 'waiting',
  RUNNING: 'running',
  COMPLETING: 'running',
  SUSPENDED: 'held',
  STOPPED: 'held',
  REQUEUE_HOLD: 'held',
  COMPLETED: 'done',
  CANCELLED: 'cancelled'
};

const SYMBOLS: Record<StateWord, string> = {
  waiting: '◌',
  running: '●',
  done: '✓',
  failed: '✕',
  cancelled: '⊘',
  held: '‖'
};

/** The word for a state of a run or of Slurm; null for one that says nothing. */
export function wordOf(state: string, reason = ''): StateWord | null {
  const [first] = state.split(/[ +]/);
  if (first === 'PENDING' && /held/i.test(reason)) {
    return 'held';
  }
  const word = WORDS[state] ?? WORDS[first];
  if (word || !/^[A-Z_]+$/.test(first)) {
    return word ?? null;
  }
  // Of the states of Slurm all others are failures: TIMEOUT, OUT_OF_MEMORY, NODE_FAIL …
  return first === 'UNKNOWN' ? null : 'failed';
}

interface IStateBadgeProps {
  state: string;
  reason?: string;
  /** What Slurm calls it, where `state` is not that. */
  own?: string;
  trans: TranslationBundle;
}

/** A state in colour, word and symbol; Slurm's own word is its tooltip. */
export function StateBadge(props: IStateBadgeProps): JSX.Element {
  const { state, reason, own = state, trans } = props;
  const word = wordOf(state, reason);
  return (
    <span
      className={`jp-Hpc-stateword jp-mod-${word ?? 'unknown'}`}
      title={word === own ? undefined : own}
    >
      {word && <span aria-hidden="true">{SYMBOLS[word]} </span>}
      {word ? nameOf(word, trans) : state}
    </span>
  );
}

export function nameOf(word: StateWord, trans: TranslationBundle): string {
  const names: Record<StateWord, string> = {
    waiting: trans.__('waiting'),
    running: trans.__('running'),
    done: trans.__('done'),
    failed: trans.__('failed'),
    cancelled: trans.__('cancelled'),
    held: trans.__('held')
  };
  return names[word];
}
