"""push, pull and sync on a real cluster: over a login, a session, the user's own OpenSSH."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop, make_laptop
from tests.connect.fault_proxy import FaultProxy
from tests.connect.files.test_transfer import NASTY, content
from tests.connect.real.sessions import command, connected, environment, run
from tests.waiting import eventually


@pytest.fixture
def laptop(cluster: Cluster) -> Iterator[Laptop]:
    fresh = cluster.laptop("alice", "files")
    fresh.write_profile("mini")
    yield fresh
    cluster.run("login1", ["rm", "-rf", "files"], user="alice")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    (folder / "sub").mkdir(parents=True)
    for name in NASTY:
        (folder / name).write_text(name)
    (folder / "sub/large").write_bytes(os.urandom(2_000_000))
    (folder / "sub/link").symlink_to("large")
    return folder


def test_there_and_back_then_over_a_session_and_a_master(
    cluster: Cluster, laptop: Laptop, source: Path, tmp_path: Path
) -> None:
    sent = run(laptop, "push", str(source), "mini:files/")
    assert sent.returncode == 0, sent.stderr
    assert f"{len(NASTY) + 2} files copied to mini:files/" in sent.stdout
    assert "verified by SHA-256" in sent.stdout
    assert content(cluster.home("alice") / "files/data") == content(source)
    back = run(laptop, "pull", "mini:files/data", str(tmp_path / "back"))
    assert back.returncode == 0, back.stderr
    assert content(tmp_path / "back") == content(source)
    csv = run(laptop, "pull", "mini:files/data/sub/lar*", str(tmp_path / "picked"))
    assert csv.returncode == 0 and list(content(tmp_path / "picked")) == ["large"]

    with _master(laptop):
        before = cluster.authentications(user="alice")
        (source / "sub/large").write_text("changed")
        told = run(laptop, "sync", str(source), "mini:files/data")
        assert told.returncode == 0 and "1 file copied" in told.stdout, told.stderr
        assert cluster.authentications(user="alice") == before
    with connected(laptop, "mini") as session:
        session.wait_for("ready")
        before = cluster.authentications(user="alice")
        (source / "-rf").unlink()
        told = run(laptop, "sync", "--delete", str(source), "mini:files/data")
        assert "add --yes" in told.stderr and "  -rf" in told.stderr
        assert (cluster.home("alice") / "files/data/-rf").exists()
        gone = run(laptop, "sync", "--delete", "--yes", str(source), "mini:files/data")
        assert "Deleted: 1 file." in gone.stdout, gone.stderr
        here = run(laptop, "sync", "mini:files/data", str(tmp_path / "mirror"))
        assert here.returncode == 0, here.stderr
        assert cluster.authentications(user="alice") == before
    assert content(tmp_path / "mirror") == content(source)


@contextlib.contextmanager
def _master(laptop: Laptop) -> Iterator[None]:
    """The user's own OpenSSH connection, kept open in the background."""
    text = laptop.ssh_config.read_text()
    path = laptop.home / "cm"
    laptop.ssh_config.write_text(f"ControlPath {path}\n{text}")
    try:
        words = laptop.ssh_command("login1", options=["ControlMaster=yes", "ControlPersist=60"])
        subprocess.run(
            [*words, "true"], env=laptop.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=30, check=True,
        )  # fmt: skip
        yield
    finally:
        subprocess.run(
            ["ssh", "-F", str(laptop.ssh_config), "-O", "exit", "login1"],
            env=laptop.environment, capture_output=True, timeout=30,
        )  # fmt: skip
        laptop.ssh_config.write_text(text)


def test_a_cut_transfer_goes_on_by_itself_and_in_the_next_command(
    cluster: Cluster, tmp_path: Path
) -> None:
    data = os.urandom(12_000_000)
    (tmp_path / "big").write_bytes(data)
    folder = cluster.home("alice") / "files"
    with FaultProxy(cluster.slot.login_address, 22) as network:
        laptop = make_laptop(cluster.folders, "alice", "files-cut", login_port=network.port)
        laptop.write_profile("mini")
        try:
            run(laptop, "push", str(tmp_path / "big"), "mini:files/first")
            network.rate = 3_000_000
            words = command("push", str(tmp_path / "big"), "mini:files/big")
            with subprocess.Popen(
                words, env=environment(laptop), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            ) as process:  # fmt: skip
                _grown(folder)
                network.reset()
                network.rate = 0
                out, err = process.communicate(timeout=90)
            assert process.returncode == 0, err
            assert "Cut: " in err and "1 file copied" in out
            assert (folder / "big").read_bytes() == data
            network.rate = 3_000_000
            with subprocess.Popen(
                command("push", str(tmp_path / "big"), "mini:files/other"),
                env=environment(laptop), stdin=subprocess.DEVNULL, text=True,
            ) as process:  # fmt: skip
                _grown(folder)
                process.kill()
            assert not (folder / "other").exists()
            _interrupted(laptop, str(tmp_path / "big"), folder)
            network.rate = 0
            done = run(laptop, "push", str(tmp_path / "big"), "mini:files/other")
            assert done.returncode == 0, done.stderr
            assert (folder / "other").read_bytes() == data
            assert not list(folder.glob(".jhpc*"))
        finally:
            cluster.run("login1", ["rm", "-rf", "files"], user="alice")


