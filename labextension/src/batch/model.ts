import type { IDisposable } from '@lumino/disposable';
import { Debouncer } from '@lumino/polling';
import { type ISignal, Signal } from '@lumino/signaling';

import type {
  IBatchPreview,
  IBatchRequest,
  IPartition,
  IPreflightFinding,
  IProblem,
  IProposal,
  ISubmittedJob,
  ITrialResult,
  IVerification
} from '../data/api';
import { ApiError } from '../data/request';
import type { IHpcClient } from '../tokens';
import { type IChoices, toRequest } from './choices';
import { hasOddNumber } from './problems';
import { type TrialClient, TrialModel } from './trialmodel';

/** Typing goes on for so long before the server is asked again. */
const PAUSE_MS = 500;

type Busy = 'preview' | 'verify' | 'submit' | 'apply';

/** What is asked of the server extension. */
export type BatchClient = TrialClient &
  Pick<IHpcClient, 'convert' | 'modules' | 'now' | 'partitions' | 'submit'>;

/** The fields that a trial fills. */
const MEASURED = ['time', 'memory', 'chain'] as const;
type Measured = (typeof MEASURED)[number];
type Values = { [field in Measured]?: string };

/** Writes proposed texts into the cells of the open notebook, and saves it. */
export type EditCells = (edits: IProposal['edits']) => Promise<void>;

/** One notebook on its way to a job: what was chosen, and what the server says to it. */
export class BatchModel implements IDisposable {
  constructor(
    private readonly _client: BatchClient,
    readonly path: string,
    private _choices: IChoices,
    private readonly _edit: EditCells | null = null
  ) {
    this._asking = new Debouncer(() => this._ask('preview', {}), PAUSE_MS);
    this.trial = new TrialModel(
      _client,
      () => this._body(),
      result => this._fill(result)
    );
    this.trial.changed.connect(() => this._changed.emit());
  }

  /** The trial of this dialog. */
  readonly trial: TrialModel;

  /** Something to show has changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Whether it is a script, which runs as it is, and no notebook. */
  get isScript(): boolean {
    return isScript(this.path);
  }

  get choices(): IChoices {
    return this._choices;
  }

  /** The newest answer; it stays while the next one is awaited. */
  get preview(): IBatchPreview | null {
    return this._preview;
  }

  /** Seconds until the job could start, counted from the preview; null if unknown. */
  get wait(): number | null {
    return this._wait;
  }

  /** Why the job was not submitted, or why there is no newer preview. */
  get problem(): IProblem | null {
    return this._refusal ?? this._problem;
  }

  get verification(): IVerification | null {
    return this._preview?.verification ?? null;
  }

  get partitions(): IPartition[] {
    return this._partitions;
  }

  /** The names that `module load` takes, once they have been asked for. */
  get modules(): string[] {
    return this._modules;
  }

  /** Ask for them, once: on some sites the list takes long. */
  async askModules(): Promise<void> {
    this._askedModules ??= this._client.modules().then(
      ({ modules }) => {
        this._modules = modules;
        this._changed.emit();
      },
      () => {
        this._askedModules = null; // Nothing is proposed; what is typed counts.
      }
    );
    await this._askedModules;
  }

  /** What is under way. */
  get busy(): Busy | null {
    return this._busy;
  }

  /** Whether nothing that is known speaks against a submit. */
  get isReady(): boolean {
    const preview = this._preview;
    return (
      preview !== null &&
      preview.ok &&
      preview.problems.length === 0 &&
      !hasOddNumber(this._choices) &&
      (this._force || !preview.findings.some(isError)) &&
      this._busy !== 'submit' &&
      this._busy !== 'apply'
    );
  }

  /** Whether to submit in spite of errors that were found. */
  get force(): boolean {
    return this._force;
  }

  setForce(value: boolean): void {
    this._force = value;
    this._changed.emit();
  }

  /** Whether what is proposed can be written into the notebook from here. */
  get canApply(): boolean {
    return this._edit !== null;
  }

  /** The cells, counted from 1, into which proposed texts were written. */
  get applied(): readonly number[] {
    return this._applied;
  }

  /** Write what is proposed into the notebook; the preview of the new one follows. */
  async apply(edits: IProposal['edits']): Promise<void> {
    if (this._busy !== null || !this._edit) {
      return;
    }
    this._turn += 1;
    this._refusal = null;
    this._set({ busy: 'apply' });
    try {
      await this._edit(edits);
      this._applied = edits.map(({ cell }) => cell);
    } catch (error) {
      this._refusal = asProblem(error);
    }
    this._set({ busy: null });
    if (!this._refusal) {
      await this._ask('preview', {});
    }
  }

  get isDisposed(): boolean {
    return this._asking.isDisposed;
  }

  dispose(): void {
    this._asking.dispose();
    this.trial.dispose();
    Signal.clearData(this);
  }

  /** The first look: the preview, and what the cluster offers. */
  async open(): Promise<void> {
    const asked = this._client.partitions().then(
      ({ partitions }) => {
        this._partitions = partitions;
        this._changed.emit();
      },
      () => undefined // The preview says what is wrong with Slurm.
    );
    await Promise.all([this.refresh(), asked]);
  }

