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
  const finished = news.finished ?? before?.finished;
  if (!jobs || !finished) {
    return null;
  }
  const { version, taken_at, age, problem, next_poll } = news;
  return { version, taken_at, age, problem, next_poll, jobs, finished };
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
