"""Why a build failed: the codes of shipped/build.sh and what pip and conda say, as errors."""

from __future__ import annotations

import re
from collections.abc import Callable

from jupyter_hpc.connect.setup.recipe import STATE, Recipe
from jupyter_hpc.errors import CommandFailed
from jupyter_hpc.text import printable

_QUOTA = re.compile(r"disk quota exceeded|quota.{0,30}exceeded|errno 122", re.I)
_FULL = re.compile(r"no space left on device|errno 28\b", re.I)
_OFFLINE = re.compile(
    r"name resolution|network is unreachable|newconnectionerror|failed to establish a new conn|"
    r"connection refused|could not resolve host|proxyerror|dns error|connecttimeout|"
    r"connection timed out|client error \(connect\)|condahttperror|no route to host",
    re.I,
)
_MISSING = re.compile(
    r"no matching distribution found for ([^\s,(]+)|because ([\w.-]+) was not found|"
    r"package '([\w.-]+)' requires a different python",
    re.I,
)

#: Of conda from 4 to 26 and of mamba, whose solver says it in a tree of lines.
_NOT_IN_CHANNELS = re.compile(
    r"(?:PackagesNotFound\w*Error: .*|ResolvePackageNotFound: *)\n\s*- ([\w.-]+)|"
    r"nothing provides (?:requested )?([\w.-]+)|([\w.-]+)\b.{0,60} does not exist \(perhaps"
)

#: The code of a build that is gone and has not said why, as of one that got SIGKILL.
KILLED = 137

#: Ended by a signal: INT, TERM, KILL, and that of a limit of processor time.
_SIGNALS = (130, 143, KILLED, 152)

#: An environment needs a hundred times this; so little is left where it did not fit.
_LITTLE_KILOBYTES = 20_000

#: Fewer free inodes than this are none.
_FEW_INODES = 1000


def explain(code: int, log: str, recipe: Recipe, host: str) -> CommandFailed:
    """The error for a build that ended with `code` and this log."""
    said = dict(re.findall(r"^jupyter-hpc: (fault|inodes|space|room) (.*)$", log, re.M))
    detail = printable(said.get("fault", ""), 300)
    output = "\n".join(line for line in log.splitlines() if not line.startswith("jupyter-hpc: "))
    # Python's venv and ipykernel do not say that there was no room.
    if code in (27, 32):
        output += f"\n{said.get('room', '')}"
        little = _is_less(said.get("space", ""), _LITTLE_KILOBYTES)
        if little or _is_less(said.get("inodes", ""), _FEW_INODES):
            output += "\nno space left on device"
    common = _common(output, said.get("inodes", ""), host)
    if common is not None:
        return common
    if code in _BY_CODE:
        return _BY_CODE[code](detail, recipe, host, log)
    if code == 31 and _OFFLINE.search(output):
        return CommandFailed(
            f"{host} does not reach the Internet, from where conda's packages would come.",
            "Many sites have a mirror of its channels, for ~/.condarc there: ask yours. Without "
            "one, --style venv --wheels FOLDER needs no Internet.",
        )
    if code == 30 and _OFFLINE.search(output):
        return CommandFailed(
            f"{host} does not reach the Internet, from where the packages would come.",
            "Give a folder of wheels on the cluster: --wheels FOLDER. One is filled elsewhere, for "
            "the cluster's Python, with `pip download 'jupyter-hpc[lab]'`, and sent there with "
            "`jupyter-hpc push`.",
        )
    if code in _SIGNALS:
        return CommandFailed(
            f"The build was ended on {host} before it was over, by somebody or by a limit of the "
            "site.",
            "Run it again: what was downloaded is not downloaded again. Where login hosts limit "
            "the time of a program, --style uv takes the least.",
        )
    absent = _NOT_IN_CHANNELS.search(output)
    if code == 31 and absent:
        name = printable(absent[1] or absent[2] or absent[3], 80)
        return CommandFailed(
            f"There is no package {name!r} that fits in the channels that conda reads on {host}.",
            "Correct its name or version in the file, or name the channel that has it there.",
        )
    missing = _MISSING.search(output)
    if code == 30 and missing:
        name = printable(missing[1] or missing[2] or missing[3], 80)
        where = f"in {recipe.wheels}" if recipe.wheels not in ("", "no-index") else "there"
        return CommandFailed(
            f"There is no package {name!r} {where} that fits this Python.",
            "Add its wheel to the folder, or choose another Python with --python or --module.",
        )
    last = [line for line in output.splitlines() if line.strip()][-3:]
    shown = printable(" ".join(last), 400)
    return CommandFailed(
        f"The environment could not be made on {host} (code {code}): {shown or detail}",
        f"All that was said is in ~/{STATE}/{recipe.kernel.removeprefix('jupyter-hpc-')}/build.log "
        "there. The next run begins anew.",
    )


def _is_less(number: str, limit: int) -> bool:
    return number.isdigit() and int(number) < limit


def _common(output: str, inodes: str, host: str) -> CommandFailed | None:
    """A lack of room, which shows in many ways."""
    if _QUOTA.search(output):
        return CommandFailed(
            f"Your quota on {host} is used up: no more data or files can be written.",
            "Delete something, or choose another place: --prefix FOLDER. An environment has "
            "about 20,000 files; --style packed needs one, where the tools are there.",
        )
    if _is_less(inodes, _FEW_INODES) and (
        _FULL.search(output) or "cannot create" in output.lower()
    ):
        return CommandFailed(
            f"The file system on {host} has no free inodes: no more files can be made.",
            "Delete files, or choose another place: --prefix FOLDER. --style packed is one file.",
        )
    if _FULL.search(output):
        return CommandFailed(
            f"The disk on {host} is full.",
            "Delete something, or choose another place: --prefix FOLDER.",
        )
    return None


