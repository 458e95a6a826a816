import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { nearest } from './chart';
import {
  type IScale,
  type IShownLine,
  placesOf,
  scaleOf,
  valueAt
} from './curvescale';
import { formatNumber } from './format';

const WIDTH = 300;
const HEIGHT = 120;

/** So many lines differ in their colour; those after them in their dashes. */
const COLOURS = 6;

/** A dot for a line of one point. */
const DOT = 2;

/** Lines that are drawn alike in colour differ in their dashes. */
export function classOf(index: number): string {
  const dash = Math.floor(index / COLOURS) % 3;
  return `jp-Hpc-curve-line jp-mod-colour${index % COLOURS} jp-mod-dash${dash}`;
}

interface ICanvasProps {
  title: string;
  counted: string;
  lines: readonly IShownLine[];
  isLog: boolean;
  trans: TranslationBundle;
}

/** The curves with their axes, and a pointer that arrow keys move from value to value. */
export function Canvas(props: ICanvasProps): JSX.Element {
  const { title, counted, lines, isLog, trans } = props;
  const [chosen, setChosen] = React.useState<number | null>(null);
  const places = React.useMemo(() => placesOf(lines), [lines]);
  const [xs, ys] = React.useMemo(() => {
    const values = lines.flatMap(line => line.points.map(([, y]) => y));
    return [scaleOf(places, false), scaleOf(values, isLog)];
  }, [lines, places, isLog]);
  const last = places.length - 1;
  const at = Math.min(chosen ?? last, last);
  const place = places[at];

  const onKeyDown = (event: React.KeyboardEvent): void => {
    const far = Math.max(1, Math.round(places.length / 10));
    const moves: Record<string, number> = {
      ArrowLeft: at - 1,
      ArrowDown: at - 1,
      ArrowRight: at + 1,
      ArrowUp: at + 1,
      PageDown: at - far,
      PageUp: at + far,
      Home: 0,
      End: last
    };
    if (event.key in moves) {
      event.preventDefault();
      setChosen(Math.min(last, Math.max(0, moves[event.key])));
    }
  };
  const onPointerMove = (event: React.PointerEvent): void => {
    const box = event.currentTarget.getBoundingClientRect();
    const share = (event.clientX - box.left) / (box.width || 1);
    const span = places[last] - places[0];
    setChosen(nearest(places, places[0] + share * span));
  };
  const values = lines.flatMap(line => {
    const found = valueAt(line, place);
    return found
      ? [
          line.label
            ? `${line.label} ${formatNumber(found[1])}`
            : formatNumber(found[1])
        ]
      : [];
  });
  const words = `${counted} ${formatNumber(place)}: ${values.join(', ')}`;
  return (
    <div className="jp-Hpc-curve-frame">
      <Marks axis="y" scale={ys} />
      <div
        className="jp-Hpc-curve-canvas"
        role="slider"
        tabIndex={0}
        aria-label={trans.__('%1: values', title)}
        aria-valuemin={places[0]}
        aria-valuemax={places[last]}
        aria-valuenow={place}
        aria-valuetext={words}
        onKeyDown={onKeyDown}
        onPointerMove={onPointerMove}
        onPointerLeave={() => setChosen(null)}
        onBlur={() => setChosen(null)}
      >
        <svg
          viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
          preserveAspectRatio="none"
          aria-hidden="true"
        >
          <path
            className="jp-Hpc-chart-ticks"
            d={ys.marks.map(mark => `M0 ${height(ys, mark)}H${WIDTH}`).join('')}
          />
          {lines.map((line, index) => (
            <path
              key={line.id}
              className={classOf(index)}
              d={pathOf(line, xs, ys)}
            />
          ))}
          {chosen !== null && (
            <path
              className="jp-Hpc-chart-pointer"
              d={`M${width(xs, place)} 0V${HEIGHT}`}
            />
          )}
        </svg>
        {chosen !== null && (
          <div className="jp-Hpc-curve-told" aria-hidden="true">
            {words}
          </div>
        )}
      </div>
      <Marks axis="x" scale={xs} />
      <div className="jp-Hpc-curve-counted jp-Hpc-quiet">{counted}</div>
    </div>
  );
}

function Marks(props: { axis: 'x' | 'y'; scale: IScale }): JSX.Element {
  const { axis, scale } = props;
  return (
    <div className={`jp-Hpc-curve-${axis}`} aria-hidden="true">
      {scale.marks.map(mark => {
        const share = `${(100 * scale.share(mark)).toFixed(2)}%`;
        return (
          <span
            key={mark}
            style={axis === 'x' ? { left: share } : { bottom: share }}
          >
            {formatNumber(mark)}
          </span>
        );
      })}
    </div>
  );
}

function width(scale: IScale, value: number): string {
  return (WIDTH * scale.share(value)).toFixed(1);
}

function height(scale: IScale, value: number): string {
  return (HEIGHT * (1 - scale.share(value))).toFixed(1);
}

function pathOf(line: IShownLine, xs: IScale, ys: IScale): string {
  const points = line.points.map(
    ([x, y]) => `${width(xs, x)} ${height(ys, y)}`
  );
  return points.length === 1
    ? `M${points[0]}h${DOT}h${-2 * DOT}`
    : points.length
      ? `M${points.join('L')}`
      : '';
}
