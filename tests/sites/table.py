"""The sites of the built-in profiles as shapes of the test cluster.

What stands here is what Slurm's and SSH's own configuration can express of a site; what cannot be
expressed is listed in docs/clusters.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tests.cluster.laptop import ENV_SETUP
from tests.cluster.replica import Shape

_MODULE: dict[str, Any] = {"modules": ["python/3.11"]}
_OWN: dict[str, Any] = {"setup": list(ENV_SETUP)}


@dataclass(frozen=True)
class Site:
    """One site: its shape, the switches of the cluster, and what a person adds to the profile."""

    shape: Shape
    switches: tuple[tuple[str, Any], ...] = ()
    #: What a person has to say of themselves: their account, partition and environment.
    own: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...] = ()
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
                     /home (user alice)          12G/  50G           100K/ 500K
                  /scratch (user alice)         1.1T/  20T            15K/1000K"""

_NARVAL = Shape(
    gpus=("a100", "a100", "a100", "a100_3g.20gb"),
    partitions=("gpubase_bygpu_b1 MaxTime=7-00:00:00", "cpubase_bycore_b1 MaxTime=7-00:00:00"),
    # Without --mem a job gets 256 MB for each core.
    lines=("DefMemPerCPU=256",),
    account=True,
    typed=True,
    folders=("/scratch", "/project"),
    job_folder="SLURM_TMPDIR",
    variables=(("SCRATCH", "/scratch/$USER"), ("CC_CLUSTER", "narval")),
    modules=True,
    commands=(("diskusage_report", _DISKUSAGE),),
)
_ALLIANCE = _own(allocation={"account": "research"}, environment=_MODULE)


def _alliance(*gpus: str, **changes: Any) -> Site:
    shape = replace(_NARVAL, gpus=gpus, **changes)
    return Site(shape, own=_ALLIANCE, works_in="/localscratch/alice.")


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
    (("accounting", False), ("node_ssh", "denied")),
    _own(environment=_OWN),
    transport="srun",
    works_in="/disk/scratch/alice/",
)

SITES: dict[str, Site] = {
    "narval": Site(_NARVAL, own=_ALLIANCE, works_in="/localscratch/alice."),
    "mlp": _INFORMATICS,
    "ilcc": _INFORMATICS,
    "rorqual": _alliance("h100", "h100", "h100", "h100_1g.10gb"),
    "fir": _alliance("h100", "h100", "h100", "nvidia_h100_80gb_hbm3_1g.10gb"),
    "nibi": _alliance("h100", "h100", "mi300a", "mi300a"),
    "vulcan": _alliance("l40s", "l40s", "l40s", "l40s"),
    "killarney": _alliance("l40s", "l40s", "h100", "h100"),
    "tamia": _alliance("h100", "h100", "h100", "h100", gpu_counts=(4, 8)),
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
        (("certificates", True),),
        _ALLIANCE,
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
        own=_own(allocation={"account": "research"}, environment=_OWN),
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
        (("node_ssh", "denied"),),
        _ALLIANCE,
        transport="srun",
    ),
    "cvl-uwa": Site(
        Shape(gpus=(), partitions=("desktop MaxTime=1-00:00:00",), modules=True),
        own=_ALLIANCE,
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
        own=_own(allocation={"partition": "gpu1"}, environment=_OWN),
    ),
}  # fmt: skip

#: Those that differ most; `make test` runs them, `make sites` all.
ALWAYS = ("narval", "mlp")
