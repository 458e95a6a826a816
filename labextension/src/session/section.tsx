import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IMemory, IMemoryKill, ISession, ISessionJob } from '../data/api';
import { lossText, moreMemory } from '../memory/kills';
import type { IHpcClient, ILocalPort } from '../tokens';
import { Bar } from '../ui/bar';
import { type Fact, Facts } from '../ui/facts';
import { Age, FeedView } from '../ui/feedview';
import { formatBytes, formatSpan, formatTime } from '../ui/format';
import { useTick } from '../ui/hooks';
import { Problem } from '../ui/problem';

interface ISessionProps {
  client: IHpcClient;
  /** Knows the session's name on the user's computer. */
  port: ILocalPort | null;
  trans: TranslationBundle;
}

/** The job that this server runs in: what it got, how long it lasts, its memory. */
export function SessionSection(props: ISessionProps): JSX.Element {
  const { client, port, trans } = props;
  return (
    <FeedView feed={client.session} trans={trans}>
      {session => (
        <>
          {session.job && <TimeLeft job={session.job} {...props} />}
          {session.memory && <Memory memory={session.memory} trans={trans} />}
          <LastKill
            kills={session.memory_kills}
            name={port?.name ?? ''}
            trans={trans}
          />
          <Place session={session} trans={trans} />
          {session.memory && (
            <Age feed={client.session} dated={session.memory} trans={trans} />
          )}
        </>
      )}
    </FeedView>
  );
}

function TimeLeft(props: ISessionProps & { job: ISessionJob }): JSX.Element {
  const { client, trans, job } = props;
  useTick(1000);
  const label = trans.__('Time left');
  if (job.ends === null) {
    return <Bar label={label} text={trans.__('no limit known')} share={null} />;
  }
  const left = Math.max(0, job.ends - client.now());
  const total = job.started === null ? null : job.ends - job.started;
  return (
    <Bar
      label={label}
      text={formatSpan(left, trans)}
      share={total ? 1 - left / total : null}
      warn={left < 600}
    />
  );
}

interface IMemoryProps {
  memory: IMemory;
  trans: TranslationBundle;
}

function Memory({ memory, trans }: IMemoryProps): JSX.Element {
  const used = formatBytes(memory.used);
  return (
    <div title={`${memory.scope} (${memory.source})`}>
      <Bar
        label={trans.__('Memory')}
        text={
          memory.limit === null
            ? used
            : trans.__('%1 of %2', used, formatBytes(memory.limit))
        }
        share={memory.limit ? memory.used / memory.limit : null}
      />
    </div>
  );
}

interface ILastKillProps {
  kills: readonly IMemoryKill[];
  name: string;
  trans: TranslationBundle;
}

/** The last thing that was ended because the memory was full. */
function LastKill({ kills, name, trans }: ILastKillProps): JSX.Element | null {
  const kill = kills.at(-1);
  return kill ? (
    <Problem
      problem={{
        message: trans.__('Out of memory at %1', formatTime(kill.at)),
        hint: `${lossText(kill, trans)} ${moreMemory(kill, name, trans)}`
      }}
    />
  ) : null;
}

interface IPlaceProps {
  session: ISession;
  trans: TranslationBundle;
}

/** Where the session runs in one line, and everything else that stays as it is behind it. */
function Place({ session, trans }: IPlaceProps): JSX.Element {
  const { cluster, job } = session;
  const name = cluster.title ?? cluster.name;
  const rows: Fact[] = [
    [trans.__('Host'), session.host],
    [
      trans.__('Cluster'),
      cluster.docs ? (
        <a href={cluster.docs} target="_blank" rel="noopener noreferrer">
          {name ?? trans.__('documentation')}
        </a>
      ) : (
        name
      )
    ],
    [trans.__('Support'), cluster.support],
    [trans.__('User'), session.user]
  ];
  if (job) {
    rows.push(
      [trans.__('Job'), job.name ? `${job.id} (${job.name})` : job.id],
      [trans.__('Ends'), job.ends && formatTime(job.ends)],
      [trans.__('Nodes'), job.nodes.join(', ')],
      [trans.__('CPUs'), job.cpus],
      [
        trans.__('Memory'),
        job.memory_mb && formatBytes(job.memory_mb * 1024 * 1024)
      ],
      [trans.__('GPUs'), gpusOf(job)],
      [trans.__('Partition'), job.partition],
      [trans.__('Account'), job.account],
      [trans.__('QOS'), job.qos]
    );
  }
  return (
    <details className="jp-Hpc-more">
      <summary>{placeOf(session, trans)}</summary>
      <Facts rows={rows} />
    </details>
  );
}

/** The node, or how many there are, and the GPUs: "gpu01 · 2 × a100". */
function placeOf({ host, job }: ISession, trans: TranslationBundle): string {
  const nodes = job?.nodes ?? [];
  const where =
    nodes.length > 1
      ? trans._n('%1 node', '%1 nodes', nodes.length)
      : (nodes[0] ?? host);
  return [where, job && gpusOf(job)].filter(Boolean).join(' · ');
}

function gpusOf(job: ISessionJob): string | null {
  if (job.gpus === null) {
    return null;
  }
  return job.gpu_type ? `${job.gpus} × ${job.gpu_type}` : String(job.gpus);
}
