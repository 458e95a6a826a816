import { caretDownIcon, caretRightIcon } from '@jupyterlab/ui-components';
import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IFinishedJob, IJobBase, IQueuedJob } from '../data/api';
import { formatBytes, formatSpan, formatTime } from '../ui/format';
import { StateBadge } from '../ui/state';
import { countStates, type Row } from './rows';

interface INameProps {
  row: Row;
  trans: TranslationBundle;
  open: (id: string) => void;
  toggle: (id: string) => void;
}

/** The name, and below it what helps to tell jobs apart. */
export function NameCell(props: INameProps): JSX.Element {
  const { row, trans, open, toggle } = props;
  if (row.kind === 'group') {
    const Icon = row.open ? caretDownIcon : caretRightIcon;
    return (
      <td className="jp-Hpc-job-name">
        <button
          className="jp-Hpc-link"
          aria-expanded={row.open}
          onClick={() => toggle(row.id)}
        >
          <Icon.react tag="span" />
          {row.name}
        </button>
        <small>
          <button
            className="jp-Hpc-link"
            onClick={() => open(row.id)}
            title={trans.__('Open job %1', row.id)}
          >
            {trans.__('%1, %2 parts', row.id, partsOf(row.jobs))}
          </button>
        </small>
      </td>
    );
  }
  const { job } = row;
  return (
    <td className={`jp-Hpc-job-name${row.inGroup ? ' jp-mod-part' : ''}`}>
      <button
        className="jp-Hpc-link"
        onClick={() => open(job.id)}
        title={trans.__('Open job %1', job.id)}
      >
        {job.name || job.id}
      </button>
      <small>
        {job.id} · {job.partition}
      </small>
    </td>
  );
}

function partsOf(jobs: Parameters<typeof countStates>[0]): number {
  return countStates(jobs).reduce((sum, { count }) => sum + count, 0);
}

interface IStateProps extends ITimeProps {
  /** The time stands here, because there is no column for it. */
  withTime: boolean;
}

/** The state, and below it why it waits or how it ended, or its time. */
export function StateCell(props: IStateProps): JSX.Element {
  const { row, withTime, trans } = props;
  if (row.kind === 'group') {
    return (
      <td>
        {countStates(row.jobs).map(({ state, count, own }) => (
          <div key={state}>
            {count} <StateBadge own={own.join(', ')} {...{ state, trans }} />
          </div>
        ))}
        {withTime && (
          <small>
            <Time {...props} />
          </small>
        )}
      </td>
    );
  }
  const { job } = row;
  const [why, advice] =
    row.kind === 'queued'
      ? [row.job.reason_text, row.job.reason_advice]
      : [row.job.state_text, row.job.state_advice];
  return (
    <td title={[why, advice].filter(Boolean).join(' ')}>
      <StateBadge state={job.state} reason={job.reason} trans={trans} />
      <small>{withTime ? <Time {...props} /> : why}</small>
    </td>
  );
}

interface ITimeProps {
  row: Row;
  now: number;
  trans: TranslationBundle;
}

export function TimeCell(props: ITimeProps): JSX.Element {
  return (
    <td>
      <Time {...props} />
    </td>
  );
}

/** What a person wants to know first: time left, start, or end. */
function Time({ row, now, trans }: ITimeProps): JSX.Element | null {
  switch (row.kind) {
    case 'group':
      return <>{groupTime(row.jobs)}</>;
    case 'queued':
      return <>{queuedTime(row.job, now, trans)}</>;
    case 'finished':
      return <>{finishedTime(row.job, trans)}</>;
  }
}

/** When the last part ended; nothing for parts that are in the queue. */
function groupTime(jobs: readonly (IQueuedJob | IFinishedJob)[]): string {
  const ends = jobs.flatMap(job =>
    'ended' in job && job.ended !== null ? [job.ended] : []
  );
  return ends.length === 0
    ? ''
    : formatTime(ends.reduce((last, ended) => Math.max(last, ended)));
}

function queuedTime(
  job: IQueuedJob,
  now: number,
  trans: TranslationBundle
): React.ReactNode {
  if (job.over_time) {
    return trans.__('over its limit');
  }
  if (job.ends !== null && job.phase !== 'pending') {
    return trans.__('%1 left', formatSpan(job.ends - now, trans));
  }
  if (job.estimated_start !== null) {
    return (
      <span title={trans.__('An estimate of Slurm; it often changes.')}>
        {trans.__('about %1', formatTime(job.estimated_start))}
      </span>
    );
  }
  return job.submitted === null
    ? ''
    : trans.__('since %1', formatTime(job.submitted));
}

function finishedTime(
  job: IFinishedJob,
  trans: TranslationBundle
): React.ReactNode {
  const known = [
    job.ended !== null && formatTime(job.ended),
    job.elapsed !== null && formatSpan(job.elapsed, trans)
  ];
  return (
    <span title={trans.__('When it ended, and how long it ran')}>
      {known.filter(Boolean).join(' · ')}
    </span>
  );
}

/** What the job asked for, for tables that are wide enough. */
export function ResourcesCell(props: {
  row: Row;
  trans: TranslationBundle;
}): JSX.Element {
  const { row, trans } = props;
  return (
    <td>{row.kind === 'group' ? '' : resources(row.job, trans).join(' · ')}</td>
  );
}

export function resources(job: IJobBase, trans: TranslationBundle): string[] {
  const known = [
    trans._n('%1 node', '%1 nodes', job.node_count),
    trans._n('%1 CPU', '%1 CPUs', job.cpus)
  ];
  if (job.gpus) {
    const count = trans._n('%1 GPU', '%1 GPUs', job.gpus);
    known.push(job.gpu_type ? `${count} ${job.gpu_type}` : count);
  }
  if (job.memory_mb !== null) {
    known.push(formatBytes(job.memory_mb * 1024 * 1024));
  }
  return known;
}
