"""What an environment is made of, and the lines of a profile that enter it."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_hpc.clusters import Profile
from jupyter_hpc.errors import UsageError

#: Below the home folder of the cluster.
DEFAULT_PREFIX = ".local/share/jupyter-hpc/env"
STATE = ".local/state/jupyter-hpc/setup"

STYLES = ("venv", "uv", "conda", "packed")

#: How the styles of profiles are made.
_BY_PROFILE = {"conda": "conda", "container": "packed"}

#: pip takes its own settings, as the Alliance's clusters have them.
NO_INDEX = "no-index"

_CONDA_FILE = re.compile(r"^(?:channels|dependencies):", re.M)


@dataclass(frozen=True)
class Wishes:
    """What the command line asks for; "" leaves it to the profile."""

    style: str = ""
    python: str = ""
    wheels: str = ""
    prefix: str = ""
    modules: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    file: Path | None = None


@dataclass(frozen=True)
class Recipe:
    """One environment, decided in every detail but its whole path."""

    style: str
    python: str
    wheels: str
    prefix: str
    modules: tuple[str, ...]
    packages: tuple[str, ...]
    kernel: str
    spec_name: str = ""
    spec: bytes = b""

    def key(self, wheel: bytes) -> str:
        """The same for the same environment: it is not made twice."""
        digest = hashlib.sha256(wheel + self.spec)
        for part in (self.style, self.python, self.wheels, *self.modules, "", *self.packages):
            digest.update(b"\0" + part.encode())
        return digest.hexdigest()[:16]

    def arguments(self, work: str, prefix: str, key: str, requirements: Sequence[str]) -> list[str]:
        """What shipped/build.sh is given."""
        fixed = [work, prefix, self.style, self.python, self.wheels, self.spec_name, self.kernel]
        return [*fixed, key, *self.modules, "--", *requirements, *self.packages]

    def profile_lines(self, prefix: str) -> Mapping[str, Any]:
        """What the profile has to say from now on, by its keys."""
        quoted = shlex.quote(prefix)
        lines = [f"source {quoted}/bin/activate"]
        if self.style == "conda":
            # The folder that the link leads to now: a session that runs keeps it.
            lines = [
                f"export CONDA_PREFIX=$(readlink -f {quoted})",
                'export PATH="$CONDA_PREFIX/bin:$PATH"',
            ]
        return {"environment.modules": list(self.modules), "environment.setup": lines}


def recipe_for(profile: Profile, wishes: Wishes, *, has_uv: bool = False) -> Recipe:
    """The recipe of a profile with what was asked for. Raises UsageError."""
    settings = profile.environment
    spec, spec_name = b"", ""
    if wishes.file is not None:
        try:
            spec = wishes.file.read_bytes()
        except OSError as error:
            raise UsageError(
                f"{str(wishes.file)!r} cannot be read: {error.strerror}.", "Check its name."
            ) from error
    is_conda = bool(_CONDA_FILE.search(spec.decode("utf-8", "replace")))
    if spec:
        spec_name = "environment.yml" if is_conda else "requirements.txt"
    style = wishes.style or _BY_PROFILE.get(settings.style, "")
    if is_conda and style not in ("", "conda"):
        raise UsageError(
            f"{str(wishes.file)!r} describes a conda environment, and {style} was asked for.",
            "Leave --style out, or give a list of requirements.",
        )
    wheels = wishes.wheels or settings.wheels
    if not wheels and settings.style == "wheels":
        wheels = NO_INDEX
    if not style:
        plain = settings.style == "any" and not (settings.modules or wishes.modules)
        style = "conda" if is_conda else "uv" if plain and has_uv and not wheels else "venv"
    for word in (*wishes.modules, *wishes.packages):
        if word.startswith("-") or not word.isprintable() or " " in word:
            raise UsageError(f"{word!r} is not a name.", "Give the names one by one.")
    prefix = (wishes.prefix or DEFAULT_PREFIX).removeprefix("~/").rstrip("/")
    if not prefix.isprintable() or prefix.startswith(("$", "~", "-")) or not prefix:
        raise UsageError(
            f"{wishes.prefix!r} cannot be the folder of an environment.",
            "Write its whole path there; one without / at the front begins in your home folder.",
        )
    return Recipe(
        style=style,
        python=wishes.python,
        wheels=wheels,
        prefix=prefix,
        modules=wishes.modules or settings.modules,
        packages=wishes.packages,
        kernel=f"jupyter-hpc-{profile.name}",
        spec_name=spec_name,
        spec=spec,
    )
