"""Cables of a cluster: plugged in at the start, cut, restored and made silent by tests.

The laptop is this machine. Its cable leads to the login host only; the other
network exists only in the hosts. Routes of type "unreachable" keep every packet
for a test address on this machine, also while a link is down.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

from tests.cluster.layout import HOSTS, LOGIN, Slot

#: Hardware addresses that nobody has: frames sent to them disappear.
_NOBODY = ("02:00:00:00:00:01", "02:00:00:00:00:02")


class Network:
    """The cables of one cluster."""

    def __init__(self, slot: Slot, room: int, hosts: Mapping[str, int]) -> None:
        self._slot = slot
        self._room = room
        self._hosts = hosts

    def plug_in(self) -> None:
        """Connect all hosts with the switch, and the laptop with the login host."""
        slot = self._slot
        _ip(
            None,
            f"route add unreachable {slot.back}",
            # Wins only while the laptop's own cable has no route.
            f"route add unreachable {slot.front} metric 4096",
            f"link add {slot.laptop_link} type veth peer name eth1 netns {self._hosts[LOGIN]}",
            f"address add {slot.laptop_address}/24 dev {slot.laptop_link}",
            f"link set {slot.laptop_link} up",
        )
        ports = [
            line
            for host in HOSTS
            for line in (
                f"link add {_port(host)} type veth peer name eth0 netns {self._hosts[host]}",
                f"link set {_port(host)} master switch up",
            )
        ]
        _ip(self._room, "link add switch type bridge", "link set switch up", *ports)
        for host in HOSTS:
            _ip(
                self._hosts[host],
                "link set lo up",
                f"address add {slot.address(host)}/24 dev eth0",
                "link set eth0 up",
            )
        _ip(
            self._hosts[LOGIN],
            f"address add {slot.login_address}/24 dev eth1",
            "link set eth1 up",
        )

    def cut(self, end: str) -> None:
        """Pull the cable of a host out of the switch, or that of the laptop ("laptop")."""
        self._set(end, "down")

    def restore(self, end: str) -> None:
        """Plug the cable in again."""
        self._set(end, "up")

    def black_hole(self) -> None:
        """Lose every packet between laptop and login host in silence; both links stay up."""
        slot = self._slot
        _ip(
            None,
            f"neighbour replace {slot.login_address} lladdr {_NOBODY[0]} "
            f"nud permanent dev {slot.laptop_link}",
        )
        _ip(
            self._hosts[LOGIN],
            f"neighbour replace {slot.laptop_address} lladdr {_NOBODY[1]} nud permanent dev eth1",
        )

    def fill_hole(self) -> None:
        """End `black_hole`; does nothing if there is none."""
        slot = self._slot
        _ip(
            None,
            f"neighbour flush to {slot.login_address} dev {slot.laptop_link} nud all",
        )
        _ip(self._hosts[LOGIN], f"neighbour flush to {slot.laptop_address} dev eth1 nud all")

    def _set(self, end: str, state: str) -> None:
        if end == "laptop":
            # On the far side, so that the laptop keeps its route and no packet strays.
            _ip(self._hosts[LOGIN], f"link set eth1 {state}")
        else:
            _ip(self._room, f"link set {_port(end)} {state}")


def _port(host: str) -> str:
    return f"to-{host}"


def _ip(pid: int | None, *commands: str) -> None:
    """Run `ip` commands in the network namespace of a process, or on the laptop."""
    where = ["nsenter", f"--net=/proc/{pid}/ns/net", "--"] if pid else []
    done = subprocess.run(
        [*where, "ip", "-batch", "-"],
        input="".join(f"{command}\n" for command in commands),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"ip failed: {done.stderr.strip()}; commands: {list(commands)}")
