import type { JupyterFrontEnd, JupyterLab } from '@jupyterlab/application';
import type { ISessionContext } from '@jupyterlab/apputils';
import { type ISignal, Signal } from '@lumino/signaling';

import type { ILocalPort } from '../tokens';
import { saveChanged, withoutKernel } from './documents';

/** What was done when a new server took the place of the one that had ended. */
export interface IResumed {
  jobId: string;
  node: string;
  /** How the server before it ended, where that is known. */
  reason: string;
  saved: string[];
  failed: string[];
  /** What has lost its kernel. */
  kernels: ISessionContext[];
}

/**
 * Keeps the tab calm while its server is away, and takes up the work with the next one.
 *
 * JupyterLab neither saves nor asks by itself while it takes itself for disconnected.
 */
export class Resuming {
  constructor(
    private readonly _app: JupyterFrontEnd,
    private readonly _port: ILocalPort,
    private readonly _info: JupyterLab.IInfo | null
  ) {
    _port.changed.connect(() => this._onPort());
    this._onPort();
  }

  /** Of the newest server, until it is dismissed. */
  get resumed(): IResumed | null {
    return this._resumed;
  }

  /** How the last server ended that this tab knew, until another one answers. */
  get reason(): string {
    const end = this._port.status?.serverEnded;
    return end && this._endSeen !== null && end.at > this._endSeen
      ? end.text
      : '';
  }

  /** Documents that somebody wanted to save while there was no server. */
  get waiting(): readonly string[] {
    return this._waiting;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Save this document as soon as there is a server. */
  saveLater(name: string): void {
    if (!this._waiting.includes(name)) {
      this._waiting.push(name);
    }
    this._onPort();
  }

  dismiss(): void {
    this._resumed = null;
    this._changed.emit();
  }

  private _onPort(): void {
    const { phase, status } = this._port;
    if (phase === null || !status) {
      return;
    }
    if (this._info) {
      this._info.isConnected = phase === 'open';
    }
    if (phase !== 'open') {
      this._serverGone ||= phase !== 'cut';
      this._resumed = null;
    } else {
      const { jobId } = status;
      const { reason } = this;
      const isOther = this._jobId && jobId !== this._jobId;
      if (this._serverGone || isOther || reason) {
        void this._resume(jobId, status.node, reason, this._serverGone);
      } else if (this._waiting.length > 0) {
        void saveChanged(this._app.shell, this._waiting);
      }
      this._waiting = [];
      this._serverGone = false;
      this._jobId = jobId;
      this._endSeen = status.serverEnded?.at ?? 0;
    }
    this._changed.emit();
  }

  private async _resume(
    jobId: string,
    node: string,
    reason: string,
    wasGone: boolean
  ): Promise<void> {
    const { sessions, terminals, kernelspecs } = this._app.serviceManager;
    // Their own clocks have slowed down while nobody answered.
    await Promise.allSettled([
      sessions.refreshRunning(),
      terminals.isAvailable() ? terminals.refreshRunning() : null,
      kernelspecs.refreshSpecs()
    ]);
    const { shell } = this._app;
    const outcome = await saveChanged(shell);
    const kernels = withoutKernel(shell);
    // A session that has changed to another job without a break has nothing to say here.
    const { saved, failed } = outcome;
    const news = saved.length + failed.length + kernels.length;
    if (wasGone || reason || news > 0) {
      this._resumed = { jobId, node, reason, ...outcome, kernels };
    }
    this._changed.emit();
  }

  private readonly _changed = new Signal<this, void>(this);
  private _resumed: IResumed | null = null;
  private _serverGone = false;
  private _jobId = '';
  private _waiting: string[] = [];
  /** The moment of the last end that was known when a server answered. */
  private _endSeen: number | null = null;
}
