import { nullTranslator } from '@jupyterlab/translation';
import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import * as React from 'react';
import { afterEach, describe, expect, it } from 'vitest';

import { CurveChart, type ILine } from './curves';
import { MAX_POINTS, scaleOf, shownLines } from './curvescale';
import { formatNumber } from './format';

const trans = nullTranslator.load('jupyter_hpc');

const LINES: ILine[] = [
  {
    id: '7_0',
    label: 'lr 0.1',
    points: [
      [1, 0.5],
      [2, 0.1],
      [3, 0.2]
    ]
  },
  {
    id: '7_1',
    label: 'lr 1',
    points: [
      [1, 0.9],
      [2, null],
      [3, 0.9]
    ]
  }
];

function show(lines = LINES, better: 'less' | 'more' | null = 'less'): void {
  const props = { title: 'loss', x: 'epoch', lines, better, trans };
  render(<CurveChart {...props} />);
}

function paths(): (string | null)[] {
  return [
    ...document.querySelectorAll('.jp-Hpc-curve-canvas .jp-Hpc-curve-line')
  ].map(path => path.getAttribute('d'));
}

afterEach(cleanup);

describe('curves of several runs', () => {
  it('are drawn over each other, each in a colour of its own', () => {
    show();
    expect(paths()).toEqual([
      'M0.0 60.0L150.0 120.0L300.0 105.0',
      'M0.0 0.0L300.0 0.0'
    ]);
    const classes = [
      ...document.querySelectorAll('.jp-Hpc-curve-canvas .jp-Hpc-curve-line')
    ].map(path => path.getAttribute('class'));
    expect(new Set(classes).size).toBe(2);
  });

  it('are told in words, with the best value where it is known', () => {
    show();
    const items = screen.getAllByRole('listitem').map(item => item.textContent);
    expect(items).toEqual([
      'lr 0.1 0.2 at epoch 3; best 0.1 at epoch 2',
      'lr 1 0.9 at epoch 3; best 0.9 at epoch 1'
    ]);
    cleanup();
    show(LINES, null);
    expect(screen.getAllByRole('listitem')[0].textContent).toBe(
      'lr 0.1 0.2 at epoch 3'
    );
  });

  it('are read with the arrow keys, value by value', () => {
    show();
    const slider = screen.getByRole('slider');
    const said = (): string | null => slider.getAttribute('aria-valuetext');
    expect(said()).toBe('epoch 3: lr 0.1 0.2, lr 1 0.9');
    fireEvent.keyDown(slider, { key: 'ArrowLeft' });
    expect(said()).toBe('epoch 2: lr 0.1 0.1, lr 1 0.9');
    fireEvent.keyDown(slider, { key: 'Home' });
    fireEvent.keyDown(slider, { key: 'ArrowLeft' });
    expect(slider.getAttribute('aria-valuenow')).toBe('1');
    fireEvent.keyDown(slider, { key: 'End' });
    expect(slider.getAttribute('aria-valuenow')).toBe('3');
  });

  it('are there as a table, too, with gaps where there is no value', () => {
    show();
    const details = document.querySelector('details') as HTMLDetailsElement;
    expect(document.querySelector('table')).toBeNull();
    details.open = true;
    fireEvent(details, new Event('toggle'));
    const rows = [...document.querySelectorAll('tr')].map(row =>
      [...row.children].map(cell => cell.textContent)
    );
    expect(rows).toEqual([
      ['epoch', 'lr 0.1', 'lr 1'],
      ['1', '0.5', '0.9'],
      ['2', '0.1', ''],
      ['3', '0.2', '0.9']
    ]);
  });

  it('can be logarithmic where all values are positive', () => {
    show();
    fireEvent.click(screen.getByRole('button', { name: 'Logarithmic' }));
    expect(paths()[0]).toBe('M0.0 32.1L150.0 120.0L300.0 82.1');
    cleanup();
    show([{ id: 'a', label: '', points: [[1, 0]] }]);
    expect(screen.queryByRole('button')).toBeNull();
  });

  it('may have no values, or one', () => {
    show([{ id: 'a', label: 'a', points: [[1, null]] }]);
    expect(document.body.textContent).toContain('No values yet.');
    cleanup();
    show([{ id: 'a', label: '', points: [[5, 1]] }]);
    expect(paths()).toEqual(['M150.0 60.0h2h-4']);
    expect(document.body.innerHTML).not.toContain('NaN');
  });

  it('are thinned where there are more points than can be seen', () => {
    const points = Array.from({ length: 5000 }, (_, x) => [x, x * 2]);
    const [line] = shownLines([{ id: 'a', label: '', points }]);
    expect(line.points).toHaveLength(MAX_POINTS);
    expect(line.points.at(-1)).toEqual([4999, 9998]);
  });
});

describe('a scale', () => {
  it('has round values', () => {
    expect(scaleOf([0.013, 0.94], false).marks).toEqual([0.2, 0.4, 0.6, 0.8]);
    expect(scaleOf([0, 90], false).marks).toEqual([0, 20, 40, 60, 80]);
    expect(scaleOf([0.001, 8], true).marks).toEqual([0.001, 0.01, 0.1, 1]);
    expect(scaleOf([3, 3], false).marks).toEqual([3]);
  });

  it.each([
    [0.123456, '0.1235'],
    [12, '12'],
    [1234567, '1234567'],
    [1.23456e-7, '1.235e-7']
  ])('writes %d', (value, text) => expect(formatNumber(value)).toBe(text));
});
