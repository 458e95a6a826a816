import { DisposableDelegate, type IDisposable } from '@lumino/disposable';
import { Poll } from '@lumino/polling';
import { type ISignal, Signal } from '@lumino/signaling';

import type { IWatch } from './api';
import { ApiError } from './request';
import type { IWatcher, Stream } from './stream';

/** A value that is kept fresh while somebody looks at it. */
export interface IFeed<T> {
  /** The last good value; stays when a later attempt fails. */
  readonly value: T | null;
  /** Why there is no newer value; null while all is well. */
  readonly error: ApiError | null;
  /** When `value` came, by this browser's clock in milliseconds. */
  readonly receivedAt: number;
  /** Emitted when value or error may have changed. */
  readonly changed: ISignal<IFeed<T>, void>;
  /** Keep the value fresh until the returned handle is disposed. */
  watch(): IDisposable;
  /**
   * Ask now, whether somebody watches or not. Without `isPatient`, as for a person
   * who waits for it, a server out of reach is failure of at once.
   */
  refresh(isPatient?: boolean): Promise<void>;
}

/** Where nobody waits, a server out of reach is mentioned after so many failures. */
const SILENT_FAILURES = 3;

/** What all feeds share: the value, the error, and the count of watchers. */
abstract class Feed<T> implements IFeed<T> {
  get value(): T | null {
    return this._value;
  }

  get error(): ApiError | null {
    return this._error;
  }

  get receivedAt(): number {
    return this._receivedAt;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  watch(): IDisposable {
    this._watchers += 1;
    if (this._watchers === 1) {
      this.start();
    }
    return new DisposableDelegate(() => {
      this._watchers -= 1;
      if (this._watchers === 0) {
        this.stop();
      }
    });
  }

  abstract refresh(isPatient?: boolean): Promise<void>;

  protected abstract start(): void;
  protected abstract stop(): void;

  protected accept(value: T): void {
    this._value = value;
    this._error = null;
    this._failures = 0;
    this._receivedAt = Date.now();
    this._changed.emit();
  }

  protected reject(error: unknown, isPatient = true): void {
    const failure =
      error instanceof ApiError ? error : new ApiError(String(error), '', 0);
    this._failures += 1;
    const canWait = isPatient && failure.status === 0 && this._value !== null;
    if (!canWait || this._failures >= SILENT_FAILURES) {
      this._error = failure;
      this._changed.emit();
    }
  }

  private readonly _changed = new Signal<this, void>(this);
  private _value: T | null = null;
  private _error: ApiError | null = null;
  private _receivedAt = 0;
  private _failures = 0;
  private _watchers = 0;
}

/** A feed that the server pushes; `merge` makes a value out of news and the value before. */
export class StreamedFeed<T, News = T> extends Feed<T> implements IWatcher {
  constructor(
    private readonly _stream: Stream,
    private readonly _topic: IWatch['topic'],
    private readonly _get: () => Promise<T>,
    private readonly _merge: (before: T | null, news: News) => T | null
  ) {
    super();
  }

  request(): IWatch {
    return { topic: this._topic };
  }

  receive(data: unknown): void {
    const value = this._merge(this.value, data as News);
    if (value === null) {
      void this.refresh(true);
    } else {
      this.accept(value);
    }
  }

  refuse(error: ApiError): void {
    this.reject(error);
  }

  fetch(): Promise<void> {
    return this.refresh(true);
  }

  async refresh(isPatient = false): Promise<void> {
    try {
      this.accept(await this._get());
    } catch (error) {
      this.reject(error, isPatient);
    }
  }

  protected override start(): void {
    this._handle = this._stream.add(this);
  }

  protected override stop(): void {
    this._handle?.dispose();
    this._handle = null;
  }

  private _handle: IDisposable | null = null;
}

/**
 * A feed that asks again and again while it is watched and the tab can be seen,
 * until a value is final.
 */
export class PolledFeed<T> extends Feed<T> implements IDisposable {
  constructor(
    name: string,
    private readonly _get: () => Promise<T>,
    interval: number,
    private readonly _isFinal: (value: T) => boolean = () => false
  ) {
    super();
    this._poll = new Poll({
      name: `jupyter-hpc:${name}`,
      auto: false,
      standby: 'when-hidden',
      frequency: { interval, max: Math.max(interval, 300_000), backoff: true },
      factory: () => this._ask(true)
    });
  }

  get isDisposed(): boolean {
    return this._poll.isDisposed;
  }

  dispose(): void {
    this._poll.dispose();
    Signal.clearData(this);
  }

  /** Milliseconds between two requests. */
  set interval(interval: number) {
    const max = Math.max(interval, 300_000);
    this._poll.frequency = { interval, max, backoff: true };
  }

  async refresh(isPatient = false): Promise<void> {
    // The error is kept in `error`.
    await this._ask(isPatient).catch(() => undefined);
  }

  protected override start(): void {
    if (this.value !== null && this._isFinal(this.value)) {
      return;
    }
    void this._poll.start();
    const { interval } = this._poll.frequency;
    if (this.error || Date.now() - this.receivedAt > interval) {
      void this._poll.refresh();
    }
  }

  protected override stop(): void {
    if (!this.isDisposed) {
      void this._poll.stop();
    }
  }

  private async _ask(isPatient: boolean): Promise<void> {
    try {
      const value = await this._get();
      if (this._isFinal(value)) {
        this.stop();
      }
      this.accept(value);
    } catch (error) {
      this.reject(error, isPatient);
      // A rejected poll backs off, which is what a struggling server needs.
      throw error;
    }
  }

  private readonly _poll: Poll;
}

/**
 * Ask so often that the value is never much older than `interval` while the tab
 * can be seen, without being pushed every change; for those who only keep watch.
 */
export function glance(feed: IFeed<unknown>, interval: number): IDisposable {
  const look = (): void => {
    if (!document.hidden && Date.now() - feed.receivedAt > interval) {
      void feed.refresh(true);
    }
  };
  const timer = window.setInterval(look, interval);
  look();
  return new DisposableDelegate(() => window.clearInterval(timer));
}

/** How many seconds old the data of a feed is by now; `age` is what the server said of it. */
export function ageOf(feed: IFeed<unknown>, age: number): number {
  return age + (Date.now() - feed.receivedAt) / 1000;
}
