"""The scripts that we run on the cluster: files of shipped/, joined with what they use.

POSIX sh with nothing but coreutils (setsid and find are used where there are any).
Everything that varies reaches a script as a positional argument or on stdin, so no
value of a profile or of the cluster is ever parsed by a shell.

A comment line `# uses: field.sh detach.sh` names the files of shipped/functions/ that
go before a script. Comments stand on lines of their own and stay here: a script travels
as one argument of `sh -c`, and everybody's process list on the cluster shows it.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

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
