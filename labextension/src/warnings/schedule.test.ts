import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { WarningSchedule } from './schedule';

describe('the warnings before the end', () => {
  let ends: number | null;
  const warn = vi.fn();
  let schedule: WarningSchedule;

  beforeEach(() => {
    vi.useFakeTimers();
    warn.mockClear();
    schedule = new WarningSchedule(
      () => (ends === null ? null : Math.max(0, ends - Date.now() / 1000)),
      warn
    );
  });

  afterEach(() => {
    schedule.dispose();
    vi.useRealTimers();
  });

  const inMinutes = (minutes: number): number =>
    Date.now() / 1000 + 60 * minutes;

  it('come at each step once, the last one marked', () => {
    ends = inMinutes(60);
    schedule.minutes = [30, 10, 3];
    expect(warn).not.toHaveBeenCalled();
    vi.advanceTimersByTime(31 * 60_000);
    expect(warn.mock.calls).toEqual([[30, false]]);
    vi.advanceTimersByTime(20 * 60_000);
    vi.advanceTimersByTime(8 * 60_000);
    expect(warn.mock.calls).toEqual([
      [30, false],
      [10, false],
      [3, true]
    ]);
  });

  it('tell only what counts now when the tab is opened late', () => {
    ends = inMinutes(8);
    schedule.minutes = [30, 10, 3];
    expect(warn.mock.calls).toEqual([[10, false]]);
    schedule.check();
    expect(warn).toHaveBeenCalledOnce();
  });

  it('count anew when the job was given more time', () => {
    ends = inMinutes(5);
    schedule.minutes = [30, 10, 3];
    ends = inMinutes(90);
    schedule.check();
    vi.advanceTimersByTime(61 * 60_000);
    expect(warn.mock.calls).toEqual([
      [10, false],
      [30, false]
    ]);
  });

  it('do not come without an end', () => {
    ends = null;
    schedule.minutes = [30, 10, 3];
    vi.advanceTimersByTime(10 ** 8);
    expect(warn).not.toHaveBeenCalled();
  });

  it('wait for longer than a timer of a browser can', () => {
    ends = inMinutes(60 * 24 * 60);
    schedule.minutes = [30];
    vi.advanceTimersByTime(60_000);
    expect(warn).not.toHaveBeenCalled();
  });
});
