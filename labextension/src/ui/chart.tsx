import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { Axis, ticks } from './axis';

const WIDTH = 300;
const HEIGHT = 40;

/** The shortest span that is drawn, in seconds, and how far a single value to both sides. */
const MIN_SPAN = 1;
const DASH = 3;

export interface IChartProps {
  label: string;
  times: readonly number[];
  values: readonly (number | null)[];
  /** The upper end of the scale; the lower is 0. */
  maximum: number;
  /** The span of time that is drawn, in the unit of `times`. */
  from: number;
  to: number;
  format: (value: number) => string;
  /** Whether the times are written below; of charts above each other, the last has them. */
  withTimes?: boolean;
  trans: TranslationBundle;
}

/** One quantity over time, with the value under the pointer and a summary in words. */
export function Chart(props: IChartProps): JSX.Element {
  const { label, times, values, maximum, from, format, trans } = props;
  // A recording of one moment has no span of its own.
  const to = Math.max(props.to, from + MIN_SPAN);
  const [pointer, setPointer] = React.useState<number | null>(null);
  const x = (time: number): number => (WIDTH * (time - from)) / (to - from);
  const y = (value: number): number =>
    HEIGHT * (1 - Math.min(1, value / (maximum || 1)));

  const onPointerMove = (event: React.PointerEvent<SVGSVGElement>): void => {
    const box = event.currentTarget.getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    setPointer(nearest(times, from + share * (to - from)));
  };
  const marks = ticks(from, to);
  const pointed = pointer === null ? null : values[pointer];
  return (
    <figure className="jp-Hpc-chart">
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${label}: ${summary(values, format, trans)}`}
        onPointerMove={onPointerMove}
        onPointerLeave={() => setPointer(null)}
      >
        <path
          className="jp-Hpc-chart-ticks"
          d={marks
            .map(({ share }) => `M${(WIDTH * share).toFixed(1)} 0V${HEIGHT}`)
            .join('')}
        />
        <path className="jp-Hpc-chart-area" d={area(times, values, x, y)} />
        <path className="jp-Hpc-chart-line" d={line(times, values, x, y)} />
        {pointer !== null && times[pointer] !== undefined && (
          <path
            className="jp-Hpc-chart-pointer"
            d={`M${x(times[pointer]).toFixed(1)} 0V${HEIGHT}`}
          />
        )}
      </svg>
      {props.withTimes && <Axis ticks={marks} />}
      {pointer !== null && typeof pointed === 'number' && (
        <figcaption aria-hidden="true">
          {new Date(times[pointer] * 1000).toLocaleTimeString()}{' '}
          {format(pointed)}
        </figcaption>
      )}
    </figure>
  );
}

/** Last, mean and highest in words. */
export function summary(
  values: readonly (number | null)[],
  format: (value: number) => string,
  trans: TranslationBundle
): string {
  const known = values.filter(value => value !== null);
  const last = known.at(-1);
  if (last === undefined) {
    return trans.__('no values yet');
  }
  const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
  const highest = known.reduce((high, value) => Math.max(high, value), 0);
  return trans.__(
    'last %1, on average %2, at most %3',
    format(last),
    format(mean),
    format(highest)
  );
}

/** The index of the time that is nearest; null if there is none. */
export function nearest(times: readonly number[], time: number): number | null {
  if (times.length === 0) {
    return null;
  }
  let low = 0;
  let high = times.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < time) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const before = Math.max(0, low - 1);
  return time - times[before] < times[low] - time ? before : low;
}

type Scale = (value: number) => number;

/** Stretches without a gap, as pairs of coordinates. */
function stretches(
  times: readonly number[],
  values: readonly (number | null)[],
  x: Scale,
  y: Scale
): string[][] {
  const found: string[][] = [];
  let open = false;
  values.forEach((value, index) => {
    if (value === null || times[index] === undefined) {
      open = false;
      return;
    }
    if (!open) {
      found.push([]);
      open = true;
    }
    found.at(-1)?.push(`${x(times[index]).toFixed(1)} ${y(value).toFixed(1)}`);
  });
  return found;
}

function line(...scaled: Parameters<typeof stretches>): string {
  return stretches(...scaled)
    .map(points =>
      points.length === 1
        ? `M${points[0]}h${DASH}h${-2 * DASH}`
        : `M${points.join('L')}`
    )
    .join('');
}

function area(...scaled: Parameters<typeof stretches>): string {
  return stretches(...scaled)
    .map(points => {
      const first = points[0].split(' ')[0];
      const last = points[points.length - 1].split(' ')[0];
      return `M${first} ${HEIGHT}L${points.join('L')}L${last} ${HEIGHT}Z`;
    })
    .join('');
}
