"""The files of a bug report, as texts without secrets and user names."""

from __future__ import annotations

import getpass
import json
import platform
import re
import socket
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from jupyter_hpc import __version__
from jupyter_hpc.cli.hosts import SessionRunner
from jupyter_hpc.cli.session_logs import local_log, older_log
from jupyter_hpc.clusters import Allocation, Profile
from jupyter_hpc.connect.job.request import find_profile
from jupyter_hpc.connect.session.client import ask_manager
from jupyter_hpc.connect.session.store import Records, SessionRecord
from jupyter_hpc.errors import CommandError, HpcError, ProfileError, UsageError
from jupyter_hpc.redaction import Redactor
from jupyter_hpc.runner import LocalRunner
from jupyter_hpc.slurm.client import SlurmClient

#: Lines of the log that tell what became of the session, in a file of their own.
_EVENT = re.compile(r"^\S+ [A-Z]+ \S+ connect\.session\.[\w.]+: ")
_MAX_EVENTS = 60

#: Lines of the log about the transport and how the job was made.
_CHOSEN = re.compile(r" connect\.(?:tunnel\.transports: transport|job\.allocation: learnt)")
_MAX_CHOICES = 8

_USER, _ACCOUNT, _HOME = "<user>", "<account>", "<home>"

#: Where a log says who somebody is on the cluster, and where that person's files are.
_LOGGED_IN = re.compile(r"\blogged in to \S+ as ([^;\s]+);")
_AT_HOST = re.compile(r"(?<![\w.+-])([A-Za-z_][\w.+-]*)@(?=[A-Za-z0-9])")
_STATE_FOLDER = re.compile(r"(/[^\s'\":=]+)/\.local/(?:state|share)/jupyter")
_HOME_FOLDER = re.compile(
    r"(?<![\w.~-])(?:/home|/[Uu]sers|[A-Z]:\\Users)[/\\]([^./\\\s'\":][^/\\\s'\":]*)"
)
_NAMED_ACCOUNT = re.compile(r"(?:--account[= ]|(?<!\S)-A ?)([\w.-]+)")

_PACKAGES = ("asyncssh", "tornado", "click", "rich", "psutil", "cryptography", "jupyter_server")

_README = """\
A bug report about the session {name} of jupyter-hpc {version}.

{files}

What was taken out: tokens, secrets, passwords and answers to prompts, private keys, cookies,
values that environment lines set, user names, accounts, home folders, and the name of the
computer that it was written on. In their place stand words such as <hidden> and <user>.

What was not: names and addresses of the cluster's hosts, job ids and names, paths below a home
folder, commands that were run, and what hosts answered when something failed.

It was made on the user's computer and sent to nobody. Please look at it before you send it.
"""


async def contents(records: Records, name: str) -> dict[str, str]:
    """File name -> text. UsageError if nothing is known of a session of that name."""
    profile, no_profile = _profile(name)
    logs = _logs(records, name, needed=profile is None)
    record = records.session(name)
    redact = Redactor()
    _hide_people(redact, profile, "\n".join(logs.values()))
    runner = SessionRunner(record) if record is not None else None
    if record is not None and runner is not None:
        await _hide_session(redact, record, runner)
    plain = {
        "versions.json": _as_json(await _versions()),
        "slurm.txt": redact(await _slurm_version(runner)),
        "transport.txt": redact(_transport(records, profile.name if profile else name, logs)),
        "session.json": _as_json(_walk(redact, _status(record))),
        "profile.json": _as_json(_walk(redact, _plain_profile(profile)) if profile else no_profile),
        "events.txt": redact(_events(logs.values())),
        **{file: redact(text) for file, text in logs.items()},
    }
    # Once more over everything: no name comes in by a key, or by a file that nobody thought of.
    texts = {file: redact.known(text) for file, text in plain.items()}
    listed = "\n".join(f"  {file:<16} {_about(file)}" for file in texts)
    readme = _README.format(name=name, version=__version__, files=listed)
    return {"README.txt": redact.known(readme), **texts}


def _about(file: str) -> str:
    known = {
        "versions.json": "versions of jupyter-hpc, Python, its libraries, OpenSSH, the system",
        "slurm.txt": "the version of the cluster's Slurm",
        "transport.txt": "how the node was reached and jobs were made, and why",
        "session.json": "what the session showed of itself at this moment",
        "profile.json": "the profile of the cluster",
        "events.txt": "the last events of the session, from its log",
    }
    if file in known:
        return known[file]
    return "what the session's process printed past its log" if file == "output.txt" else "its log"


# -- what is in it ------------------------------------------------------------------------


def _profile(name: str) -> tuple[Profile | None, str]:
    try:
        return find_profile(name)[0], ""
    except ProfileError as error:
        return None, f"not readable: {error.message}"


def _logs(records: Records, name: str, *, needed: bool) -> dict[str, str]:
    try:
        path = local_log(records, name)
    except UsageError:
        if needed:
            raise
        return {"log.txt": "There is no log: no session of this name was opened on this laptop.\n"}
    files = {
        "log.txt": path,
        "log-older.txt": older_log(path),
        "output.txt": path.with_suffix(".out"),
    }
    return {
        file: place.read_text(encoding="utf-8", errors="replace")
        for file, place in files.items()
        if place.is_file()
    }


