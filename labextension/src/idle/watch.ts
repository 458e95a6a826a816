import type { IGpu, IGpus, INotebook } from '../data/api';

/** GPUs that have been idle for too long, and who keeps them. */
export interface IIdle {
  gpus: IGpu[];
  seconds: number;
  /** The notebook that holds the most memory of them; null if none does. */
  holder: INotebook | null;
  /** Bytes that the holder has on all of these GPUs. */
  held: number;
}

/** What has been idle for at least `window` seconds; null if nothing has. */
export function findIdle(sample: IGpus, window: number): IIdle | null {
  const since = (gpu: IGpu): number =>
    gpu.idle_since === null ? 0 : sample.taken_at - gpu.idle_since;
  const gpus = sample.gpus.filter(gpu => since(gpu) >= window);
  if (gpus.length === 0) {
    return null;
  }
  const held = new Map<string, { notebook: INotebook; memory: number }>();
  for (const { notebook, memory } of gpus.flatMap(gpu => gpu.processes)) {
    if (notebook) {
      const before = held.get(notebook.kernel_id)?.memory ?? 0;
      held.set(notebook.kernel_id, {
        notebook,
        memory: before + (memory ?? 0)
      });
    }
  }
  const [most] = [...held.values()].sort((a, b) => b.memory - a.memory);
  return {
    gpus,
    seconds: Math.min(...gpus.map(since)),
    holder: most?.notebook ?? null,
    held: most?.memory ?? 0
  };
}

/** Tells about each idle stretch once, and takes it back when one of its GPUs works again. */
export class IdleWatch {
  constructor(
    private readonly _tell: (idle: IIdle) => void,
    private readonly _takeBack: () => void
  ) {}

  look(sample: IGpus, window: number): void {
    const working = sample.gpus.filter(gpu => gpu.idle_since === null);
    if (working.filter(gpu => this._noticed.delete(gpu.id)).length > 0) {
      this._takeBack();
    }
    const idle = findIdle(sample, window);
    if (idle && idle.gpus.some(gpu => !this._noticed.has(gpu.id))) {
      idle.gpus.forEach(gpu => this._noticed.add(gpu.id));
      this._tell(idle);
    }
  }

  private readonly _noticed = new Set<string>();
}
