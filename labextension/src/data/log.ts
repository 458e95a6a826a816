import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';

import type { ILogPiece, IWatch, LogStream } from './api';
import type { ApiError } from './request';
import type { IWatcher, Stream } from './stream';

/** One log, followed from its last megabyte on; pieces come in order and without gaps. */
export class LogFollower implements IWatcher, IDisposable {
  constructor(
    private readonly _stream: Stream,
    private readonly _get: (query: string) => Promise<ILogPiece>,
    readonly job: string,
    readonly stream: LogStream
  ) {}

  /** Emitted with each new piece. */
  get arrived(): ISignal<this, ILogPiece> {
    return this._arrived;
  }

  /** Emitted with the reason why there is nothing more. */
  get refused(): ISignal<this, ApiError> {
    return this._refused;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Follow while visible; may be called again at any time. */
  follow(following: boolean): void {
    if (following && !this._handle) {
      this._handle = this._stream.add(this);
    } else if (!following) {
      this._handle?.dispose();
      this._handle = null;
    }
  }

  /** The piece before `offset`, at most a megabyte. */
  async earlier(offset: number): Promise<ILogPiece> {
    const start = Math.max(0, offset - MEGABYTE);
    return this._get(this._query(start, offset - start));
  }

  dispose(): void {
    this._isDisposed = true;
    this.follow(false);
    Signal.clearData(this);
  }

  request(): IWatch {
    const { job, stream } = this;
    const position = this._file
      ? { offset: this._nextOffset, file: this._file }
      : {};
    return { topic: 'log', job, stream, ...position };
  }

  receive(data: unknown): void {
    const piece = data as ILogPiece;
    const expected = this._file === null || piece.restarted;
    if (!expected && piece.exists && piece.offset !== this._nextOffset) {
      return; // The stream and a request of our own have brought the same piece.
    }
    if (piece.exists) {
      this._file = piece.file;
      this._nextOffset = piece.next_offset;
    }
    this._arrived.emit(piece);
  }

  refuse(error: ApiError): void {
    this._refused.emit(error);
  }

  async fetch(): Promise<void> {
    try {
      const start = this._file ? this._nextOffset : undefined;
      this.receive(await this._get(this._query(start)));
    } catch (error) {
      this.refuse(error as ApiError);
    }
  }

  private _query(offset?: number, limit?: number): string {
    const query = new URLSearchParams({ stream: this.stream });
    if (offset !== undefined) {
      query.set('offset', String(offset));
    }
    if (limit !== undefined) {
      query.set('limit', String(limit));
    }
    if (this._file) {
      query.set('file', this._file);
    }
    return query.toString();
  }

  private readonly _arrived = new Signal<this, ILogPiece>(this);
  private readonly _refused = new Signal<this, ApiError>(this);
  private _handle: IDisposable | null = null;
  private _file: string | null = null;
  private _nextOffset = 0;
  private _isDisposed = false;
}

const MEGABYTE = 1024 * 1024;
