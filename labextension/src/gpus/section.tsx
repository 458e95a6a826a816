import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type {
  IGpu,
  IGpuColumns,
  IGpuProcess,
  IGpus,
  INodeGpus
} from '../data/api';
import type { IHpcClient } from '../tokens';
import { Chart } from '../ui/chart';
import { Age, FeedView } from '../ui/feedview';
import { formatBytes, formatPercent, formatSpan } from '../ui/format';
import { useFeed } from '../ui/hooks';
import { Problem } from '../ui/problem';
import { GpuTimeline } from './history';

/** More GPUs than this are drawn lower, so that they fit together. */
const MANY = 2;

interface IGpusProps {
  client: IHpcClient;
  trans: TranslationBundle;
  /** How many minutes the charts show. */
  minutes: number;
  openNotebook: (path: string) => void;
}

/** The GPUs of this job: load, memory, power, and who holds the memory. */
export function GpusSection(props: IGpusProps): JSX.Element {
  const { client, minutes } = props;
  const timeline = useTimeline(client, minutes * 60);
  return (
    <>
      <FirstNode {...props} timeline={timeline} />
      <FurtherNodes {...props} />
    </>
  );
}

/** The GPUs of the node on which this Jupyter runs. */
function FirstNode(props: IGpusProps & { timeline: GpuTimeline }): JSX.Element {
  const { client, trans, timeline } = props;
  const session = useFeed(client.session).value;
  const isOneOfSeveral = (session?.job?.nodes.length ?? 0) > 1;
  return (
    <FeedView feed={client.gpus} trans={trans}>
      {value => (
        <>
          {session && isOneOfSeveral && (
            <h3>{trans.__('%1, where this Jupyter runs', session.host)}</h3>
          )}
          {value.stale && (
            <p className="jp-Hpc-quiet" role="status">
              {trans.__(
                'These values are %1 old; the GPU driver gives no new ones.',
                formatSpan(value.age, trans)
              )}
            </p>
          )}
          <div
            className={`jp-Hpc-gpus${value.gpus.length > MANY ? ' jp-mod-many' : ''}`}
          >
            {value.gpus.map((gpu, index) => (
              <Gpu
                key={gpu.id}
                gpu={gpu}
                columns={timeline.gpus[index]}
                value={value}
                {...props}
              />
            ))}
          </div>
          {value.gpus.length > 0 && (
            <Age feed={client.gpus} dated={value} trans={trans} />
          )}
        </>
      )}
    </FeedView>
  );
}

/** The GPUs of the other nodes of a job on several; their samplers run while this is seen. */
function FurtherNodes(props: IGpusProps): JSX.Element | null {
  const { client, trans } = props;
  const { value } = useFeed(client.session);
  return (value?.job?.nodes.length ?? 0) > 1 ? (
    <FeedView feed={client.nodes} trans={trans}>
      {({ nodes }) => (
        <>
          {nodes.map(node => (
            <FurtherNode key={node.name} node={node} {...props} />
          ))}
        </>
      )}
    </FeedView>
  ) : null;
}

const NO_TIMELINE = new GpuTimeline();

/** One of them: its GPUs, or a sentence why they cannot be seen. */
export function FurtherNode(
  props: IGpusProps & { node: INodeGpus }
): JSX.Element {
  const { node, client, trans } = props;
  const { name, gpus, problem } = node;
  return (
    <section aria-label={trans.__('GPUs of %1', name)}>
      <h3>{name}</h3>
      {problem && <Problem problem={problem} />}
      {!gpus && !problem && (
        <p className="jp-Hpc-quiet" role="status">
          {trans.__('A first look at its GPUs is under way…')}
        </p>
      )}
      {gpus?.problem && <Problem problem={gpus.problem} />}
      {gpus && (
        <>
          <div className="jp-Hpc-gpus jp-mod-many">
            {gpus.gpus.map(gpu => (
              <Gpu
                key={gpu.id}
                gpu={gpu}
                columns={undefined}
                value={gpus}
                {...props}
                timeline={NO_TIMELINE}
              />
            ))}
          </div>
          <Age feed={client.nodes} dated={gpus} trans={trans} />
        </>
      )}
    </section>
  );
}

/** The charts' data: fetched when it is first seen or after a pause, then grown. */
function useTimeline(client: IHpcClient, seconds: number): GpuTimeline {
  const timeline = React.useMemo(() => new GpuTimeline(), []);
  const loading = React.useRef(false);
  const { value } = useFeed(client.gpus);
  const [, render] = React.useReducer((count: number) => count + 1, 0);
  React.useEffect(() => {
    const isEmpty = !value?.gpus.length;
    if (isEmpty || timeline.append(value, seconds) || loading.current) {
      return;
    }
    loading.current = true;
    client
      .gpuHistory(seconds, 600)
      .then(history => {
        timeline.load(history);
        timeline.append(client.gpus.value ?? value, seconds);
      })
      .catch(() => undefined) // The feed itself says what is wrong.
      .finally(() => {
        loading.current = false;
        render();
      });
  }, [client, seconds, timeline, value]);
  return timeline;
}

