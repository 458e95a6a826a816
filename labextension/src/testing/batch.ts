import { vi } from 'vitest';

import type { BatchClient } from '../batch/model';
import type {
  IBatchPreview,
  IBatchRequest,
  IParameter,
  ISubmittedJob,
  ITrial,
  ITrialRequest
} from '../data/api';
import type { ApiError } from '../data/request';
import { aJobRequest, aPartition } from './values';

/** A parameter that a notebook has. */
export function aParameter(changes: Partial<IParameter>): IParameter {
  return {
    name: 'lr',
    kind: 'constant',
    cell: 1,
    line: 1,
    default: '0.1',
    not_from_environment: '',
    stored_in: [],
    repeated: false,
    where: '',
    column: 0,
    length: 0,
    offset: 0,
    ...changes
  };
}

/** What the server says of a notebook that can be submitted. */
export function aPreview(changes: Partial<IBatchPreview> = {}): IBatchPreview {
  return {
    path: 'a/train.ipynb',
    seen: ['cell 1:ab'],
    notebook: 'train.ipynb',
    ok: true,
    mode: 'script',
    script: 'print(1)',
    sbatch: '#!/bin/bash',
    runs: 1,
    overwritten: [],
    added_to: [],
    changes: [
      {
        cell: 2,
        line: 1,
        source: '%time',
        what: 'timed',
        why: 'a magic',
        before: '%time f()',
        after: '_hpc.time(f)'
      }
    ],
    notices: [],
    refusals: [],
    parameters: [
      aParameter({}),
      aParameter({ name: 'TOKEN', kind: 'secret', line: 2, default: '' })
    ],
    prepare: [],
    requirements: [],
    executions: {},
    problems: [],
    findings: [],
    proposal: null,
    estimated_start: 1000,
    estimated_nodes: 'gpu01',
    cost: '',
    verification: null,
    request: aJobRequest({ partition: 'gpu', time: '01:00:00', gpus: 1 }),
    choices: { accounts: ['ml'], qos: [], presets: [], environment: 'venv' },
    ...changes
  };
}

/** A trial that runs. */
export function aTrial(changes: Partial<ITrial> = {}): ITrial {
  return {
    id: 'a1',
    state: 'running',
    progress: {
      run: 1,
      runs: 2,
      epochs: 1,
      epoch: 3,
      seconds: 12,
      memory: 2 ** 30,
      gpu_memory: 0,
      line: 'epoch 3 loss 0.1',
      wanted: 2,
      limit: 600
    },
    problem: null,
    result: null,
    ...changes
  };
}

/** A server that answers with `preview` and remembers what it was asked. */
export class FakeBatch implements BatchClient {
  preview = aPreview();
  asked: IBatchRequest[] = [];
  submitted: IBatchRequest[] = [];
  refusal: ApiError | null = null;
  now = (): number => 900;
  partitions = vi.fn(() =>
    Promise.resolve({
      partitions: [aPartition()],
      problem: null,
      taken_at: 0,
      age: 0
    })
  );

  modules = vi.fn(() =>
    Promise.resolve({
      modules: ['cuda/12.1', 'gcc/13', 'python/3.11'],
      problem: null,
      taken_at: 0,
      age: 0
    })
  );

  convert(request: IBatchRequest): Promise<IBatchPreview> {
    this.asked.push(request);
    return Promise.resolve(this.preview);
  }

  trials: ITrialRequest[] = [];
  ended: string[] = [];
  running: ITrial = aTrial();
  notNow: ApiError | null = null;

  trial(): Promise<ITrial> {
    return Promise.resolve(this.running);
  }

  startTrial(request: ITrialRequest): Promise<ITrial> {
    this.trials.push(request);
    return this.notNow
      ? Promise.reject(this.notNow)
      : Promise.resolve(this.running);
  }

  endTrial(id: string): Promise<ITrial> {
    this.ended.push(id);
    this.running = aTrial({ state: 'ended' });
    return Promise.resolve(this.running);
  }

  submit(request: IBatchRequest): Promise<ISubmittedJob> {
    this.submitted.push(request);
    return this.refusal
      ? Promise.reject(this.refusal)
      : Promise.resolve({ job_id: '7', run_dir: '/r', messages: [] });
  }
}