async def _versions() -> dict[str, str]:
    found = {"jupyter-hpc": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    try:
        done = await LocalRunner().run(["ssh", "-V"], timeout=10.0)
        found["openssh"] = (done.stderr or done.stdout).strip()
    except CommandError as error:
        found["openssh"] = error.message
    found["system"] = f"{platform.system()} {platform.release()} {platform.machine()}"
    return found


async def _slurm_version(runner: SessionRunner | None) -> str:
    if runner is None:
        return "Not asked: no session of this name runs now.\n"
    try:
        return "{}.{:02d}\n".format(*await SlurmClient(runner).version())
    except HpcError as error:
        return f"Not known: {error.message}\n"


def _transport(records: Records, profile_name: str, logs: Mapping[str, str]) -> str:
    """What is remembered of the cluster, and what the log says of the newest session."""
    memory = records.memory(profile_name)
    lines = [line for line in _all_lines(logs.values()) if _CHOSEN.search(line)]
    return (
        f"remembered transport: {memory.transport or 'none'}\n"
        f"because: {memory.transport_reason or '-'}\n"
        f"jobs are made with: {memory.launch or 'not decided yet'}\n"
        f"because: {memory.launch_reason or '-'}\n\n"
        "from the log:\n" + "\n".join(lines[-_MAX_CHOICES:] or ["-"]) + "\n"
    )


def _status(record: SessionRecord | None) -> dict[str, Any]:
    if record is None:
        return {"state": "no session of this name runs now"}
    try:
        return ask_manager(record, "status", timeout=5.0)
    except HpcError as error:
        return {"state": "silent", "text": error.message}


def _plain_profile(profile: Profile) -> dict[str, Any]:
    """The profile, without who uses it."""
    plain = profile.to_json()
    plain["login"]["user"] = _USER if profile.login.user else None
    for allocation in (plain["allocation"], *plain["presets"].values()):
        for key in ("account", "cpu_account"):
            allocation[key] = _ACCOUNT if allocation.get(key) else None
    for partition in plain["partitions"].values():
        partition["account"] = _ACCOUNT if partition.get("account") else None
    return plain


def _events(logs: Iterable[str]) -> str:
    lines = [line for line in _all_lines(logs) if _EVENT.match(line)]
    return "\n".join(lines[-_MAX_EVENTS:]) + "\n"


def _all_lines(logs: Iterable[str]) -> list[str]:
    """Of all files, the oldest lines first."""
    return [line for text in reversed(list(logs)) for line in text.splitlines()]


# -- what is not --------------------------------------------------------------------------


def _hide_people(redact: Redactor, profile: Profile | None, log: str) -> None:
    """Everything that says who the user is: here, in the profile, and in the log."""
    said = f"{log}\n{_words(profile.to_json()) if profile else ''}"
    homes = {str(Path.home()), Path.home().as_posix(), *_STATE_FOLDER.findall(said)}
    for home in homes:
        redact.hide(home, _HOME)
    users = {getpass.getuser(), *_LOGGED_IN.findall(said)}
    users |= {home.rpartition("/")[2] for home in homes} - {"home"}
    users |= {*_HOME_FOLDER.findall(said), *_AT_HOST.findall(said)}
    accounts = set(_NAMED_ACCOUNT.findall(said))
    if profile is not None:
        users |= {profile.login.user or ""}
        allocations: tuple[Allocation, ...] = (profile.allocation, *profile.presets.values())
        accounts |= {one.account or "" for one in allocations}
        accounts |= {one.cpu_account or "" for one in allocations}
        accounts |= {one.account or "" for one in profile.partitions.values()}
    for account in sorted(accounts):
        redact.hide_name(account, _ACCOUNT)
    for user in sorted(users, key=len, reverse=True):
        redact.hide_name(user, _USER)
    here = socket.gethostname().partition(".")[0]
    if here != "localhost":
        redact.hide_name(here, "<laptop>")


def _words(value: Any) -> str:
    """All texts in plain data, as one."""
    if isinstance(value, Mapping):
        return " ".join(_words(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return " ".join(_words(item) for item in value)
    return str(value)


async def _hide_session(redact: Redactor, record: SessionRecord, runner: SessionRunner) -> None:
    """What only the running session knows: its secrets, and who we are on the cluster."""
    redact.hide(record.secret)
    try:
        address = str(ask_manager(record, "token-url", timeout=5.0).get("url", ""))
        redact.hide(address.partition("token=")[2])
        asked = await runner.run(["sh", "-c", 'id -un; printf %s "$HOME"'], timeout=10.0)
        user, _, home = asked.stdout.partition("\n")
        redact.hide(home.strip(), _HOME)
        redact.hide_name(user.strip(), _USER)
    except HpcError:
        return  # it is not connected now; its log has told the same


def _walk(redact: Redactor, value: Any) -> Any:
    """Every text in plain data, redacted; so what it is written as stays readable."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {key: _walk(redact, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_walk(redact, item) for item in value]
    return value


def _as_json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
