import type { IRun, IRuns, ISubmit } from '../data/api';

/** Runs for tests; each takes what matters for the test at hand. */

export function aRun(id: string, changes: Partial<IRun> = {}): IRun {
  return {
    id,
    task: id.split('_')[1] ?? '',
    parameters: { lr: 0.1 },
    state: 'done',
    code: 0,
    metrics: { loss: 0.5 },
    figures: 0,
    epochs: null,
    seconds: 60,
    ended: 1000,
    part: null,
    rest: '',
    gpu_load: 90,
    cost: '',
    ...changes
  };
}

export function aSubmit(
  job: string,
  changes: Partial<ISubmit> = {},
  runs: IRun[] = [aRun(job)]
): ISubmit {
  return {
    job_id: job,
    notebook: 'train.ipynb',
    path: 'train.ipynb',
    run_dir: `/home/alice/hpc-batch/train/runs/20261119-101500-000${job}`,
    run_path: `hpc-batch/train/runs/20261119-101500-000${job}`,
    submitted: 900,
    is_there: true,
    is_sweep: false,
    parts: null,
    swept: [],
    runs,
    ...changes
  };
}

/** A sweep over lr with a run for each of these losses. */
export function aSweep(
  job: string,
  losses: number[],
  changes: Partial<ISubmit> = {}
): ISubmit {
  const runs = losses.map((loss, index) =>
    aRun(`${job}_${index + 1}`, {
      parameters: { lr: index + 1 },
      metrics: { loss }
    })
  );
  return aSubmit(job, { is_sweep: true, swept: ['lr'], ...changes }, runs);
}

export function someRuns(
  submits: ISubmit[],
  changes: Partial<IRuns> = {}
): IRuns {
  return {
    submits,
    metrics: [{ name: 'loss', better: 'less' }],
    taken_at: 1000,
    age: 0,
    problem: null,
    ...changes
  };
}
