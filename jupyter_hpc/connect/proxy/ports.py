"""Which local port a session gets, and what happens where that is taken.

A port that somebody chose is never changed: another one would be a surprise. One that was chosen
here stays the session's for good, because it stands in a bookmark; while another program has it,
the session has the next free one, and that is said.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from jupyter_hpc.connect.proxy.server import LocalProxy
from jupyter_hpc.errors import ConnectError, PortTaken

#: Ports that a cluster gets when nobody chose one: away from 8888 and from the range
#: that systems hand out to outgoing connections.
_FIRST_PORT, _PORT_COUNT = 20000, 8000

#: So many are tried in a row.
_MAX_TRIES = 20


@dataclass(frozen=True)
class PortChoice:
    """A session's port. `chosen`: by a person, with an option or in a profile; `remembered`: it
    was this session's before; `proposed`: nobody knows it yet.
    """

    session: str
    port: int
    whose: Literal["chosen", "remembered", "proposed"]

    def instead(self, taken: PortTaken, port: int) -> str:
        """What is said when the session gets another port."""
        if self.whose == "proposed":
            return f"{taken.message} {self.session} has port {port} of this computer from now on."
        return (
            f"{taken.message} Until this session ends it has port {port} instead: "
            f"http://localhost:{port}/lab. A bookmark of port {self.port} leads to the other "
            "program; it leads to the session again when that has ended and you connect again. "
            f"To keep another port for good: jupyter-hpc connect {self.session} --port {port}"
        )


def choose_port(
    session: str, given: int | None, profiled: int | None, remembered: int, *, sure: bool
) -> PortChoice:
    """The port by its option, the profile, the memory of this laptop, or the session's name.

    The profile's is a proposal where it is not `sure`: it was made up with a built-in profile.
    """
    chosen = given or (profiled if sure else None)
    if chosen:
        return PortChoice(session, chosen, "chosen")
    if remembered:
        return PortChoice(session, remembered, "remembered")
    proposed = profiled or _FIRST_PORT + zlib.crc32(session.encode()) % _PORT_COUNT
    return PortChoice(session, proposed, "proposed")


async def open_port(
    choice: PortChoice, make: Callable[[int], LocalProxy], is_open_here: Callable[[], bool]
) -> tuple[LocalProxy, str]:
    """What `make` makes, listening; and why on another port than the chosen one, or "".

    Raises PortTaken, and ConnectError where the other program is this very session's.
    """
    taken: PortTaken | None = None
    for port in range(choice.port, min(choice.port + _MAX_TRIES, 65536)):
        proxy = make(port)
        try:
            await proxy.start()
        except PortTaken as error:
            if is_open_here():
                raise ConnectError(
                    f"{choice.session} is being connected on this computer already.",
                    "'jupyter-hpc status' shows it.",
                ) from error
            if choice.whose == "chosen":
                raise
            taken = taken or error
        else:
            return proxy, choice.instead(taken, port) if taken else ""
    raise taken or PortTaken("No free local port was found.", "Name one with --port.")