def _no_python(detail: str, recipe: Recipe, host: str, log: str) -> CommandFailed:
    asked = f" called {recipe.python!r}" if recipe.python else ""
    return CommandFailed(
        f"{host} has no Python{asked} on its PATH.",
        "Name a module that brings one, such as --module python/3.11, or a path with --python.",
    )


def _old_python(detail: str, recipe: Recipe, host: str, log: str) -> CommandFailed:
    return CommandFailed(
        f"{detail} on {host} is too old: Python 3.10 or newer is needed.",
        "Name a module with a newer one, such as --module python/3.11, or a path with --python.",
    )


def _wrong_module(detail: str, recipe: Recipe, host: str, log: str) -> CommandFailed:
    name, _, none = detail.partition(" ")
    if none:
        return CommandFailed(
            f"{host} has no module command, so {name!r} cannot be loaded.",
            "Leave --module out, and the modules in the profile, too.",
        )
    offers = re.findall(r"^jupyter-hpc: offer (\S+)$", log, re.M)
    said = " ".join(" ".join(re.findall(r"^jupyter-hpc: said (.*)$", log, re.M)).split())
    because = f" It says: {printable(said, 300)}" if said else ""
    if name in offers:
        hint = (
            "It is there, and may need another one first: name both, --module OTHER "
            f"--module {name}. `module spider {name}` on the cluster says which."
        )
    elif offers:
        hint = f"There are: {', '.join(printable(offer, 60) for offer in offers[:12])}."
    else:
        hint = f"`module spider {name.split('/')[0]}` finds none."
    return CommandFailed(f"The module {name!r} cannot be loaded on {host}.{because}", hint)


def _no_conda(detail: str, recipe: Recipe, host: str, log: str) -> CommandFailed:
    return CommandFailed(
        f"{host} has neither conda nor mamba nor micromamba on its PATH.",
        "Name a module that brings one, such as --module miniforge3, or use --style venv.",
    )


def _no_tool(detail: str, recipe: Recipe, host: str, log: str) -> CommandFailed:
    return CommandFailed(
        f"{detail} is not there on {host}, so the environment cannot be packed into one file.",
        "Leave --style packed out, or ask the site for squashfs-tools and squashfuse.",
    )


def _no_uv(detail: str, recipe: Recipe, host: str, log: str) -> CommandFailed:
    return CommandFailed(
        f"{host} has no uv on its PATH.",
        "Name a module that brings it with --module, or use --style venv.",
    )


def _two_builds(detail: str, recipe: Recipe, host: str, log: str) -> CommandFailed:
    return CommandFailed(
        f"Another build of the same began on {host} at the same moment.",
        "Run the command again to follow it.",
    )


def _not_packed(detail: str, recipe: Recipe, host: str, log: str) -> CommandFailed:
    return CommandFailed(
        f"The environment was made on {host}, and {detail} could not pack it into one file.",
        "Leave --style packed out, or choose another place with --prefix.",
    )


def _no_kernel(detail: str, recipe: Recipe, host: str, log: str) -> CommandFailed:
    return CommandFailed(
        f"ipykernel could not make the kernel {detail} on {host}.",
        "Is a module of another Python loaded? Its PYTHONPATH may hide the new environment.",
    )


def _broken(detail: str, recipe: Recipe, host: str, log: str) -> CommandFailed:
    last = [line for line in log.splitlines() if line and not line.startswith("jupyter-hpc: ")]
    said = printable(last[-1], 300) if last else detail
    return CommandFailed(
        f"The environment was made on {host}, and does not start there: {said}",
        "Is a module of another Python loaded? Its PYTHONPATH may hide the new environment.",
    )


def _foreign(detail: str, recipe: Recipe, host: str, log: str) -> CommandFailed:
    return CommandFailed(
        f"{detail} is there and was not made by jupyter-hpc; it was left as it is.",
        "Choose another folder with --prefix.",
    )


def _no_venv(detail: str, recipe: Recipe, host: str, log: str) -> CommandFailed:
    return CommandFailed(
        f"{detail} on {host} cannot make environments: its venv or pip is missing.",
        "Choose another Python with --module or --python. A quota that is used up shows so, too.",
    )


def _unwritable(detail: str, recipe: Recipe, host: str, log: str) -> CommandFailed:
    return CommandFailed(
        f"{detail} cannot be written on {host}.", "Choose another folder with --prefix."
    )


def _shared(detail: str, recipe: Recipe, host: str, log: str) -> CommandFailed:
    return CommandFailed(
        f"Everybody may write to {detail}, so anybody could put another environment there.",
        "Choose a folder of your own with --prefix.",
    )


def _no_wheels(detail: str, recipe: Recipe, host: str, log: str) -> CommandFailed:
    return CommandFailed(
        f"The folder of wheels {detail} is not there on {host}.",
        "Check --wheels or the profile. One without / at the front begins in your home folder "
        "there, and ~ is that of this computer.",
    )


_BY_CODE: dict[int, Callable[[str, Recipe, str, str], CommandFailed]] = {
    20: _no_python,
    21: _old_python,
    22: _wrong_module,
    23: _no_conda,
    24: _no_tool,
    25: _no_uv,
    26: _foreign,
    27: _no_venv,
    28: _unwritable,
    29: _no_wheels,
    32: _no_kernel,
    33: _broken,
    34: _shared,
    35: _two_builds,
    36: _not_packed,
}
