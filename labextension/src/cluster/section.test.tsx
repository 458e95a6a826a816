import { nullTranslator } from '@jupyterlab/translation';
import { cleanup, render, screen } from '@testing-library/react';
import * as React from 'react';
import { afterEach, describe, expect, it } from 'vitest';

import type { ICluster, IPartitionUse } from '../data/api';
import { Overview, notes } from './section';

const trans = nullTranslator.load('jupyter_hpc');

function aPartition(values: Partial<IPartitionUse> = {}): IPartitionUse {
  return {
    name: 'gpu',
    default: false,
    state: 'UP',
    max_time: 14_400,
    default_time: 600,
    max_nodes: null,
    gpus: [{ type: 'a100', total: 64, used: 50, free: 12 }],
    cpus: { allocated: 1, idle: 7, other: 0, total: 8 },
    nodes: { mixed: 1 },
    ...values
  };
}

function show(values: Partial<ICluster>): void {
  const cluster: ICluster = {
    partitions: [],
    unavailable: [],
    accounts: [],
    problems: [],
    taken_at: 0,
    age: 0,
    problem: null,
    ...values
  };
  render(<Overview cluster={cluster} trans={trans} />);
}

describe('the cluster at a glance', () => {
  afterEach(cleanup);

  it('says what is free in words', () => {
    show({ partitions: [aPartition()] });
    expect(screen.getByText('12 of 64 free')).toBeTruthy();
    const meter = screen.getByRole('meter', { name: 'a100' });
    expect(meter.getAttribute('aria-valuetext')).toBe('12 of 64 free');
  });

  it('shows partitions with free GPUs first and folds the many others', () => {
    const many = Array.from({ length: 40 }, (_, number) =>
      aPartition({ name: `p${number}`, gpus: [] })
    );
    show({ partitions: [...many, aPartition()] });
    const first = document.querySelector('h4');
    expect(first?.textContent).toContain('gpu');
    expect(screen.getByText('35 more partitions')).toBeTruthy();
  });

  it('names what is out of order with its reason', () => {
    const bad = { nodes: 'g[1-2]', count: 2, state: 'drained', reason: 'fan' };
    show({ unavailable: [{ ...bad, partitions: ['gpu'] }] });
    expect(screen.getByText('2 nodes out of order')).toBeTruthy();
    expect(screen.getByText('g[1-2]: drained, fan')).toBeTruthy();
  });

  it('says what could not be asked', () => {
    show({ problems: ['The database does not answer.'] });
    expect(
      screen.getByText('Not known: The database does not answer.')
    ).toBeTruthy();
    expect(screen.getByText('Slurm shows no partition.')).toBeTruthy();
  });

  it('tells a partition that is closed', () => {
    expect(notes(aPartition({ state: 'DOWN' }), trans)).toMatch(/^down · /);
    expect(notes(aPartition({ max_time: null }), trans)).toBe('1 mixed');
  });
});
