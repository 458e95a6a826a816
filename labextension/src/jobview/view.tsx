import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IJobView, JobAction } from '../data/api';
import type { IFeed } from '../data/feed';
import { confirmAndAct } from '../jobs/actions';
import type { IHpcClient } from '../tokens';
import { Age, FeedView } from '../ui/feedview';
import { Tabs } from '../ui/tabs';
import { DetailsTab } from './details';
import { FilesTab, type IBrowser } from './files';
import { GpuTab } from './gpu';
import { LogTab } from './log';
import { ReportButton } from './report';

interface IJobViewProps {
  client: IHpcClient;
  id: string;
  feed: IFeed<IJobView>;
  browser: IBrowser;
  trans: TranslationBundle;
}

/** One job in the main area: its log, details, GPUs, script and files. */
export function JobView(props: IJobViewProps): JSX.Element {
  const { client, id, feed, browser, trans } = props;
  return (
    <FeedView feed={feed} trans={trans}>
      {view => (
        <>
          <Header view={view} {...props} />
          <Tabs
            label={trans.__('Job %1', id)}
            tabs={[
              {
                id: 'log',
                title: trans.__('Log'),
                content: <LogTab client={client} id={id} trans={trans} />
              },
              {
                id: 'details',
                title: trans.__('Details'),
                content: <DetailsTab view={view} trans={trans} />
              },
              {
                id: 'gpu',
                title: trans.__('GPU'),
                content: <GpuTab client={client} view={view} trans={trans} />
              },
              {
                id: 'script',
                title: trans.__('Script'),
                content: <Script view={view} trans={trans} />
              },
              {
                id: 'files',
                title: trans.__('Files'),
                content: <FilesTab {...{ view, browser, trans }} />
              }
            ]}
          />
        </>
      )}
    </FeedView>
  );
}

function Header(props: IJobViewProps & { view: IJobView }): JSX.Element {
  const { client, id, feed, view, trans } = props;
  const { job, finished } = view;
  const mayAct = client.session.value?.features.job_actions ?? true;
  const act = (action: JobAction): void => {
    const target = { target: id, name: job.name };
    void confirmAndAct(client, action, [target], trans).then(() =>
      feed.refresh()
    );
  };
  return (
    <header className="jp-Hpc-toolbar">
      <h2>
        {job.name || trans.__('Job %1', id)}{' '}
        <span className="jp-Hpc-quiet">{id}</span>
      </h2>
      <span role="status">{job.state}</span>
      <Age feed={feed} dated={view} trans={trans} />
      <ReportButton {...{ client, id, trans }} />
      {mayAct && !finished && (
        <button className="jp-Hpc-choice" onClick={() => act('cancel')}>
          {trans.__('Cancel')}
        </button>
      )}
      {mayAct && (
        <button className="jp-Hpc-choice" onClick={() => act('requeue')}>
          {trans.__('Requeue')}
        </button>
      )}
    </header>
  );
}

interface IScriptProps {
  view: IJobView;
  trans: TranslationBundle;
}

function Script({ view, trans }: IScriptProps): JSX.Element {
  return view.script === null ? (
    <p className="jp-Hpc-quiet">
      {trans.__('The script of this job is not there any more.')}
    </p>
  ) : (
    <pre className="jp-Hpc-script">{view.script}</pre>
  );
}
