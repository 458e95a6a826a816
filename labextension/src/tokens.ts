import { Token } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import type { Widget } from '@lumino/widgets';

import type {
  IActionResult,
  IBatchPreview,
  IBatchRequest,
  IGpuHistory,
  IGpus,
  IJobs,
  IJobView,
  INodes,
  IPartitions,
  ISession,
  IStorageReport,
  ISubmittedJob,
  JobAction,
  LogStream
} from './data/api';
import type { IFeed, PolledFeed } from './data/feed';
import type { LogFollower } from './data/log';

/** The server extension, as the features see it. */
export interface IHpcClient {
  /** The job that this Jupyter server runs in. */
  readonly session: IFeed<ISession>;
  /** The newest sample of the GPUs of this job. */
  readonly gpus: IFeed<IGpus>;
  /** The GPUs of the further nodes of this job; watched, their samplers run. */
  readonly nodes: IFeed<INodes>;
  /** The user's jobs, waiting, running and finished. */
  readonly jobs: IFeed<IJobs>;
  /** Space, files and budget. */
  readonly storage: PolledFeed<IStorageReport>;
  /** The server's clock in seconds, as far as it is known. */
  now(): number;
  /** The last `seconds` of the GPUs of this job, in at most `points` rows. */
  gpuHistory(seconds: number, points: number): Promise<IGpuHistory>;
  /** One job in detail. */
  job(id: string): Promise<IJobView>;
  /** The GPU history that a batch job recorded. */
  jobGpus(id: string): Promise<IGpuHistory>;
  /** Do something to jobs, each named by its `target`; rejects with Slurm's refusal. */
  act(action: JobAction, targets: string[]): Promise<IActionResult>;
  /** Ask Slurm for the list of jobs now, as far as the site allows it. */
  refreshJobs(): Promise<void>;
  /** The partitions of the cluster with their limits. */
  partitions(): Promise<IPartitions>;
  /** What the batch job of a notebook would be; nothing is written. */
  convert(request: IBatchRequest): Promise<IBatchPreview>;
  /** Submit a notebook as a batch job. */
  submit(request: IBatchRequest): Promise<ISubmittedJob>;
  /** Follow the output of a job. */
  followLog(id: string, stream: LogStream): LogFollower;
}

export const IHpcClient = new Token<IHpcClient>(
  'jupyter-hpc:IHpcClient',
  'Session, GPUs, jobs and storage, each kept fresh while somebody watches.'
);

/** The side panel; features add their sections to it. */
export interface IHpcPanel {
  /**
   * Add a collapsible section. Sections stand in the order of their rank; the
   * returned handle removes the section.
   */
  addSection(section: IPanelSection): IDisposable;
}

export interface IPanelSection {
  /** Stable name; the folded state is remembered under it. */
  id: string;
  title: string;
  rank: number;
  /** Shown and hidden with the section, so it can rest while folded. */
  content: Widget;
}

export const IHpcPanel = new Token<IHpcPanel>(
  'jupyter-hpc:IHpcPanel',
  'The HPC side panel, to which features add collapsible sections.'
);
