import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IJobOverview, IShownRun } from '../data/api';
import { formatNumber, formatSpan } from '../ui/format';
import { StateBadge } from '../ui/state';

/** More runs than these are chosen from a list that folds. */
const MAX_BUTTONS = 20;

/** The number of a run in its sweep; empty for what is not one of its runs. */
export function taskOf(id: string): string {
  return /_(\d+)$/.exec(id)?.[1] ?? '';
}

/** The parameters in which the runs differ, in the order in which they came. */
export function differing(runs: readonly IShownRun[]): string[] {
  const names = new Set(runs.flatMap(run => Object.keys(run.parameters)));
  return [...names].filter(
    name =>
      new Set(runs.map(run => JSON.stringify(run.parameters[name]))).size > 1
  );
}

/** What a run of a sweep is called: by its values, else by its number. */
export function labelOf(
  run: IShownRun,
  names: readonly string[],
  trans: TranslationBundle
): string {
  const values = names.map(name => `${name} ${textOf(run.parameters[name])}`);
  return values.join(', ') || trans.__('run %1', taskOf(run.id));
}

function textOf(value: unknown): string {
  if (typeof value === 'number') {
    return formatNumber(value);
  }
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
}

interface IChooserProps {
  runs: readonly IShownRun[];
  /** The number of the run that is looked at; null for all. */
  chosen: string | null;
  choose: (run: string | null) => void;
  trans: TranslationBundle;
}

/** Which run of a sweep is looked at: all of them, or one. */
export function Chooser(props: IChooserProps): JSX.Element {
  const { runs, chosen, choose, trans } = props;
  const name = React.useId();
  const choices: [string | null, string][] = [
    [null, trans.__('all')],
    ...runs.map(({ id }): [string, string] => [taskOf(id), taskOf(id)])
  ];
  if (runs.length > MAX_BUTTONS) {
    return (
      <label>
        {trans.__('Run')}{' '}
        <select
          value={chosen ?? ''}
          onChange={event => choose(event.target.value || null)}
        >
          {choices.map(([run, label]) => (
            <option key={label} value={run ?? ''}>
              {label}
            </option>
          ))}
        </select>
      </label>
    );
  }
  return (
    <fieldset className="jp-Hpc-chooser">
      <legend>{trans.__('Runs')}</legend>
      {choices.map(([run, label]) => (
        <label key={label}>
          <input
            type="radio"
            name={name}
            checked={run === chosen}
            onChange={() => choose(run)}
          />
          {label}
        </label>
      ))}
    </fieldset>
  );
}

interface IRunTableProps {
  overview: IJobOverview;
  choose: (run: string) => void;
  open: (id: string) => void;
  trans: TranslationBundle;
}

/** The runs of a sweep with what differs, the best first where a number decides. */
export function RunTable(props: IRunTableProps): JSX.Element {
  const { overview, choose, open, trans } = props;
  const { runs, decided_by } = overview;
  const names = differing(runs);
  return (
    <div className="jp-Hpc-runtable">
      <table>
        <caption className="jp-Hpc-quiet">
          {decided_by
            ? trans.__('Runs, the best %1 first', decided_by)
            : trans.__('Runs')}
        </caption>
        <thead>
          <tr>
            <th scope="col">{trans.__('Run')}</th>
            {names.map(name => (
              <th scope="col" key={name}>
                {name}
              </th>
            ))}
            <th scope="col">{trans.__('State')}</th>
            {decided_by && <th scope="col">{decided_by}</th>}
            <th scope="col">{trans.__('Time')}</th>
            <th scope="col">{trans.__('Job')}</th>
          </tr>
        </thead>
        <tbody>
          {ranked(overview).map(run => (
            <tr key={run.id}>
              <th scope="row">
                <button
                  className="jp-Hpc-link"
                  onClick={() => choose(taskOf(run.id))}
                >
                  {trans.__('Run %1', taskOf(run.id))}
                </button>
              </th>
              {names.map(name => (
                <td key={name}>{textOf(run.parameters[name])}</td>
              ))}
              <td>
                <StateBadge state={run.state} trans={trans} />
              </td>
              {decided_by && (
                <td>{run.best === null ? '' : formatNumber(run.best)}</td>
              )}
              <td>
                {run.seconds === null ? '' : formatSpan(run.seconds, trans)}
              </td>
              <td>
                <button className="jp-Hpc-link" onClick={() => open(run.id)}>
                  {run.id}
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Those without the number keep their order at the end. */
function ranked({ runs, better }: IJobOverview): readonly IShownRun[] {
  if (better === null) {
    return runs;
  }
  const sign = better === 'less' ? 1 : -1;
  return [...runs].sort((a, b) => {
    if (a.best === null || b.best === null) {
      return Number(a.best === null) - Number(b.best === null);
    }
    return sign * (a.best - b.best);
  });
}
