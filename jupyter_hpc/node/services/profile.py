"""What the cluster's profile knows, from the file that JUPYTER_HPC_PROFILE names.

The laptop writes the resolved profile there when it starts the session. A server that
was started in another way has none, and everything works without it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

from jupyter_hpc.errors import ProfileError

if TYPE_CHECKING:
    from jupyter_hpc.clusters import Profile

PROFILE_VARIABLE = "JUPYTER_HPC_PROFILE"


class SiteProfile:
    """Read-only view of a profile; every question has an answer when there is none."""

    def __init__(self, content: Mapping[str, Any] | None = None) -> None:
        self._content = dict(content or {})

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> SiteProfile:
        """The profile of this session; an unreadable file counts as none."""
        path = environ.get(PROFILE_VARIABLE)
        if not path:
            return cls()
        try:
            with open(path, encoding="utf-8") as file:
                content = json.load(file)
        except (OSError, ValueError, RecursionError):
            return cls()
        return cls(content if isinstance(content, dict) else None)

    @property
    def name(self) -> str | None:
        return _text(self._content.get("name"))

    @property
    def title(self) -> str | None:
        return _text(self._content.get("title"))

    @property
    def docs(self) -> str | None:
        """The address of the site's documentation, which becomes a link."""
        address = _text(self._content.get("docs"))
        return address if address and address.startswith(("https://", "http://")) else None

    @property
    def support(self) -> str | None:
        """Where the site's users ask for help."""
        return _text(self._content.get("support"))

    def is_sure(self, key: str) -> bool:
        """Whether a value of the profile, by its whole key, is more than a guess."""
        return self.table("confidence").get(key) != "unsure"

    @property
    def poll_seconds(self) -> float | None:
        value = number(self.table("slurm").get("poll_seconds"))
        return value if value is not None and value > 0 else None

    @property
    def slurm_prefix(self) -> tuple[str, ...]:
        """Words before every Slurm command, where the server does not find them."""
        return tuple(words(self.table("slurm").get("prefix")))

    @property
    def gpu_flag(self) -> str:
        return _text(self.table("slurm").get("gpu_flag")) or "gpus-per-node"

    @property
    def storage(self) -> dict[str, dict[str, Any]]:
        """Named storage areas, each with the keys of the profile's [storage.NAME]."""
        return {
            str(name): dict(area)
            for name, area in self.table("storage").items()
            if isinstance(area, dict)
        }

    def resolved(self) -> Profile | None:
        """The profile as the laptop has it, for what chooses resources; None without one."""
        from jupyter_hpc.clusters import Profile

        try:
            return Profile.from_json(self._content) if self._content else None
        except ProfileError:
            return None  # its knowledge is a help, not a need

    def table(self, name: str) -> dict[str, Any]:
        """One table of the profile, empty where it has none."""
        value = self._content.get(name)
        return dict(value) if isinstance(value, dict) else {}


def words(value: object) -> list[str]:
    """A command of the profile; anything else than a list of texts is none."""
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        return []
    return value


def number(value: object) -> float | None:
    """A number of the profile that can be counted with; JSON has others, too."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        return float(value) if isfinite(value) else None
    except OverflowError:
        return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
