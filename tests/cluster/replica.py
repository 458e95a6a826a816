"""A test cluster in the shape of one site, as far as Slurm's and SSH's configuration express it.

    with Replica(Shape(gpus=("h100",) * 4, account=True), Switches(...)) as cluster: ...

Everything is written after the hosts exist and before their daemons start, so that the rest of
the cluster knows nothing of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.cluster import Cluster
from tests.cluster.layout import HOSTS, LOGIN, NODES, USERS
from tests.cluster.switches import Switches
from tests.slurm.commands import PROGRAMS


@dataclass(frozen=True)
class Shape:
    """What a site is like; the defaults are those of no site."""

    #: The type of each GPU of a node; "" for GPUs without one. () for none that Slurm knows.
    gpus: tuple[str, ...] = ("a100",) * 4
    #: Partitions with their options, the default one first.
    partitions: tuple[str, ...] = ("gpu MaxTime=1-00:00:00",)
    #: Further lines of slurm.conf, and generic resources besides GPUs ("tmpfs:1000G").
    lines: tuple[str, ...] = ()
    gres: tuple[str, ...] = ()
    #: Refused at submission: no account, a partition that is named, GPUs without a type or in
    #: another number, no GPU in these partitions, another QOS in a partition.
    account: bool = False
    no_partition: bool = False
    typed: bool = False
    gpu_counts: tuple[int, ...] = ()
    gpu_partitions: tuple[str, ...] = ()
    qos: tuple[tuple[str, str], ...] = ()
    #: Folders at the root, one of each user in them: on all hosts alike, and of each host alone.
    folders: tuple[str, ...] = ()
    node_folders: tuple[str, ...] = ()
    #: The variable that names the job's own folder on the node's disk, made by the prolog.
    job_folder: str = ""
    #: Variables of login shells; $USER is the user.
    variables: tuple[tuple[str, str], ...] = ()
    #: `module` is a function of login shells; `module load python/3.11` brings a Python and says
    #: so in $SITE_PYTHON, and `module -t avail` lists it.
    modules: bool = False
    #: There is a PATH without Slurm's commands, as that of a container: CONTAINER.
    container: bool = False
    #: Commands of the site, with what they print.
    commands: tuple[tuple[str, str], ...] = ()
    #: Compute nodes can only read /home.
    read_only_home: bool = False


#: Programs of the site, and what a container has of those of the machine.
_COMMANDS = "/etc/site"
CONTAINER = f"{_COMMANDS}/container"

#: A folder that all hosts see, for what a site gives its users.
SHARED = "/home/.site"


class Replica(Cluster):
    """A cluster of that shape."""

    def __init__(self, shape: Shape, switches: Switches) -> None:
        super().__init__(switches)
        self.shape = shape

    def __enter__(self) -> Replica:
        self.up()
        return self

    def up(self, *, detached: bool = False) -> None:
        """Start everything, and make what only a running Slurm can be told."""
        super().up(detached=detached)
        for _, qos in self.shape.qos:
            self._accounting("add", "qos", qos)
            self._accounting("modify", "user", "alice", "set", f"qos+={qos}")

    def _accounting(self, *words: str) -> None:
        self.run(LOGIN, ["sacctmgr", "--immediate", *words], check=True)

    def shared(self, name: str) -> Path:
        """A new folder that users see as SHARED/NAME."""
        place = self.folders.root / SHARED.strip("/") / name
        place.mkdir(parents=True)
        return place

    def _shape_hosts(self) -> None:
        etc = self.folders.root / "etc"
        slurm = etc / "slurm"
        _change(slurm / "slurm.conf", slurm_conf(self.shape, (slurm / "slurm.conf").read_text()))
        _change(slurm / "gres.conf", gres_conf(self.shape))
        _change(slurm / "job_submit.lua", job_submit_lua(self.shape))
        for name, text in prolog(self.shape).items():
            _change(slurm / name, text, mode=0o755)
        commands = etc / "site"
        (commands / "python").mkdir(parents=True)
        _change(commands / "python/python3", '#!/bin/sh\nexec /usr/bin/python3 "$@"\n', mode=0o755)
        for name, text in self.shape.commands:
            _change(commands / name, f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n", mode=0o755)
        if self.shape.container:
            (commands / "container").mkdir()
            for program in self.switches.root.path("/usr/bin").iterdir():
                if program.name not in PROGRAMS:
                    (commands / "container" / program.name).symlink_to(f"/usr/bin/{program.name}")
        _change(etc / "profile.d/site.sh", profile(self.shape))
        for host in HOSTS:
            words = [f"{folder}={self._make(host, folder)}" for folder in self._roots()]
            locked = "ro" if self.shape.read_only_home and host != LOGIN else "rw"
            self.run(host, ["bash", "-c", _NEW_ROOT, "bash", locked, *words], check=True)

    def _roots(self) -> tuple[str, ...]:
        own = (_DISK,) if self.shape.job_folder else ()
        return (*self.shape.folders, *self.shape.node_folders, *own)

    def _make(self, host: str, folder: str) -> str:
        """What is to be mounted at `folder`, as the host sees it, with one folder of each user."""
        name = folder.strip("/").replace("/", "-")
        if folder in self.shape.folders:
            seen = f"{SHARED}/{name}"
            place = self.folders.root / seen.strip("/")
        else:
            place, seen = self.folders.host(host) / "spool/site" / name, f"/var/spool/site/{name}"
        place.mkdir(parents=True, exist_ok=True)
        place.chmod(0o1777)
        for user in USERS if folder != _DISK else ():
            own = place / user.name
            own.mkdir(exist_ok=True, mode=0o700)
            os.chown(own, user.uid, user.uid)
        return seen


_DISK = "/localscratch"

#: $1: ro for a home that can only be read; the others: FOLDER=PLACE. The root of a host is this
#: machine's, so another one is put over it that has these folders as well; processes that enter
#: the host from now on see that one.
_NEW_ROOT = """\
set -eu
locked=$1
shift
new=/tmp/root
mkdir $new
mount -t tmpfs -o mode=755 tmpfs $new
for entry in /*; do
  if [ -L "$entry" ]; then cp -P "$entry" $new/
  elif [ -d "$entry" ] && [ "$entry" != /tmp ]; then
    mkdir "$new$entry"
    mount --rbind "$entry" "$new$entry"
  fi
done
mkdir -m 1777 $new/tmp
for pair in "$@"; do
  mkdir -p "$new${pair%%=*}"
  mount --bind "${pair#*=}" "$new${pair%%=*}"
done
mount -t tmpfs -o mode=1777 tmpfs $new/tmp
if [ "$locked" = ro ]; then mount -o remount,bind,ro $new/home; fi
mount --move $new /
"""


def slurm_conf(shape: Shape, text: str) -> str:
    """slurm.conf with the site's nodes and partitions in place of the usual ones."""
    gone = ("PartitionName=", "AccountingStorageTRES=", "GresTypes=", "NodeName=", "JobSubmit")
    lines = [line for line in text.splitlines() if not line.startswith(gone)]
    addresses = {
        line.split()[0].partition("=")[2]: line.split()[1]
        for line in text.splitlines()
        if line.startswith("NodeName=")
    }
    kinds = list(dict.fromkeys(shape.gpus))
    gres = [f"gpu:{kind}:{shape.gpus.count(kind)}" if kind else f"gpu:{shape.gpus.count(kind)}"
            for kind in kinds] + list(shape.gres)  # fmt: skip
    size = "CPUs=48 Boards=1 SocketsPerBoard=1 CoresPerSocket=48 ThreadsPerCore=1 RealMemory=512000"
    names = ["gpu"] * bool(kinds) + [word.partition(":")[0] for word in shape.gres]
    # What is beyond a partition's limits is refused, not queued for ever.
    lines += ["JobSubmitPlugins=lua", "EnforcePartLimits=ALL", *shape.lines]
    lines += [f"GresTypes={','.join(names)}"] if names else []
    if "slurmdbd" in text and kinds:
        typed = [f"gres/gpu:{kind}" for kind in kinds if kind]
        lines += [f"AccountingStorageTRES={','.join(['gres/gpu', *typed])}"]
    if shape.job_folder:
        files = ("Prolog=prolog", "Epilog=epilog", "TaskProlog=task_prolog")
        lines += [f"{each.replace('=', '=/etc/slurm/')}.sh" for each in files]
        lines += ["PrologFlags=Alloc"]
    for node in NODES:
        own = f" Gres={','.join(gres)}" if gres else ""
        lines.append(f"NodeName={node} {addresses[node]} {size}{own}")
    for number, partition in enumerate(shape.partitions):
        name, _, options = partition.partition(" ")
        first = " Default=YES" if number == 0 else ""
        lines.append(f"PartitionName={name} Nodes={','.join(NODES)}{first} {options}".rstrip())
    return _text(lines)


def gres_conf(shape: Shape) -> str:
    """gres.conf of that many GPUs in each node."""
    lines = []
    for node in NODES:
        for number, kind in enumerate(shape.gpus):
            typed = f" Type={kind}" if kind else ""
            lines.append(f"NodeName={node} Name=gpu{typed} File=/dev/nvidia{number}")
        for each in shape.gres:
            name, _, count = each.partition(":")
            lines.append(f"NodeName={node} Name={name} Count={count} Flags=CountOnly")
    return _text(lines)


def job_submit_lua(shape: Shape) -> str:
    """The site's rules about requests, each with a sentence."""
    rules: list[tuple[str, str]] = []
    if shape.account:
        rules.append(("job.account == nil", "Please specify an account with --account."))
    if shape.no_partition:
        rules.append(("job.partition ~= nil", "Do not name a partition: jobs are routed."))
    if shape.typed:
        rules.append(
            (
                'gpus ~= "" and not string.find(gpus, "gpu:%a")',
                "Please specify the model of the GPUs.",
            )
        )
    if shape.gpu_counts:
        allowed = " and ".join(f"count ~= {each}" for each in (0, *shape.gpu_counts))
        rules.append((allowed, "That number of GPUs is not allowed here."))
    for partition in shape.gpu_partitions:
        rules.append(
            (
                f'job.partition == "{partition}" and gpus == ""',
                "This partition is for jobs with GPUs.",
            )
        )
    for partition, qos in shape.qos:
        rules.append(
            (
                f'job.partition == "{partition}" and job.qos ~= "{qos}"',
                f"Partition {partition} needs --qos={qos}.",
            )
        )
    body = "".join(
        f'    if {test} then\n        slurm.log_user("{said}")\n        return slurm.ERROR\n'
        "    end\n"
        for test, said in rules
    )
    return f"""\
function slurm_job_submit(job, partitions, uid)
    local gpus = (job.tres_per_node or "") .. (job.tres_per_job or "") .. (job.tres_per_task or "")
    if not string.find(gpus, "gpu") then gpus = "" end
    local count = tonumber(string.match(gpus, "gpu.*:(%d+)$") or "") or 0
{body}    return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
    return slurm.SUCCESS
end
"""


def prolog(shape: Shape) -> dict[str, str]:
    """The scripts that give each job its folder on the node's disk, and take it away."""
    if not shape.job_folder:
        return {}
    folder = f'"{_DISK}/$SLURM_JOB_USER.$SLURM_JOB_ID.0"'
    return {
        "prolog.sh": f'#!/bin/sh\nmkdir -m 700 {folder} && chown "$SLURM_JOB_UID" {folder}\n',
        "epilog.sh": f"#!/bin/sh\nrm -rf {folder}\n",
        "task_prolog.sh": (
            f'#!/bin/sh\necho "export {shape.job_folder}={_DISK}/$USER.$SLURM_JOB_ID.0"\n'
        ),
    }


def profile(shape: Shape) -> str:
    """What login shells read, and no others."""
    lines = [f"export PATH={_COMMANDS}:$PATH"]
    lines += [f'export {name}="{value}"' for name, value in shape.variables]
    if shape.modules:
        lines += [
            "module() {",
            '  case "$1 $2" in',
            f'    "load python/3.11") export PATH={_COMMANDS}/python:$PATH SITE_PYTHON=3.11;;',
            '    "-t avail") printf "/site/modules:\\npython/3.11(default)\\n" >&2;;',
            '    load\\ *) echo "Lmod has detected the following error: $2 is unknown" >&2; '
            "return 1;;",
            "  esac",
            "}",
        ]
    return _text(lines)


def _change(path: Path, text: str, mode: int = 0o644) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
