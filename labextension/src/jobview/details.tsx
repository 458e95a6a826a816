import { copyIcon } from '@jupyterlab/ui-components';
import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IJobView } from '../data/api';
import { resources } from '../jobs/cells';
import { Bar } from '../ui/bar';
import { type Fact, Facts } from '../ui/facts';
import { formatSpan, formatTime } from '../ui/format';
import { StateBadge } from '../ui/state';

interface IDetailsProps {
  view: IJobView;
  trans: TranslationBundle;
}

/** What Slurm knows, why the job waits or how it ended, and what it used. */
export function DetailsTab({ view, trans }: IDetailsProps): JSX.Element {
  const { job, reason } = view;
  return (
    <>
      <p>
        <StateBadge state={job.state} reason={reason?.code} trans={trans} />{' '}
        {view.state_text} {view.state_advice}
      </p>
      {reason && (
        <p>
          <strong>{reason.text}</strong> {reason.advice}{' '}
          <span className="jp-Hpc-quiet">({reason.code})</span>
        </p>
      )}
      {view.estimated_start !== null && (
        <p>
          {trans.__(
            'Slurm estimates that it starts %1; this often changes.',
            formatTime(view.estimated_start)
          )}
        </p>
      )}
      {view.efficiency && <Efficiency {...{ view, trans }} />}
      <Facts rows={factsOf(view, trans)} />
      <Everything view={view} trans={trans} />
    </>
  );
}

function Efficiency({ view, trans }: IDetailsProps): JSX.Element {
  const names = {
    cpu: trans.__('CPU'),
    memory: trans.__('Memory'),
    gpu: trans.__('GPU'),
    time: trans.__('Time')
  };
  return (
    <section aria-label={trans.__('Efficiency')}>
      <h4>
        {view.finished
          ? trans.__('Used against requested')
          : trans.__('Used so far against requested')}
      </h4>
      {(['cpu', 'memory', 'gpu', 'time'] as const).map(key => {
        const ratio = view.efficiency?.[key];
        return (
          ratio && (
            <Bar
              key={key}
              label={names[key]}
              text={trans.__(
                '%1 %: %2 of %3',
                Math.round(ratio.percent),
                ratio.used,
                ratio.requested
              )}
              share={ratio.percent / 100}
              warn={false}
            />
          )
        );
      })}
      {view.advice.map(({ message, line }) => (
        <div className="jp-Hpc-advice" key={message}>
          <p>{message}</p>
          {line && <CopyLine line={line} trans={trans} />}
        </div>
      ))}
    </section>
  );
}

function CopyLine(props: {
  line: string;
  trans: TranslationBundle;
}): JSX.Element {
  const { line, trans } = props;
  return (
    <p>
      <code>{line}</code>
      <button
        className="jp-Hpc-iconbutton"
        aria-label={trans.__('Copy this line')}
        title={trans.__('Copy this line')}
        onClick={() => void navigator.clipboard.writeText(line)}
      >
        <copyIcon.react tag="span" />
      </button>
    </p>
  );
}

function factsOf(view: IJobView, trans: TranslationBundle): Fact[] {
  const { job } = view;
  const time = (value: unknown): string | null =>
    typeof value === 'number' ? formatTime(value) : null;
  const code = job.exit_code;
  return [
    [trans.__('Name'), job.name],
    [trans.__('Partition'), job.partition],
    [trans.__('Account'), job.account],
    [trans.__('QOS'), job.qos],
    [trans.__('Nodes'), job.nodes],
    [trans.__('Resources'), resources(job, trans).join(' · ')],
    [
      trans.__('Time limit'),
      job.time_limit === null ? null : formatSpan(job.time_limit, trans)
    ],
    [trans.__('Submitted'), time(job.submitted)],
    [trans.__('Started'), time(job.started)],
    [trans.__('Ends'), view.finished ? null : time(job.ends)],
    [trans.__('Ended'), time(job.ended)],
    [trans.__('Cost'), view.cost],
    [trans.__('Exit code'), typeof code === 'number' ? code : null],
    [
      trans.__('Signal'),
      typeof job.signal === 'number' ? job.signal || null : null
    ],
    [trans.__('Working directory'), view.files.work_dir]
  ];
}

/** Every field as Slurm wrote it, for those who know what they look for. */
function Everything({ view, trans }: IDetailsProps): JSX.Element | null {
  const { fields } = view.job;
  if (!fields || Object.keys(fields).length === 0) {
    return null;
  }
  return (
    <details>
      <summary>{trans.__('Everything that Slurm says')}</summary>
      <Facts rows={Object.entries(fields)} />
    </details>
  );
}
