import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IGpuColumns, IGpuHistory, IJobView } from '../data/api';
import type { ApiError } from '../data/request';
import type { IHpcClient } from '../tokens';
import { Chart, summary } from '../ui/chart';
import { formatBytes, formatPercent } from '../ui/format';
import { Problem } from '../ui/problem';

interface IGpuTabProps {
  client: IHpcClient;
  view: IJobView;
  trans: TranslationBundle;
}

/** The GPUs over the whole run, from the recording that the job itself wrote. */
export function GpuTab({ client, view, trans }: IGpuTabProps): JSX.Element {
  const [history, setHistory] = React.useState<IGpuHistory | null>(null);
  const [error, setError] = React.useState<ApiError | null>(null);
  const { id } = view.job;
  const recorded = view.files.recording;
  // A running job has recorded more at every look; a finished one does not change.
  const moment = view.finished ? 0 : view.taken_at;
  React.useEffect(() => {
    if (recorded) {
      client
        .jobGpus(id)
        .then(recording => {
          setHistory(recording);
          setError(null);
        })
        .catch(setError);
    }
  }, [client, id, recorded, moment]);
  if (!recorded) {
    return (
      <p className="jp-Hpc-quiet">
        {trans.__(
          'This job has no GPU recording. Jobs submitted from a notebook with “Run as Batch Job” record their GPUs.'
        )}
      </p>
    );
  }
  return (
    <>
      {error && <Problem problem={error} />}
      {history?.gpus.map(gpu => (
        <Recorded key={gpu.id} {...{ gpu, history, trans }} />
      ))}
    </>
  );
}

interface IRecordedProps {
  gpu: IGpuColumns;
  history: IGpuHistory;
  trans: TranslationBundle;
}

function Recorded({ gpu, history, trans }: IRecordedProps): JSX.Element {
  const watts = (value: number): string => trans.__('%1 W', Math.round(value));
  const title = trans.__('GPU %1', gpu.index);
  const highest = gpu.power.reduce<number>(
    (high, value) => Math.max(high, value ?? 0),
    0
  );
  const charts = [
    {
      label: trans.__('Load'),
      values: gpu.load,
      maximum: 100,
      format: formatPercent
    },
    {
      label: trans.__('Memory'),
      values: gpu.memory_used,
      maximum: gpu.memory_total ?? 0,
      format: formatBytes
    },
    {
      label: trans.__('Power'),
      values: gpu.power,
      maximum: highest,
      format: watts
    }
  ];
  return (
    <section className="jp-Hpc-gpu" aria-label={`${title}: ${gpu.name}`}>
      <h4>
        {title} <span className="jp-Hpc-quiet">{gpu.name}</span>
      </h4>
      {charts.map((chart, index) => (
        <div key={chart.label} className="jp-Hpc-gpu-quantity">
          <span>{chart.label}</span>
          <strong>{summary(chart.values, chart.format, trans)}</strong>
          <Chart
            {...chart}
            times={history.times}
            from={history.times[0] ?? 0}
            to={history.times.at(-1) ?? 1}
            withTimes={index === charts.length - 1}
            trans={trans}
          />
        </div>
      ))}
    </section>
  );
}
