/**
 * The shapes of the server extension's answers, as docs/developers/openapi.yaml
 * describes them. Times are seconds since 1970 by the server's clock, durations
 * are seconds, sizes are bytes unless the name says otherwise.
 */

/** A sentence about what went wrong, and what to do next. */
export interface IProblem {
  message: string;
  hint: string;
}

/** Data that can be old. */
export interface IDated {
  taken_at: number;
  age: number;
}

export interface ISession {
  host: string;
  user: string;
  cluster: { name: string | null; title: string | null; docs: string | null };
  /** null outside of a job. */
  job: ISessionJob | null;
  problem: IProblem | null;
  memory: IMemory | null;
  features: IFeatures;
  /** The server's clock, so that a countdown needs no equal clocks. */
  now: number;
}

/** What the site has switched on. */
export interface IFeatures {
  gpus: boolean;
  jobs: boolean;
  job_actions: boolean;
  logs: boolean;
  storage: boolean;
  batch: boolean;
}

export interface ISessionJob extends IDated {
  id: string;
  name: string | null;
  partition: string | null;
  account: string | null;
  qos: string | null;
  nodes: string[];
  cpus: number | null;
  memory_mb: number | null;
  gpus: number | null;
  gpu_type: string | null;
  started: number | null;
  ends: number | null;
  time_left: number | null;
  ends_from: 'environment' | 'slurm' | null;
}

export interface IMemory extends IDated {
  used: number;
  limit: number | null;
  source: string;
  scope: string;
}

export interface IGpus extends IDated {
  source: string;
  simulated: boolean;
  driver: string | null;
  stale: boolean;
  problem: IProblem | null;
  interval: number;
  gpus: IGpu[];
}

export interface IGpu {
  id: string;
  index: number;
  name: string;
  kind: 'gpu' | 'mig';
  load: number | null;
  memory_used: number | null;
  memory_total: number | null;
  power: number | null;
  power_limit: number | null;
  temperature: number | null;
  clock: number | null;
  clock_max: number | null;
  memory_clock: number | null;
  processes: IGpuProcess[];
  /** Since when the load has been nearly zero without a break. */
  idle_since: number | null;
  problem?: IProblem | null;
}

export interface IGpuProcess {
  pid: number;
  name: string;
  memory: number | null;
  notebook: INotebook | null;
}

export interface INotebook {
  path: string;
  name: string;
  kernel_id: string;
  session_id: string | null;
}

export interface IGpuHistory {
  source: string;
  simulated: boolean;
  taken_at: number | null;
  times: number[];
  gpus: IGpuColumns[];
}

/** One GPU over time; every column is as long as `times`, null where there is no value. */
export interface IGpuColumns {
  id: string;
  index: number;
  name: string;
  memory_total: number | null;
  load: (number | null)[];
  memory_used: (number | null)[];
  power: (number | null)[];
  temperature: (number | null)[];
}

export type Phase =
  | 'pending'
  | 'starting'
  | 'running'
  | 'suspended'
  | 'ending'
  | 'ended'
  | 'unknown';

/** What a waiting, running or finished job has in common. */
export interface IJobBase {
  id: string;
  name: string;
  /** Slurm's own word, also one that we do not know. */
  state: string;
  phase: Phase;
  reason: string;
  partition: string;
  account: string;
  qos: string;
  nodes: string;
  node_count: number;
  cpus: number;
  memory_mb: number | null;
  gpus: number;
  gpu_type: string;
  time_limit: number | null;
  submitted: number | null;
  started: number | null;
}

export interface IQueuedJob extends IJobBase {
  /** What to put into the address of an action. */
  target: string;
  reason_text: string | null;
  reason_advice: string | null;
  ends: number | null;
  estimated_start: number | null;
  array_id: string | null;
  array_tasks: string | null;
  het_id: string | null;
  het_offset: number | null;
  over_time: boolean;
}

export interface IFinishedJob extends IJobBase {
  state_text: string;
  state_advice: string;
  ended: number | null;
  elapsed: number | null;
  exit_code: number | null;
  signal: number | null;
}

export interface IFinished {
  /** The newest first. */
  jobs: IFinishedJob[];
  since: number;
  taken_at: number | null;
  age: number | null;
  problem: IProblem | null;
}

export interface IJobs extends IDated {
  version: number;
  jobs: IQueuedJob[];
  problem: IProblem | null;
  next_poll: number;
  finished: IFinished;
}

/** News for somebody who has version `base`; see the description of JobsUpdate. */
export interface IJobsUpdate extends IDated {
  version: number;
  base?: number;
  changed?: IQueuedJob[];
  removed?: string[];
  jobs?: IQueuedJob[];
  problem: IProblem | null;
  next_poll: number;
  finished?: IFinished;
}

export interface IJobView extends IDated {
  job: IJobBase & Record<string, unknown>;
  finished: boolean;
  state_text: string | null;
  state_advice: string | null;
  reason: { code: string; text: string; advice: string } | null;
  estimated_start: number | null;
  efficiency: Record<'cpu' | 'memory' | 'gpu' | 'time', IRatio | null> | null;
  advice: { message: string; line: string | null }[];
  script: string | null;
  files: IJobFiles;
  problem: IProblem | null;
}

/** Used against requested, in words with their unit. */
export interface IRatio {
  percent: number;
  used: string;
  requested: string;
}

export interface IJobFiles {
  stdout: string | null;
  stderr: string | null;
  work_dir: string | null;
  /** The working directory for the file browser, if it is inside its root. */
  contents_path: string | null;
  /** The folder of a run that this product submitted, with its results. */
  run_dir: string | null;
  /** The same for the file browser. */
  run_path: string | null;
  /** There is a GPU recording of this run. */
  recording: boolean;
}

export type LogStream = 'stdout' | 'stderr';

export interface ILogPiece {
  job: string;
  stream: LogStream;
  path: string;
  file: string | null;
  size: number;
  offset: number;
  next_offset: number;
  text: string;
  eof: boolean;
  restarted: boolean;
  exists: boolean;
  message: string | null;
}

export type JobAction = 'cancel' | 'hold' | 'release' | 'requeue';

export interface IActionResult extends IProblem {
  results: ({ id: string; ok: boolean } & IProblem)[];
}

export interface IStorageReport extends IDated {
  places: IStorageArea[];
  budget: IBudget | null;
  problem: IProblem | null;
}

export interface IStorageArea {
  name: string;
  path: string;
  kind: string | null;
  source: string;
  /** What the numbers are, in words. */
  label: string;
  used: number | null;
  limit: number | null;
  files_used: number | null;
  files_limit: number | null;
  report: string | null;
  purge_days: number | null;
  backup: boolean | null;
  note: string | null;
  problem: IProblem | null;
}

export interface IBudget {
  source: string;
  unit: string | null;
  rates: Record<string, number>;
  accounts: IAccount[];
  report: string | null;
  problem: IProblem | null;
}

export interface IAccount {
  account: string;
  /** Slurm's weighted sum, in seconds. */
  usage: number;
  fairshare: number | null;
  /** In minutes. */
  limits: { resource: string; used: number; limit: number | null }[];
}
