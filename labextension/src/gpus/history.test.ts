import { describe, expect, it } from 'vitest';

import type { IGpuHistory } from '../data/api';
import { aGpu, someGpus } from '../testing/values';
import { GpuTimeline } from './history';

const history: IGpuHistory = {
  source: 'nvml',
  simulated: false,
  taken_at: 103,
  times: [101, 102, 103],
  gpus: [
    {
      id: 'GPU-0',
      index: 0,
      name: 'A100',
      memory_total: 10,
      load: [1, 2, 3],
      memory_used: [1, 1, 1],
      power: [null, null, null],
      temperature: [40, 40, 40]
    }
  ]
};

describe('the timeline of the charts', () => {
  it('asks to be loaded first', () => {
    const timeline = new GpuTimeline();
    expect(timeline.append(someGpus([aGpu()], { taken_at: 104 }), 60)).toBe(
      false
    );
  });

  it('grows at its end and forgets its beginning', () => {
    const timeline = new GpuTimeline();
    timeline.load(history);
    const sample = someGpus([aGpu({ load: 9 })], { taken_at: 104 });
    expect(timeline.append(sample, 2)).toBe(true);
    expect(timeline.times).toEqual([102, 103, 104]);
    expect(timeline.gpus[0].load).toEqual([2, 3, 9]);
    expect(timeline.gpus[0].power).toEqual([null, null, 300]);
    expect(history.times).toHaveLength(3);
  });

  it('takes the same sample once', () => {
    const timeline = new GpuTimeline();
    timeline.load(history);
    expect(timeline.append(someGpus([aGpu()], { taken_at: 103 }), 60)).toBe(
      true
    );
    expect(timeline.times).toHaveLength(3);
  });

  it('wants to be loaded again after a pause, or with other GPUs', () => {
    const timeline = new GpuTimeline();
    timeline.load(history);
    expect(timeline.append(someGpus([aGpu()], { taken_at: 200 }), 600)).toBe(
      false
    );
    const other = someGpus([aGpu({ id: 'GPU-7' })], { taken_at: 104 });
    expect(timeline.append(other, 600)).toBe(false);
  });
});
