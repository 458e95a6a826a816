/** The shapes of POST convert and POST submit; see docs/developers/openapi.yaml. */
import type { IDated, IProblem } from './api';

export type Mode = 'script' | 'notebook';

export type Python =
  'default' | 'server' | 'conda' | 'venv' | 'build' | 'container' | 'none';

/** What the person chose; what is missing is left to the cluster and the defaults. */
export interface IBatchRequest {
  path: string;
  mode?: Mode;
  preset?: string;
  request?: Record<string, string | string[]>;
  parameters?: Record<string, string>;
  at_once?: string;
  chain?: string;
  requeue?: boolean;
  stage_in?: string[];
  stage_out?: string[];
  environment?: { python?: Python; value?: string; modules?: string[] };
  verify?: boolean;
}

/** A position in the notebook; cells are counted from 1, 0 is the whole notebook. */
export interface IPosition {
  cell: number;
  line: number;
}

export interface IChange extends IPosition {
  source: string;
  what: string;
  why: string;
}

export interface IRefusal extends IPosition {
  reason: string;
  hint: string;
}

export interface IParameter extends IPosition {
  name: string;
  kind: 'tagged' | 'constant' | 'question' | 'secret';
  /** As Python source. */
  default: string;
}

export interface IPrepareStep extends IPosition {
  command: string;
  kind: 'install' | 'download' | 'system';
}

/** Something that keeps the job from being submitted. */
export interface IFinding extends IProblem {
  /** The member of `request` to change; empty where it is none of them. */
  option: string;
}

export interface IVerification {
  /** null where nothing could be compared. */
  equal: boolean | null;
  message: string;
  differences: {
    cell: number;
    what: string;
    notebook: string;
    script: string;
  }[];
}

export interface IBatchPreview {
  path: string;
  notebook: string;
  ok: boolean;
  mode: Mode;
  script: string;
  sbatch: string;
  runs: number;
  changes: IChange[];
  notices: (IPosition & { message: string })[];
  refusals: IRefusal[];
  parameters: IParameter[];
  prepare: IPrepareStep[];
  problems: IFinding[];
  estimated_start: number | null;
  estimated_nodes: string;
  cost: string;
  verification: IVerification | null;
  /** What Slurm would be asked for, with the defaults filled in. */
  request: Record<string, string | number | string[] | null>;
  choices: {
    accounts: string[];
    qos: string[];
    presets: string[];
    environment: string;
  };
}

export interface ISubmittedJob {
  job_id: string;
  run_dir: string;
  messages: string[];
}

export interface IGpuCount {
  type: string;
  count: number;
}

/** The members that the dialog uses. */
export interface IPartition {
  name: string;
  default: boolean;
  available: boolean;
  max_time: number | null;
  node_count: number;
  idle_nodes: number | null;
  cpus_per_node: number | null;
  memory_mb_per_node: number | null;
  gpus: IGpuCount[];
}

export interface IPartitions extends IDated {
  partitions: IPartition[];
  problem: IProblem | null;
}
