"""Nothing of a cluster is left, however its owner ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cluster import slots
from tests.cluster.__main__ import main, read_switches
from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import require
from tests.cluster.layout import Slot
from tests.cluster.room import CHECKOUT
from tests.cluster.switches import Switches
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(300)

_TEST_FILE = """
import time
import pytest

def test_that_{name}(cluster_with):
    cluster = cluster_with(accounting=False)
    cluster.run("login1", ["salloc", "--no-shell"], user="alice", check=True)
    cluster.homes.fill("alice")
    cluster.black_hole()
    print("slot", cluster.slot.number, flush=True)
    {deed}
"""

_DEEDS = {
    "fails": "raise ValueError",
    "hangs": "time.sleep(600)",
    "ends_the_session": "pytest.exit('enough')",
}


@pytest.fixture(autouse=True)
def _possible() -> None:
    require(Switches())


def test_down_leaves_nothing_and_is_quick() -> None:
    cluster = Cluster(Switches(accounting=False))
    cluster.up()
    print(f"up in {cluster.seconds_to_start:.2f} s")
    cluster.run("login1", ["salloc", "--no-shell"], user="alice", check=True)
    cluster.run("cpu01", ["sh", "-c", "setsid sleep 4321 >/dev/null 2>&1 &"], user="alice")
    kinds = {line.split()[0] for line in slots.leftovers(cluster.slot)}
    assert kinds >= {"process", "link", "route", "folder"}
    began = time.monotonic()
    cluster.down()
    assert time.monotonic() - began < 20
    assert _left_in(cluster.slot) == []
    cluster.down()


def test_a_cluster_that_fails_to_start_leaves_nothing() -> None:
    cluster = Cluster(Switches(accounting=False, slurm_lines=("SlurmctldPort=none",)))
    with pytest.raises(RuntimeError, match="slurmctld"):
        cluster.up()
    assert _left_in(cluster.slot) == []


@pytest.mark.parametrize("deed", _DEEDS)
def test_nothing_is_left_by_a_test_that(deed: str, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.cluster.fixtures"]\n')
    (tmp_path / "test_it.py").write_text(_TEST_FILE.format(name=deed, deed=_DEEDS[deed]))
    with _start_pytest(tmp_path) as run:
        slot = _slot_of(run)
        if deed == "hangs":
            run.send_signal(signal.SIGINT)
        run.communicate(timeout=60)
    assert run.returncode != 0
    assert _left_in(slot) == []


def test_after_kill_9_all_processes_end_and_the_next_owner_sweeps(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.cluster.fixtures"]\n')
    (tmp_path / "test_it.py").write_text(_TEST_FILE.format(name="dies", deed=_DEEDS["hangs"]))
    with _start_pytest(tmp_path) as run:
        slot = _slot_of(run)
        assert slots.try_lock(slot) is None
        run.kill()
        run.communicate(timeout=60)
    eventually(
        lambda: not any(line.startswith(("process", "link")) for line in _left_in(slot)),
        lambda: f"left: {_left_in(slot)}",
    )
    lock = slots.try_lock(slot)
    if lock is not None:  # Otherwise another test run was faster, and has swept it.
        slots.sweep(slot)
        os.close(lock)
    assert _left_in(slot) == []


def test_two_clusters_at_once_do_not_meet() -> None:
    with Cluster(Switches(accounting=False)) as one, Cluster(Switches(accounting=False)) as two:
        assert one.slot != two.slot
        one.run("login1", ["touch", "/home/alice/first"], user="alice", check=True)
        assert two.run("login1", ["ls", "/home/alice"], user="alice").stdout == ""
        one.cut("laptop")
        assert two.laptop().ssh("gpu01", "hostname").stdout == "gpu01\n"


def test_developers_start_and_stop_one_by_hand() -> None:
    command = [sys.executable, "-m", "tests.cluster"]
    done = subprocess.run(
        [*command, "up", "--switch", "accounting=no", "--switch", "mfa"],
        cwd=CHECKOUT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    number = done.stdout.split()[1]
    slot = Slot(int(number))
    try:
        assert slots.try_lock(slot) is None
        shell = subprocess.run(
            [*command, "shell", "gpu01", "--user", "alice", "--number", number],
            cwd=CHECKOUT, input="hostname\nid -un\n", capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert shell.stdout.split() == ["gpu01", "alice"]
    finally:
        assert main(["down", "--number", number]) == 0
    assert _left_in(slot) == []


def test_down_leaves_a_slot_alone_that_a_process_uses(capsys: pytest.CaptureFixture[str]) -> None:
    slot, lock = slots.take()
    daemon = subprocess.Popen(["sleep", "600"])
    try:
        # What a run of tests would lose: the slot carries an old mark of `up`.
        slot.folder.mkdir()
        (slot.folder / "detached").touch()
        slots.record_process(slot, daemon.pid)
        assert main(["down", "--number", str(slot.number)]) == 2
        told = capsys.readouterr().err.strip()
        assert told.startswith(f"cluster {slot.number} is in use by process {os.getpid()} (")
        assert told.endswith(") and is left alone") and "\n" not in told
        assert daemon.poll() is None and (slot.folder / "detached").exists()
        # With its owner gone, there is nobody to ask.
        os.close(lock)
        lock = -1
        assert main(["down", "--number", str(slot.number)]) == 0
        assert daemon.wait(60) == -signal.SIGKILL
        assert _left_in(slot) == []
    finally:
        daemon.kill()
        daemon.wait()
        if lock >= 0:
            os.close(lock)


def test_a_slot_that_is_held_where_nobody_sees_it_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slot, lock = slots.take()
    monkeypatch.setattr(slots, "owner", lambda slot: None)
    try:
        with pytest.raises(slots.InUse, match="by a process that cannot be seen from here"):
            slots.remove(slot, patience=0.1)
    finally:
        os.close(lock)


def test_a_visit_ends_with_its_shell() -> None:
    visit = subprocess.run(
        [sys.executable, "-m", "tests.cluster"], input="hostname\nid -un\n",
        cwd=CHECKOUT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert visit.stdout.endswith("ends with this shell.\nlogin1\nalice\n")
    assert _left_in(Slot(int(visit.stdout.split()[1]))) == []


def test_switches_are_read_from_words() -> None:
    words = ["adopt", "accounting=no", "node_ssh=denied", "inactive_limit=30", "slurm_lines=A=1"]
    assert read_switches(words) == Switches(
        adopt=True, accounting=False, node_ssh="denied", inactive_limit=30, slurm_lines=("A=1",)
    )
    with pytest.raises(ValueError, match="no switch 'adapt'; there are accounting, adopt"):
        read_switches(["adapt"])


def _left_in(slot: Slot) -> list[str]:
    """What is left of the slot's cluster; nothing, if another test run uses it by now."""
    lock = slots.try_lock(slot)
    if lock is None:
        return []
    try:
        return slots.leftovers(slot)
    finally:
        os.close(lock)


def _start_pytest(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", str(folder)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def _slot_of(run: subprocess.Popen[str]) -> Slot:
    """The slot that the test in another process has printed."""
    assert run.stdout is not None
    seen = []
    for line in run.stdout:
        seen.append(line)
        if line.startswith("slot "):
            return Slot(int(line.split()[1]))
    raise AssertionError("".join(seen))
