import { describe, expect, it } from 'vitest';

import type { IMetric } from '../data/api';
import { aRun, aSubmit, aSweep } from '../testing/runs';
import {
  bestOf,
  costOf,
  countStates,
  type IFilter,
  type ISort,
  NO_FILTER,
  tableRows
} from './rows';

const LOSS: IMetric = { name: 'loss', better: 'less' };
const NEWEST: ISort = { column: 'when', down: true };

const SUBMITS = [
  aSweep('9', [0.5, 0.1], { notebook: 'train.ipynb', submitted: 300 }),
  aSubmit('8', { notebook: 'other.ipynb', submitted: 200 }, [
    aRun('8', { metrics: { loss: 0.3 }, state: 'stopped' })
  ]),
  aSubmit('7', { notebook: 'train.ipynb', submitted: 100, is_there: false }, [])
];

function keys(
  filter: Partial<IFilter> = {},
  sort = NEWEST,
  grouped = true,
  open: string[] = []
): string[] {
  const all = { ...NO_FILTER, ...filter };
  return tableRows(SUBMITS, all, sort, LOSS, grouped, new Set(open)).map(
    row => row.key
  );
}

describe('the table of runs', () => {
  it('has one line for a sweep, which opens, or one for each run', () => {
    expect(keys()).toEqual(['9', '8', '7']);
    expect(keys({}, NEWEST, true, ['9'])).toEqual([
      '9',
      '9_1',
      '9_2',
      '8',
      '7'
    ]);
    expect(keys({}, NEWEST, false)).toEqual(['9_1', '9_2', '8', '7']);
  });

  it('is filtered by notebook, state, time and any word', () => {
    expect(keys({ notebook: 'other.ipynb' })).toEqual(['8']);
    expect(keys({ since: 150 })).toEqual(['9', '8']);
    expect(keys({ state: 'failed' })).toEqual(['8']);
    expect(keys({ text: 'train lr=2' }, NEWEST, false)).toEqual(['9_2']);
    expect(keys({ text: 'nothing like it' })).toEqual([]);
  });

  it('is sorted, and what has no value comes last either way', () => {
    const by = (down: boolean): ISort => ({ column: 'metric', down });
    expect(keys({}, by(false))).toEqual(['9', '8', '7']);
    expect(keys({}, by(true))).toEqual(['8', '9', '7']);
    expect(keys({}, by(false), true, ['9'])).toEqual([
      '9',
      '9_2',
      '9_1',
      '8',
      '7'
    ]);
  });

  it('shows of a sweep its best value, its states and its cost', () => {
    const [{ runs }] = SUBMITS;
    expect(bestOf(runs, LOSS)).toBe(0.1);
    expect(bestOf(runs, { name: 'loss', better: 'more' })).toBe(0.5);
    expect(bestOf(runs, null)).toBeNull();
    expect(countStates(runs)).toEqual([['done', 2]]);
    const costs = runs.map(run => ({ ...run, cost: '1.5 SBU' }));
    expect(costOf(costs)).toBe('3 SBU');
    expect(costOf(runs)).toBe('');
  });
});
