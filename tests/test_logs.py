"""The log: what a line looks like, what never stands in it, where it goes, what cannot break."""

from __future__ import annotations

import errno
import io
import logging
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_hpc import logs
from jupyter_hpc.errors import CommandTimeout
from jupyter_hpc.logs import Forward, Log, PrivateFile
from jupyter_hpc.redaction import HIDDEN, Redactor
from jupyter_hpc.runner import LocalRunner
from jupyter_hpc.text import command_words

logger = logging.getLogger("jupyter_hpc.connect.example")

TOKEN = "4221cb41149bdfd211058bf5b9ee3642385bb808159badb47dc3b289ea5caa68"
URLSAFE = "Zk3-qTq0vXb2sYwPpVd1oJ9uWmZ5cRrT7hLxKfEaB_c"


@pytest.fixture
def log() -> Iterator[Log]:
    made = Log()
    yield made
    made.close()


@pytest.fixture
def shown(log: Log) -> list[str]:
    """What -vv shows."""
    lines: list[str] = []
    log.show(2, lines.append)
    return lines


def keep(log: Log, folder: Path, name: str = "demo") -> list[str]:
    """Log to files below the folder; what was told of trouble."""
    told: list[str] = []
    log.keep(name, folder / "logs" / f"{name}.log", told.append)
    return told


def read(folder: Path, name: str = "demo") -> str:
    return (folder / "logs" / f"{name}.log").read_text(encoding="utf-8")


# -- lines --------------------------------------------------------------------------------


def test_a_line_says_when_which_session_and_who(log: Log, tmp_path: Path) -> None:
    keep(log, tmp_path)
    logger.info("job %s adopted", "12")
    (line,) = read(tmp_path).splitlines()
    stamp, rest = line.split(" ", 1)
    assert rest == "INFO demo connect.example: job 12 adopted"
    assert len(stamp) == len("2026-11-18T05:02:19.777Z") and stamp.endswith("Z")


def test_a_message_is_one_line_without_control_characters(shown: list[str]) -> None:
    logger.warning("first\nsecond \x1b[31mred")
    (line,) = shown
    assert line.endswith("first second [31mred")


def test_a_traceback_stands_below_its_line_without_secrets(shown: list[str]) -> None:
    try:
        raise ValueError(f"bad address http://localhost:1/lab?token={TOKEN}")
    except ValueError:
        logger.exception("it failed")
    (text,) = shown
    head, *below = text.splitlines()
    assert head.endswith("it failed")
    assert all(line.startswith("    ") for line in below)
    assert "ValueError: bad address" in text and TOKEN not in text


# -- secrets ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"GET /lab?token={TOKEN}&reset=1", TOKEN),
        ("GET /lab?token=short&x=1", "short"),
        ("Authorization: token abc123", "abc123"),
        ("{'Authorization': 'Bearer abc.def'}", "abc.def"),
        ("Cookie: username-localhost-20123=2|1:0|10:1; _xsrf=9", "_xsrf=9"),
        ("Set-Cookie: id=secretvalue; Path=/", "secretvalue"),
        (f"relay secret {TOKEN}", TOKEN),
        (f"record {URLSAFE} was read", URLSAFE),
        ("cookie_secret=c2VjcmV0", "c2VjcmV0"),
        ('{"password": "hunter2 and more"}', "hunter2"),
        ("Password: hunter2", "hunter2"),
        ("train.py --hub-token hunter2 --epochs 3", "hunter2"),
        ("login('hf_abcdefGH1234ijkl')", "abcdefGH"),
        ("key sk-proj-abcdef1234567 was used", "abcdef1234567"),
        ("passphrase='my dog'", "my dog"),
        ("clone with glpat-abcdEFGH1234567890xx", "abcdEFGH"),
        ("sent eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.SflKxwRJSM on", "SflKxwRJSM"),
        ("posted to https://hooks.slack.com/services/T0/B0/XyZ and", "XyZ"),
        ("posted to https://discord.com/api/webhooks/12/ab-Cd", "ab-Cd"),
        ("curl -u me:hunter2 https://x", "hunter2"),
        ("line 2 failed: export WANDB_API_KEY='a;b c'", "b c"),
        ("line 2 failed: export PLAIN=value other", "value"),
        ("export THREADS=4 PLAIN=hunter2", "hunter2"),
        ("export PLAIN=/aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5", "aB3dE5"),
        ("setenv HF 123456789", "123456789"),
        ("HF_TOKEN=hf_x sbatch", "hf_x"),
        ("aws_access_key_id: AKIA", "AKIA"),
        ("https://me:hunter2@host/x", "hunter2"),
        (
            "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaA==\nMORE\n"
            "-----END OPENSSH PRIVATE KEY----- rest",
            "b3BlbnNzaA",
        ),
        ("-----BEGIN RSA PRIVATE KEY-----\ncut short", "cut short"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str, secret: str, shown: list[str]) -> None:
    assert secret in text
    logger.debug("%s", text)
    (line,) = shown
    assert secret not in line
    assert HIDDEN in line


