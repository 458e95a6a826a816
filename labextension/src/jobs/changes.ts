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

/** What happened between two lists: jobs that began to run, and jobs that ended. */
export function changesBetween(before: IJobs, after: IJobs): IChange[] {
  const phases = new Map(before.jobs.map(job => [job.id, job.phase]));
  const arrays = new Set(before.jobs.map(job => job.array_id).filter(Boolean));
  const started = after.jobs
    .filter(
      job =>
        job.phase === 'running' &&
        ['pending', 'starting'].includes(phases.get(job.id) ?? '')
    )
    .map(job => ({ ...job, text: '' }));
  const known = new Set(before.finished.jobs.map(job => job.id));
  const seen = (job: IFinishedJob): boolean =>
    phases.has(job.id) || arrays.has(job.id.split('_')[0]);
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
