"""What an administrator may decide, as one plain value.

The traits of the extension app fill it; services take it and know nothing of traitlets.
A named tuple, since it is made at the start of every server and costs half of a dataclass.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class NodeSettings(NamedTuple):
    """Settings of the server extension; every duration is in seconds."""

    #: Put before every Slurm command, e.g. ("ssh", "login") where Jupyter runs in a
    #: container without Slurm's commands.
    slurm_prefix: tuple[str, ...] = ()
    #: The user's name on the cluster, where it differs from the one of this server.
    slurm_user: str = ""
    #: Full paths of programs that are not on the server's PATH: {"squeue": "/opt/…"}.
    command_paths: Mapping[str, str] = MappingProxyType({})
    #: How often the queue is asked at rest, soon after an own action, and at most.
    poll_seconds: float = 60.0
    poll_seconds_after_action: float = 20.0
    poll_floor: float = 15.0
    #: Deadlines of Slurm's commands and of quota and budget commands.
    slurm_timeout: float = 30.0
    storage_timeout: float = 20.0
    #: Time between two GPU samples.
    gpu_interval: float = 1.0
    #: Show every GPU of the machine, for sites whose scheduler does not manage them.
    show_all_gpus: bool = False
    #: How far back the list of finished jobs reaches.
    history_days: float = 3.0
    #: Switches for sites that do not want a part of the panels.
    gpus_enabled: bool = True
    jobs_enabled: bool = True
    job_actions_enabled: bool = True
    logs_enabled: bool = True
    storage_enabled: bool = True
    batch_enabled: bool = True
