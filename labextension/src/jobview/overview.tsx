import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { ICurve, IJobOverview, IJobView } from '../data/api';
import type { IFeed } from '../data/feed';
import type { IHpcClient } from '../tokens';
import { CurveChart, type ILine } from '../ui/curves';
import { FeedView } from '../ui/feedview';
import { Chooser, differing, labelOf, RunTable, taskOf } from './chooser';
import { Figures } from './figures';
import type { IBrowser } from './files';
import { GpuLoad } from './gpuload';
import { LastLines } from './lastlines';
import { Progress } from './progress';

/** So many curves are looked at; the others unfold. */
const FIRST_CURVES = 2;

interface IOverviewProps {
  client: IHpcClient;
  id: string;
  /** Null where Slurm does not know the job any more. */
  view: IJobView | null;
  feed: IFeed<IJobOverview>;
  run: string | null;
  choose: (run: string | null) => void;
  browser: IBrowser;
  open: (id: string) => void;
  trans: TranslationBundle;
}

/** What a person looks at first: how far it is, its curves, figures and last lines. */
export function OverviewTab(props: IOverviewProps): JSX.Element {
  const { client, feed, view, run, choose, open, trans } = props;
  return (
    <div className="jp-Hpc-overview">
      <FeedView feed={feed} trans={trans}>
        {overview => (
          <>
            {overview.is_sweep && taskOf(props.id) === '' && (
              <Chooser
                runs={overview.runs}
                chosen={run}
                {...{ choose, trans }}
              />
            )}
            {overview.progress && (
              <Progress
                progress={overview.progress}
                now={client.now()}
                trans={trans}
              />
            )}
            <div className="jp-Hpc-charts">
              <Curves
                curves={overview.curves.slice(0, FIRST_CURVES)}
                {...{ overview, trans }}
              />
              {view && <GpuLoad {...{ client, view, trans }} />}
            </div>
            <MoreCurves {...{ overview, trans }} />
            {overview.is_sweep && run === null && taskOf(props.id) === '' && (
              <RunTable {...{ overview, choose, open, trans }} />
            )}
            <Figures overview={overview} {...props} />
            <LastLines log={overview.log} trans={trans} />
            {isEmpty(overview) && (
              <p className="jp-Hpc-quiet">
                {overview.is_run
                  ? trans.__(
                      'There is nothing to look at yet: curves come with numbers that the run prints, such as “epoch 3 loss 0.12”, thumbnails with its figures.'
                    )
                  : trans.__(
                      'There is nothing to look at: the job has written no log that can be read here.'
                    )}
              </p>
            )}
          </>
        )}
      </FeedView>
    </div>
  );
}

interface ICurvesProps {
  overview: IJobOverview;
  trans: TranslationBundle;
}

/** Some numbers of a run, each over all runs that are looked at. */
function Curves(
  props: ICurvesProps & { curves: readonly ICurve[] }
): JSX.Element {
  const { curves, overview, trans } = props;
  return (
    <>
      {curves.map(curve => (
        <CurveChart
          key={`${curve.name} ${curve.x}`}
          title={curve.name}
          x={curve.x}
          lines={linesOf(curve, overview, trans)}
          better={curve.better}
          trans={trans}
        />
      ))}
    </>
  );
}

/** The numbers that are not looked at first. */
function MoreCurves(props: ICurvesProps): JSX.Element | null {
  const { overview, trans } = props;
  const curves = overview.curves.slice(FIRST_CURVES);
  if (curves.length === 0) {
    return null;
  }
  return (
    <details>
      <summary>
        {trans._n('One more number', '%1 more numbers', curves.length)}
      </summary>
      <div className="jp-Hpc-charts">
        <Curves {...props} curves={curves} />
      </div>
    </details>
  );
}

/** A line of a sweep is called by the values of its run; a single one needs no name. */
function linesOf(
  curve: ICurve,
  { runs, is_sweep }: IJobOverview,
  trans: TranslationBundle
): ILine[] {
  const names = differing(runs);
  return curve.lines.map(({ run, points }) => {
    const found = runs.find(({ id }) => id === run);
    const label = found && is_sweep ? labelOf(found, names, trans) : '';
    return { id: run, label, points };
  });
}

function isEmpty({ curves, figures, log }: IJobOverview): boolean {
  return curves.length === 0 && figures.length === 0 && !log.trim();
}
