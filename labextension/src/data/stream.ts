import { URLExt } from '@jupyterlab/coreutils';
import type { ServerConnection } from '@jupyterlab/services';
import { DisposableDelegate, type IDisposable } from '@lumino/disposable';

import type { IStreamMessage, IWatch } from './api';
import { ApiError, NAMESPACE } from './request';

/** Somebody who looks at one thing. */
export interface IWatcher {
  /** What is looked at now; asked again before every message to the server. */
  request(): IWatch;
  receive(data: unknown): void;
  refuse(error: ApiError): void;
  /** Ask once without the stream; called while no stream can be had. */
  fetch(): Promise<void>;
}

/** Times in milliseconds; the server forgets a tab that is silent for 150 s. */
const HEARTBEAT_MS = 60_000;
const FIRST_PAUSE_MS = 1_000;
const MAX_PAUSE_MS = 30_000;

/**
 * The one WebSocket of this tab. It is opened for the first watcher, tells the
 * server the complete list of what is watched, and the empty list while the tab
 * is hidden. A lost connection is opened again without a word; until then every
 * watcher asks by itself, ever more rarely.
 */
export class Stream implements IDisposable {
  constructor(private readonly _settings: ServerConnection.ISettings) {
    document.addEventListener('visibilitychange', this._onVisibility);
    this._heartbeat = window.setInterval(() => this._announce(), HEARTBEAT_MS);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    document.removeEventListener('visibilitychange', this._onVisibility);
    window.clearInterval(this._heartbeat);
    window.clearTimeout(this._retry);
    this._watchers.clear();
    this._socket?.close();
  }

  /** Keep `watcher` informed until the returned handle is disposed. */
  add(watcher: IWatcher): IDisposable {
    this._watchers.set(nameOf(watcher.request()), watcher);
    this._changed();
    return new DisposableDelegate(() => {
      const name = nameOf(watcher.request());
      if (this._watchers.get(name) === watcher) {
        this._watchers.delete(name);
        this._changed();
      }
    });
  }

  private get _active(): boolean {
    return !this._isDisposed && !document.hidden && this._watchers.size > 0;
  }

  private readonly _onVisibility = (): void => {
    if (!document.hidden) {
      this._pause = FIRST_PAUSE_MS;
    }
    this._changed();
  };

  /** Several changes in one turn are told in one message. */
  private _changed(): void {
    if (!this._pending) {
      this._pending = true;
      queueMicrotask(() => {
        this._pending = false;
        this._announce();
      });
    }
  }

  private _announce(): void {
    if (this._socket?.readyState === WebSocket.OPEN) {
      const seen = document.hidden ? [] : [...this._watchers.values()];
      const watch = seen.map(watcher => watcher.request());
      this._socket.send(JSON.stringify({ watch }));
    } else if (this._active && !this._socket) {
      this._connect();
    }
  }

  private _connect(): void {
    window.clearTimeout(this._retry);
    const { wsUrl, token, appendToken, WebSocket: Socket } = this._settings;
    const query = appendToken && token ? { token } : {};
    const socket = new Socket(
      URLExt.join(wsUrl, NAMESPACE, 'stream') +
        URLExt.objectToQueryString(query)
    );
    this._socket = socket;
    socket.onopen = () => {
      this._pause = FIRST_PAUSE_MS;
      this._announce();
    };
    socket.onmessage = event => this._dispatch(String(event.data));
    socket.onclose = () => this._onClosed();
  }

  private _onClosed(): void {
    this._socket = null;
    if (!this._active) {
      return;
    }
    for (const watcher of this._watchers.values()) {
      void watcher.fetch();
    }
    this._retry = window.setTimeout(() => this._announce(), this._pause);
    this._pause = Math.min(2 * this._pause, MAX_PAUSE_MS);
  }

  private _dispatch(text: string): void {
    const message = JSON.parse(text) as IStreamMessage;
    const watcher = this._watchers.get(nameOf(message));
    if ('error' in message) {
      const { message: sentence, hint } = message.error;
      watcher?.refuse(new ApiError(sentence, hint, 503));
    } else {
      watcher?.receive(message.data);
    }
  }

  private readonly _heartbeat: number;
  private readonly _watchers = new Map<string, IWatcher>();
  private _socket: WebSocket | null = null;
  private _retry = 0;
  private _pause = FIRST_PAUSE_MS;
  private _pending = false;
  private _isDisposed = false;
}

function nameOf(named: {
  topic: string;
  job?: string;
  stream?: string;
}): string {
  const { topic, job, stream } = named;
  return [topic, job ?? '', stream ?? ''].join('\n');
}
