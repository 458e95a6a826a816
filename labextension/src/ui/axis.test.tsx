import { nullTranslator } from '@jupyterlab/translation';
import { cleanup, render } from '@testing-library/react';
import * as React from 'react';
import { afterEach, describe, expect, it } from 'vitest';

import { ticks } from './axis';
import { Chart } from './chart';

/** A moment by the reader's own clock, in seconds since 1970. */
const at = (hour: number, minute = 0, second = 0, day = 17): number =>
  new Date(2026, 10, day, hour, minute, second).getTime() / 1000;

const clock = (hour: number, minute = 0): string =>
  new Date(2026, 10, 17, hour, minute).toLocaleTimeString([], {
    hour: '2-digit',
    minute: '2-digit'
  });

const day = (number: number): string =>
  new Date(2026, 10, number).toLocaleDateString([], {
    day: 'numeric',
    month: 'short'
  });

const texts = (from: number, to: number): string[] =>
  ticks(from, to).map(tick => tick.text);

afterEach(cleanup);

describe('the times of an axis', () => {
  it('are round, few, and those of the reader', () => {
    expect(texts(at(14, 33), at(14, 43))).toEqual([
      clock(14, 36),
      clock(14, 39)
    ]);
    expect(texts(at(13, 52), at(14, 52))).toEqual([
      clock(14),
      clock(14, 15),
      clock(14, 30),
      clock(14, 45)
    ]);
    expect(texts(at(1), at(23))).toEqual([clock(6), clock(12), clock(18)]);
  });

  it('name the day where one begins', () => {
    expect(texts(at(15), at(15, 0, 0, 18))).toEqual([
      clock(18),
      day(18),
      clock(6),
      clock(12)
    ]);
    expect(texts(at(12), at(12, 0, 0, 21))).toEqual([18, 19, 20, 21].map(day));
  });

  it('have seconds where these differ', () => {
    const found = texts(at(14, 0, 5), at(14, 0, 45));
    expect(found.length).toBe(4);
    expect(new Set(found).size).toBe(4);
  });

  it.each([4, 7, 40, 61, 299, 600, 901, 5000, 20_000, 90_000, 400_000])(
    'are one to four within %d seconds, none beyond an end',
    span => {
      for (let shift = 0; shift < 20; shift++) {
        const from = at(3, 7, 11) + shift * span * 0.13;
        const found = ticks(from, from + span);
        expect(found.length).toBeGreaterThanOrEqual(1);
        expect(found.length).toBeLessThanOrEqual(4);
        expect(found.every(({ share }) => share > 0.1 && share < 0.9)).toBe(
          true
        );
      }
    }
  );

  it('are none where there is no span', () => {
    expect(ticks(at(1), at(1))).toEqual([]);
  });
});

describe('a chart with times', () => {
  const chart = (withTimes: boolean): JSX.Element => (
    <Chart
      times={[at(14), at(15)]}
      values={[0, 50]}
      label="Load"
      maximum={100}
      from={at(14)}
      to={at(15)}
      format={String}
      withTimes={withTimes}
      trans={nullTranslator.load('jupyter_hpc')}
    />
  );

  it('writes each time under its line', () => {
    const { container } = render(chart(true));
    const spans = [
      ...container.querySelectorAll<HTMLElement>('.jp-Hpc-chart-axis span')
    ];
    expect(spans.map(span => span.textContent)).toEqual([
      clock(14, 15),
      clock(14, 30),
      clock(14, 45)
    ]);
    expect(spans.map(span => span.style.left)).toEqual(['25%', '50%', '75%']);
    const lines = container.querySelector('.jp-Hpc-chart-ticks');
    expect(lines?.getAttribute('d')).toBe('M75.0 0V40M150.0 0V40M225.0 0V40');
  });

  it('leaves them to the chart below', () => {
    const { container } = render(chart(false));
    expect(container.querySelector('.jp-Hpc-chart-axis')).toBeNull();
    expect(container.querySelector('.jp-Hpc-chart-ticks')).not.toBeNull();
  });
});
