import type { IGpuColumns, IGpuHistory, IGpus } from '../data/api';

const QUANTITIES = ['load', 'memory_used', 'power', 'temperature'] as const;

/** A pause of so many intervals between two samples is drawn as a gap. */
const GAP_INTERVALS = 5;

/** The last minutes of the GPUs: loaded once, then grown by each new sample. */
export class GpuTimeline {
  /** Seconds since 1970, growing. */
  times: number[] = [];

  get gpus(): readonly IGpuColumns[] {
    return this._gpus;
  }

  /** Start anew from what the server remembers. */
  load(history: IGpuHistory): void {
    this.times = [...history.times];
    this._gpus = history.gpus.map(gpu => ({ ...gpu }));
  }

  /** Add a sample; true unless so much was missed that `load` is needed. */
  append(sample: IGpus, seconds: number): boolean {
    const last = this.times.at(-1);
    if (last === undefined) {
      return false;
    }
    if (sample.taken_at <= last) {
      return true;
    }
    const same =
      sample.gpus.length === this._gpus.length &&
      sample.gpus.every((gpu, index) => gpu.id === this._gpus[index].id);
    const pause = sample.taken_at - last;
    if (!same || pause > Math.max(10, GAP_INTERVALS * sample.interval)) {
      return false;
    }
    const outdated = this.times.findIndex(
      time => time >= sample.taken_at - seconds
    );
    const from = outdated < 0 ? this.times.length : outdated;
    this.times = [...this.times.slice(from), sample.taken_at];
    this._gpus = this._gpus.map((columns, index) => {
      const grown = { ...columns };
      for (const quantity of QUANTITIES) {
        const value = sample.gpus[index][quantity];
        grown[quantity] = [...columns[quantity].slice(from), value];
      }
      return grown;
    });
    return true;
  }

  private _gpus: IGpuColumns[] = [];
}
