import type {
  IFinishedJob,
  IGpu,
  IGpus,
  IJobOverview,
  IJobRequest,
  IJobs,
  IJobView,
  IPartition,
  IQueuedJob,
  ISession,
  IShownRun
} from '../data/api';

/** Values for tests; each takes what matters for the test at hand. */

export function aSession(changes: Partial<ISession> = {}): ISession {
  return {
    host: 'gpu01',
    user: 'alice',
    cluster: { name: 'ulysses', title: 'Ulysses', docs: null, support: null },
    job: {
      id: '4711',
      name: 'jupyter',
      partition: 'gpu',
      account: 'physics',
      qos: 'normal',
      nodes: ['gpu01'],
      cpus: 16,
      memory_mb: 65536,
      gpus: 2,
      gpu_type: 'a100',
      started: 0,
      ends: 7200,
      time_left: 3600,
      ends_from: 'environment',
      taken_at: 3600,
      age: 0
    },
    problem: null,
    memory: null,
    memory_kills: [],
    features: {
      gpus: true,
      jobs: true,
      job_actions: true,
      logs: true,
      storage: true,
      batch: true
    },
    now: 3600,
    ...changes
  };
}

export function aGpu(changes: Partial<IGpu> = {}): IGpu {
  return {
    id: 'GPU-0',
    index: 0,
    name: 'A100',
    kind: 'gpu',
    load: 50,
    memory_used: 10 * 1024 ** 3,
    memory_total: 80 * 1024 ** 3,
    power: 300,
    power_limit: 400,
    temperature: 60,
    clock: 1410,
    clock_max: 1410,
    memory_clock: 1593,
    processes: [],
    idle_since: null,
    problem: null,
    ...changes
  };
}

export function someGpus(gpus: IGpu[], changes: Partial<IGpus> = {}): IGpus {
  return {
    source: 'nvml',
    simulated: false,
    driver: null,
    stale: false,
    problem: null,
    interval: 1,
    taken_at: 1000,
    age: 0,
    gpus,
    ...changes
  };
}

export function aJob(
  id: string,
  changes: Partial<IQueuedJob> = {}
): IQueuedJob {
  return {
    id,
    target: id,
    name: `job ${id}`,
    state: 'RUNNING',
    phase: 'running',
    reason: 'None',
    reason_text: null,
    reason_advice: null,
    partition: 'gpu',
    account: 'physics',
    qos: 'normal',
    nodes: 'gpu01',
    node_count: 1,
    cpus: 8,
    memory_mb: 1024,
    gpus: 1,
    gpu_type: 'a100',
    time_limit: 3600,
    submitted: 0,
    started: 0,
    ends: 3600,
    estimated_start: null,
    array_id: null,
    array_tasks: null,
    het_id: null,
    het_offset: null,
    over_time: false,
    ...changes
  };
}

export function aFinishedJob(
  id: string,
  changes: Partial<IFinishedJob> = {}
): IFinishedJob {
  return {
    id,
    name: `job ${id}`,
    state: 'COMPLETED',
    phase: 'ended',
    reason: 'None',
    partition: 'gpu',
    account: 'physics',
    qos: 'normal',
    nodes: 'gpu01',
    node_count: 1,
    cpus: 8,
    memory_mb: 1024,
    gpus: 1,
    gpu_type: 'a100',
    time_limit: 3600,
    submitted: 0,
    started: 0,
    state_text: 'It ended well.',
    state_advice: '',
    ended: 1000,
    elapsed: 1000,
    exit_code: 0,
    signal: 0,
    ...changes
  };
}

export function someJobs(
  jobs: IQueuedJob[],
  finished: IFinishedJob[] = [],
  changes: Partial<IJobs> = {}
): IJobs {
  return {
    version: 1,
    jobs,
    taken_at: 1000,
    age: 0,
    problem: null,
    next_poll: 60,
    finished: {
      jobs: finished,
      since: 0,
      taken_at: 1000,
      age: 0,
      problem: null
    },
    ...changes
  };
}

export function aPartition(changes: Partial<IPartition> = {}): IPartition {
  return {
    name: 'gpu',
    default: true,
    available: true,
    state: 'UP',
    max_time: 7200,
    default_time: null,
    max_nodes: null,
    min_nodes: 0,
    node_count: 4,
    cpus: 32,
    cpus_per_node: 8,
    memory_mb_per_node: 1000,
    gpus: [{ type: 'a100', count: 4 }],
    node_gpus: [{ type: 'a100', count: 1 }],
    nodes: 'gpu[01-04]',
    features: [],
    idle_nodes: 1,
    allow_accounts: null,
    deny_accounts: [],
    allow_qos: null,
    deny_qos: [],
    allow_groups: null,
    max_memory_mb_per_node: null,
    max_cpus_per_node: null,
    default_memory_mb_per_cpu: null,
    qos: '',
    ...changes
  };
}

export function aJobRequest(changes: Partial<IJobRequest> = {}): IJobRequest {
  return {
    name: '',
    partition: null,
    account: null,
    qos: null,
    constraint: null,
    time: null,
    nodes: null,
    tasks: null,
    tasks_per_node: null,
    cpus: null,
    memory: null,
    gpus: null,
    gpu_type: null,
    gpu_flag: 'gpus',
    routed: false,
    reservation: null,
    comment: null,
    extra: [],
    ...changes
  };
}

export function aShownRun(
  id: string,
  changes: Partial<IShownRun> = {}
): IShownRun {
  return {
    id,
    parameters: {},
    state: 'running',
    code: null,
    metrics: {},
    best: null,
    seconds: null,
    ...changes
  };
}

/** What is to be looked at of a run of ours that has just begun. */
export function anOverview(changes: Partial<IJobOverview> = {}): IJobOverview {
  return {
    job_id: '7',
    is_run: true,
    is_sweep: false,
    runs: [aShownRun('7')],
    decided_by: '',
    better: null,
    ended: false,
    progress: null,
    curves: [],
    figures: [],
    more_figures: 0,
    log: '',
    taken_at: 1000,
    ...changes
  };
}

export function aJobView(
  id: string,
  changes: Partial<IJobView> = {}
): IJobView {
  return {
    job: {
      ...aJob(id),
      user: 'alice',
      exit_code: null,
      signal: null,
      work_dir: '',
      comment: ''
    },
    finished: false,
    state_text: null,
    state_advice: null,
    reason: null,
    estimated_start: null,
    efficiency: null,
    advice: [],
    cost: '',
    script: null,
    files: {
      stdout: null,
      stderr: null,
      work_dir: null,
      contents_path: null,
      run_dir: null,
      run_path: null,
      recording: false,
      inputs: []
    },
    taken_at: 1000,
    age: 0,
    problem: null,
    ...changes
  };
}
