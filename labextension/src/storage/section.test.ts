import { nullTranslator } from '@jupyterlab/translation';
import { expect, it } from 'vitest';

import { spent } from './section';

const trans = nullTranslator.load('jupyter_hpc');

it.each([
  [{ resource: 'gres/gpu', used: 41_000, limit: 60_000 }, '683 of 1,000 hours'],
  [{ resource: 'cpu', used: 90, limit: null }, '2 hours'],
  [{ resource: 'mem', used: 60, limit: 120 }, '1 of 2 MiB hours']
])('a budget is told in hours: %j', (limit, text) =>
  expect(spent(limit, trans)).toBe(text)
);
