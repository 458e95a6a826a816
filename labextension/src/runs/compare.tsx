import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IMetric, IProblem, IRunCurves } from '../data/api';
import type { IHpcClient } from '../tokens';
import { CurveChart } from '../ui/curves';
import { formatNumber, formatPercent, formatSpan } from '../ui/format';
import { Problem } from '../ui/problem';
import { StateBadge } from '../ui/state';
import { ComparedFigures, type IFigures } from './figures';
import { asText, type IRow, labelOf } from './rows';

/** More columns than these nobody takes in. */
const MAX_COMPARED = 12;
const POINTS = 300;

interface ICompareProps {
  client: IHpcClient;
  rows: readonly IRow[];
  metric: IMetric | null;
  figures: IFigures;
  openJob: (id: string) => void;
  close: () => void;
  trans: TranslationBundle;
}

/** Runs beside each other: what differs, curves over each other, figures side by side. */
export function Compare(props: ICompareProps): JSX.Element {
  const { client, figures, close, trans } = props;
  const ids = props.rows.map(row => row.key).join(',');
  // The list comes anew every half a minute; what is asked for depends on the runs alone.
  const rows = React.useMemo(
    () => props.rows.slice(0, MAX_COMPARED),
    // eslint-disable-next-line react-hooks/exhaustive-deps
    [ids]
  );
  const head = React.useRef<HTMLHeadingElement>(null);
  React.useEffect(() => {
    head.current?.focus();
    head.current?.scrollIntoView?.({ block: 'nearest' });
  }, [ids]);
  return (
    <section
      className="jp-Hpc-runs-compare"
      aria-label={trans.__('Comparison')}
    >
      <div className="jp-Hpc-toolbar">
        <h3 ref={head} tabIndex={-1}>
          {trans.__('%1 runs compared', rows.length)}
        </h3>
        <button className="jp-Hpc-choice" onClick={close}>
          {trans.__('Close')}
        </button>
      </div>
      {props.rows.length > MAX_COMPARED && (
        <p className="jp-Hpc-quiet">
          {trans.__(
            'These are the first %1 of %2 runs.',
            MAX_COMPARED,
            props.rows.length
          )}
        </p>
      )}
      <Differences {...props} rows={props.rows.slice(0, MAX_COMPARED)} />
      <Curves key={`curves ${ids}`} {...{ client, rows, trans }} />
      <h4>{trans.__('Figures')}</h4>
      <ComparedFigures key={`figures ${ids}`} {...{ rows, figures, trans }} />
    </section>
  );
}

/** The parameters that differ, and what the runs have reached. */
export function Differences(
  props: Pick<ICompareProps, 'rows' | 'metric' | 'openJob' | 'trans'>
): JSX.Element {
  const { rows, metric, openJob, trans } = props;
  const runs = rows.map(row => row.runs[0]);
  const names = [...new Set(runs.flatMap(run => Object.keys(run.parameters)))];
  const differing = names.filter(
    name => new Set(runs.map(run => asText(run.parameters[name]))).size > 1
  );
  const measured = [...new Set(runs.flatMap(run => Object.keys(run.metrics)))];
  const values = runs.map(run => run.metrics[metric?.name ?? ''] ?? null);
  const known = values.filter(value => value !== null);
  const best =
    metric?.better === 'more' ? Math.max(...known) : Math.min(...known);
  const several = new Set(known).size > 1;
  return (
    <div className="jp-Hpc-runs-differences">
      {differing.length === 0 && (
        <p>{trans.__('Their parameters are the same.')}</p>
      )}
      <table aria-label={trans.__('What differs')}>
        <thead>
          <tr>
            <th scope="col">{trans.__('Run')}</th>
            {rows.map(row => (
              <th key={row.key} scope="col">
                <button
                  className="jp-Hpc-link"
                  onClick={() => openJob(row.key)}
                >
                  {row.key}
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {differing.map(name => (
            <tr key={`parameter ${name}`}>
              <th scope="row">{name}</th>
              {runs.map(run => (
                <td key={run.id}>{asText(run.parameters[name])}</td>
              ))}
            </tr>
          ))}
          <tr>
            <th scope="row">{trans.__('State')}</th>
            {runs.map(run => (
              <td key={run.id}>
                <StateBadge state={run.state} trans={trans} />
              </td>
            ))}
          </tr>
          {measured.map(name => (
            <tr key={`metric ${name}`}>
              <th scope="row">{name}</th>
              {runs.map(run => {
                const value = run.metrics[name] ?? null;
                const isBest =
                  several && name === metric?.name && value === best;
                return (
                  <td key={run.id}>
                    {value === null ? '–' : formatNumber(value)}
                    {isBest && <strong> {trans.__('best')}</strong>}
                  </td>
                );
              })}
            </tr>
          ))}
          <tr>
            <th scope="row">{trans.__('Time')}</th>
            {runs.map(run => (
              <td key={run.id}>
                {run.seconds === null ? '–' : formatSpan(run.seconds, trans)}
              </td>
            ))}
          </tr>
          <tr>
            <th scope="row">{trans.__('GPU')}</th>
            {runs.map(run => (
              <td key={run.id}>{formatPercent(run.gpu_load)}</td>
            ))}
          </tr>
          <tr>
            <th scope="row">{trans.__('Cost')}</th>
            {runs.map(run => (
              <td key={run.id}>{run.cost || '–'}</td>
            ))}
          </tr>
        </tbody>
      </table>
    </div>
  );
}

/** The numbers of the runs over each other, one chart for each. */
function Curves(
  props: Pick<ICompareProps, 'client' | 'rows' | 'trans'>
): JSX.Element {
  const { client, rows, trans } = props;
  const [found, setFound] = React.useState<IRunCurves | null>(null);
  const [problem, setProblem] = React.useState<IProblem | null>(null);
  React.useEffect(() => {
    let isCurrent = true;
    client
      .runCurves(
        rows.map(row => row.key),
        POINTS
      )
      .then(
        curves => isCurrent && setFound(curves),
        (error: IProblem) => isCurrent && setProblem(error)
      );
    return () => {
      isCurrent = false;
    };
  }, [client, rows]);
  if (problem) {
    return <Problem problem={problem} />;
  }
  if (found === null) {
    return <p className="jp-Hpc-quiet">{trans.__('Reading the numbers…')}</p>;
  }
  if (found.curves.length === 0) {
    return (
      <p className="jp-Hpc-quiet">
        {trans.__('These runs have printed no numbers that make a curve.')}
      </p>
    );
  }
  const labels = new Map(
    rows.map(row => [row.key, labelOf(row.submit, row.runs[0])])
  );
  return (
    <div className="jp-Hpc-runs-curves">
      {found.curves.map(({ name, x, better, lines }) => (
        <CurveChart
          key={name}
          title={name}
          lines={lines.map(({ run, points }) => ({
            id: run,
            label: labels.get(run) ?? run,
            points: points as [number, number | null][]
          }))}
          {...{ x, better, trans }}
        />
      ))}
    </div>
  );
}
