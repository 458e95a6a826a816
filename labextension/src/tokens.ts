import { Token } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import type { Widget } from '@lumino/widgets';

import type {
  IActionResult,
  IBatchPreview,
  IBatchRequest,
  ICluster,
  IFigure,
  IGpuHistory,
  IGpus,
  IJobOverview,
  IJobReport,
  IJobs,
  IJobView,
  IModules,
  INodes,
  IPartitions,
  IRestored,
  IRunAgain,
  IRunContents,
  IRunCurves,
  IRuns,
  IRunToDelete,
  ISession,
  IStorageReport,
  ISubmittedJob,
  ITensorBoard,
  ITensorBoardChoice,
  ITrial,
  ITrialRequest,
  JobAction,
  LogStream,
  ReportKind
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
  /** What is free on the cluster, what is out of order, and the user's accounts. */
  readonly cluster: PolledFeed<ICluster>;
  /** Every run that was ever submitted. */
  readonly runs: PolledFeed<IRuns>;
  /** The server's clock in seconds, as far as it is known. */
  now(): number;
  /** The last `seconds` of the GPUs of this job, in at most `points` rows. */
  gpuHistory(seconds: number, points: number): Promise<IGpuHistory>;
  /** One job in detail. */
  job(id: string): Promise<IJobView>;
  /** The GPU history that a batch job recorded. */
  jobGpus(id: string): Promise<IGpuHistory>;
  /** A page about a job, or the same as JSON, to keep or to give to others. */
  jobReport(id: string, kind: ReportKind): Promise<IJobReport>;
  /** What a person looks at first of a job, or of one run of a sweep. */
  jobOverview(id: string, run: string | null): Promise<IJobOverview>;
  /** Where a browser finds a figure of a job; one that was replaced has another address. */
  figureAddress(id: string, figure: IFigure): string;
  /** The numbers of these runs in at most `points` points each; of a sweep all its runs. */
  runCurves(ids: readonly string[], points: number): Promise<IRunCurves>;
  /** What would be deleted with these runs, or why they cannot be. */
  runContents(ids: readonly string[]): Promise<IRunContents>;
  /** Delete runs that are still as their contents were shown; rejects where some were left. */
  deleteRuns(runs: readonly IRunToDelete[]): Promise<IActionResult>;
  /** What the dialog begins with to run this one again. */
  runAgain(id: string): Promise<IRunAgain>;
  /** Do something to jobs, each named by its `target`; rejects with Slurm's refusal. */
  act(action: JobAction, targets: string[]): Promise<IActionResult>;
  /** Ask Slurm for the list of jobs now, as far as the site allows it. */
  refreshJobs(): Promise<void>;
  /** The partitions of the cluster with their limits. */
  partitions(): Promise<IPartitions>;
  /** The names that `module load` takes on the cluster. */
  modules(): Promise<IModules>;
  /** What the batch job of a notebook would be; nothing is written. */
  convert(request: IBatchRequest): Promise<IBatchPreview>;
  /** Submit a notebook as a batch job. */
  submit(request: IBatchRequest): Promise<ISubmittedJob>;
  /** How far the trial of this session is, or what came of the last one. */
  trial(): Promise<ITrial>;
  /** Run a notebook for a few epochs in this session; rejects with why there can be none. */
  startTrial(request: ITrialRequest): Promise<ITrial>;
  /** End that trial; resolves when nothing of it runs any more. */
  endTrial(id: string): Promise<ITrial>;
  /** What became of the variables of the kernels in the server before. */
  restored(): Promise<IRestored>;
  /** Whether TensorBoard is installed, and the folders of logs beside a notebook. */
  tensorBoards(beside: string): Promise<ITensorBoardChoice>;
  /** TensorBoard for a folder of logs, once it answers. */
  startTensorBoard(logdir: string): Promise<ITensorBoard>;
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

/**
 * How the server behind this tab is, seen from the user's own computer.
 *
 * open: it answers; cut: the connection is away and comes back by itself; starting: a job waits
 * or its server starts; ended: the job is over; gone: jupyter-hpc does not run there any more.
 */
export type Phase = 'open' | 'cut' | 'starting' | 'ended' | 'gone';

/** Something that can be asked of the session; it names the question that it answers. */
export interface IOffer {
  action: string;
  label: string;
  parameters: Record<string, string>;
}

/** What the local port says of its session. */
export interface IPortStatus {
  /** Whether requests reach Jupyter. */
  open: boolean;
  /** The session's name on the user's computer, such as "ulysses-2". */
  name: string;
  state: string;
  /** The state in a sentence. */
  text: string;
  jobId: string;
  node: string;
  /** What a person has to do before the connection can come back, or "". */
  needsPerson: string;
  /** What going on in another job would cost, in a sentence; "" where it cannot be had. */
  renewal: string;
  /** Since when it is in this state, in seconds of the user's own clock. */
  since: number;
  /** How its server ended the last time that it was started again in its job. */
  serverEnded: { text: string; at: number } | null;
  offers: IOffer[];
}

/** The port of jupyter-hpc on the user's computer, through which this page came. */
export interface ILocalPort {
  /** Null while it is not known, and where there is no such port. */
  readonly phase: Phase | null;
  /** The newest answer; it stays when the port is gone. */
  readonly status: IPortStatus | null;
  /** The session's name, or "". */
  readonly name: string;
  readonly changed: ISignal<ILocalPort, void>;
  /** Ask now. */
  look(): Promise<void>;
  /** Do what is offered; rejects with the port's own words, or none where it did not answer. */
  act(offer: IOffer): Promise<void>;
}

export const ILocalPort = new Token<ILocalPort>(
  'jupyter-hpc:ILocalPort',
  'The local port of jupyter-hpc that leads to this server: its state and what it offers.'
);
