import type { ServerConnection } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';

import type { IHpcClient } from '../tokens';
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
  IJobsUpdate,
  IJobView,
  ILogPiece,
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
} from './api';
import { type IFeed, PolledFeed, StreamedFeed } from './feed';
import { mergeJobs } from './jobs';
import { LogFollower } from './log';
import { addressOf, LOOK_FIRST, requestAPI } from './request';
import { Stream } from './stream';

/** The server asks Slurm at most once a minute. */
const CLUSTER_INTERVAL_MS = 60_000;

/** The server looks through the run folders at most so often. */
const RUNS_INTERVAL_MS = 30_000;

/** Storage and budget are cached for ten minutes on the server. */
const STORAGE_INTERVAL_MS = 600_000;

/** What to do after a lost answer to a delete. */
const LOOK_WHAT_IS_LEFT =
  'It may have been done all the same: look at the list of runs.';

/** What to do after a lost answer about a trial. */
const MAY_RUN =
  'It may run all the same; it is ended when nobody asks for it for some minutes.';

/** Everything that the features ask of the server extension, in one place. */
export class HpcClient implements IHpcClient, IDisposable {
  constructor(private readonly _settings: ServerConnection.ISettings) {
    this._stream = new Stream(_settings);
    const newest = <T>(before: T | null, news: T): T => news;
    this.session = new StreamedFeed<ISession>(
      this._stream,
      'session',
      () => this._get('session'),
      newest
    );
    this.gpus = new StreamedFeed<IGpus>(
      this._stream,
      'gpus',
      () => this._get('gpus'),
      newest
    );
    this.nodes = new StreamedFeed<INodes>(
      this._stream,
      'nodes',
      () => this._get('nodes'),
      newest
    );
    this.jobs = new StreamedFeed<IJobs, IJobs | IJobsUpdate>(
      this._stream,
      'jobs',
      () => this._get('jobs'),
      mergeJobs
    );
    this.storage = new PolledFeed<IStorageReport>(
      'storage',
      () => this._get('storage'),
      STORAGE_INTERVAL_MS
    );
    this.cluster = new PolledFeed<ICluster>(
      'cluster',
      () => this._get('cluster'),
      CLUSTER_INTERVAL_MS
    );
    this.runs = new PolledFeed<IRuns>(
      'runs',
      () => this._get('runs'),
      RUNS_INTERVAL_MS
    );
  }

  readonly session: IFeed<ISession>;
  readonly gpus: IFeed<IGpus>;
  readonly nodes: IFeed<INodes>;
  readonly jobs: IFeed<IJobs>;
  readonly storage: PolledFeed<IStorageReport>;
  readonly cluster: PolledFeed<ICluster>;
  readonly runs: PolledFeed<IRuns>;

  get isDisposed(): boolean {
    return this._stream.isDisposed;
  }

  dispose(): void {
    this._stream.dispose();
    this.storage.dispose();
    this.cluster.dispose();
    this.runs.dispose();
  }

  now(): number {
    const local = Date.now();
    const { value, receivedAt } = this.session;
    return value ? value.now + (local - receivedAt) / 1000 : local / 1000;
  }

  gpuHistory(seconds: number, points: number): Promise<IGpuHistory> {
    return this._get(`gpus/history?seconds=${seconds}&points=${points}`);
  }

  job(id: string): Promise<IJobView> {
    return this._get(`jobs/${encodeURIComponent(id)}`);
  }

  jobGpus(id: string): Promise<IGpuHistory> {
    return this._get(`jobs/${encodeURIComponent(id)}/gpus`);
  }

  jobReport(id: string, kind: ReportKind): Promise<IJobReport> {
    return this._get(`jobs/${encodeURIComponent(id)}/report?kind=${kind}`);
  }

  jobOverview(id: string, run: string | null): Promise<IJobOverview> {
    const query = run === null ? '' : `?run=${encodeURIComponent(run)}`;
    return this._get(`jobs/${encodeURIComponent(id)}/overview${query}`);
  }

  figureAddress(id: string, { name, modified }: IFigure): string {
    const path = ['jobs', id, 'figures', ...name.split('/')];
    return addressOf(
      `${path.map(encodeURIComponent).join('/')}?of=${modified}`,
      this._settings
    );
  }

  runCurves(ids: readonly string[], points: number): Promise<IRunCurves> {
    const asked = encodeURIComponent(ids.join(','));
    return this._get(`runs/curves?ids=${asked}&points=${points}`);
  }

  runContents(ids: readonly string[]): Promise<IRunContents> {
    return this._get(`runs/contents?ids=${encodeURIComponent(ids.join(','))}`);
  }

  deleteRuns(runs: readonly IRunToDelete[]): Promise<IActionResult> {
    return this._post('runs/delete', { runs }, LOOK_WHAT_IS_LEFT);
  }

  runAgain(id: string): Promise<IRunAgain> {
    return this._get(`runs/${encodeURIComponent(id)}/again`);
  }

  async act(action: JobAction, targets: string[]): Promise<IActionResult> {
    const ids = encodeURIComponent(targets.join(','));
    const init = { method: 'POST' };
    return requestAPI(
      `jobs/${ids}/${action}`,
      this._settings,
      init,
      LOOK_FIRST
    );
  }

  partitions(): Promise<IPartitions> {
    return this._get('partitions');
  }

  modules(): Promise<IModules> {
    return this._get('modules');
  }

  convert(request: IBatchRequest): Promise<IBatchPreview> {
    return this._post('convert', request);
  }

  submit(request: IBatchRequest): Promise<ISubmittedJob> {
    return this._post('submit', request, LOOK_FIRST);
  }

  trial(): Promise<ITrial> {
    return this._get('trial');
  }

  startTrial(request: ITrialRequest): Promise<ITrial> {
    return this._post('trial', request, MAY_RUN);
  }

  endTrial(id: string): Promise<ITrial> {
    const init = { method: 'DELETE' };
    const address = `trial?id=${encodeURIComponent(id)}`;
    return requestAPI(address, this._settings, init, MAY_RUN);
  }

  restored(): Promise<IRestored> {
    return this._get('restored');
  }

  tensorBoards(beside: string): Promise<ITensorBoardChoice> {
    return this._get(`tensorboard?beside=${encodeURIComponent(beside)}`);
  }

  startTensorBoard(logdir: string): Promise<ITensorBoard> {
    return this._post('tensorboard', { logdir });
  }

  async refreshJobs(): Promise<void> {
    // The second question tells what is wrong, in the place where the jobs are.
    await this._get('jobs?refresh=1').catch(() => undefined);
    await this.jobs.refresh();
  }

  followLog(id: string, stream: LogStream): LogFollower {
    const address = `jobs/${encodeURIComponent(id)}/log`;
    return new LogFollower(
      this._stream,
      query => this._get<ILogPiece>(`${address}?${query}`),
      id,
      stream
    );
  }

  private _get<T>(endPoint: string): Promise<T> {
    return requestAPI<T>(endPoint, this._settings);
  }

  private _post<T>(
    endPoint: string,
    body:
      | IBatchRequest
      | ITrialRequest
      | { logdir: string }
      | { runs: readonly IRunToDelete[] },
    afterLoss?: string
  ): Promise<T> {
    const init = { method: 'POST', body: JSON.stringify(body) };
    return requestAPI<T>(endPoint, this._settings, init, afterLoss);
  }

  private readonly _stream: Stream;
}
