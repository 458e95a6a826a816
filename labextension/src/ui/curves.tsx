import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { Canvas, classOf } from './curvecanvas';
import { type ILine, type IShownLine, shownLines } from './curvescale';
import { CurveTable } from './curvetable';
import { formatNumber } from './format';

export type { ILine } from './curvescale';

interface ICurveChartProps {
  title: string;
  /** What is counted: step, epoch, line. */
  x: string;
  lines: readonly ILine[];
  /** Which way is better; the best value is told of where it is known. */
  better?: 'less' | 'more' | null;
  trans: TranslationBundle;
}

/**
 * One number of several runs over each other: curves to look at, a pointer that keyboard and
 * mouse move, a sentence for each line and all of it as a table.
 */
export function CurveChart(props: ICurveChartProps): JSX.Element {
  const { title, x, better, trans } = props;
  const [wantsLog, setWantsLog] = React.useState(false);
  const lines = React.useMemo(() => shownLines(props.lines), [props.lines]);
  const canLog = lines.every(line => line.points.every(([, y]) => y > 0));
  const isLog = wantsLog && canLog;
  const counted = wordOf(x, trans);
  if (!lines.some(line => line.points.length > 0)) {
    return (
      <section className="jp-Hpc-curve" aria-label={title}>
        <h4>{title}</h4>
        <p className="jp-Hpc-quiet">{trans.__('No values yet.')}</p>
      </section>
    );
  }
  return (
    <section className="jp-Hpc-curve" aria-label={title}>
      <div className="jp-Hpc-curve-head">
        <h4>{title}</h4>
        {canLog && (
          <button
            className="jp-Hpc-choice"
            aria-pressed={isLog}
            title={trans.__('Each step up is ten times as much')}
            onClick={() => setWantsLog(!wantsLog)}
          >
            {trans.__('Logarithmic')}
          </button>
        )}
      </div>
      <Canvas {...{ title, counted, lines, isLog, trans }} />
      <ul className="jp-Hpc-curve-legend">
        {lines.map((line, index) => (
          <li key={line.id}>
            <svg viewBox="0 0 20 4" aria-hidden="true">
              <path className={classOf(index)} d="M0 2H20" />
            </svg>
            {line.label && <strong>{line.label}</strong>}{' '}
            {inWords(line, counted, better, trans)}
          </li>
        ))}
      </ul>
      <CurveTable {...{ title, counted, lines, trans }} />
    </section>
  );
}

function wordOf(x: string, trans: TranslationBundle): string {
  const words: Record<string, string> = {
    epoch: trans.__('epoch'),
    step: trans.__('step'),
    line: trans.__('line')
  };
  return words[x] ?? x;
}

/** The last value and the best one. */
function inWords(
  line: IShownLine,
  counted: string,
  better: ICurveChartProps['better'],
  trans: TranslationBundle
): string {
  const last = line.points.at(-1);
  if (!last) {
    return trans.__('no values yet');
  }
  const now = trans.__('%1 at %2 %3', ...told(last, counted));
  if (!better) {
    return now;
  }
  const best = line.points.reduce((found, point) =>
    (better === 'less' ? point[1] < found[1] : point[1] > found[1])
      ? point
      : found
  );
  return best === last
    ? trans.__('%1, its best', now)
    : trans.__(
        '%1; best %2',
        now,
        trans.__('%1 at %2 %3', ...told(best, counted))
      );
}

function told([x, y]: readonly [number, number], counted: string): string[] {
  return [formatNumber(y), counted, formatNumber(x)];
}
