import type { IJobs, IJobsUpdate, IQueuedJob } from './api';

/**
 * The list of jobs after some news; null if the news do not fit to what is
 * there, so that the whole list has to be asked for.
 */
export function mergeJobs(
  before: IJobs | null,
  news: IJobs | IJobsUpdate
): IJobs | null {
  const jobs = newRows(before, news);
  const finished = news.finished ?? grownOlder(before, news);
  if (!jobs || !finished) {
    return null;
  }
  const { version, taken_at, age, problem, next_poll } = news;
  return { version, taken_at, age, problem, next_poll, jobs, finished };
}

/** The finished jobs that are there, as old as they are by now. */
function grownOlder(
  before: IJobs | null,
  news: IJobs | IJobsUpdate
): IJobs['finished'] | null {
  if (!before) {
    return null;
  }
  const { finished_age: age } = news as IJobsUpdate;
  return age === undefined ? before.finished : { ...before.finished, age };
}

function newRows(
  before: IJobs | null,
  news: IJobs | IJobsUpdate
): IQueuedJob[] | null {
  if (news.jobs) {
    return news.jobs;
  }
  if (!before) {
    return null;
  }
  if (!('base' in news) || news.base === undefined) {
    return news.version === before.version ? before.jobs : null;
  }
  if (news.base !== before.version) {
    return null;
  }
  const rows = new Map(before.jobs.map(job => [job.id, job]));
  for (const id of news.removed ?? []) {
    rows.delete(id);
  }
  for (const job of news.changed ?? []) {
    rows.set(job.id, job);
  }
  return [...rows.values()];
}
