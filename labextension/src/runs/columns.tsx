import type { TranslationBundle } from '@jupyterlab/translation';
import { caretDownIcon, caretRightIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import type { IMetric, IRun } from '../data/api';
import {
  formatNumber,
  formatPercent,
  formatSpan,
  formatTime
} from '../ui/format';
import { StateBadge } from '../ui/state';
import type { IColumn } from '../ui/virtualtable';
import {
  bestOf,
  type Column,
  COLUMNS,
  costOf,
  countStates,
  type IRow,
  type ISort,
  loadOf,
  parametersOf,
  secondsOf
} from './rows';

/** Below this load in percent the GPUs of a run were mostly idle. */
const LOW_LOAD = 30;

/** The heads of the table; a click sorts, a second one the other way. */
export function columnsOf(
  metric: IMetric | null,
  sort: ISort,
  setSort: (sort: ISort) => void,
  choice: React.ReactNode,
  trans: TranslationBundle
): IColumn[] {
  const titles: Record<Column, string> = {
    notebook: trans.__('Notebook'),
    state: trans.__('State'),
    metric: metric
      ? `${metric.name} ${metric.better === 'less' ? '↓' : '↑'}`
      : trans.__('Result'),
    time: trans.__('Time'),
    gpu: trans.__('GPU'),
    cost: trans.__('Cost'),
    when: trans.__('When')
  };
  const sorted = COLUMNS.map((key): IColumn => {
    const isSorted = sort.column === key;
    const arrow = isSorted ? (sort.down ? ' ▾' : ' ▴') : '';
    return {
      key,
      title: (
        <>
          {titles[key]}
          <span aria-hidden="true">{arrow}</span>
        </>
      ),
      className: `jp-Hpc-runs-${key}`,
      order: isSorted ? (sort.down ? 'descending' : 'ascending') : 'none',
      onSort: () =>
        setSort({
          column: key,
          down: isSorted ? !sort.down : beginsDown(key, metric)
        })
    };
  });
  const [notebook, ...others] = sorted;
  return [
    { key: 'choice', title: choice, className: 'jp-Hpc-column-choice' },
    notebook,
    {
      key: 'parameters',
      title: trans.__('Parameters'),
      className: 'jp-Hpc-runs-parameters'
    },
    ...others
  ];
}

/** The first click shows what people look for: the best, the longest, the newest. */
function beginsDown(column: Column, metric: IMetric | null): boolean {
  if (column === 'metric') {
    return metric?.better === 'more';
  }
  return ['time', 'gpu', 'cost', 'when'].includes(column);
}

interface ICellsProps {
  row: IRow;
  metric: IMetric | null;
  open: (id: string) => void;
  toggle: (key: string) => void;
  trans: TranslationBundle;
}

/** The cells of a line, without that of its choice. */
export function Cells(props: ICellsProps): JSX.Element {
  const { row, metric, open, toggle, trans } = props;
  const { submit, runs } = row;
  const best = bestOf(runs, metric);
  const seconds = secondsOf(runs);
  const load = loadOf(runs);
  return (
    <>
      <td className={`jp-Hpc-job-name${row.inSweep ? ' jp-mod-part' : ''}`}>
        {row.kind === 'sweep' ? (
          <Sweep {...{ row, toggle, trans }} />
        ) : row.kind === 'run' ? (
          <Name {...{ row, open, trans }} />
        ) : (
          <>
            {submit.notebook || submit.job_id}
            <small>{submit.job_id}</small>
          </>
        )}
      </td>
      <td
        title={row.kind === 'run' ? parametersOf(submit, runs[0]) : undefined}
      >
        {row.kind === 'sweep'
          ? submit.swept.join(', ')
          : row.kind === 'run' && parametersOf(submit, runs[0])}
      </td>
      <td>
        <States row={row} trans={trans} />
      </td>
      <td>{best === null ? '' : formatNumber(best)}</td>
      <td>{seconds === null ? '' : formatSpan(seconds, trans)}</td>
      <td>
        {load !== null && (
          <span
            className={load < LOW_LOAD ? 'jp-Hpc-runs-low' : undefined}
            title={trans.__('The mean load over the whole run')}
          >
            {formatPercent(load)}
            {load < LOW_LOAD && trans.__(' low')}
          </span>
        )}
      </td>
      <td>{costOf(runs)}</td>
      <td>{row.inSweep ? '' : formatTime(submit.submitted)}</td>
    </>
  );
}

function Sweep(
  props: Pick<ICellsProps, 'row' | 'toggle' | 'trans'>
): JSX.Element {
  const { row, toggle, trans } = props;
  const { submit, runs } = row;
  const Icon = row.open ? caretDownIcon : caretRightIcon;
  return (
    <>
      <button
        className="jp-Hpc-link"
        aria-expanded={row.open}
        onClick={() => toggle(row.key)}
      >
        <Icon.react tag="span" />
        {submit.notebook}
      </button>
      <small>
        {runs.length === submit.runs.length
          ? trans.__('%1, sweep of %2', submit.job_id, submit.runs.length)
          : trans.__(
              '%1, %2 of a sweep of %3',
              submit.job_id,
              runs.length,
              submit.runs.length
            )}
      </small>
    </>
  );
}

function Name(props: Pick<ICellsProps, 'row' | 'open' | 'trans'>): JSX.Element {
  const { row, open, trans } = props;
  const { submit } = row;
  return (
    <>
      <button
        className="jp-Hpc-link"
        title={trans.__('Open job %1', row.key)}
        onClick={() => open(row.key)}
      >
        {row.inSweep ? row.key : submit.notebook || row.key}
      </button>
      {!row.inSweep && <small>{row.key}</small>}
    </>
  );
}

function States(props: { row: IRow; trans: TranslationBundle }): JSX.Element {
  const { row, trans } = props;
  const { submit, runs } = row;
  if (row.kind === 'gone') {
    return (
      <span title={submit.run_dir}>
        {trans.__('gone')}
        <small>{trans.__('no folder any more')}</small>
      </span>
    );
  }
  if (row.kind === 'sweep') {
    return (
      <>
        {countStates(runs).map(([state, count]) => (
          <span key={state} className="jp-Hpc-runs-count">
            {count} <StateBadge state={state} trans={trans} />
          </span>
        ))}
      </>
    );
  }
  const [run] = runs;
  const part = submit.parts
    ? trans.__('part %1 of %2', run.part ?? 1, submit.parts)
    : '';
  const code =
    run.state === 'failed' && run.code ? trans.__('code %1', run.code) : '';
  return (
    <span title={run.rest || undefined}>
      <StateBadge state={run.state} trans={trans} />
      <small>
        {[part, moreOf(run, trans), code].filter(Boolean).join(', ')}
      </small>
    </span>
  );
}

/** What the word for a state leaves out. */
function moreOf(run: IRun, trans: TranslationBundle): string {
  switch (run.state) {
    case 'incomplete':
      return trans.__('not all of its files came back');
    case 'stopped':
      return trans.__('ended before it was done');
    case 'goes on':
      return trans.__('goes on in its next part');
    default:
      return '';
  }
}
