import { type ISignal, Signal } from '@lumino/signaling';

import type {
  IBatchRequest,
  IProblem,
  ITrial,
  ITrialResult
} from '../data/api';
import type { IHpcClient } from '../tokens';

/** Between two looks at how far it is. */
const LOOK_MS = 1000;

export type TrialClient = Pick<IHpcClient, 'trial' | 'startTrial' | 'endTrial'>;

/** What a person asks of a trial, as it is typed; empty: 2 epochs, 10 minutes. */
export interface ITrialWish {
  epochs: string;
  minutes: string;
}

/** One trial of the dialog: it is asked for, looked after, and ended with the dialog. */
export class TrialModel {
  constructor(
    private readonly _client: TrialClient,
    private readonly _request: () => IBatchRequest,
    private readonly _done: (result: ITrialResult) => void
  ) {}

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  wish: ITrialWish = { epochs: '', minutes: '' };

  get isRunning(): boolean {
    return this._starting || this._trial?.state === 'running';
  }

  /** Whether it is being ended. */
  get isEnding(): boolean {
    return this._ending;
  }

  /** How far it is, or what came of the last one of this dialog. */
  get trial(): ITrial | null {
    return this._trial;
  }

  /** Why there is none, or why nobody knows how far it is. */
  get problem(): IProblem | null {
    return this._problem ?? this._trial?.problem ?? null;
  }

  /** What the trial was asked about, and not what is in the form now. */
  get isOutdated(): boolean {
    return this._asked !== '' && this._asked !== this._subject();
  }

  setWish(changes: Partial<ITrialWish>): void {
    this.wish = { ...this.wish, ...changes };
    this._changed.emit();
  }

  async start(): Promise<void> {
    if (this.isRunning) {
      return;
    }
    const { epochs, minutes } = this.wish;
    this._asked = this._subject();
    this._starting = true;
    this._trial = null;
    this._set(null);
    try {
      this._trial = await this._client.startTrial({
        request: this._request(),
        ...(epochs.trim() && { epochs: wholeNumber(epochs) }),
        ...(minutes.trim() && { seconds: 60 * wholeNumber(minutes) })
      });
    } catch (error) {
      this._problem = asProblem(error);
    }
    this._starting = false;
    if (this._isDisposed) {
      this._giveUp(); // The dialog was left while the server began.
      return;
    }
    this._changed.emit();
    this._lookLater();
  }

  /** End it; nothing of it runs any more when this is over. */
  async end(): Promise<void> {
    const trial = this._trial;
    if (trial?.state !== 'running' || this._ending) {
      return;
    }
    this._ending = true;
    this._changed.emit();
    try {
      this._take(await this._client.endTrial(trial.id), trial.id);
    } catch (error) {
      this._problem = asProblem(error);
    }
    this._ending = false;
    this._changed.emit();
  }

  /** The dialog is left: what runs is ended. */
  dispose(): void {
    this._isDisposed = true;
    window.clearTimeout(this._timer);
    this._giveUp();
    Signal.clearData(this);
  }

  private _giveUp(): void {
    if (this._trial?.state === 'running') {
      // Where this does not arrive, the server ends it when nobody asks for it any more.
      void this._client.endTrial(this._trial.id).catch(() => undefined);
    }
  }

  private _lookLater(): void {
    if (this._trial?.state === 'running' && !this._isDisposed) {
      this._timer = window.setTimeout(() => void this._look(), LOOK_MS);
    }
  }

  private async _look(): Promise<void> {
    const id = this._trial?.id ?? '';
    try {
      const found = await this._client.trial();
      this._problem = null;
      this._take(found, id);
    } catch (error) {
      this._problem = asProblem(error); // It goes on; the next look may tell.
    }
    if (!this._isDisposed) {
      this._changed.emit();
      this._lookLater();
    }
  }

  private _take(found: ITrial, id: string): void {
    if (this._trial?.id !== id || this._trial.state !== 'running') {
      return;
    }
    if (found.id !== id) {
      this._trial = { ...this._trial, state: 'ended' };
      this._problem = {
        message:
          'The server was started again meanwhile, and the trial ended with it.',
        hint: 'Try it again.'
      };
      return;
    }
    this._trial = found;
    if (found.result && !this._isDisposed) {
      this._done(found.result);
    }
  }

  /** What its outcome depends on: not time and memory, which it fills. */
  private _subject(): string {
    const { path, parameters, environment, request } = this._request();
    const { gpus, gpu_type, cpus } = request ?? {};
    return JSON.stringify([
      path,
      parameters,
      environment,
      gpus,
      gpu_type,
      cpus
    ]);
  }

  private _set(problem: IProblem | null): void {
    this._problem = problem;
    this._changed.emit();
  }

  private readonly _changed = new Signal<this, void>(this);
  private _trial: ITrial | null = null;
  private _problem: IProblem | null = null;
  private _asked = '';
  private _starting = false;
  private _ending = false;
  private _timer = 0;
  private _isDisposed = false;
}

/** A number as it was typed; what is none is left to the server, which says so. */
function wholeNumber(text: string): number {
  const value = Number(text);
  return Number.isFinite(value) ? value : 0;
}

function asProblem(error: unknown): IProblem {
  const { message, hint } = error as Partial<IProblem>;
  return { message: message || String(error), hint: hint ?? '' };
}
