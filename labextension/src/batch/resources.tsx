import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IPartition } from '../data/api';
import { formatSpan } from '../ui/format';
import type { RequestKey } from './choices';
import { Field, Group } from './fields';
import type { BatchModel } from './model';
import { problemOf } from './problems';

interface IResourcesProps {
  model: BatchModel;
  trans: TranslationBundle;
}

const NUMERIC: RequestKey[] = ['nodes', 'tasks', 'tasks_per_node', 'gpus'];
/** What a person writes to leave a number to the cluster. */
const CLUSTER = 'cluster';
const COMMON: RequestKey[] = ['time', 'gpus', 'gpu_type', 'cpus', 'memory'];
const SELDOM: RequestKey[] = [
  'account',
  'qos',
  'nodes',
  'tasks_per_node',
  'tasks',
  'constraint'
];

/** What Slurm is asked for, with the cluster's own choices and limits. */
export function Resources({ model, trans }: IResourcesProps): JSX.Element {
  const { choices, preview, partitions } = model;
  const { request, preset, extra } = choices;
  const defaults = preview?.request;
  const chosen = partitionOf(model);
  const words: Record<RequestKey, string> = {
    partition: trans.__('Partition'),
    account: trans.__('Account'),
    qos: trans.__('QOS'),
    constraint: trans.__('Constraint'),
    time: trans.__('Time limit'),
    nodes: trans.__('Nodes'),
    tasks: trans.__('Tasks'),
    tasks_per_node: trans.__('Tasks per node'),
    cpus: trans.__('CPUs per task'),
    memory: trans.__('Memory per node'),
    gpus: trans.__('GPUs'),
    gpu_type: trans.__('GPU type')
  };
  const suggested: Partial<Record<RequestKey, string[]>> = {
    account: preview?.choices.accounts,
    qos: preview?.choices.qos,
    cpus: [CLUSTER],
    memory: [CLUSTER],
    gpu_type: chosen?.gpus.map(gpu => gpu.type).filter(type => type)
  };
  const change = (key: RequestKey, value: string): void =>
    model.change({ request: { ...request, [key]: value } });
  const field = (key: RequestKey): JSX.Element => (
    <Field
      key={key}
      label={words[key]}
      value={request[key]}
      numeric={NUMERIC.includes(key)}
      placeholder={request[key] ? '' : shown(defaults?.[key])}
      suggestions={suggested[key]}
      note={
        (key === 'time' || key === 'memory') && model.isMeasured(key)
          ? trans.__('measured, with 30 % to spare')
          : undefined
      }
      problem={problemOf(model, key, trans)}
      onChange={value => change(key, value)}
    />
  );
  return (
    <>
      <Group title={trans.__('Resources')}>
        {preview && preview.choices.presets.length > 0 && (
          <Field
            label={trans.__('Preset')}
            wide
            value={preset}
            options={[
              { value: '', label: trans.__('None') },
              ...preview.choices.presets.map(name => ({
                value: name,
                label: name
              }))
            ]}
            onChange={value => model.change({ preset: value })}
          />
        )}
        <Field
          label={words.partition}
          wide
          value={request.partition}
          options={partitionOptions(model, trans)}
          problem={problemOf(model, 'partition', trans)}
          note={chosen && limitsOf(chosen, trans)}
          onChange={value => change('partition', value)}
        />
        {COMMON.map(field)}
      </Group>
      <Group
        title={trans.__('More resources')}
        folded={
          !extra &&
          SELDOM.every(key => !request[key] && !problemOf(model, key, trans))
        }
      >
        {SELDOM.map(field)}
        <Field
          label={trans.__('More options of sbatch')}
          wide
          value={extra}
          rows={2}
          placeholder={trans.__('such as %1', '--mail-type=END')}
          onChange={value => model.change({ extra: value })}
        />
      </Group>
    </>
  );

  function partitionOptions(
    { preview: now }: BatchModel,
    t: TranslationBundle
  ): { value: string; label: string }[] {
    const usual =
      (!request.partition && shown(now?.request['partition'])) ||
      partitions.find(partition => partition.default)?.name;
    const names = partitions.map(partition => partition.name);
    if (request.partition && !names.includes(request.partition)) {
      names.push(request.partition);
    }
    return [
      {
        value: '',
        label: usual
          ? t.__('Default (%1)', usual)
          : t.__('Default of the cluster')
      },
      ...names.map(name => ({ value: name, label: name }))
    ];
  }
}

function partitionOf(model: BatchModel): IPartition | undefined {
  const { choices, preview, partitions } = model;
  const asked = shown(preview?.request['partition']);
  const name = choices.request.partition || asked;
  return partitions.find(each => (name ? each.name === name : each.default));
}

function limitsOf(partition: IPartition, trans: TranslationBundle): string {
  const { max_time, gpus, idle_nodes, node_count } = partition;
  const parts = [
    max_time !== null && trans.__('up to %1', formatSpan(max_time, trans)),
    ...gpus.map(({ type, count }) => `${count} × ${type || trans.__('GPU')}`),
    idle_nodes !== null &&
      trans.__('%1 of %2 nodes wholly free', idle_nodes, node_count)
  ];
  return parts.filter(Boolean).join(', ');
}

function shown(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number'
    ? String(value)
    : '';
}
