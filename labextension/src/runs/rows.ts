import type { IMetric, IRun, ISubmit } from '../data/api';
import { type StateWord, wordOf } from '../ui/state';

/** One line: a run, a sweep as a whole, or a submit whose folder is gone. */
export interface IRow {
  kind: 'run' | 'sweep' | 'gone';
  /** The id of the run, or of the job. */
  key: string;
  submit: ISubmit;
  /** Those that pass the filter; one for a run, none for what is gone. */
  runs: IRun[];
  /** Of a sweep: whether its runs are shown below it. */
  open: boolean;
  inSweep: boolean;
}

export interface IFilter {
  text: string;
  notebook: string;
  state: string;
  /** Seconds since the epoch; 0 for all. */
  since: number;
}

export const NO_FILTER: IFilter = {
  text: '',
  notebook: '',
  state: '',
  since: 0
};

export const COLUMNS = [
  'notebook',
  'state',
  'metric',
  'time',
  'gpu',
  'cost',
  'when'
] as const;

export type Column = (typeof COLUMNS)[number];

export interface ISort {
  column: Column;
  down: boolean;
}

/** A state in one of the words that are the same everywhere. */
export type RunWord = StateWord | 'unknown';

export const RUN_WORDS: RunWord[] = [
  'waiting',
  'running',
  'done',
  'failed',
  'cancelled',
  'held',
  'unknown'
];

export function stateOf(run: IRun): RunWord {
  return wordOf(run.state) ?? 'unknown';
}

/** What a run is called beside others: its id, and what differs in its sweep. */
export function labelOf(submit: ISubmit, run: IRun): string {
  const differing = parametersOf(submit, run);
  return differing ? `${run.id} (${differing})` : run.id;
}

/** Of a run of a sweep what differs between its runs, else all that was set. */
export function parametersOf(submit: ISubmit, run: IRun): string {
  const names = submit.is_sweep ? submit.swept : Object.keys(run.parameters);
  return names
    .map(name => `${name} ${asText(run.parameters[name])}`)
    .join(', ');
}

export function asText(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '–');
}

/** The lines of the table for what was chosen. */
export function tableRows(
  submits: readonly ISubmit[],
  filter: IFilter,
  sort: ISort,
  metric: IMetric | null,
  grouped: boolean,
  open: ReadonlySet<string>
): IRow[] {
  const rows: IRow[] = [];
  for (const submit of submits) {
    if (filter.notebook && submit.notebook !== filter.notebook) {
      continue;
    }
    if (submit.submitted < filter.since) {
      continue;
    }
    const runs = submit.runs.filter(run => isMeant(submit, run, filter));
    if (submit.runs.length === 0) {
      if (!filter.state && isNamed(submit, null, filter.text)) {
        rows.push(rowOf('gone', submit.job_id, submit, []));
      }
    } else if (submit.is_sweep && grouped) {
      if (runs.length > 0) {
        const isOpen = open.has(submit.job_id);
        rows.push({
          ...rowOf('sweep', submit.job_id, submit, runs),
          open: isOpen
        });
      }
    } else {
      rows.push(...runs.map(run => rowOf('run', run.id, submit, [run])));
    }
  }
  const sorted = sortedRows(rows, sort, metric);
  return sorted.flatMap(row => {
    const { submit, runs } = row;
    if (!row.open) {
      return [row];
    }
    const inside = runs.map(run => rowOf('run', run.id, submit, [run], true));
    // Inside of a sweep all have the same notebook and time: then they stay in their order.
    const kept = sort.column === 'notebook' || sort.column === 'when';
    return [row, ...(kept ? inside : sortedRows(inside, sort, metric))];
  });
}

function rowOf(
  kind: IRow['kind'],
  key: string,
  submit: ISubmit,
  runs: IRun[],
  inSweep = false
): IRow {
  return { kind, key, submit, runs, open: false, inSweep };
}

