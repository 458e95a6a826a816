import * as React from 'react';

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Distances between two times that people find easy to read, in seconds. */
const STEPS = [
  ...[1, 2, 5, 10, 15, 30],
  ...[1, 2, 3, 5, 10, 15, 30].map(count => count * MINUTE),
  ...[1, 2, 3, 6, 12].map(count => count * HOUR),
  ...[1, 2, 5, 10].map(count => count * DAY)
];

const MAX_STEPS = 4;

/** A time so near to an end of the axis would be written beyond it in a narrow panel. */
const MARGIN = 0.11;

export interface ITick {
  /** Where it is between the ends of the axis, 0 to 1. */
  share: number;
  text: string;
}

/** A few round times between two moments (seconds since 1970), by the clock of the reader. */
export function ticks(from: number, to: number): ITick[] {
  const span = to - from;
  const step =
    STEPS.find(seconds => span <= MAX_STEPS * seconds) ??
    STEPS[STEPS.length - 1];
  const ahead = new Date(from * 1000).getTimezoneOffset() * MINUTE;
  const first = Math.ceil((from - ahead) / step) * step + ahead;
  const found: ITick[] = [];
  for (let time = first; time <= to; time += step) {
    const share = (time - from) / span;
    if (share >= MARGIN && share <= 1 - MARGIN) {
      found.push({ share, text: clock(time, step) });
    }
  }
  return found;
}

/** The time of day, with seconds where they differ; where a day begins, the day. */
function clock(time: number, step: number): string {
  const date = new Date(time * 1000);
  if (step >= DAY || (step >= 3 * HOUR && date.getHours() === 0)) {
    return date.toLocaleDateString([], { day: 'numeric', month: 'short' });
  }
  return date.toLocaleTimeString([], {
    hour: '2-digit',
    minute: '2-digit',
    second: step < MINUTE ? '2-digit' : undefined
  });
}

/** The times below a chart, each under its line. */
export function Axis(props: { ticks: readonly ITick[] }): JSX.Element {
  return (
    <div className="jp-Hpc-chart-axis" aria-hidden="true">
      {props.ticks.map(({ share, text }) => (
        <span key={text} style={{ left: `${(100 * share).toFixed(2)}%` }}>
          {text}
        </span>
      ))}
    </div>
  );
}
