import type { ISession } from '../data/api';
import type { IHpcClient } from '../tokens';

/** The settings of the warnings; the status bar changes at the same steps. */
export const WARNINGS_ID = 'jupyter-hpc:warnings';

export interface IWarningSettings {
  /** Minutes before the end at which the user is warned. */
  minutes: number[];
  saveAtLast: boolean;
}

export const WARNING_DEFAULTS: IWarningSettings = {
  minutes: [30, 10, 3],
  saveAtLast: true
};

/** Seconds until the job ends; null outside of a job or without a known end. */
export function timeLeft(client: IHpcClient): number | null {
  const session: ISession | null = client.session.value;
  const ends = session?.job?.ends ?? null;
  return ends === null ? null : Math.max(0, ends - client.now());
}

/** The warning step that has been reached: the smallest one that is not below what is left. */
export function stepReached(
  seconds: number | null,
  minutes: readonly number[]
): number | null {
  if (seconds === null) {
    return null;
  }
  const reached = minutes.filter(step => seconds <= 60 * step);
  return reached.length > 0 ? Math.min(...reached) : null;
}