@pytest.mark.parametrize(
    "text",
    [
        "host key accepted: ED25519 SHA256:Uq4ZkXcVb0s3m1n7L0pQrStUvWxYzAbCdEfGhIjKlMn",
        "squeue --noheader --me --name=jupyter-hpc-demo -> exit 0, 0.52 s",
        "transport to gpu-node-017.cluster.example.org: ssh is the best way and works.",
        "the secret of this session is missing or wrong",
        "jobs are made with salloc, because: allocations without a shell can live here",
        "/tmp/jupyter-hpc-12.aB3dE5 on node 12, export of the results",
        "import sk-learn-contrib; train --epochs 3",
        'export SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}"',
        "export PYTHONUNBUFFERED=1 RANK=$SLURM_PROCID\nexport OUT=$run/output/$task # there",
        "export PATH=/opt/cuda-12.2/bin:$PATH",
        "export RANK=0 MASTER_ADDR=localhost MASTER_PORT=$((10000 + job % 20000))",
        "sort -u names: see https://example.org/manual#hooks",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert Redactor()(text) == text


def test_answers_of_the_user_are_hidden_wherever_they_stand(log: Log, shown: list[str]) -> None:
    log.redact.hide("correct horse")
    log.redact.hide("yes")  # too short: it would hide half of every text
    logger.info("the host said: no such word 'correct horse', yes")
    assert shown[0].endswith(f"no such word '{HIDDEN}', yes")


def test_a_name_is_hidden_as_a_word_only() -> None:
    redact = Redactor()
    redact.hide_name("ann", "<user>")
    assert redact("cannot reach /scratch/ann/x, Ann_1 or annex") == (
        "cannot reach /scratch/<user>/x, <user>_1 or annex"
    )


def test_channels_and_encoded_commands_of_asyncssh_are_left_out(shown: list[str]) -> None:
    theirs = logging.getLogger("asyncssh")
    theirs.info("[conn=1, chan=0]   Command: /bin/sh -c 'eval …'")
    theirs.info("[conn=1] Auth for user alice succeeded")
    theirs.debug("[conn=1] too much")
    theirs.warning("[conn=1, chan=2] something is wrong")
    assert [line.split("asyncssh: ")[1] for line in shown] == [
        "[conn=1] Auth for user alice succeeded",
        "[conn=1, chan=2] something is wrong",
    ]


def test_without_vv_asyncssh_says_only_warnings(log: Log, tmp_path: Path) -> None:
    lines: list[str] = []
    log.show(1, lines.append)
    keep(log, tmp_path)
    logging.getLogger("asyncssh").info("[conn=1] Auth for user alice succeeded")
    logger.debug("a step")
    logger.info("a decision")
    assert [line.rpartition(": ")[2] for line in lines] == ["a decision"]
    assert "alice" not in read(tmp_path)
    assert "a step" in read(tmp_path)


# -- the file -----------------------------------------------------------------------------


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_the_file_is_private_from_its_creation_and_after_rotation(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int] = []
    real = os.open

    def watching(path: object, flags: int, mode: int = 0o777, **more: object) -> int:
        if str(path).endswith("demo.log"):
            opened.append(mode)
        return real(path, flags, mode, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", watching)
    before = os.umask(0)
    try:
        (tmp_path / "logs").mkdir(mode=0o777)
        keep(log, tmp_path)
        logger.info("first")
        assert modes(tmp_path / "logs") == {"demo.log": 0o600}
        assert stat.S_IMODE((tmp_path / "logs").stat().st_mode) == 0o700
        for number in range(3 * logs.MAX_BYTES // 1500):
            logger.debug("%d %s", number, "words and " * 150)
    finally:
        os.umask(before)
    assert modes(tmp_path / "logs") == {"demo.log": 0o600, "demo.log.1": 0o600}
    assert len(opened) >= 2 and set(opened) == {0o600}
    sizes = [path.stat().st_size for path in (tmp_path / "logs").iterdir()]
    assert max(sizes) <= logs.MAX_BYTES


def test_a_folder_that_cannot_be_made_is_told_once(log: Log, tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file in its place")
    told = keep(log, tmp_path)
    logger.info("one")
    logger.info("two")
    assert len(told) == 1
    assert "cannot be written" in told[0] and "the session goes on" in told[0]


def test_a_full_disk_is_told_once_and_forgiven(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(io.TextIOWrapper):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    told = keep(log, tmp_path)
    logger.info("before")
    real = PrivateFile._open
    with monkeypatch.context() as full:
        full.setattr(PrivateFile, "_open", lambda self: Full(real(self).detach()))
        log.rename("other", tmp_path / "logs" / "other.log")
        logger.info("lost")
        logger.info("lost too")
    assert told == [
        f"The log {tmp_path / 'logs' / 'other.log'} cannot be written "
        f"({os.strerror(errno.ENOSPC)}); the session goes on without it."
    ]
    log.rename("demo", tmp_path / "logs" / "demo.log")
    logger.info("after")
    assert "before" in read(tmp_path) and "after" in read(tmp_path)


def test_a_session_that_gets_another_name_goes_on_in_its_file(log: Log, tmp_path: Path) -> None:
    keep(log, tmp_path)
    logger.info("as demo")
    log.rename("demo-2", tmp_path / "logs" / "demo-2.log")
    logger.info("as demo-2")
    assert "as demo-2" not in read(tmp_path)
    first, second = read(tmp_path, "demo-2").splitlines()
    assert "it began as demo" in first and " demo-2 " in first
    assert second.endswith("as demo-2")


def test_a_closed_log_leaves_the_loggers_as_they_were(tmp_path: Path) -> None:
    names = ("jupyter_hpc", "asyncssh", "asyncio")
    before = {name: (logging.getLogger(name).level, _handlers(name)) for name in names}
    made = Log()
    made.show(2, lambda line: None)
    keep(made, tmp_path)
    logger.info("something")
    assert {name: (logging.getLogger(name).level, _handlers(name)) for name in names} != before
    made.close()
    assert {name: (logging.getLogger(name).level, _handlers(name)) for name in names} == before


def _handlers(name: str) -> list[logging.Handler]:
    return list(logging.getLogger(name).handlers)


# -- commands -----------------------------------------------------------------------------


def test_a_script_is_named_not_shown() -> None:
    script = "\n# prepare the account\numask 077\nsecret things\n"
    assert command_words(["sh", "-c", script, "jupyter-hpc", "a b"]) == (
        "sh -c <prepare the account> jupyter-hpc 'a b'"
    )
    unnamed = command_words(["srun", "sh", "-c", "umask 077\nrm x"])
    assert unnamed == "srun sh -c <umask 077>"
    assert command_words(["env", "-u", "A", "B=secret", "squeue", "--me"]) == "squeue --me"
    assert len(command_words(["x", "y" * 5000])) < 100


def test_a_script_for_the_cluster_is_logged_by_its_name() -> None:
    from jupyter_hpc.connect.job.remote import script_argv

    assert command_words(script_argv("let_go.sh", "4711")) == "sh -c <let_go.sh> jupyter-hpc 4711"


async def test_a_command_is_one_line_with_its_end_and_without_its_data(shown: list[str]) -> None:
    await LocalRunner().run(["sh", "-c", "cat; exit 3"], stdin=b"private input")
    (line,) = shown
    assert "runner: this machine: sh -c 'cat; exit 3' -> exit 3, 0." in line
    assert "private" not in line


async def test_a_command_that_is_stopped_says_so(shown: list[str]) -> None:
    with pytest.raises(CommandTimeout):
        await LocalRunner().run(["sleep", "9"], timeout=0.1)
    assert "sleep 9 -> CommandTimeout, 0.1" in shown[0]


# -- inside a server ----------------------------------------------------------------------


def test_lines_of_ours_come_once_at_the_level_of_the_server() -> None:
    server = logging.getLogger("test-server")
    server.propagate = False
    server.setLevel(logging.INFO)
    lines: list[str] = []
    server.addHandler(_Collect(lines))
    everything: list[str] = []
    root = _Collect(everything)
    logging.getLogger().addHandler(root)
    first, second = Forward(server), Forward(server)
    try:
        first.begin()
        second.begin()  # the next server of the same process
        logger.debug("too much")
        logger.info("with token=%s", TOKEN)
        assert lines == [f"with token={HIDDEN}"]
        assert everything == []
    finally:
        second.end()
        logging.getLogger().removeHandler(root)
    assert not any(isinstance(one, Forward) for one in _handlers("jupyter_hpc"))
    assert logging.getLogger("jupyter_hpc").propagate


class _Collect(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())
