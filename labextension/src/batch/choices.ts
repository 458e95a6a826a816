import type { IBatchRequest, IResources, Mode, Python } from '../data/api';

/** The resources that have a field of their own, as Slurm's request names them. */
export const REQUEST_KEYS = [
  'partition',
  'account',
  'qos',
  'constraint',
  'time',
  'nodes',
  'tasks',
  'tasks_per_node',
  'cpus',
  'memory',
  'gpus',
  'gpu_type'
] as const;

export type RequestKey = (typeof REQUEST_KEYS)[number];

const PYTHONS: Python[] = [
  'default',
  'server',
  'conda',
  'venv',
  'build',
  'container',
  'none'
];

const UNTILS = ['', 'done', 'exit', 'all'] as const;

/** What ends a chain; an empty text: what the notebook is seen to do. */
export type Until = (typeof UNTILS)[number];

/** The content of the form; an empty text leaves the choice to the cluster. */
export interface IChoices {
  mode: Mode;
  /** Leave out cells that are not Python. */
  skipInvalid: boolean;
  /** Of a script: the words after its name. */
  arguments: string;
  /** Scripts that run after it, one in each line with its words. */
  then: string;
  /** Jobs that must have ended well before. */
  after: string;
  preset: string;
  request: Record<RequestKey, string>;
  /** Further options of sbatch, one in each line. */
  extra: string;
  parameters: Record<string, string>;
  atOnce: string;
  chain: string;
  until: Until;
  requeue: boolean;
  /** Tell of the job's end. */
  notify: boolean;
  /** A single run, too, works in a folder of its own. */
  isolate: boolean;
  /** Paths, one in each line. */
  stageIn: string;
  stageOut: string;
  python: Python;
  pythonValue: string;
  modules: string;
}

/** What is sent to the server and remembered: only what somebody has chosen. */
export type StoredChoices = Omit<IBatchRequest, 'path' | 'verify'>;

export function toRequest(choices: IChoices): StoredChoices {
  const { mode, preset, requeue, until, notify, isolate, python } = choices;
  const request: IResources = {
    ...filled(choices.request),
    ...listed({ extra: lines(choices.extra) })
  };
  const parameters = filled(choices.parameters) as Record<string, string>;
  const environment = {
    ...(python !== 'default' && { python }),
    ...(needsValue(python) && filled({ value: choices.pythonValue })),
    ...listed({ modules: choices.modules.split(/[\s,]+/) })
  };
  return {
    ...(mode !== 'script' && { mode }),
    ...(choices.skipInvalid && { skip_invalid: true }),
    ...filled({ arguments: choices.arguments }),
    ...filled({ preset }),
    ...(hasMembers(request) && { request }),
    ...(hasMembers(parameters) && { parameters }),
    ...filled({ at_once: choices.atOnce, chain: choices.chain }),
    ...(until && { until }),
    ...(requeue && { requeue }),
    ...(notify && { notify }),
    ...(isolate && { isolate }),
    ...listed({
      then: lines(choices.then),
      after: choices.after.split(/[\s,]+/),
      stage_in: lines(choices.stageIn),
      stage_out: lines(choices.stageOut)
    }),
    ...(hasMembers(environment) && { environment })
  };
}

/** More of them nobody reads through; a letter more narrows them down. */
const MAX_PROPOSED = 200;

/** A list of words that goes on with one of `names`, in place of what its last word is so far. */
export function goingOn(typed: string, names: string[]): string[] {
  const last = /[^\s,]*$/.exec(typed)?.[0] ?? '';
  const before = typed.slice(0, typed.length - last.length);
  return names
    .filter(name => name.toLowerCase().includes(last.toLowerCase()))
    .slice(0, MAX_PROPOSED)
    .map(name => before + name);
}

/** The form for what was stored; a notebook can come from anywhere, so nothing is trusted. */
export function fromStored(stored: unknown): IChoices {
  const table = asTable(stored);
  const request = asTable(table['request']);
  const environment = asTable(table['environment']);
  const python = environment['python'] as Python;
  return {
    mode: table['mode'] === 'notebook' ? 'notebook' : 'script',
    skipInvalid: table['skip_invalid'] === true,
    arguments: asText(table['arguments']),
    then: asLines(table['then']),
    after: '', // A notebook that is submitted again waits for no job of last week.
    preset: asText(table['preset']),
    request: Object.fromEntries(
      REQUEST_KEYS.map(key => [key, asText(request[key])])
    ) as Record<RequestKey, string>,
    extra: asLines(request['extra']),
    parameters: Object.fromEntries(
      Object.entries(asTable(table['parameters'])).map(([name, value]) => [
        name,
        asText(value)
      ])
    ),
    atOnce: asText(table['at_once']),
    chain: asText(table['chain']),
    until: UNTILS.find(each => each === table['until']) ?? '',
    requeue: table['requeue'] === true,
    notify: table['notify'] === true,
    isolate: table['isolate'] === true,
    stageIn: asLines(table['stage_in']),
    stageOut: asLines(table['stage_out']),
    python: PYTHONS.includes(python) ? python : 'default',
    pythonValue: asText(environment['value']),
    modules: asLines(environment['modules']).split('\n').join(' ')
  };
}

/** Whether this kind of environment has a name or path. */
export function needsValue(python: Python): boolean {
  return ['conda', 'venv', 'build', 'container'].includes(python);
}

function filled<Key extends string>(
  texts: Record<Key, string>
): { [key in Key]?: string } {
  return Object.fromEntries(
    Object.entries<string>(texts)
      .map(([name, text]) => [name, text.trim()])
      .filter(([, text]) => text)
  ) as { [key in Key]?: string };
}

function listed<Key extends string>(
  lists: Record<Key, string[]>
): { [key in Key]?: string[] } {
  return Object.fromEntries(
    Object.entries<string[]>(lists)
      .map(([name, list]) => [name, list.filter(item => item)] as const)
      .filter(([, list]) => list.length)
  ) as { [key in Key]?: string[] };
}

function lines(text: string): string[] {
  return text
    .split('\n')
    .map(line => line.trim())
    .filter(line => line);
}

function hasMembers(table: object): boolean {
  return Object.keys(table).length > 0;
}

function asTable(value: unknown): Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {};
}

function asText(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number'
    ? String(value)
    : '';
}

function asLines(value: unknown): string {
  return Array.isArray(value) ? value.map(asText).join('\n') : '';
}
