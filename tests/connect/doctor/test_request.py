"""What Slurm says to the request of a profile: each part of it has its own line."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect.doctor.checks import Report
from jupyter_hpc.connect.doctor.facts import examine
from jupyter_hpc.connect.doctor.login_host import look_at_login_host
from jupyter_hpc.connect.doctor.request import look_at_slurm
from jupyter_hpc.errors import CommandMissing, CommandTimeout, HpcError
from jupyter_hpc.runner import DEFAULT_TIMEOUT, Completed, program_of
from tests.connect.doctor.looking import Lines, profile_for
from tests.slurm.runners import recording

Answer = Completed | HpcError | str


def recorded(name: str) -> Completed:
    return recording(name).completed()


class Host:
    """A login host that answers by the name of the program, and refuses what it does not know."""

    def __init__(self, **answers: Answer) -> None:
        self._answers: Mapping[str, Answer] = {
            "version": recorded("sinfo-version"),
            "sinfo": recorded("sinfo-groups"),
            "scontrol": recorded("scontrol-partition"),
            "sacctmgr-user": recorded("sacctmgr-associations"),
            "sacctmgr-qos": recorded("sacctmgr-qos"),
            "id": "alice\n",
            "sbatch": Completed(
                ("sbatch",),
                0,
                "",
                "sbatch: Job 9 to start at 1700000000 using 1 processors on "
                "nodes cpu01 in partition cpu\n",
            ),
            **{name.replace("_", "-"): answer for name, answer in answers.items()},
        }

    async def run(
        self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = DEFAULT_TIMEOUT
    ) -> Completed:
        answer = self._answers[self._name(argv)]
        if isinstance(answer, HpcError):
            raise answer
        done = Completed(tuple(argv), 0, answer, "") if isinstance(answer, str) else answer
        return replace(done, argv=tuple(argv))

    def _name(self, argv: Sequence[str]) -> str:
        program = program_of(tuple(argv))
        if program == "sacctmgr":
            return "sacctmgr-qos" if "qos" in argv else "sacctmgr-user"
        return "version" if "--version" in argv else program


async def look(host: Host, **allocation: object) -> Lines:
    lines = Lines()
    report = Report(lambda check: None)
    await look_at_slurm(host, profile_with(**allocation), report)
    lines.update(report.checks)
    return lines


def profile_with(**allocation: object) -> Profile:
    return profile_for(
        {"login": {"host": ("login1",)}, "allocation": allocation, "slurm": {"gpu_flag": "gpus"}}
    )


async def test_a_request_that_is_fine() -> None:
    lines = await look(Host(), partition="cpu", time="00:30:00")
    assert lines.not_ok == {}, lines.not_ok
    assert "22.05" in lines["slurm"].text and "Slurm takes" in lines["limits"].text


@pytest.mark.parametrize(
    ("allocation", "name", "words"),
    [
        ({"partition": "gone"}, "partition", "There is no partition 'gone'. -> Partitions here: "),
        ({"partition": "cpu", "account": "nobody"}, "account", "no account 'nobody'. -> Your acc"),
        ({"partition": "cpu", "qos": "gone"}, "qos", "There is no QOS 'gone'. -> Open to you: "),
        ({"partition": "cpu", "time": "40-00:00:00"}, "limits", "is longer than partition cpu"),
        ({"partition": "gpu", "gpus": 1, "gpu_type": "h9"}, "limits", "no GPUs called 'h9'"),
    ],
)
async def test_what_is_wrong_has_its_own_line(
    allocation: dict[str, object], name: str, words: str
) -> None:
    lines = await look(Host(), **allocation)
    assert lines.failed == [name] and words in lines.words(name), lines.not_ok
    assert "jupyter-hpc clusters edit site" in lines[name].fix


async def test_what_only_slurm_itself_refuses() -> None:
    lines = await look(Host(sbatch=recorded("sbatch-limit")), partition="cpu")
    assert lines.failed == ["limits"] and lines["limits"].fix


async def test_a_controller_that_is_down() -> None:
    down = Host(sinfo=recorded("down-sinfo"), scontrol=recorded("down-scontrol"))
    lines = await look(down, partition="cpu")
    assert lines.failed == ["slurm"] and "does not answer" in lines["slurm"].text
    assert lines["slurm"].fix


async def test_no_slurm_at_all() -> None:
    missing = CommandMissing("'sinfo' was not found on login1.", "Is Slurm there?")
    lines = await look(Host(version=missing, sinfo=missing, scontrol=missing))
    assert lines.failed == ["slurm"] and lines["slurm"].fix == "Is Slurm there?"


async def test_a_cluster_without_accounting() -> None:
    none = recorded("none-sacctmgr")
    lines = await look(Host(sacctmgr_user=none, sacctmgr_qos=none), partition="cpu", account="x")
    assert lines.failed == [] and "no accounting" in lines["account"].text


async def test_a_release_that_is_too_old() -> None:
    lines = await look(Host(version="slurm 19.05.3\n"), partition="cpu")
    assert lines.failed == ["slurm"] and "older" in lines["slurm"].text


# -- the host itself -------------------------------------------------------------------------

_FINE = """\
time={time}
host=login1
uid=61001
user=alice
home=/home/alice
home_writable=yes
home_source=server:/home
home_left=9000000
tmp_writable=yes
tmp_source=tmpfs
tmp_left=9000000
"""


async def look_at_host(text: str) -> Lines:
    lines = Lines()
    report = Report(lambda check: None)
    await look_at_login_host(Host(sh=text), report)
    lines.update(report.checks)
    return lines


def fine(moment: float, more: str = "") -> str:
    return _FINE.format(time=int(moment)) + more


async def test_a_host_that_is_fine() -> None:
    lines = await look_at_host(fine(time.time()))
    assert lines.not_ok == {} and "8.6 GB left" in lines["login-home"].text


@pytest.mark.parametrize(("off", "words"), [(-3630, "60 min behind"), (86430, "24 h 00 min ahead")])
async def test_a_clock_that_is_wrong(off: float, words: str) -> None:
    lines = await look_at_host(fine(time.time() + off))
    assert lines.failed == ["login-clock"] and words in lines["login-clock"].text
    assert "NTP" in lines["login-clock"].fix


@pytest.mark.parametrize("said", ["", "soon", "9" * 5000, "-5", "1e9"])
async def test_a_clock_that_lies(said: str) -> None:
    lines = await look_at_host(_FINE.format(time=said))
    assert lines.outcome("login-clock") == "note", lines.words("login-clock")


async def test_a_home_that_is_full_and_a_tmp_that_is_closed() -> None:
    text = fine(time.time()).replace(
        "home_writable=yes", "home_refused=head: write error: Disk quota exceeded"
    )
    text = text.replace("tmp_writable=yes", "tmp_refused=mktemp: \x1b[31m: Read-only file system")
    lines = await look_at_host(text)
    assert lines.failed == ["login-home", "login-tmp"]
    assert "Disk quota exceeded" in lines["login-home"].text
    assert "Delete files" in lines["login-home"].fix and lines["login-tmp"].fix
    assert "Read-only file system" in lines["login-tmp"].text


@pytest.mark.parametrize(
    ("row", "outcome"),
    [
        ("server:/home 100 1000 1000 5 100 100", "ok"),
        ("server:/home 999 1000 1000 5 100 100", "note"),
        ("server:/home 1000* 1000 1000 7days 5 100 100", "failed"),
        ("server:/home 10 1000 1000 100* 100 100", "failed"),
        ("elsewhere:/x 1000* 1000 1000 5 100 100", "skipped"),
    ],
)
async def test_the_quota_of_the_home(row: str, outcome: str) -> None:
    lines = await look_at_host(fine(time.time(), f"quota={row}\n"))
    assert lines.outcome("quota") == outcome, lines.words("quota")


async def test_a_script_that_hangs_or_says_nothing() -> None:
    lines = Lines()
    report = Report(lambda check: None)
    late = CommandTimeout("'sh' on login1 did not end within 45 s.", "Look at the host.")
    assert await look_at_login_host(Host(sh=late), report) is None
    lines.update(report.checks)
    assert lines.failed == ["login-clock"] and lines.outcome("login-home") == "skipped"
    with pytest.raises(HpcError, match="did not run there: it said nothing"):
        await examine(Host(sh=""))