interface IGpuProps extends IGpusProps {
  gpu: IGpu;
  columns: IGpuColumns | undefined;
  timeline: GpuTimeline;
  value: IGpus;
}

function Gpu(props: IGpuProps): JSX.Element {
  const { gpu, columns, timeline, value, minutes, trans } = props;
  const title = trans.__('GPU %1', gpu.index);
  const scale = {
    times: timeline.times,
    from: value.taken_at - minutes * 60,
    to: value.taken_at,
    trans
  };
  return (
    <section className="jp-Hpc-gpu" aria-label={`${title}: ${gpu.name}`}>
      <h4>
        {title} <span className="jp-Hpc-quiet">{gpu.name}</span>
        {value.simulated && (
          <span className="jp-Hpc-badge">{trans.__('simulated')}</span>
        )}
        {gpu.kind === 'mig' && (
          <span
            className="jp-Hpc-badge"
            title={trans.__(
              'A part of a GPU (Multi-Instance GPU); power and temperature are those of the whole board.'
            )}
          >
            {trans.__('MIG')}
          </span>
        )}
      </h4>
      {gpu.problem && <Problem problem={gpu.problem} />}
      <div className="jp-Hpc-gpu-quantity">
        <span>{trans.__('Load')}</span>
        <strong>{loadOf(gpu, trans)}</strong>
        {columns && isMeasured(gpu) && (
          <Chart
            label={trans.__('%1, load over %2 minutes', title, minutes)}
            values={columns.load}
            maximum={100}
            format={formatPercent}
            {...scale}
          />
        )}
      </div>
      <div className="jp-Hpc-gpu-quantity">
        <span>{trans.__('Memory')}</span>
        <strong>{memoryOf(gpu, trans)}</strong>
        {columns && (
          <Chart
            label={trans.__('%1, memory over %2 minutes', title, minutes)}
            values={columns.memory_used}
            maximum={gpu.memory_total ?? 0}
            format={formatBytes}
            withTimes
            {...scale}
          />
        )}
      </div>
      <p className="jp-Hpc-quiet">{boardOf(gpu, trans)}</p>
      {gpu.processes.length > 0 && (
        <ul className="jp-Hpc-gpu-processes">
          {gpu.processes.map(process => (
            <Process key={process.pid} process={process} {...props} />
          ))}
        </ul>
      )}
    </section>
  );
}

function Process(props: IGpusProps & { process: IGpuProcess }): JSX.Element {
  const { process, trans, openNotebook } = props;
  const { notebook, memory } = process;
  return (
    <li>
      {notebook ? (
        <button
          className="jp-Hpc-link"
          onClick={() => openNotebook(notebook.path)}
          title={trans.__('Open %1', notebook.path)}
        >
          {notebook.name}
        </button>
      ) : (
        <span>{trans.__('%1 (process %2)', process.name, process.pid)}</span>
      )}
      {memory !== null && <span>{formatBytes(memory)}</span>}
    </li>
  );
}

/** The driver of a GPU that is cut into parts does not measure their load. */
function isMeasured(gpu: IGpu): boolean {
  return gpu.load !== null || gpu.kind !== 'mig';
}

function loadOf(gpu: IGpu, trans: TranslationBundle): string {
  return isMeasured(gpu)
    ? formatPercent(gpu.load)
    : trans.__('not measured (MIG)');
}

function memoryOf(gpu: IGpu, trans: TranslationBundle): string {
  if (gpu.memory_used === null) {
    return '–';
  }
  const used = formatBytes(gpu.memory_used);
  return gpu.memory_total === null
    ? used
    : trans.__('%1 of %2', used, formatBytes(gpu.memory_total));
}

/** Power, temperature and clock in one line; what the board does not tell is left out. */
function boardOf(gpu: IGpu, trans: TranslationBundle): string {
  const known: string[] = [];
  if (gpu.power !== null) {
    known.push(
      gpu.power_limit === null
        ? trans.__('%1 W', Math.round(gpu.power))
        : trans.__(
            '%1 of %2 W',
            Math.round(gpu.power),
            Math.round(gpu.power_limit)
          )
    );
  }
  if (gpu.temperature !== null) {
    known.push(trans.__('%1 °C', Math.round(gpu.temperature)));
  }
  if (gpu.clock !== null) {
    known.push(trans.__('%1 MHz', Math.round(gpu.clock)));
  }
  return known.join(' · ');
}
