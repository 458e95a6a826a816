import { nullTranslator } from '@jupyterlab/translation';
import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import * as React from 'react';
import { afterEach, describe, expect, it } from 'vitest';

import { Bar } from './bar';
import { Chart, nearest, summary } from './chart';
import { formatBytes, formatSpan } from './format';
import { Tabs } from './tabs';
import { VirtualTable } from './virtualtable';

const trans = nullTranslator.load('jupyter_hpc');
const percent = (value: number): string => `${Math.round(value)} %`;

afterEach(cleanup);

describe('numbers in words', () => {
  it.each([
    [0, '0 B'],
    [1023, '1023 B'],
    [1536, '1.5 KiB'],
    [80 * 1024 ** 3, '80 GiB'],
    [123.4 * 1024 ** 3, '123 GiB'],
    [2 * 1024 ** 6, '2048 PiB']
  ])('%d bytes', (bytes, text) => expect(formatBytes(bytes)).toBe(text));

  it.each([
    [-3, '0 s'],
    [59.9, '59 s'],
    [60, '1 min'],
    [3599, '59 min'],
    [3660, '1 h 01 min'],
    [90_000, '1 d 1 h']
  ])('%d seconds', (span, text) => expect(formatSpan(span, trans)).toBe(text));
});

describe('a chart', () => {
  const times = [10, 20, 30, 40];
  const values = [0, 50, null, 100];
  const chart = (
    <Chart
      {...{ times, values, trans }}
      label="Load"
      maximum={100}
      from={0}
      to={40}
      format={percent}
    />
  );

  it('draws what there is of a recording of one moment', () => {
    const { container } = render(
      <Chart
        {...{ label: 'Load', times: [10], values: [50], maximum: 100 }}
        {...{ from: 10, to: 10, format: percent, trans }}
      />
    );
    const paths = [...container.querySelectorAll('path')].map(path =>
      path.getAttribute('d')
    );
    expect(paths.join()).not.toContain('NaN');
    expect(paths).toContain('M0.0 20.0h3h-6');
  });

  it('says in words what it shows', () => {
    render(chart);
    expect(screen.getByRole('img').getAttribute('aria-label')).toBe(
      'Load: last 100 %, on average 50 %, at most 100 %'
    );
    expect(summary([null], percent, trans)).toBe('no values yet');
  });

  it('leaves a gap where a value is missing', () => {
    const { container } = render(chart);
    const line = container.querySelector('.jp-Hpc-chart-line');
    expect(line?.getAttribute('d')).toBe(
      'M75.0 40.0L150.0 20.0M300.0 0.0h3h-6'
    );
  });

  it('shows the value under the pointer', () => {
    const { container } = render(chart);
    const svg = screen.getByRole('img');
    svg.getBoundingClientRect = () => ({ left: 0, width: 400 }) as DOMRect;
    fireEvent(
      svg,
      new MouseEvent('pointermove', { clientX: 210, bubbles: true })
    );
    expect(container.querySelector('figcaption')?.textContent).toContain(
      '50 %'
    );
    fireEvent.pointerLeave(svg);
  });

  it('finds the nearest time', () => {
    expect(nearest([], 5)).toBeNull();
    expect([-1, 14, 16, 99].map(time => nearest(times, time))).toEqual([
      0, 0, 1, 3
    ]);
  });
});

describe('a bar', () => {
  it('is a meter with its numbers in words', () => {
    render(<Bar label="Space" text="95 of 100 GiB" share={0.95} />);
    const meter = screen.getByRole('meter', { name: 'Space' });
    expect(meter.getAttribute('aria-valuetext')).toBe('95 of 100 GiB');
    expect(meter.closest('.jp-Hpc-bar')?.className).toContain('jp-mod-warn');
  });

  it('is left out where there is no limit', () => {
    render(<Bar label="Space" text="95 GiB" share={null} />);
    expect(screen.queryByRole('meter')).toBeNull();
    expect(screen.getByText('95 GiB')).toBeTruthy();
  });
});

describe('tabs', () => {
  it('are reached with the arrows', () => {
    const tabs = ['One', 'Two', 'Three'].map(title => ({
      id: title,
      title,
      content: `content ${title}`
    }));
    render(<Tabs label="All" tabs={tabs} />);
    fireEvent.keyDown(screen.getByRole('tab', { name: 'One' }), {
      key: 'ArrowLeft'
    });
    const last = screen.getByRole('tab', { name: 'Three' });
    expect(last.getAttribute('aria-selected')).toBe('true');
    expect(document.activeElement).toBe(last);
    expect(screen.getByRole('tabpanel').textContent).toBe('content Three');
  });
});

describe('a long table', () => {
  const rows = Array.from({ length: 10_000 }, (_, index) => `row ${index}`);
  const table = (
    <VirtualTable
      label="Rows"
      rows={rows}
      rowHeight={40}
      columns={[{ key: 'name', title: 'Name' }]}
      keyOf={row => row}
    >
      {row => <td>{row}</td>}
    </VirtualTable>
  );

  it('draws what can be seen and says how long it is', () => {
    render(table);
    expect(screen.getByRole('table').getAttribute('aria-rowcount')).toBe(
      '10001'
    );
    expect(screen.getAllByText(/^row /).length).toBeLessThan(40);
  });

  it('draws other lines when it is scrolled', () => {
    const { container } = render(table);
    const box = container.querySelector('.jp-Hpc-table') as HTMLElement;
    box.scrollTop = 40 * 5000;
    fireEvent.scroll(box);
    expect(screen.getByText('row 5000')).toBeTruthy();
    expect(screen.queryByText('row 0')).toBeNull();
    expect(
      screen.getByText('row 5000').closest('tr')?.getAttribute('aria-rowindex')
    ).toBe('5002');
  });
});
