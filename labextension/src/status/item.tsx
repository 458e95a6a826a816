import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IGpus } from '../data/api';
import { stepReached, timeLeft } from '../session/deadline';
import type { IHpcClient, ILocalPort } from '../tokens';
import { formatPercent, formatSpan } from '../ui/format';
import { useFeed, useGlance, useSignal, useTick } from '../ui/hooks';

/** Beside a hidden panel, the load in the status bar is at most so old. */
const GPU_GLANCE_MS = 10_000;

export interface IStatusSettings {
  showTime: boolean;
  showGpus: boolean;
}

interface IStatusProps {
  client: IHpcClient;
  /** Knows the session's name, and how it is while the server is away. */
  port: ILocalPort | null;
  settings: IStatusSettings;
  /** Minutes before the end at which text and colour change. */
  warnAt: number[];
  trans: TranslationBundle;
  onClick: () => void;
}

/** Time left and GPU load in the status bar; a click opens the panel. */
export function StatusItem(props: IStatusProps): JSX.Element | null {
  const { client, port, settings, warnAt, trans, onClick } = props;
  const { value } = useFeed(client.session);
  useSignal(port?.changed ?? null);
  useTick(1000);
  if (port?.phase && port.phase !== 'open') {
    return <Away port={port} trans={trans} />;
  }
  if (!value) {
    return null;
  }
  const left = timeLeft(client);
  const step = settings.showTime ? stepReached(left, warnAt) : null;
  const isLast = step === Math.min(...warnAt);
  const urgency =
    step === null ? '' : isLast ? ' jp-mod-urgent' : ' jp-mod-warn';
  const where = (port?.name || value.cluster.name) ?? value.host;
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

interface IAwayProps {
  port: ILocalPort;
  trans: TranslationBundle;
}

/** A quiet line while the server is away, with what can be done about it at once. */
function Away({ port, trans }: IAwayProps): JSX.Element {
  const { name, phase, status } = port;
  const offers = phase === 'cut' && status ? status.offers : [];
  return (
    <span className="jp-Hpc-status" title={status?.text}>
      <span role="status">{awayText(port, trans)}</span>
      {phase === 'cut' && status && (
        <span>{formatSpan(secondsSince(status.since), trans)}</span>
      )}
      {offers.map(offer => (
        <button
          key={offer.action}
          aria-label={trans.__('%1 (%2)', offer.label, name)}
          onClick={() => void port.act(offer).catch(() => undefined)}
        >
          {offer.label}
        </button>
      ))}
    </span>
  );
}

/** By this computer's clock, as the local port counts. */
function secondsSince(epoch: number): number {
  return Date.now() / 1000 - epoch;
}

function awayText(
  { name, phase, status }: ILocalPort,
  trans: TranslationBundle
): string {
  switch (phase) {
    case 'cut':
      return status?.needsPerson
        ? trans.__('%1: interrupted, needs you', name)
        : trans.__('%1: interrupted, reconnecting', name);
    case 'starting':
      return trans.__('%1: starting', name);
    case 'ended':
      return trans.__('%1: ended', name);
    default:
      return trans.__('%1: not connected', name);
  }
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
  const { value, error } = useGlance(client.gpus, GPU_GLANCE_MS);
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
