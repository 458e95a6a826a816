import type { IFinishedJob, IJobs, IQueuedJob } from '../data/api';

export type Shown = 'queue' | 'finished';

/** One line of the table. */
export type Row =
  | { kind: 'queued'; key: string; job: IQueuedJob; inGroup: boolean }
  | { kind: 'finished'; key: string; job: IFinishedJob }
  | {
      kind: 'group';
      key: string;
      /** What all parts share: the id of the array or of the het job. */
      id: string;
      name: string;
      jobs: IQueuedJob[];
      open: boolean;
    };

/**
 * The lines of the table: parts of one array or het job stand together under a
 * line of their own, which can be opened. A filter looks at every word of it.
 */
export function tableRows(
  jobs: IJobs,
  shown: Shown,
  filter: string,
  open: ReadonlySet<string>
): Row[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (shown === 'finished') {
    return jobs.finished.jobs
      .filter(job => matches(job, words))
      .map(job => ({ kind: 'finished', key: job.id, job }));
  }
  const groups = new Map<string, IQueuedJob[]>();
  for (const job of jobs.jobs) {
    if (matches(job, words)) {
      const id = job.array_id ?? job.het_id ?? job.id;
      const group = groups.get(id);
      if (group) {
        group.push(job);
      } else {
        groups.set(id, [job]);
      }
    }
  }
  return [...groups].flatMap(([id, parts]) => linesOf(id, parts, open));
}

function linesOf(
  id: string,
  parts: IQueuedJob[],
  open: ReadonlySet<string>
): Row[] {
  const lines = (inGroup: boolean): Row[] =>
    parts.map(job => ({ kind: 'queued', key: job.id, job, inGroup }));
  if (parts.length === 1) {
    return lines(false);
  }
  const isOpen = open.has(id);
  const head: Row = {
    kind: 'group',
    key: `group ${id}`,
    id,
    name: parts[0].name,
    jobs: parts,
    open: isOpen
  };
  return isOpen ? [head, ...lines(true)] : [head];
}

function matches(job: IQueuedJob | IFinishedJob, words: string[]): boolean {
  if (words.length === 0) {
    return true;
  }
  const text =
    `${job.id} ${job.name} ${job.state} ${job.partition} ${job.nodes}`.toLowerCase();
  return words.every(word => text.includes(word));
}

/** What an action on this line takes. */
export function targetOf(row: Row): string {
  return row.kind === 'queued'
    ? row.job.target
    : row.kind === 'group'
      ? row.id
      : row.job.id;
}

/** "3 running, 12 pending": how many parts are in which state, by Slurm's words. */
export function countStates(jobs: readonly IQueuedJob[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const job of jobs) {
    const tasks = countTasks(job.array_tasks);
    counts.set(job.state, (counts.get(job.state) ?? 0) + tasks);
  }
  return [...counts];
}

/** How many tasks "2-4,7%1" names; 1 for what cannot be counted. */
export function countTasks(tasks: string | null): number {
  if (!tasks) {
    return 1;
  }
  const parts = tasks.replace(/%.*/, '').split(',');
  const counts = parts.map(part => {
    const [, first, last, step] =
      /^(\d+)(?:-(\d+))?(?::(\d+))?$/.exec(part) ?? [];
    const span = Number(last ?? first) - Number(first);
    return first === undefined ? 0 : Math.floor(span / Number(step ?? 1)) + 1;
  });
  return counts.includes(0) ? 1 : counts.reduce((sum, count) => sum + count, 0);
}
