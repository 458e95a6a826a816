"""The variables that jobs and steps find, as Slurm 22.05 sets them."""

from __future__ import annotations

from collections.abc import Mapping

from jupyter_hpc.demo.slurm.inventory import Inventory
from jupyter_hpc.demo.slurm.jobs import Job, Share, Step
from jupyter_hpc.demo.slurm.units import write_hostlist
from jupyter_hpc.demo.slurm.version import names_both_tres

#: Names of the variables that limit a program to some GPUs, one per vendor.
_GPU_LISTS = ("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES")


def tasks_per_node(tasks: int, nodes: int) -> str:
    """ "2", "2(x3)" or "2,1": how Slurm writes the number of tasks on each node."""
    counts = [tasks // nodes + (index < tasks % nodes) for index in range(nodes)]
    groups: list[tuple[int, int]] = []
    for count in counts:
        if groups and groups[-1][0] == count:
            groups[-1] = (count, groups[-1][1] + 1)
        else:
            groups.append((count, 1))
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in groups)


def allocation_variables(job: Job, inventory: Inventory) -> dict[str, str]:
    """What salloc gives its command and sbatch its script, apart from the node's own."""
    request = job.request
    nodes = write_hostlist(job.node_names)
    cpus = [share.cpus for share in job.shares]
    same = len(set(cpus)) == 1 and len(cpus) > 1
    variables = {
        "SLURM_CLUSTER_NAME": inventory.name,
        "SLURM_JOBID": str(job.id),
        "SLURM_JOB_ACCOUNT": request.account,
        "SLURM_JOB_CPUS_PER_NODE": f"{cpus[0]}(x{len(cpus)})" if same else ",".join(map(str, cpus)),
        "SLURM_JOB_ID": str(job.id),
        "SLURM_JOB_NAME": request.name,
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_JOB_NUM_NODES": str(len(job.shares)),
        "SLURM_JOB_PARTITION": request.partition,
        "SLURM_JOB_QOS": request.qos,
        "SLURM_NNODES": str(len(job.shares)),
        "SLURM_NODELIST": nodes,
        "SLURM_NODE_ALIASES": "(null)",
        "SLURM_SUBMIT_DIR": job.submit_dir,
        "SLURM_SUBMIT_HOST": job.host,
        "SLURM_TASKS_PER_NODE": tasks_per_node(request.tasks, len(job.shares)),
    }
    if request.tasks_given or request.tasks_per_node:
        variables["SLURM_NTASKS"] = variables["SLURM_NPROCS"] = str(request.tasks)
    if request.tasks_per_node:
        variables["SLURM_NTASKS_PER_NODE"] = str(request.tasks_per_node)
    if request.cpus_per_task_given:
        variables["SLURM_CPUS_PER_TASK"] = str(request.cpus_per_task)
    if request.memory_mb is not None:
        variables["SLURM_MEM_PER_NODE"] = str(request.memory_mb)
    elif request.memory_per_cpu_mb is not None or job.script is not None:
        per_cpu = request.memory_per_cpu_mb or inventory.memory_per_cpu_mb
        variables["SLURM_MEM_PER_CPU"] = str(per_cpu)
    option, value = request.gpu_words
    if option and option != "gres":
        variables["SLURM_" + option.replace("-", "_").upper()] = value
    if job.array is not None:
        variables.update(
            SLURM_ARRAY_JOB_ID=str(job.array.job_id),
            SLURM_ARRAY_TASK_ID=str(job.array.task),
            SLURM_ARRAY_TASK_COUNT=str(job.array.count),
            SLURM_ARRAY_TASK_MIN=str(job.array.lowest),
            SLURM_ARRAY_TASK_MAX=str(job.array.highest),
            SLURM_ARRAY_TASK_STEP=str(job.array.step),
        )
    if names_both_tres(inventory.slurm) and job.start:
        variables["SLURM_JOB_START_TIME"] = str(int(job.start))
        variables["SLURM_JOB_END_TIME"] = str(int(job.end_expected))
    if job.restarts:
        variables["SLURM_RESTART_COUNT"] = str(job.restarts)
    return variables


