import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IGpus } from '../data/api';
import { stepReached, timeLeft } from '../session/deadline';
import type { IHpcClient } from '../tokens';
import { formatPercent, formatSpan } from '../ui/format';
import { useFeed, useTick } from '../ui/hooks';

export interface IStatusSettings {
  showTime: boolean;
  showGpus: boolean;
}

interface IStatusProps {
  client: IHpcClient;
  settings: IStatusSettings;
  /** Minutes before the end at which text and colour change. */
  warnAt: number[];
  trans: TranslationBundle;
  onClick: () => void;
}

/** Time left and GPU load in the status bar; a click opens the panel. */
export function StatusItem(props: IStatusProps): JSX.Element | null {
  const { client, settings, warnAt, trans, onClick } = props;
  const { value } = useFeed(client.session);
  useTick(1000);
  if (!value) {
    return null;
  }
  const left = timeLeft(client);
  const step = settings.showTime ? stepReached(left, warnAt) : null;
  const isLast = step === Math.min(...warnAt);
  const urgency =
    step === null ? '' : isLast ? ' jp-mod-urgent' : ' jp-mod-warn';
  const where = value.cluster.name ?? value.host;
  const showsGpus = settings.showGpus && value.features.gpus;
  return (
    <button
      className={`jp-Hpc-status${urgency}`}
      onClick={onClick}
      title={trans.__('Show the HPC panel')}
    >
      {settings.showTime && left !== null ? (
        <span>{timeText(where, left, step, trans)}</span>
      ) : (
        <span>{where}</span>
      )}
      {showsGpus && <GpuLoad client={client} trans={trans} />}
    </button>
  );
}

function timeText(
  where: string,
  left: number,
  step: number | null,
  trans: TranslationBundle
): string {
  const span = formatSpan(left, trans);
  return step === null
    ? trans.__('%1: %2 left', where, span)
    : trans.__('%1 ends in %2', where, span);
}

interface IGpuLoadProps {
  client: IHpcClient;
  trans: TranslationBundle;
}

/** The mean load of the GPUs; nothing where there is none. */
function GpuLoad({ client, trans }: IGpuLoadProps): JSX.Element | null {
  const { value, error } = useFeed(client.gpus);
  if (!value || error || value.gpus.length === 0) {
    return null;
  }
  const load = meanLoad(value);
  const text =
    load === null
      ? trans.__('GPU memory %1', formatPercent(memoryShare(value)))
      : trans.__('GPU %1', formatPercent(load));
  return (
    <span>{value.simulated ? trans.__('%1 (simulated)', text) : text}</span>
  );
}

/** What can be told of parts of a GPU (MIG), whose load no driver measures. */
function memoryShare({ gpus }: IGpus): number | null {
  const sum = (values: (number | null)[]): number =>
    values.reduce<number>((total, value) => total + (value ?? 0), 0);
  const total = sum(gpus.map(gpu => gpu.memory_total));
  return total ? (100 * sum(gpus.map(gpu => gpu.memory_used))) / total : null;
}

function meanLoad(value: IGpus): number | null {
  const loads = value.gpus.map(gpu => gpu.load).filter(load => load !== null);
  return loads.length === 0
    ? null
    : loads.reduce((sum, load) => sum + load, 0) / loads.length;
}
