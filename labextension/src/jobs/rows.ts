import type { IFinishedJob, IJobs, IQueuedJob } from '../data/api';
import { wordOf } from '../ui/state';

export type Shown = 'queue' | 'finished';

/** One line of the table. */
export type Row =
  | { kind: 'queued'; key: string; job: IQueuedJob; inGroup: boolean }
  | { kind: 'finished'; key: string; job: IFinishedJob; inGroup: boolean }
  | {
      kind: 'group';
      key: string;
      /** What all parts share: the id of the array or of the het job. */
      id: string;
      name: string;
      jobs: readonly AnyJob[];
      open: boolean;
    };

type AnyJob = IQueuedJob | IFinishedJob;

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
  const found = <Job extends AnyJob>(all: readonly Job[]): Job[] =>
    all.filter(job => matches(job, words));
  return shown === 'finished'
    ? grouped(
        found(jobs.finished.jobs),
        job => /^\d+(?=[_+])/.exec(job.id)?.[0] ?? job.id,
        (job, inGroup) => ({ kind: 'finished', key: job.id, job, inGroup }),
        open
      )
    : grouped(
        found(jobs.jobs),
        job => job.array_id ?? job.het_id ?? job.id,
        (job, inGroup) => ({ kind: 'queued', key: job.id, job, inGroup }),
        open
      );
}

function grouped<Job extends AnyJob>(
  jobs: readonly Job[],
  groupOf: (job: Job) => string,
  lineOf: (job: Job, inGroup: boolean) => Row,
  open: ReadonlySet<string>
): Row[] {
  const groups = new Map<string, Job[]>();
  for (const job of jobs) {
    const id = groupOf(job);
    const group = groups.get(id);
    if (group) {
      group.push(job);
    } else {
      groups.set(id, [job]);
    }
  }
  return [...groups].flatMap(([id, parts]) => {
    if (parts.length === 1) {
      return [lineOf(parts[0], false)];
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
    return isOpen ? [head, ...parts.map(job => lineOf(job, true))] : [head];
  });
}

function matches(job: AnyJob, words: string[]): boolean {
  if (words.length === 0) {
    return true;
  }
  const states = `${job.state} ${wordOf(job.state, job.reason) ?? ''}`;
  const text =
    `${job.id} ${job.name} ${states} ${job.partition} ${job.nodes}`.toLowerCase();
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

/** So many parts are in one state. */
export interface IStateCount {
  state: string;
  count: number;
  /** The words of Slurm for it. */
  own: string[];
}

/** "3 running, 12 waiting": how many parts are in which state. */
export function countStates(jobs: readonly AnyJob[]): IStateCount[] {
  const counts = new Map<string, IStateCount>();
  for (const job of jobs) {
    const tasks = 'array_tasks' in job ? countTasks(job.array_tasks) : 1;
    const state = wordOf(job.state, job.reason) ?? job.state;
    const known = counts.get(state) ?? { state, count: 0, own: [] };
    const own = known.own.includes(job.state)
      ? known.own
      : [...known.own, job.state];
    counts.set(state, { state, count: known.count + tasks, own });
  }
  return [...counts.values()];
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
