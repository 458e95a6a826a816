import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IJobOverview, IJobView } from '../data/api';
import { type IFeed, PolledFeed } from '../data/feed';
import type { IHpcClient } from '../tokens';
import { FeedView } from '../ui/feedview';
import { useFeed } from '../ui/hooks';
import { Scrolled } from '../ui/scrolled';
import { type ITab, Tabs } from '../ui/tabs';
import { DetailsTab } from './details';
import { FilesTab, type IBrowser } from './files';
import { GpuTab } from './gpu';
import { Header } from './header';
import { LogTab } from './log';
import { OverviewTab } from './overview';

/** The server reads only what is new, and asks Slurm nothing for it. */
const OVERVIEW_MS = 5_000;

interface IJobViewProps {
  client: IHpcClient;
  id: string;
  feed: IFeed<IJobView>;
  browser: IBrowser;
  /** Open the view of another job, such as a run of this sweep. */
  open: (id: string) => void;
  trans: TranslationBundle;
}

/** One job in the main area: its overview, log, details, GPUs, script and files. */
export function JobView(props: IJobViewProps): JSX.Element {
  const { client, id, feed, trans } = props;
  const [run, choose] = React.useState<string | null>(null);
  const { value: view } = useFeed(feed);
  // Watched so that what ends meanwhile is known at once.
  useFeed(client.jobs);
  const isOver = view?.finished ?? false;
  const overviews = useOverview(client, id, run, isOver);
  const overview = useFeed(overviews).value;
  const mayBeOver = overview?.ended ?? false;
  React.useEffect(() => {
    if (mayBeOver && !isOver) {
      void feed.refresh(true);
    }
  }, [feed, mayBeOver, isOver]);

  const first: ITab = {
    id: 'overview',
    title: trans.__('Overview'),
    content: (
      <OverviewTab {...props} feed={overviews} {...{ view, run, choose }} />
    )
  };
  if (!view && overview?.is_run) {
    // Slurm may have forgotten it; its run is there.
    return (
      <>
        <Header {...props} {...{ view, overview }} />
        <FeedView feed={feed} trans={trans}>
          {() => null}
        </FeedView>
        <Tabs label={trans.__('Job %1', id)} tabs={[first]} />
      </>
    );
  }
  return (
    <FeedView feed={feed} trans={trans}>
      {known => (
        <>
          <Header {...props} {...{ view: known, overview }} />
          <Tabs
            label={trans.__('Job %1', id)}
            tabs={[first, ...tabsOf(props, known)]}
          />
        </>
      )}
    </FeedView>
  );
}

function tabsOf(props: IJobViewProps, view: IJobView): ITab[] {
  const { client, id, browser, trans } = props;
  return [
    {
      id: 'log',
      title: trans.__('Log'),
      content: <LogTab client={client} id={id} trans={trans} />
    },
    {
      id: 'gpu',
      title: trans.__('GPU'),
      content: <GpuTab client={client} view={view} trans={trans} />
    },
    {
      id: 'details',
      title: trans.__('Details'),
      content: <DetailsTab view={view} trans={trans} />
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
  ];
}

/** The overview of a job or of one run of it; asked for until it is over. */
function useOverview(
  client: IHpcClient,
  id: string,
  run: string | null,
  isOver: boolean
): IFeed<IJobOverview> {
  const followed = React.useMemo(
    () => follow(client, id, run),
    [client, id, run]
  );
  React.useEffect(() => () => followed.feed.dispose(), [followed]);
  React.useEffect(() => {
    if (isOver) {
      followed.end();
    }
  }, [followed, isOver]);
  return followed.feed;
}

function follow(
  client: IHpcClient,
  id: string,
  run: string | null
): { feed: PolledFeed<IJobOverview>; end: () => void } {
  let isOver = false;
  const feed = new PolledFeed<IJobOverview>(
    `overview-${id}-${run ?? ''}`,
    () => client.jobOverview(id, run),
    OVERVIEW_MS,
    overview => overview.ended || isOver
  );
  const end = (): void => {
    isOver = true;
    // What the job wrote at its end came after the last look.
    if (feed.value) {
      void feed.refresh(true);
    }
  };
  return { feed, end };
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
    <Scrolled className="jp-Hpc-script" label={trans.__('Script')}>
      {view.script}
    </Scrolled>
  );
}
