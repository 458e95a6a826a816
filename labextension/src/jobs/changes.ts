import type { IFinishedJob, IJobs, Phase } from '../data/api';

/** A change that a person wants to hear about. */
export interface IChange {
  id: string;
  name: string;
  phase: Phase;
  state: string;
  /** How it ended, in plain words. */
  text: string;
}

/**
 * What happened between two lists: jobs that began to run, and jobs that ended.
 *
 * Tasks of an array that came and went between two looks are found when the array
 * itself may have left the queue; so `arrays` are all that were ever seen there.
 */
export function changesBetween(
  before: IJobs,
  after: IJobs,
  arrays: ReadonlySet<string> = arraysOf(before)
): IChange[] {
  const phases = new Map(before.jobs.map(job => [job.id, job.phase]));
  // The first listing of what has ended is no news.
  const isListed = before.finished.taken_at !== null;
  const started = after.jobs
    .filter(
      job =>
        job.phase === 'running' &&
        ['pending', 'starting'].includes(phases.get(job.id) ?? '')
    )
    .map(job => ({ ...job, text: '' }));
  const known = new Set(before.finished.jobs.map(job => job.id));
  const seen = (job: IFinishedJob): boolean =>
    phases.has(job.id) || (isListed && arrays.has(job.id.split('_')[0]));
  const ended = after.finished.jobs
    .filter(job => !known.has(job.id) && seen(job))
    .map(job => ({ ...job, text: job.state_text }));
  return [...started, ...ended].map(({ id, name, phase, state, text }) => ({
    id,
    name,
    phase,
    state,
    text
  }));
}

/** The arrays of which parts are in the queue. */
export function arraysOf(jobs: IJobs): Set<string> {
  return new Set(jobs.jobs.flatMap(job => job.array_id ?? []));
}