def node_variables(job: Job, share: Share, index: int, inventory: Inventory) -> dict[str, str]:
    """What differs from node to node, in steps and batch scripts alike."""
    variables = {
        "SLURMD_NODENAME": share.node,
        "SLURM_CPUS_ON_NODE": str(share.cpus),
        "SLURM_JOB_GID": str(inventory.gid),
        "SLURM_JOB_UID": str(inventory.uid),
        "SLURM_JOB_USER": inventory.user,
        "SLURM_NODEID": str(index),
        "SLURM_PRIO_PROCESS": "0",
        "SLURM_TOPOLOGY_ADDR": share.node,
        "SLURM_TOPOLOGY_ADDR_PATTERN": "node",
        "HOSTNAME": share.node,
    }
    if share.gpus:
        listed = ",".join(map(str, share.gpus))
        variables.update(dict.fromkeys(_GPU_LISTS, listed))
        variables["SLURM_GPUS_ON_NODE"] = str(len(share.gpus))
    return variables


def batch_variables(job: Job, inventory: Inventory) -> dict[str, str]:
    """Everything that Slurm adds for a batch script."""
    share = job.shares[0]
    variables = {
        **allocation_variables(job, inventory),
        **node_variables(job, share, 0, inventory),
        "ENVIRONMENT": "BATCH",
        "SLURM_GTIDS": "0",
        "SLURM_LOCALID": "0",
        "SLURM_PROCID": "0",
    }
    if share.gpus:
        variables["SLURM_JOB_GPUS"] = ",".join(map(str, share.gpus))
    return variables


def step_variables(
    step: Step, task: int, local: int, share: Share, index: int, inventory: Inventory, name: str
) -> dict[str, str]:
    """Everything that srun adds for one task of a step."""
    job = step.job
    layout = tasks_per_node(step.tasks, len(step.nodes))
    variables = {
        **node_variables(job, share, index, inventory),
        "SLURM_DISTRIBUTION": "cyclic",
        "SLURM_GTIDS": str(task),
        "SLURM_JOBID": str(job.id),
        "SLURM_JOB_ID": str(job.id),
        "SLURM_JOB_NAME": name,
        "SLURM_JOB_NODELIST": write_hostlist(job.node_names),
        "SLURM_JOB_PARTITION": job.request.partition,
        "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1",
        "SLURM_LOCALID": str(local),
        "SLURM_NNODES": str(len(step.nodes)),
        "SLURM_NODELIST": write_hostlist(job.node_names),
        "SLURM_NPROCS": str(step.tasks),
        "SLURM_NTASKS": str(step.tasks),
        "SLURM_PROCID": str(task),
        "SLURM_SRUN_COMM_HOST": "127.0.0.1",
        "SLURM_STEPID": step.id,
        "SLURM_STEP_ID": step.id,
        "SLURM_STEP_NODELIST": write_hostlist(step.nodes),
        "SLURM_STEP_NUM_NODES": str(len(step.nodes)),
        "SLURM_STEP_NUM_TASKS": str(step.tasks),
        "SLURM_STEP_TASKS_PER_NODE": layout,
        "SLURM_TASKS_PER_NODE": layout,
    }
    if share.gpus:
        variables["SLURM_STEP_GPUS"] = ",".join(map(str, share.gpus))
    return variables


def exported(environment: Mapping[str, str], option: str | None) -> dict[str, str]:
    """What --export lets through: ALL (the default), NONE, or names and NAME=value."""
    if option is None or option == "ALL":
        return dict(environment)
    chosen: dict[str, str] = {}
    for word in option.split(","):
        name, equals, value = word.partition("=")
        if word == "ALL":
            chosen.update(environment)
        elif equals:
            chosen[name] = value
        elif word != "NONE" and word in environment:
            chosen[word] = environment[word]
    for name, value in environment.items():
        if name.startswith("SLURM_"):
            chosen.setdefault(name, value)
    return chosen