function isMeant(submit: ISubmit, run: IRun, filter: IFilter): boolean {
  return (
    (!filter.state || stateOf(run) === filter.state) &&
    isNamed(submit, run, filter.text)
  );
}

/** Whether each word of the text is found somewhere in the line. */
function isNamed(submit: ISubmit, run: IRun | null, text: string): boolean {
  const said = [
    submit.notebook,
    submit.job_id,
    ...(run
      ? [
          run.id,
          run.state,
          stateOf(run),
          ...Object.entries(run.parameters).map(
            ([name, value]) =>
              `${name}=${asText(value)} ${name} ${asText(value)}`
          )
        ]
      : [])
  ]
    .join(' ')
    .toLowerCase();
  return text
    .toLowerCase()
    .split(/\s+/)
    .every(word => said.includes(word));
}

/** In the order of a column; lines without a value come last, whichever way it goes. */
function sortedRows(
  rows: IRow[],
  { column, down }: ISort,
  metric: IMetric | null
): IRow[] {
  const valued = rows.map(row => ({
    row,
    value: valueOf(row, column, metric)
  }));
  return valued
    .sort((a, b) => {
      if (a.value === null || b.value === null) {
        return Number(a.value === null) - Number(b.value === null);
      }
      const order =
        typeof a.value === 'string'
          ? a.value.localeCompare(String(b.value))
          : a.value - Number(b.value);
      return down ? -order : order;
    })
    .map(({ row }) => row);
}

function valueOf(
  row: IRow,
  column: Column,
  metric: IMetric | null
): string | number | null {
  const { submit, runs } = row;
  switch (column) {
    case 'notebook':
      return submit.notebook.toLowerCase();
    case 'state':
      return runs.length ? stateOf(runs[0]) : null;
    case 'metric':
      return bestOf(runs, metric);
    case 'time':
      return secondsOf(runs);
    case 'gpu':
      return loadOf(runs);
    case 'cost':
      return amountOf(runs);
    case 'when':
      return submit.submitted;
  }
}

/** The best value that any of these runs has reached. */
export function bestOf(
  runs: readonly IRun[],
  metric: IMetric | null
): number | null {
  const values = runs
    .map(run => (metric ? run.metrics[metric.name] : undefined))
    .filter(value => typeof value === 'number');
  if (values.length === 0) {
    return null;
  }
  return metric?.better === 'more' ? Math.max(...values) : Math.min(...values);
}

/** How long they ran in all, as far as it is known. */
export function secondsOf(runs: readonly IRun[]): number | null {
  return sum(runs.map(run => run.seconds));
}

/** The mean load of their GPUs. */
export function loadOf(runs: readonly IRun[]): number | null {
  const loads = runs
    .map(run => run.gpu_load)
    .filter((load): load is number => load !== null);
  const total = sum(loads);
  return total === null ? null : total / loads.length;
}

/** What they cost in all, in words; every run of a site has the same unit. */
export function costOf(runs: readonly IRun[]): string {
  const said = runs.map(run => run.cost).filter(Boolean);
  const amount = amountOf(runs);
  if (said.length < 2 || amount === null) {
    return said[0] ?? '';
  }
  return said[0].replace(/[\d.,]*\d/, String(Math.round(amount * 10) / 10));
}

function amountOf(runs: readonly IRun[]): number | null {
  return sum(
    runs.map(run => {
      const amount = parseFloat(run.cost.replace(/,/g, ''));
      return Number.isNaN(amount) ? null : amount;
    })
  );
}

function sum(values: readonly (number | null)[]): number | null {
  const known = values.filter((value): value is number => value !== null);
  return known.length ? known.reduce((total, value) => total + value, 0) : null;
}

/** How many runs are in each state, the most first. */
export function countStates(runs: readonly IRun[]): [RunWord, number][] {
  const counts = new Map<RunWord, number>();
  for (const state of runs.map(stateOf)) {
    counts.set(state, (counts.get(state) ?? 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1]);
}
