import { describe, expect, it, vi } from 'vitest';

import type { IGpuProcess } from '../data/api';
import { aGpu, someGpus } from '../testing/values';
import { findIdle, IdleWatch } from './watch';

const held = (name: string, memory: number): IGpuProcess => ({
  pid: memory,
  name: 'python',
  memory,
  notebook: {
    path: name,
    name,
    kernel_id: `kernel of ${name}`,
    session_id: null
  }
});

describe('idle GPUs', () => {
  it('are those without load for the whole window', () => {
    const gpus = [
      aGpu({ id: 'a', idle_since: 50 }),
      aGpu({ id: 'b', idle_since: 950 }),
      aGpu({ id: 'c', idle_since: null })
    ];
    expect(findIdle(someGpus(gpus), 900)?.gpus.map(gpu => gpu.id)).toEqual([
      'a'
    ]);
    expect(findIdle(someGpus(gpus), 2000)).toBeNull();
  });

  it('name the notebook that holds the most memory of all of them', () => {
    const gpus = [
      aGpu({ id: 'a', idle_since: 0, processes: [held('x', 5), held('y', 4)] }),
      aGpu({ id: 'b', idle_since: 0, processes: [held('y', 3)] })
    ];
    const idle = findIdle(someGpus(gpus), 900);
    expect(idle?.holder?.name).toBe('y');
    expect(idle?.held).toBe(7);
  });

  it('are told once for each stretch, until they work again', () => {
    const tell = vi.fn();
    const takeBack = vi.fn();
    const watch = new IdleWatch(tell, takeBack);
    const idle = someGpus([aGpu({ idle_since: 0 })]);
    const busy = someGpus([aGpu({ idle_since: null })]);
    watch.look(busy, 900);
    expect(takeBack).not.toHaveBeenCalled();
    watch.look(idle, 900);
    watch.look(idle, 900);
    expect(tell).toHaveBeenCalledTimes(1);
    watch.look(busy, 900);
    watch.look(busy, 900);
    expect(takeBack).toHaveBeenCalledTimes(1);
    watch.look(idle, 900);
    expect(tell).toHaveBeenCalledTimes(2);
  });
});
