import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IJobOverview, IJobView, JobAction } from '../data/api';
import type { IFeed } from '../data/feed';
import { confirmAndAct } from '../jobs/actions';
import type { IHpcClient } from '../tokens';
import { Age } from '../ui/feedview';
import { formatSpan } from '../ui/format';
import { nameOf, StateBadge, type StateWord, wordOf } from '../ui/state';
import { ShareReport } from './report';

interface IHeaderProps {
  client: IHpcClient;
  id: string;
  feed: IFeed<IJobView>;
  view: IJobView | null;
  overview: IJobOverview | null;
  trans: TranslationBundle;
}

/** Which job this is, how it is, how long it has, and what can be done to it. */
export function Header(props: IHeaderProps): JSX.Element {
  const { client, id, feed, view, overview, trans } = props;
  const mayAct = client.session.value?.features.job_actions ?? true;
  const name = view?.job.name ?? '';
  const act = (action: JobAction): void => {
    const target = { target: id, name };
    void confirmAndAct(client, action, [target], trans).then(() =>
      feed.refresh()
    );
  };
  return (
    <header className="jp-Hpc-toolbar">
      <h2>
        {name || trans.__('Job %1', id)}{' '}
        <span className="jp-Hpc-quiet">{id}</span>
      </h2>
      <span role="status">
        <State {...{ view, overview, trans }} />
      </span>
      {view && <TimeLeft {...{ client, view, trans }} />}
      {view?.cost && (
        <span className="jp-Hpc-quiet">{trans.__('cost %1', view.cost)}</span>
      )}
      {view && <Age feed={feed} dated={view} trans={trans} />}
      <ShareReport {...{ client, id, trans }} />
      {mayAct && view && !view.finished && (
        <button className="jp-Hpc-choice" onClick={() => act('cancel')}>
          {trans.__('Cancel')}
        </button>
      )}
      {mayAct && view && (
        <button className="jp-Hpc-choice" onClick={() => act('requeue')}>
          {trans.__('Requeue')}
        </button>
      )}
    </header>
  );
}

type IStateProps = Pick<IHeaderProps, 'view' | 'overview' | 'trans'>;

/** The state of the job; of a sweep, how many of its runs are how. */
function State({ view, overview, trans }: IStateProps): JSX.Element | null {
  const runs = overview?.runs ?? [];
  if (runs.length > 1) {
    const counts = new Map<StateWord, number>();
    for (const { state } of runs) {
      const word = wordOf(state) ?? 'waiting';
      counts.set(word, (counts.get(word) ?? 0) + 1);
    }
    return (
      <>
        {[...counts].map(([word, count]) => (
          <React.Fragment key={word}>
            {count} <StateBadge state={word} trans={trans} />{' '}
          </React.Fragment>
        ))}
      </>
    );
  }
  if (!view) {
    return runs.length ? (
      <StateBadge state={runs[0].state} trans={trans} />
    ) : null;
  }
  const { job } = view;
  if (job.phase === 'running' && overview?.ended) {
    // Slurm takes its time to tidy up after a run that is over.
    return (
      <span className="jp-Hpc-stateword jp-mod-running">
        {trans.__('ending: its run is %1', endOf(overview, trans))}
      </span>
    );
  }
  const reason = typeof job.reason === 'string' ? job.reason : '';
  return <StateBadge state={job.state} reason={reason} trans={trans} />;
}

function endOf({ runs }: IJobOverview, trans: TranslationBundle): string {
  const word = wordOf(runs[0].state);
  return word ? nameOf(word, trans) : runs[0].state;
}

/** How long it has run and may run on. */
function TimeLeft(props: {
  client: IHpcClient;
  view: IJobView;
  trans: TranslationBundle;
}): JSX.Element | null {
  const { client, view, trans } = props;
  const { started, ended, ends, phase } = view.job;
  const now = client.now();
  if (view.finished && started !== null && typeof ended === 'number') {
    return (
      <span>{trans.__('ran %1', formatSpan(ended - started, trans))}</span>
    );
  }
  if (phase !== 'running' || started === null) {
    return null;
  }
  const ran = trans.__('%1 so far', formatSpan(now - started, trans));
  return (
    <span>
      {typeof ends === 'number'
        ? trans.__('%1, at most %2 left', ran, formatSpan(ends - now, trans))
        : ran}
    </span>
  );
}
