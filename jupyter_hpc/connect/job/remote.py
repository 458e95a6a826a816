"""Our scripts on the cluster: files of shipped/, run there with what they use, and their answers.

POSIX sh with nothing but coreutils (setsid and find are used where there are any).
Everything that varies reaches a script as a positional argument or on stdin, so no
value of a profile or of the cluster is ever parsed by a shell.

A comment line `# uses: field.sh detach.sh` names the files of shipped/functions/ that
go before a script. Comments stand on lines of their own and stay here: a script travels
as one argument of `sh -c`, and everybody's process list on the cluster shows it.

Answers are `key=value` lines.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from jupyter_hpc.errors import ConnectError, LaunchFailed
from jupyter_hpc.runner import Completed, Runner
from jupyter_hpc.text import printable, printable_lines

#: isdigit() also likes superscripts, and int() refuses thousands of digits.
_NUMBER = re.compile(r"[0-9]{1,18}")

#: Below the home folder: token, cookie secret and one folder per job.
STATE_FOLDER = ".local/state/jupyter-hpc"

#: How the last line of a detached command's log begins (shipped/functions/detach.sh).
EXIT_LINE = "jupyter-hpc: exit "

#: What launch.sh prints where it cannot write its story: `UNWRITABLE_LINE` node: folder.
UNWRITABLE_LINE = "jupyter-hpc: unwritable on "

#: A launch that has not come to its environment lines after this long has died.
LOCK_SECONDS = 60

_USES = "# uses: "


@cache
def shipped(name: str, room: str = "job") -> bytes:
    """A file of shipped/ of that room of connect, as it is."""
    return (resources.files(f"jupyter_hpc.connect.{room}") / "shipped" / name).read_bytes()


@cache
def script_text(name: str, room: str = "job") -> str:
    """The script `name` of a room's shipped/ with the functions that it uses.

    Its name is the only comment that it keeps: the log knows it by that.
    """
    lines = shipped(name, room).decode().splitlines()
    used = [line.removeprefix(_USES).split() for line in lines if line.startswith(_USES)]
    functions = [
        line
        for file in (file for files in used for file in files)
        for line in shipped(f"functions/{file}").decode().splitlines()
    ]
    code = [line for line in [*functions, *lines] if _says_something(line)]
    return "".join(f"{line}\n" for line in [f"# {name}", *code])


def _says_something(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def script_argv(name: str, *arguments: str, room: str = "job") -> list[str]:
    """The argument vector that runs a script of shipped/ with these arguments."""
    return ["sh", "-c", script_text(name, room), "jupyter-hpc", *arguments]


@dataclass(frozen=True)
class Account:
    """The user on the cluster: where state lives and what opens Jupyter."""

    home: str
    state: str
    uid: str
    user: str
    host: str
    writable: bool
    token: str
    cookie_secret: str

    def job_folder(self, job_id: str) -> str:
        return f"{self.state}/jobs/{job_id}"


def read_fields(text: str) -> dict[str, list[str]]:
    """`key=value` lines as a multi-valued table; anything else is passed over."""
    fields: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, separator, value = line.partition("=")
        if separator and key.isidentifier():
            fields.setdefault(key, []).append(value)
    return fields


def first(fields: Mapping[str, Sequence[str]], key: str) -> str:
    values = fields.get(key)
    return values[0] if values else ""


async def prepare_account(runner: Runner, fresh_secret: str) -> Account:
    """Make the state folder with token and cookie secret, or read the ones there.

    Where the home folder cannot be written, `writable` is False and secrets that
    do not exist yet are taken from `fresh_secret`, for this session only.
    """
    done = await runner.run(script_argv("prepare.sh", STATE_FOLDER))
    fields = read_fields(done.stdout)
    if not first(fields, "home"):
        raise ConnectError(
            f"The login host did not run a simple script: {_said(done)}.",
            "Check that `ssh HOST sh -c true` works and that /bin/sh exists there.",
        )
    return Account(
        home=first(fields, "home"),
        state=first(fields, "state"),
        uid=first(fields, "uid"),
        user=first(fields, "user"),
        host=first(fields, "host"),
        writable=first(fields, "writable") == "yes",
        token=first(fields, "token") or fresh_secret,
        cookie_secret=first(fields, "cookie_secret") or fresh_secret,
    )


async def place_files(
    runner: Runner,
    folder: str,
    files: Mapping[str, bytes],
    *,
    node_local: bool = False,
    dead: str = "",
) -> str:
    """Write 0600 files into a 0700 folder and return that folder's path.

    With `node_local`, `folder` is only a prefix: the folder is made anew with a
    name that nobody can have taken before. Else "" is returned when another connect
    is starting the server in it right now, or has done so since `find_server` said
    that only the server `dead` stood there ("": none).
    """
    lines = b"".join(
        name.encode() + b" " + base64.b64encode(data) + b"\n" for name, data in files.items()
    )
    where = "node-local" if node_local else "home"
    done = await runner.run(
        script_argv("place.sh", folder, where, str(LOCK_SECONDS), dead), stdin=lines
    )
    fields = read_fields(done.stdout)
    if done.ok and first(fields, "busy"):
        return ""
    placed = first(fields, "folder")
    if not done.ok or not placed:
        raise LaunchFailed(
            f"The session's files could not be written to {printable(folder)}: {_said(done)}.",
            "Check quota and permissions of that folder.",
        )
    return placed


async def start_and_watch(runner: Runner, log: str, argv: Sequence[str], seconds: float) -> str:
    """Start a command that outlives the connection; what its log says within `seconds`."""
    done = await runner.run(
        script_argv("start_and_watch.sh", log, _ticks(seconds, 0.1, 0.5), *argv),
        timeout=seconds + 30,
    )
    _check_started(done, argv, log)
    return done.stdout


async def start_detached(runner: Runner, log: str, argv: Sequence[str]) -> str:
    """Start a command that outlives the connection; its process id, for `let_go`."""
    done = await runner.run(script_argv("start_detached.sh", log, *argv))
    _check_started(done, argv, log)
    return first(read_fields(done.stdout), "pid")


def _check_started(done: Completed, argv: Sequence[str], log: str) -> None:
    if not done.ok:
        raise LaunchFailed(
            f"{argv[0]!r} could not be started on the cluster: {_said(done)}.",
            f"Check that {printable(log)} can be written.",
        )


async def let_go(runner: Runner, pid: str) -> None:
    """End the srun of a step that runs; the step goes on."""
    await runner.run(script_argv("let_go.sh", pid))


async def watch_file(runner: Runner, file: str, seen: int, seconds: float) -> str:
    """The whole text of `file` once it is longer than `seen` bytes, or after `seconds`."""
    ticks = _ticks(seconds, 0.1, 0.5)
    done = await runner.run(
        script_argv("watch_file.sh", file, str(seen), ticks), timeout=seconds + 30
    )
    return done.stdout


async def keep_log(runner: Runner, log: str, folder: str) -> str:
    """Move salloc's log into the job's folder; its new path, or the old one if that failed."""
    done = await runner.run(script_argv("keep_log.sh", log, folder))
    return f"{folder}/salloc.log" if done.ok else log


async def start_and_await(
    runner: Runner, session: str, argv: Sequence[str], seconds: float
) -> tuple[str, dict[str, list[str]]]:
    """Start the job step detached; the first of `address`, `failed` and `ended` that it writes.

    Returns the file's name and fields; the name is "" if none came within `seconds`
    or before srun ended. A step that runs is let go of.
    """
    ticks = _ticks(seconds, 0.05, 0.25)
    done = await runner.run(
        script_argv("start_and_await.sh", session, ticks, *argv), timeout=seconds + 30
    )
    _check_started(done, argv, f"{session}/srun.log")
    fields = read_fields(done.stdout)
    return first(fields, "found"), fields


async def await_file(
    runner: Runner, folder: str, names: Sequence[str], seconds: float
) -> tuple[str, dict[str, list[str]]]:
    """The first of `names` that appears in `folder`, with its fields; ("", {}) if none did."""
    ticks = _ticks(seconds, 0.05, 0.25)
    done = await runner.run(
        script_argv("await_files.sh", folder, ticks, *names), timeout=seconds + 30
    )
    fields = read_fields(done.stdout)
    return first(fields, "found"), fields


async def find_server(
    runner: Runner, folder: str, node_local: str
) -> tuple[dict[str, list[str]], str]:
    """The address of a live server of this job, run on its node; without one, no `session`.

    `dead` is then the private folder of a server that is gone, where there was one. The second
    is "", or what was said instead of an answer: a node that cannot be asked is not one
    without a server.
    """
    done = await runner.run(script_argv("find_server.sh", folder, node_local))
    fields = read_fields(done.stdout)
    return fields, "" if first(fields, "looked") else _said_in_full(done)


def _ticks(seconds: float, fine: float, coarse: float) -> str:
    """How often a script's loop turns in `seconds`: finely for 5 s, then coarsely."""
    return str(max(1, int(min(seconds, 5.0) / fine + max(seconds - 5.0, 0.0) / coarse)))


async def read_file(runner: Runner, file: str, tail_bytes: int = 65536) -> str:
    """The end of a file on the cluster, "" if there is none."""
    done = await runner.run(["tail", "-c", str(tail_bytes), file])
    return done.stdout if done.ok else ""


async def read_from(runner: Runner, file: str, offset: int) -> tuple[str, int]:
    """The file's text from byte `offset` on (-1: its last 64 kB), and its size."""
    done = await runner.run(script_argv("read_from.sh", file, str(offset)))
    size, _, text = done.stdout.partition("\n")
    return text, int(size) if _NUMBER.fullmatch(size) else 0


def _said_in_full(done: Completed) -> str:
    """All lines of an error: the last one of srun's is often the least telling."""
    lines = printable_lines(done.stderr, 1000).strip().splitlines()
    return "\n".join(lines).rstrip(".") or f"exit code {done.returncode}, no message"


def _said(done: Completed) -> str:
    text = printable_lines(done.stderr or done.stdout).strip().splitlines()
    return text[-1].rstrip(".") if text else f"exit code {done.returncode}, no message"
