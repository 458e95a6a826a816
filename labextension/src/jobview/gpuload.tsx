import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IGpuHistory, IJobView } from '../data/api';
import type { IHpcClient } from '../tokens';
import { Chart, summary } from '../ui/chart';
import { formatPercent } from '../ui/format';

interface IGpuLoadProps {
  client: IHpcClient;
  view: IJobView;
  trans: TranslationBundle;
}

/** The load of all GPUs together over the run; what is wrong with it is told in its own tab. */
export function GpuLoad(props: IGpuLoadProps): JSX.Element | null {
  const { client, view, trans } = props;
  const [history, setHistory] = React.useState<IGpuHistory | null>(null);
  const { id } = view.job;
  const recorded = view.files.recording;
  const moment = view.finished ? 0 : view.taken_at;
  React.useEffect(() => {
    if (!recorded) {
      return;
    }
    let isWanted = true;
    client
      .jobGpus(id)
      .then(found => isWanted && setHistory(found))
      .catch(() => undefined);
    return () => {
      isWanted = false;
    };
  }, [client, id, recorded, moment]);
  if (!history || history.times.length === 0) {
    return null;
  }
  const values = meanLoad(history);
  const title = trans._n(
    'GPU load',
    'GPU load, the mean of %1 GPUs',
    history.gpus.length
  );
  return (
    <section className="jp-Hpc-curve" aria-label={title}>
      <h4>{title}</h4>
      <Chart
        {...{ label: title, times: history.times, values, maximum: 100 }}
        from={history.times[0]}
        to={history.times.at(-1) ?? history.times[0]}
        format={formatPercent}
        withTimes
        trans={trans}
      />
      <p>{summary(values, formatPercent, trans)}</p>
    </section>
  );
}

/** At each moment the mean of those GPUs that have a value. */
export function meanLoad({ times, gpus }: IGpuHistory): (number | null)[] {
  return times.map((_, index) => {
    const known = gpus.flatMap(gpu => gpu.load[index] ?? []);
    return known.length
      ? known.reduce((sum, load) => sum + load, 0) / known.length
      : null;
  });
}
