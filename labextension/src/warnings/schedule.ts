import { stepReached } from '../session/deadline';

/** The longest time that a browser's timer can wait, in seconds. */
const MAX_TIMER_SECONDS = 2 ** 31 / 1000 - 1;

/**
 * Says once for each step that it has been reached. Steps that were over when
 * the tab was opened are left out, except the one that counts now; when the end
 * moves away (an extended job), the steps count anew.
 */
export class WarningSchedule {
  constructor(
    private readonly _timeLeft: () => number | null,
    private readonly _warn: (minutes: number, isLast: boolean) => void
  ) {}

  /** The minutes before the end at which to warn. */
  set minutes(minutes: readonly number[]) {
    this._minutes = [...minutes].filter(step => step > 0);
    this.check();
  }

  /** Look at the clock now, and again when the next step is due. */
  check(): void {
    window.clearTimeout(this._timer);
    const left = this._timeLeft();
    if (left === null) {
      return;
    }
    const step = stepReached(left, this._minutes);
    if (step === null) {
      this._warned = null;
    } else if (this._warned === null || step < this._warned) {
      this._warned = step;
      this._warn(step, step === Math.min(...this._minutes));
    } else if (step > this._warned) {
      this._warned = step;
    }
    const next = Math.max(
      ...this._minutes.map(minutes => 60 * minutes).filter(at => at < left)
    );
    if (Number.isFinite(next)) {
      const wait = Math.min(left - next + 0.1, MAX_TIMER_SECONDS);
      this._timer = window.setTimeout(() => this.check(), 1000 * wait);
    }
  }

  dispose(): void {
    window.clearTimeout(this._timer);
  }

  private _minutes: number[] = [];
  private _warned: number | null = null;
  private _timer = 0;
}