  /** Choose something else; the preview follows when the typing pauses. */
  change(changes: Partial<IChoices>): void {
    this._choices = { ...this._choices, ...changes };
    this._refusal = null;
    this._changed.emit();
    this._asking.invoke().catch(() => undefined);
  }

  /** Whether a trial has filled this field, and nobody has changed it since. */
  isMeasured(field: Measured): boolean {
    const filled = this._filled?.after[field];
    return filled !== undefined && valuesOf(this._choices)[field] === filled;
  }

  get canUndoTrial(): boolean {
    return MEASURED.some(field => this.isMeasured(field));
  }

  /** Put back what stood in the fields that the trial has filled. */
  undoTrial(): void {
    const before: Values = this._filled?.before ?? {};
    const back = MEASURED.filter(field => this.isMeasured(field));
    this._put(
      Object.fromEntries(back.map(field => [field, before[field] ?? '']))
    );
    this._filled = null;
    this._changed.emit();
  }

  /** Ask for a new preview now; an older one that comes later is not shown. */
  async refresh(): Promise<void> {
    this._refusal = null;
    await this._ask('preview', {});
  }

  /** Let the server run notebook and script on a small budget. */
  async verify(): Promise<void> {
    await this._ask('verify', { verify: true });
  }

  /** Submit; the job, or null with the reason in `problem`. */
  async submit(): Promise<ISubmittedJob | null> {
    if (!this.isReady) {
      return null;
    }
    this._turn += 1;
    this._refusal = null;
    this._set({ busy: 'submit', problem: null });
    try {
      const force = this._force && { force: true };
      const seen = this._preview?.seen ?? [];
      return await this._client.submit({ ...this._body(), seen, ...force });
    } catch (error) {
      this._refusal = asProblem(error);
      // What was shown is not what would run: it is shown anew, with the reason.
      this._isLate ||= error instanceof ApiError && error.status === 409;
      return null;
    } finally {
      this._set({ busy: null });
      if (this._isLate && this._refusal) {
        void this._ask('preview', {});
      }
    }
  }

  private async _ask(
    busy: 'preview' | 'verify',
    more: Partial<IBatchRequest>
  ): Promise<void> {
    // Nothing may open the way to a second submit while the first is under way.
    this._isLate = this._busy === 'submit' || this._busy === 'apply';
    if (this._isLate || this.isDisposed) {
      return;
    }
    if (hasOddNumber(this._choices)) {
      this._set({ problem: null }); // It stands beside its field.
      return;
    }
    const turn = ++this._turn;
    this._set({ busy });
    try {
      const preview = await this._client.convert({ ...this._body(), ...more });
      if (turn === this._turn) {
        const start = preview.estimated_start;
        this._preview = preview;
        this._wait = start === null ? null : start - this._client.now();
        this._set({ busy: null, problem: null });
      }
    } catch (error) {
      if (turn === this._turn) {
        this._set({ busy: null, problem: asProblem(error) });
      }
    }
  }

  private _fill({ time, memory, chain }: ITrialResult): void {
    const before = valuesOf(this._choices);
    const after: Values = {
      time,
      ...(memory && { memory }),
      ...((chain !== null || before.chain) && { chain: String(chain ?? '') })
    };
    // Of several trials in a row the first one knows what a person had written.
    const first = this._filled?.before;
    const kept = MEASURED.filter(field => first && this.isMeasured(field));
    this._filled = {
      before: {
        ...before,
        ...Object.fromEntries(kept.map(field => [field, first?.[field]]))
      },
      after
    };
    this._put(after);
  }

  private _put({ chain, ...resources }: Values): void {
    this.change({
      request: { ...this._choices.request, ...resources },
      ...(chain !== undefined && { chain })
    });
  }

  private _body(): IBatchRequest {
    return { path: this.path, ...toRequest(this._choices) };
  }

  private _set(state: { busy?: Busy | null; problem?: IProblem | null }): void {
    if (this.isDisposed) {
      return;
    }
    this._busy = state.busy === undefined ? this._busy : state.busy;
    this._problem = state.problem === undefined ? this._problem : state.problem;
    this._changed.emit();
  }

  private readonly _asking: Debouncer;
  private readonly _changed = new Signal<this, void>(this);
  private _preview: IBatchPreview | null = null;
  private _wait: number | null = null;
  private _partitions: IPartition[] = [];
  private _modules: string[] = [];
  private _askedModules: Promise<void> | null = null;
  private _problem: IProblem | null = null;
  private _refusal: IProblem | null = null;
  private _busy: Busy | null = null;
  private _applied: readonly number[] = [];
  private _turn = 0;
  private _force = false;
  private _isLate = false;
  private _filled: { before: Values; after: Values } | null = null;
}

function valuesOf({ request, chain }: IChoices): Required<Values> {
  return { time: request.time, memory: request.memory, chain };
}

/** Whether a file of this name can be a step of a job. */
export function isScript(path: string): boolean {
  return /\.(py|sh|bash)$/.test(path);
}

/** Whether a finding stops a submit. */
export function isError({ severity }: IPreflightFinding): boolean {
  return severity === 'error';
}

function asProblem(error: unknown): IProblem {
  const { message, hint } = error as Partial<IProblem>;
  return { message: message || String(error), hint: hint ?? '' };
}
