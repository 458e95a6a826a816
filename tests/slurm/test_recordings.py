"""Each release answers everything that was recorded of one; and the answers no other test reads."""

from __future__ import annotations

import re
from pathlib import Path

from jupyter_hpc.slurm import allocate, inventory, occupancy, showjob
from jupyter_hpc.slurm.client import SlurmClient
from tests.slurm.runners import DATA, RELEASES, Player, recording

_ANSWERS = {release: {path.stem for path in (DATA / release).iterdir()} for release in RELEASES}


def test_every_release_was_asked_the_same(release: str) -> None:
    assert _ANSWERS[release] == set.union(*_ANSWERS.values())


def test_every_answer_is_read(release: str) -> None:
    here = Path(__file__).parent
    texts = [path.read_text(encoding="utf-8") for path in here.glob("test_*.py")]
    known = set(re.findall(r"[\w-]+", " ".join(texts)))
    assert _ANSWERS[release] - known == set()


def test_the_configuration() -> None:
    config = recording("scontrol-config").stdout
    assert allocate.read_inactive_limit(config) == 0
    assert allocate.read_select_type(config) == "cons_tres"


def test_the_gpus_of_a_node() -> None:
    assert showjob.read_node_gpus(recording("scontrol-details").stdout) == {"gpu01": 2}


async def test_the_end_of_a_job_that_is_not_there() -> None:
    """scancel says nothing of it in any release."""
    await SlurmClient(Player([recording("scancel-unknown")])).cancel(["99999"])


def test_what_is_free_and_what_is_out_of_order() -> None:
    """A job has two GPUs of type p4; cpu01 is drained."""
    kept = recording("sinfo-use")
    assert list(kept.argv) == occupancy.use_argv()
    groups, listed = recording("sinfo-groups").stdout, recording("scontrol-partition").stdout
    seen = occupancy.read_overview(
        kept.stdout, inventory.read_partitions(listed, groups), (), (), ()
    )
    gpu, cpu = sorted(seen.partitions, key=lambda each: each.name, reverse=True)
    assert [(each.type, each.total, each.used, each.free) for each in gpu.gpus] == [
        ("a100", 2, 0, 2),
        ("p4", 2, 2, 0),
    ]
    assert gpu.cpus.allocated >= 1 and gpu.cpus.total == 8 and gpu.nodes == {"mixed": 1}
    assert cpu.cpus.idle == 0 and cpu.nodes == {"drained": 1}
    (out,) = seen.unavailable
    assert (out.nodes, out.state, out.reason) == ("cpu01", "drained", "a fan is broken")
