"""The sites of the built-in profiles as shapes of the test cluster.

What stands here is what Slurm's and SSH's own configuration can express of a site; what cannot be
expressed is listed in docs/clusters.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tests.cluster.replica import CONTAINER, SHARED, Shape

#: The folder with the wheels of a site, or of a person who has put them there.
WHEELS = f"{SHARED}/wheels"

_MODULE = ("--module", "python/3.11")
_FOLDER = ("--wheels", WHEELS)
_VENV = ("--style", "venv", *_FOLDER)


@dataclass(frozen=True)
class Site:
    """One site: its shape, the switches of the cluster, and what a person adds to the profile."""

    shape: Shape
    #: What `setup` is told: modules, how the environment is made, where wheels are.
    setup: tuple[str, ...]
    switches: tuple[tuple[str, Any], ...] = ()
    #: What a person has to say of themselves: their account and partition.
    own: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...] = ()
    #: What `connect` is told.
    connect: tuple[str, ...] = ()
    #: What the panel has to show: a section of it, and words of its answer.
    panel: tuple[tuple[str, str], ...] = ()
    #: The transport that must be found.
    transport: str = "ssh"
    #: Where a batch job must have worked, as its path begins; "" for the run's own folder.
    works_in: str = ""

    @property
    def sections(self) -> dict[str, dict[str, Any]]:
        return {name: dict(values) for name, values in self.own}


def _own(**sections: dict[str, Any]) -> tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]:
    return tuple((name, tuple(values.items())) for name, values in sections.items())


_DISKUSAGE = """\
                             Description                Space           # of files
                      /home (user alice)         280 kB/47 GB              25/500k
                   /scratch (user alice)         4096 B/18 TB              1/1000k
                 /project (group research)     4096 B/2048 GB               2/500k"""

_NARVAL = Shape(
    gpus=("a100", "a100", "a100", "a100_3g.20gb"),
    partitions=("gpubase_bygpu_b1 MaxTime=7-00:00:00", "cpubase_bycore_b1 MaxTime=7-00:00:00"),
    # Without --mem a job gets 256 MB for each core.
    lines=("DefMemPerCPU=256",),
    account=True,
    typed=True,
    folders=("/scratch", "/project"),
    job_folder="SLURM_TMPDIR",
    # pip takes the site's own wheels, and nothing from the Internet.
    variables=(
        ("SCRATCH", "/scratch/$USER"),
        ("CC_CLUSTER", "narval"),
        ("PIP_FIND_LINKS", WHEELS),
    ),
    modules=True,
    commands=(("diskusage_report", _DISKUSAGE),),
)
_RESEARCH = _own(allocation={"account": "research"})
_QUOTA = ("storage", '"limit": 47000000000, "files_used": 25, "files_limit": 500000')


def _alliance(*gpus: str, **changes: Any) -> Site:
    shape = replace(_NARVAL, gpus=gpus, **changes)
    return Site(shape, _MODULE, own=_RESEARCH, panel=(_QUOTA,), works_in="/localscratch/alice.")


_EDINBURGH = Shape(
    gpus=("a40", "a40", "2080ti", "2080ti"),
    partitions=(
        "Teach-Standard MaxTime=08:00:00",
        "PGR-Standard MaxTime=7-00:00:00",
        "ILCC-Standard MaxTime=7-00:00:00",
    ),
    node_folders=("/disk/scratch",),
)
_INFORMATICS = Site(
    _EDINBURGH,
    _VENV,
    (("accounting", False), ("node_ssh", "denied")),
    transport="srun",
    works_in="/disk/scratch/alice/",
)

SITES: dict[str, Site] = {
    "narval": _alliance(*_NARVAL.gpus),
    "mlp": _INFORMATICS,
    "ilcc": _INFORMATICS,
    "rorqual": _alliance("h100", "h100", "h100", "h100_1g.10gb"),
    "fir": _alliance("h100", "h100", "h100", "nvidia_h100_80gb_hbm3_1g.10gb"),
    "nibi": _alliance("h100", "h100", "mi300a", "mi300a"),
    "vulcan": _alliance("l40s", "l40s", "l40s", "l40s"),
    "killarney": _alliance("l40s", "l40s", "h100", "h100"),
    "tamia": _alliance(
        "h100", "h100", "h100", "h100",
        partitions=("gpubase MaxTime=1-00:00:00 OverSubscribe=EXCLUSIVE",), gpu_counts=(4, 8),
    ),
    "trillium": _alliance(
        "h100", "h100", "h100", "h100",
        partitions=("compute MaxTime=1-00:00:00",), no_partition=True, gpu_counts=(1, 4),
        read_only_home=True,
    ),
    "leonardo": Site(
        Shape(
            gpus=("",) * 4,
            partitions=(
                "boost_usr_prod MaxTime=1-00:00:00",
                "dcgp_usr_prod MaxTime=1-00:00:00",
                "lrd_all_serial MaxTime=04:00:00",
            ),
            gres=("tmpfs:3000G",),
            account=True,
            folders=("/leonardo_scratch", "/leonardo_work", "/leonardo_fast"),
            job_folder="TMPDIR",
            variables=(
                ("SCRATCH", "/leonardo_scratch/$USER"),
                ("WORK", "/leonardo_work/$USER"),
                ("FAST", "/leonardo_fast/$USER"),
            ),
            modules=True,
            commands=(("saldo", "account   total  used\nresearch  1000   10"), ("cindata", "-")),
        ),
        (*_MODULE, *_FOLDER),
        (("certificates", True),),
        _own(allocation={"account": "research", "local_disk": "100G"}),
        panel=(("storage", "research  1000"),),
        works_in="/localscratch/alice.",
    ),
    "snellius": Site(
        Shape(
            gpus=("a100",) * 4,
            partitions=("gpu_a100 MaxTime=5-00:00:00", "gpu_h100 MaxTime=5-00:00:00"),
            lines=("DefCpuPerGPU=1",),
            gpu_partitions=("gpu_a100", "gpu_h100"),
            folders=("/scratch-shared",),
            job_folder="TMPDIR",
            commands=(("accinfo", "Account: research\nSBU left: 12345"), ("myquota", "-")),
        ),
        _VENV,
        own=_RESEARCH,
        panel=(("storage", "SBU left: 12345"),),
        works_in="/localscratch/alice.",
    ),
    "m3": Site(
        Shape(
            gpus=("A40", "A40", "P4", "P4"),
            partitions=("gpu MaxTime=7-00:00:00", "desktop MaxTime=1-00:00:00"),
            qos=(("desktop", "desktopq"),),
            folders=("/scratch2",),
            modules=True,
            commands=(("user_info", "-"),),
        ),
        (*_MODULE, *_FOLDER),
        (("node_ssh", "denied"),),
        _RESEARCH,
        connect=("--preset", "desktop"),
        transport="srun",
    ),
    "cvl-uwa": Site(
        Shape(gpus=(), partitions=("desktop MaxTime=1-00:00:00",), modules=True, container=True),
        (*_MODULE, *_FOLDER),
        own=_own(
            allocation={"account": "research"},
            environment={"jupyter_setup": [f'PATH="$VIRTUAL_ENV/bin:{CONTAINER}"']},
            slurm={"prefix": ["ssh", "-o", "BatchMode=yes", "login1"]},
        ),
    ),
    "ulysses": Site(
        Shape(
            gpus=("v100", "v100"),
            partitions=(
                "regular1 MaxTime=12:00:00",
                "gpu1 MaxTime=12:00:00",
                "wide1 MaxTime=08:00:00",
            ),
            folders=("/scratch",),
        ),
        _VENV,
        own=_own(allocation={"partition": "gpu1"}),
    ),
}  # fmt: skip

#: Those that differ most; `make test` runs them, `make sites` all.
ALWAYS = ("narval", "mlp")
