import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IAccountUse, ICluster, IPartitionUse } from '../data/api';
import type { IHpcClient } from '../tokens';
import { Bar } from '../ui/bar';
import { Age, FeedView } from '../ui/feedview';
import { formatSpan } from '../ui/format';

/** So many partitions are shown at once; the others unfold. */
const SHOWN_PARTITIONS = 6;

interface IClusterProps {
  client: IHpcClient;
  trans: TranslationBundle;
}

/** What is free now, what is out of order, and what is mine. */
export function ClusterSection({ client, trans }: IClusterProps): JSX.Element {
  return (
    <FeedView feed={client.cluster} trans={trans}>
      {cluster => (
        <>
          <Overview cluster={cluster} trans={trans} />
          <Age feed={client.cluster} dated={cluster} trans={trans} />
        </>
      )}
    </FeedView>
  );
}

interface IOverviewProps {
  cluster: ICluster;
  trans: TranslationBundle;
}

/** Partitions with GPUs first, those with free ones before the others. */
export function Overview({ cluster, trans }: IOverviewProps): JSX.Element {
  const sorted = [...cluster.partitions].sort(
    (a, b) => freeGpus(b) - freeGpus(a) || b.gpus.length - a.gpus.length
  );
  const rest = sorted.slice(SHOWN_PARTITIONS);
  const { unavailable, accounts } = cluster;
  return (
    <>
      {sorted.slice(0, SHOWN_PARTITIONS).map(partition => (
        <Partition key={partition.name} partition={partition} trans={trans} />
      ))}
      {sorted.length === 0 && (
        <p className="jp-Hpc-quiet">{trans.__('Slurm shows no partition.')}</p>
      )}
      {rest.length > 0 && (
        <details>
          <summary>
            {trans._n('%1 more partition', '%1 more partitions', rest.length)}
          </summary>
          {rest.map(partition => (
            <Partition
              key={partition.name}
              partition={partition}
              trans={trans}
            />
          ))}
        </details>
      )}
      {unavailable.length > 0 && (
        <details>
          <summary>
            {trans._n(
              '%1 node out of order',
              '%1 nodes out of order',
              unavailable.reduce((sum, each) => sum + each.count, 0)
            )}
          </summary>
          <ul>
            {unavailable.map(each => (
              <li key={`${each.nodes} ${each.state} ${each.reason}`}>
                {[`${each.nodes}: ${each.state}`, each.reason]
                  .filter(Boolean)
                  .join(', ')}
              </li>
            ))}
          </ul>
        </details>
      )}
      {accounts.length > 0 && (
        <details>
          <summary>
            {trans._n('%1 account', '%1 accounts', accounts.length)}
          </summary>
          <ul>
            {accounts.map(account => (
              <li key={`${account.account} ${account.partition}`}>
                {accountText(account, trans)}
              </li>
            ))}
          </ul>
        </details>
      )}
      {cluster.problems.map(problem => (
        <p key={problem} className="jp-Hpc-quiet">
          {trans.__('Not known: %1', problem)}
        </p>
      ))}
    </>
  );
}

interface IPartitionProps {
  partition: IPartitionUse;
  trans: TranslationBundle;
}

function Partition({ partition, trans }: IPartitionProps): JSX.Element {
  const { name, gpus, cpus } = partition;
  const ofAll = (free: number, total: number): string =>
    trans.__('%1 of %2 free', free, total);
  return (
    <section className="jp-Hpc-storageArea" aria-label={name}>
      <h4>
        {name} <span className="jp-Hpc-quiet">{notes(partition, trans)}</span>
      </h4>
      {gpus.map(gpu => (
        <Bar
          key={gpu.type}
          label={gpu.type || trans.__('GPUs')}
          text={ofAll(gpu.free, gpu.total)}
          share={gpu.total ? (gpu.total - gpu.free) / gpu.total : null}
          warn={gpu.free === 0}
        />
      ))}
      <Bar
        label={trans.__('CPUs')}
        text={ofAll(cpus.idle, cpus.total)}
        share={cpus.total ? (cpus.total - cpus.idle) / cpus.total : null}
        warn={cpus.idle === 0}
      />
    </section>
  );
}

function freeGpus(partition: IPartitionUse): number {
  return partition.gpus.reduce((sum, gpu) => sum + gpu.free, 0);
}

/** State, limit and nodes in words. */
export function notes(
  partition: IPartitionUse,
  trans: TranslationBundle
): string {
  const words = Object.entries(partition.nodes).map(
    ([state, count]) => `${count} ${state}`
  );
  if (partition.max_time !== null) {
    words.unshift(
      trans.__('at most %1', formatSpan(partition.max_time, trans))
    );
  }
  if (partition.state !== 'UP') {
    words.unshift(partition.state.toLowerCase());
  }
  return words.join(' · ');
}

function accountText(account: IAccountUse, trans: TranslationBundle): string {
  const words = [account.account];
  if (account.default) {
    words.push(trans.__('default'));
  }
  if (account.fair_share !== null) {
    words.push(trans.__('fair share %1', account.fair_share.toFixed(2)));
  }
  if (account.qos.length > 0) {
    words.push(trans.__('QOS %1', account.qos.join(' ')));
  }
  return words.join(' · ');
}