def _interrupted(laptop: Laptop, source: str, folder: Path) -> None:
    """Ctrl-C twice: it ends at once, in words, and leaves what has arrived."""
    with subprocess.Popen(
        command("push", source, "mini:files/third"), env=environment(laptop),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        known = set(folder.glob(".jhpc*"))
        eventually(lambda: set(folder.glob(".jhpc*")) - known, "it has begun", seconds=60)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130 and "Traceback" not in out + err, out + err
    for part in set(folder.glob(".jhpc*")) - known:
        part.unlink()


def _grown(folder: Path) -> None:
    """Waits until a part of a file has arrived."""

    def grown() -> bool:
        return any(part.stat().st_size > 1_000_000 for part in folder.glob(".jhpc*"))

    eventually(grown, "a part of the file", seconds=60)


def test_a_host_that_only_speaks_sftp_and_one_without_python(
    cluster: Cluster, source: Path, tmp_path: Path
) -> None:
    keys = cluster.home("alice") / ".ssh/authorized_keys"
    folder = cluster.home("alice") / "files"
    before = keys.read_text()
    tools = cluster.home("alice") / "tools"
    data = os.urandom(12_000_000)
    (tmp_path / "big").write_bytes(data)
    with FaultProxy(cluster.slot.login_address, 22) as network:
        laptop = make_laptop(cluster.folders, "alice", "files-sftp", login_port=network.port)
        laptop.write_profile("mini")
        try:
            keys.write_text(
                "".join(f'command="internal-sftp" {line}\n' for line in before.splitlines())
            )
            sent = run(laptop, "push", str(source), "mini:files/")
            assert sent.returncode == 0, sent.stderr
            assert content(folder / "data") == content(source)
            back = run(laptop, "pull", "mini:files/data", str(tmp_path / "back"))
            assert back.returncode == 0, back.stderr
            assert content(tmp_path / "back") == content(source)
            network.rate = 3_000_000
            with subprocess.Popen(
                command("push", str(tmp_path / "big"), "mini:files/big"),
                env=environment(laptop), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            ) as process:  # fmt: skip
                _grown(folder)
                network.reset()
                network.rate = 0
                out, err = process.communicate(timeout=90)
            assert process.returncode == 0 and "Cut: " in err and "1 file copied" in out, err
            assert (folder / "big").read_bytes() == data and not list(folder.glob(".jhpc*"))
            asked = run(laptop, "pull", "mini:$SCRATCH/x", str(tmp_path))
            assert "a host that only speaks SFTP does not know $SCRATCH" in asked.stderr

            keys.write_text(before)
            tools.mkdir()
            for name in ("sh", "bash", "head", "sha256sum"):
                (tools / name).symlink_to(f"/usr/bin/{name}")
            (cluster.home("alice") / ".bashrc").write_text("PATH=$HOME/tools\n")
            same = run(laptop, "sync", "--checksum", str(source), "mini:files/data")
            assert same.returncode == 0 and "nothing differs" in same.stdout, same.stderr
        finally:
            keys.write_text(before)
            cluster.run("login1", ["rm", "-rf", "files", "tools", ".bashrc"], user="alice")


def test_a_full_home_and_a_transfer_host(
    healed_cluster: Cluster, laptop: Laptop, source: Path
) -> None:
    cluster = healed_cluster
    laptop.write_profile("moved", {"transfer": {"host": "login1", "note": "For large files."}})
    done = run(laptop, "push", str(source), "moved:files/")
    assert done.returncode == 0 and "Through login1. For large files." in done.stderr
    wrong = run(laptop, "push", "--via", "transfer", str(source), "mini:files/")
    assert wrong.returncode == 2 and "names no host for transfers" in wrong.stderr
    cluster.homes.fill("alice")
    full = run(laptop, "push", str(source / "sub/large"), "mini:full")
    assert full.returncode != 0 and ("no room" in full.stderr or "is full" in full.stderr)
    assert not (cluster.home("alice") / "full").exists()
