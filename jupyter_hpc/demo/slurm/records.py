"""The records of `scontrol show`: lines of KEY=VALUE entries in Slurm's order."""

from __future__ import annotations

from jupyter_hpc.demo.slurm import facts
from jupyter_hpc.demo.slurm.admission import dependency_text
from jupyter_hpc.demo.slurm.controller import Controller
from jupyter_hpc.demo.slurm.inventory import Inventory, Node, Partition
from jupyter_hpc.demo.slurm.jobs import PENDING, Job, Share
from jupyter_hpc.demo.slurm.steps import output_path
from jupyter_hpc.demo.slurm.units import (
    write_hostlist,
    write_limit,
    write_memory,
    write_moment,
    write_span,
)
from jupyter_hpc.demo.slurm.version import (
    VERSIONS,
    names_arguments,
    names_both_tres,
    names_shared_errors,
)

Record = list[list[str]]


def job_record(
    job: Job, group: list[Job], controller: Controller, form: str | None, *, details: bool = False
) -> Record:
    """One job; `group` is the waiting rest of an array that it stands for.

    `details` adds a line for each node.
    """
    inventory = controller.inventory
    request = job.request

    def moment(value: float, unknown: str = "Unknown") -> str:
        return write_moment(value, form, unknown)

    head = [f"JobId={job.id}"]
    if job.array is not None:
        tasks = str(job.array.task) if job.has_own_id else facts.waiting_tasks(group)
        tasks = tasks.partition("%")[0]
        head += [f"ArrayJobId={job.array.job_id}", f"ArrayTaskId={tasks}"]
        if job.array.limit:
            head.append(f"ArrayTaskThrottle={job.array.limit}")
    user = f"{inventory.user}({inventory.uid})"
    nodes = write_hostlist(job.node_names) or "(null)"
    code, number = job.script_exit or job.exit
    span = write_span(facts.run_time(job), full=True)
    record = [
        [*head, f"JobName={request.name}"],
        [f"UserId={user}", f"GroupId={inventory.user}({inventory.gid})", "MCS_label=N/A"],
        [
            f"Priority={controller.priority(job)}",
            f"Nice={request.nice}",
            f"Account={request.account}",
            f"QOS={request.qos}",
        ],
        [
            f"JobState={job.shown_state}",
            f"Reason={job.reason}",
            f"Dependency={dependency_text(job, list(controller.jobs))}",
        ],
        [
            f"Requeue={int(request.requeue)}",
            f"Restarts={job.restarts}",
            f"BatchFlag={int(job.script is not None)}",
            "Reboot=0",
            f"ExitCode={code}:{number}",
        ],
        [
            f"RunTime={span}",
            f"TimeLimit={write_limit(request.time_limit, full=True)}",
            "TimeMin=N/A",
        ],
        [f"SubmitTime={moment(job.submit)}", f"EligibleTime={moment(job.eligible or job.submit)}"],
        [f"AccrueTime={moment(job.submit if job.planned or job.script else 0.0)}"],
        [
            f"StartTime={moment(facts.shown_start(job))}",
            f"EndTime={moment(facts.shown_end(job))}",
            "Deadline=N/A",
        ],
        [
            "SuspendTime=None",
            "SecsPreSuspend=0",
            f"LastSchedEval={moment(job.start or job.submit)}",
            "Scheduler=Main",
        ],
        [f"Partition={request.partition}", f"AllocNode:Sid={job.host}:{job.client_pid}"],
        [
            f"ReqNodeList={write_hostlist(request.nodelist) or '(null)'}",
            f"ExcNodeList={write_hostlist(request.exclude) or '(null)'}",
        ],
        [f"NodeList={'' if job.state == PENDING else nodes}"],
    ]
    if job.state == PENDING and job.planned:
        expected = inventory.partitions[request.partition].nodes[: request.nodes]
        record[-1].append(f"SchedNodeList={write_hostlist(expected)}")
    if job.shares:
        record.append([f"BatchHost={job.shares[0].node}"])
    record += [
        [
            f"NumNodes={len(job.shares) or request.nodes}",
            f"NumCPUs={job.cpus}",
            f"NumTasks={request.tasks}",
            f"CPUs/Task={request.cpus_per_task}",
            "ReqB:S:C:T=0:0:*:*",
        ],
        *_tres(job, inventory),
        [
            "Socks/Node=*",
            f"NtasksPerN:B:S:C={request.tasks_per_node or 0}:0:*:*",
            "CoreSpec=*",
        ],
        *([_on_node(share, inventory) for share in job.shares] if details else []),
        [
            f"MinCPUsNode={request.cpus_per_task * (request.tasks_per_node or 1)}",
            _memory_entry(job, inventory),
            "MinTmpDiskNode=0",
        ],
        [f"Features={request.constraint or '(null)'}", "DelayBoot=00:00:00"],
        [
            f"OverSubscribe={'NO' if request.exclusive else 'OK'}",
            "Contiguous=0",
            "Licenses=(null)",
            "Network=(null)",
        ],
        [f"Command={_command(job, inventory) or '(null)'}"],
        [f"WorkDir={request.work_dir}"],
    ]
    if request.comment:
        record.append([f"Comment={request.comment} "])
    if job.script is not None:
        out = output_path(job, "stdout")
        error = output_path(job, "stderr")
        if error == out and not names_shared_errors(inventory.slurm):
            error = ""
        record += [[f"StdErr={error}"], [f"StdIn={request.stdin}"], [f"StdOut={out}"]]
    if not names_both_tres(inventory.slurm):
        record.append(["Power="])
    for what in ("job", "node", "task"):
        asked = facts.tres_per(job, what)
        if asked != "N/A":
            record.append([f"TresPer{what.capitalize()}={asked}"])
    return [*record, [""]]


