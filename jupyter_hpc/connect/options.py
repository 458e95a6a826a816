"""What one `connect` was asked to do, as plain data that can cross a process boundary."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LAUNCHES = ("salloc", "sbatch")
#: What `--renew` may be given; the first one where it is given nothing: kernels are new.
RENEWALS = ("kernels", "variables")
TRANSPORTS = ("auto", "ssh", "login-ssh", "srun", "direct")


@dataclass(frozen=True)
class ConnectOptions:
    """The command line of connect; None means "as the profile says"."""

    name: str
    preset: str | None = None
    #: keys of [allocation] that the command line overrides
    overrides: Mapping[str, Any] = field(default_factory=dict)
    port: int | None = None
    launch: str | None = None
    via: str | None = None
    idle_release: str | None = None
    #: go on in a further job before the time limit
    renew: bool = False
    #: and carry what kernels know over to the new ones, as far as that can be written to a file
    carry_variables: bool = False
    new: bool = False
    #: the job stays where Jupyter could not be started in it
    keep: bool = False
    #: which session of this profile: 1, or the one that an earlier `--new` made
    number: int = 1

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ConnectOptions:
        return cls(**data)
