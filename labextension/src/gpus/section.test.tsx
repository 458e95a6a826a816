import { nullTranslator } from '@jupyterlab/translation';
import { cleanup, render, screen } from '@testing-library/react';
import * as React from 'react';
import { afterEach, describe, expect, it } from 'vitest';

import type { INodeGpus } from '../data/api';
import { aGpu, someGpus } from '../testing/values';
import type { IHpcClient } from '../tokens';
import { FurtherNode } from './section';

const trans = nullTranslator.load('jupyter_hpc');
const client = { nodes: { receivedAt: Date.now() } } as unknown as IHpcClient;

function show(node: INodeGpus): void {
  render(
    <FurtherNode
      node={node}
      client={client}
      trans={trans}
      minutes={10}
      openNotebook={() => undefined}
    />
  );
}

describe('a further node of the job', () => {
  afterEach(cleanup);

  it('shows its GPUs', () => {
    const gpus = someGpus([aGpu({ index: 1, load: 73 })]);
    show({ name: 'gpu02', gpus, problem: null });
    expect(screen.getByRole('region', { name: 'GPUs of gpu02' })).toBeTruthy();
    expect(screen.getByText('73 %')).toBeTruthy();
  });

  it('says that its sampler is being started', () => {
    show({ name: 'gpu02', gpus: null, problem: null });
    expect(screen.getByRole('status').textContent).toContain('under way');
  });

  it('says why its GPUs cannot be seen', () => {
    const problem = { message: 'No such node.', hint: 'Look at it.' };
    show({ name: 'gpu02', gpus: null, problem });
    expect(screen.getByText(/No such node\./)).toBeTruthy();
    expect(screen.queryByText(/under way/)).toBeNull();
  });
});