def _tres(job: Job, inventory: Inventory) -> list[list[str]]:
    """What was asked for and given; one entry for both up to 22.05."""
    shown = facts.tres(job, inventory)
    if not names_both_tres(inventory.slurm):
        return [[f"TRES={shown}"]]
    return [[f"ReqTRES={shown}"], [f"AllocTRES={shown if job.shares else '(null)'}"]]


def _command(job: Job, inventory: Inventory) -> str:
    """The script, with its arguments where the release names them."""
    command, arguments = job.request.command, job.request.arguments
    if names_arguments(inventory.slurm) or not arguments:
        return command
    return command.removesuffix(" " + " ".join(arguments))


def _on_node(share: Share, inventory: Inventory) -> list[str]:
    gres = ""
    if share.gpus:
        kind, listed = inventory.nodes[share.node].gpu_type, ",".join(map(str, share.gpus))
        gres = f"gpu:{kind}:{len(share.gpus)}(IDX:{listed})"
    ids = f"CPU_IDs=0-{share.cpus - 1}" if share.cpus > 1 else "CPU_IDs=0"
    return [f"  Nodes={share.node}", ids, f"Mem={share.memory_mb}", f"GRES={gres}"]


def _memory_entry(job: Job, inventory: Inventory) -> str:
    per = "Node" if job.request.memory_mb is not None else "CPU"
    return f"MinMemory{per}={facts.minimum_memory(job, inventory)}"


def partition_record(partition: Partition, inventory: Inventory) -> Record:
    nodes = [inventory.nodes[name] for name in partition.nodes]
    cpus = sum(node.cpus for node in nodes)
    memory = sum(node.memory_mb for node in nodes)
    gpus = sum(node.gpus for node in nodes)
    tres = f"cpu={cpus},mem={memory}M,node={len(nodes)},billing={cpus}"
    if gpus:
        kind = next(node.gpu_type for node in nodes if node.gpus)
        tres += f",gres/gpu={gpus},gres/gpu:{kind}={gpus}"
    return [
        [f"PartitionName={partition.name}"],
        ["AllowGroups=ALL", "AllowAccounts=ALL", "AllowQos=ALL"],
        ["AllocNodes=ALL", f"Default={'YES' if partition.default else 'NO'}", "QoS=N/A"],
        [
            f"DefaultTime={write_span(partition.default_time, full=True)}",
            "DisableRootJobs=NO",
            "ExclusiveUser=NO",
            "GraceTime=0",
            "Hidden=NO",
        ],
        [
            "MaxNodes=UNLIMITED",
            f"MaxTime={write_span(partition.max_time, full=True)}",
            "MinNodes=0",
            "LLN=NO",
            "MaxCPUsPerNode=UNLIMITED",
        ],
        [f"Nodes={write_hostlist(partition.nodes)}"],
        [
            "PriorityJobFactor=1",
            "PriorityTier=1",
            "RootOnly=NO",
            "ReqResv=NO",
            "OverSubscribe=NO",
        ],
        ["OverTimeLimit=NONE", "PreemptMode=OFF"],
        [
            "State=UP",
            f"TotalCPUs={cpus}",
            f"TotalNodes={len(nodes)}",
            "SelectTypeParameters=NONE",
        ],
        ["JobDefaults=(null)"],
        ["DefMemPerNode=UNLIMITED", "MaxMemPerNode=UNLIMITED"],
        [f"TRES={tres}"],
    ]


def node_record(node: Node, controller: Controller, form: str | None) -> Record:
    cpus, memory, gpus = facts.node_use(node, list(controller.jobs))
    names = [p.name for p in controller.inventory.partitions.values() if node.name in p.nodes]
    features = ",".join(node.features) or "(null)"
    started = write_moment(controller.started, form)
    version = VERSIONS[controller.inventory.slurm]
    configured = f"cpu={node.cpus},mem={node.memory_mb}M,billing={node.cpus}"
    used = f"cpu={cpus},mem={write_memory(memory)}" if cpus else ""
    if node.gpus:
        configured += f",gres/gpu={node.gpus},gres/gpu:{node.gpu_type}={node.gpus}"
    if gpus:
        used += f",gres/gpu={len(gpus)},gres/gpu:{node.gpu_type}={len(gpus)}"
    return [
        [f"NodeName={node.name}", "Arch=x86_64", f"CoresPerSocket={node.cpus} "],
        [f"CPUAlloc={cpus}", f"CPUEfctv={node.cpus}", f"CPUTot={node.cpus}", "CPULoad=0.00"],
        [f"AvailableFeatures={features}"],
        [f"ActiveFeatures={features}"],
        [f"Gres={node.gres}"],
        [f"NodeAddr={node.name}", f"NodeHostName={node.name}", f"Version={version}"],
        ["OS=demo "],
        [
            f"RealMemory={node.memory_mb}",
            f"AllocMem={memory}",
            f"FreeMem={node.memory_mb - memory}",
            "Sockets=1",
            "Boards=1",
        ],
        [
            f"State={facts.node_state(node, list(controller.jobs)).upper()}",
            "ThreadsPerCore=1",
            "TmpDisk=0",
            "Weight=1",
            "Owner=N/A",
            "MCS_label=N/A",
        ],
        [f"Partitions={','.join(names)} "],
        [f"BootTime={started}", f"SlurmdStartTime={started}"],
        [f"CfgTRES={configured}"],
        [f"AllocTRES={used}"],
    ]
