"""The user's own settings, which hold for every cluster: `hpc/config.toml` beside the profiles."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_config_dir

from jupyter_hpc.clusters.keys import Key
from jupyter_hpc.clusters.loading import read_toml
from jupyter_hpc.clusters.schema import check_keys, check_table
from jupyter_hpc.clusters.values import duration_seconds
from jupyter_hpc.errors import ProfileError

#: The one place where a key of this file is named with its type, default and meaning.
USER_KEYS: tuple[Key, ...] = (
    Key("notify", "desktop", "flag", "Show a notification on this computer's desktop.", True),
    Key(
        "notify",
        "command",
        "argv",
        "Command that is run with the message as a further, last word.",
        (),
    ),
    Key("notify", "webhook", "address", "Address to which the message is posted as JSON.", ""),
    Key(
        "notify",
        "gpu_idle",
        "duration",
        "Tell of a GPU of a session that idles for so long; `0s` never does.",
        "15m",
    ),
)


@dataclass(frozen=True)
class NotifySettings:
    """How the user wants to be told; the members follow USER_KEYS."""

    desktop: bool = True
    command: tuple[str, ...] = ()
    webhook: str = ""
    gpu_idle: str = "15m"

    @property
    def gpu_idle_seconds(self) -> int:
        """`gpu_idle` in seconds; 0: never told."""
        return duration_seconds(self.gpu_idle)


def settings_file() -> Path:
    """Where the user's settings are, if there are any."""
    return Path(jupyter_config_dir()) / "hpc" / "config.toml"


def notify_settings() -> NotifySettings:
    """The table [notify]; ProfileError names the file, the key and what is allowed."""
    path = settings_file()
    if not path.exists():
        return NotifySettings()
    table = _check(read_toml(path, str(path)), str(path)).get("notify", {})
    settings = NotifySettings(**table)
    if settings.webhook:
        _check_private(path)
    if settings.command:
        _check_own(path)
    return settings


def _check(data: Mapping[str, Any], where: str) -> dict[str, Any]:
    sections = tuple(dict.fromkeys(key.section for key in USER_KEYS))
    top = {name: value for name, value in data.items() if name not in sections}
    check_keys({}, top, "", where, sections)
    return {
        section: check_keys(
            {key.name: key for key in USER_KEYS if key.section == section},
            check_table(data[section], section, where),
            f"{section}.",
            where,
        )
        for section in sections
        if section in data
    }


def _check_private(path: Path) -> None:
    """Whoever knows a webhook can write to it: only its owner may read where it stands."""
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise ProfileError(
            f"{path} holds a webhook, and others on this computer can read it.",
            f"Run: chmod 600 '{path}'",
        )


def _check_own(path: Path) -> None:
    """Whoever can change a command that is run here can run anything."""
    if os.name == "posix" and path.stat().st_mode & 0o002:
        raise ProfileError(
            f"{path} names a command to run, and everybody on this computer can change it.",
            f"Run: chmod o-w '{path}'",
        )
