"""`jupyter-hpc push`, `pull` and `sync`: files between this computer and a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import os
import posixpath
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeVar

import click

from jupyter_hpc.cli.file_progress import Progress
from jupyter_hpc.cli.hosts import ClusterRunner, open_cluster, open_transfer_host
from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect.files import transfer as files
from jupyter_hpc.connect.files.channel import agent_line
from jupyter_hpc.connect.files.frames import Wire
from jupyter_hpc.connect.files.listing import Source
from jupyter_hpc.connect.files.moving import transfer
from jupyter_hpc.connect.files.transfer import Options, Outcome
from jupyter_hpc.connect.job.request import find_profile
from jupyter_hpc.errors import Unreachable, UsageError
from jupyter_hpc.text import printable

F = TypeVar("F", bound=Callable[..., Any])

#: A drive of Windows is one letter, so a name has two at least.
_REMOTE = re.compile(r"([A-Za-z0-9][\w.-]+):(.*)", re.S)


def _common(command: F) -> F:
    options = [
        click.option("-n", "--dry-run", "dry", is_flag=True, help="Only say what would be copied."),
        click.option(
            "-c", "--checksum", is_flag=True, help="Compare by content, not by size and time."
        ),
        click.option(
            "-L", "--follow", is_flag=True, help="Copy what links lead to, not the links."
        ),
        click.option(
            "--via",
            type=click.Choice(["auto", "login", "transfer"]),
            default="auto",
            show_default=True,
            help="The login host, or the site's host for transfers.",
        ),
    ]
    for option in options:
        command = option(command)
    return command


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SRC...")
@click.argument("target", metavar="NAME:DST")
@_common
def push(sources: tuple[str, ...], target: str, via: str, **flags: bool) -> int:
    """Copy files and folders to the cluster NAME.

    As with scp, a SRC goes into DST if that is a folder, and becomes DST otherwise. Files of the
    same name are replaced, each at once when the new one is whole; those of the same size and
    time are left as they are. After a cut the same command goes on where it stopped.
    """
    name, path = _remote(target)
    _check_names([os.path.basename(os.path.abspath(source)) for source in sources])
    for source in sources:
        if not os.path.lexists(source):
            raise UsageError(f"There is no {source!r} here.", "Nothing was copied.")
    options = Options(**flags)

    def work(wire: Wire, progress: Progress) -> Outcome:
        whole, kind = files.look(wire, path or ".")
        into = kind == "d" or path.endswith("/") or len(sources) > 1
        if kind == "f" and (into or os.path.isdir(sources[0])):
            raise UsageError(f"{name}:{path} is a file, not a folder.", "Nothing was copied.")
        root = whole if into else posixpath.dirname(whole)
        called = None if into else posixpath.basename(whole)
        return files.push(wire, files.local_sources(sources, called), root, options, progress)

    return asyncio.run(_run(name, target, via, options, work, sure=False))


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="NAME:SRC...")
@click.argument("target", metavar="DST")
@_common
def pull(sources: tuple[str, ...], target: str, via: str, **flags: bool) -> int:
    """Copy files and folders from the cluster NAME.

    As with scp, a SRC goes into DST if that is a folder, and becomes DST otherwise; patterns such
    as NAME:'runs/*.csv' are understood. Files of the same name are replaced, each at once when the
    new one is whole. After a cut the same command goes on where it stopped.
    """
    named = [_remote(source) for source in sources]
    if len({name for name, _ in named}) > 1:
        raise UsageError("All SRC have to be on one cluster.", "Pull from one after the other.")
    name = named[0][0]
    patterns = any(re.search(r"[*?\[]", path) for _, path in named)
    into = os.path.isdir(target) or target.endswith(("/", os.sep)) or len(sources) > 1 or patterns
    root = target if into else os.path.dirname(os.path.abspath(target))
    called = None if into else os.path.basename(os.path.abspath(target))
    if not into:
        _check_writable(target)
    options = Options(**flags)

    def work(wire: Wire, progress: Progress) -> Outcome:
        return files.pull(
            wire, [(path or ".", called) for _, path in named], root, options, progress
        )

    return asyncio.run(_run(name, target, via, options, work, sure=False))


@click.command()
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@_common
@click.option("--delete", is_flag=True, help="Delete in DST what SRC does not have; asks first.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before deleting.")
def sync(source: str, target: str, via: str, yes: bool, **flags: bool) -> int:
    """Make the folder DST the same as the folder SRC; one of them is NAME:FOLDER.

    Copies what differs in size or time. Nothing is deleted without --delete, and --dry-run shows
    what would be done.
    """
    there, here = _REMOTE.fullmatch(target), _REMOTE.fullmatch(source)
    if (there is None) == (here is None):
        raise UsageError(
            "One of SRC and DST has to be on a cluster, as NAME:FOLDER, and the other here.",
            "A local name with a colon is written with ./ before it.",
        )
    options = Options(contents=True, **flags)
    if there is not None:
        name, path = there[1], there[2]
        if not os.path.isdir(source):
            raise UsageError(f"{source!r} is not a folder here.", "For one file use push.")

        def work(wire: Wire, progress: Progress) -> Outcome:
            whole, kind = files.look(wire, path or ".")
            if kind == "f":
                raise UsageError(f"{target} is a file, not a folder.", "Nothing was copied.")
            return files.push(wire, [Source(source, "")], whole, options, progress)

    else:
        name, path = _remote(source)

        def work(wire: Wire, progress: Progress) -> Outcome:
            whole, kind = files.look(wire, path or ".")
            if kind != "d":
                raise UsageError(f"{source} is not a folder.", "For one file use pull.")
            return files.pull(wire, [(whole, "")], target, options, progress)

    return asyncio.run(_run(name, target, via, options, work, sure=yes))


async def _run(
    name: str,
    target: str,
    via: str,
    options: Options,
    work: Callable[[Wire, Progress], Outcome],
    *,
    sure: bool,
) -> int:
    profile, _ = find_profile(name)
    profile.check_usable()
    where = printable(target)
    progress = Progress(where=where, delete=options.delete, sure=sure, dry=options.dry)
    try:
        async with _open(profile, via) as starter:
            outcome = await transfer(starter, lambda wire: work(wire, progress), progress.cut)
    finally:
        progress.clear()
    return progress.report(outcome)


@contextlib.asynccontextmanager
async def _open(profile: Profile, via: str) -> AsyncIterator[ClusterRunner]:
    """A session's connection, else the site's host for transfers, else the login host."""
    host = profile.transfer.host
    if via == "transfer" and not host:
        raise UsageError(
            f"The profile {profile.name} names no host for transfers.",
            "Leave --via out, or write host under [transfer] in your profile.",
        )
    async with contextlib.AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(open_cluster(profile))
        if via == "transfer" or (via == "auto" and host and not cluster.over_session):
            other = await stack.enter_async_context(open_transfer_host(profile))
            try:
                await other.log_in(agent_line())
            except Unreachable as error:
                if via == "transfer":
                    raise
                click.echo(f"{error.message} The login host is used instead.", err=True)
            else:
                click.echo(f"Through {other.host}. {profile.transfer.note}".strip(), err=True)
                cluster = other
        yield cluster


def _remote(text: str) -> tuple[str, str]:
    found = _REMOTE.fullmatch(text)
    if found is None:
        raise UsageError(
            f"{text!r} names no cluster.",
            "Write NAME:PATH, for example demo:data; a path without / begins in your home folder.",
        )
    return found[1], found[2]


def _check_names(names: Sequence[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UsageError(
            f"Two of the sources are called {twice[0]!r}, and one would replace the other.",
            "Copy them one after the other, under different names.",
        )


def _check_writable(target: str) -> None:
    folder = os.path.dirname(os.path.abspath(target))
    if not os.path.isdir(folder):
        raise UsageError(f"There is no folder {folder!r} here.", "Make it first.")
