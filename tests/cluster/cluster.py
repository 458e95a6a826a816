"""A real Slurm cluster on this machine: bring it up, take it down."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import TracebackType

from jupyter_hpc.runner import COMMAND_LOG_VARIABLE
from tests.cluster import slots
from tests.cluster.accounting import cached, copy_cached, fill, install
from tests.cluster.accounting import start as start_accounting
from tests.cluster.environment import python_environment
from tests.cluster.folders import Folders, write_folders
from tests.cluster.handles import Handles
from tests.cluster.layout import COMMAND_LOG, LOGIN, NODES, Slot
from tests.cluster.packages import pam_module
from tests.cluster.room import Room, has_cgroups
from tests.cluster.switches import Switches


class Cluster(Handles):
    """One cluster; use it as a context manager or call `up` and `down`."""

    def __init__(self, switches: Switches | None = None) -> None:
        asked = switches or Switches()
        able = asked.takes_product
        self.switches = asked if able else replace(asked, product_installed=False)
        #: Seconds that `up` took.
        self.seconds_to_start = 0.0
        self._lock: int | None = None
        self._room: Room | None = None

    def __enter__(self) -> Cluster:
        self.up()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.down()

    def up(self, *, detached: bool = False) -> None:
        """Start everything; returns when all nodes are idle.

        A detached cluster outlives this process, until something sweeps its slot.
        """
        python = prepare(self.switches)
        began = time.monotonic()
        try:
            self._open(python, partial(copy_cached, self.switches.root), detached=detached)
            if self.switches.accounting:
                start_accounting(self.hosts[LOGIN])
            self.hosts[LOGIN].start("slurmctld", wait=False)
            for node in NODES:
                self.hosts[node].start("slurmd", wait=False)
            self.wait_until_idle()
        except BaseException:
            self.down()
            raise
        self.seconds_to_start = time.monotonic() - began

    def down(self) -> None:
        """Remove everything; calling it twice does no harm."""
        if self._lock is None:
            return
        if self._room is not None:
            self._room.close()
            self._hand_over_commands()
        slots.sweep(self.slot)
        os.close(self._lock)
        self._lock = None

    def _hand_over_commands(self) -> None:
        """Add what was run on the hosts to the record of this test run, if one is kept."""
        record = os.environ.get(COMMAND_LOG_VARIABLE)
        if record:
            with open(record, "ab") as log:
                log.write((self.folders.root / COMMAND_LOG.strip("/")).read_bytes())

    def fill_accounting(self, python: Path) -> None:
        """Start as much as is needed to fill the database in the cache."""
        try:
            self._open(python, partial(install, self.switches.root))
            fill(self.switches.root, self.hosts[LOGIN], self._database)
        finally:
            self.down()

    @property
    def _database(self) -> Path:
        return self.folders.host(LOGIN) / "mysql"

    def _open(
        self, python: Path, bring_database: Callable[[Path], None], *, detached: bool = False
    ) -> None:
        """Take a slot and start its hosts, with a network, munge and SSH."""
        self.slot, self._lock = slots.take()
        cgroups = has_cgroups()
        adopt_module = pam_module("pam_slurm_adopt.so", self.switches.root) or ""
        self.folders = write_folders(
            self.slot, self.switches, cgroups=cgroups, adopt_module=adopt_module
        )
        if self.switches.accounting:
            bring_database(self._database)
        self._room = room = Room(self.slot)
        room.open(
            root=self.switches.root.folder,
            python_env=python,
            cgroups=cgroups,
            gpu_nodes=self.switches.gpu_nodes,
            cpu=self._cpu,
            keep=(self._lock,) if detached else (),
        )
        self._take_hold(room.pid, room.host_pids)
        self.network.plug_in()
        self._shape_hosts()
        for name, host in self.hosts.items():
            host.start("munged")
            if name == LOGIN or self.switches.node_ssh != "closed":
                host.start("sshd", wait=False)
        state = {
            "room": room.pid,
            "hosts": room.host_pids,
            "switches": asdict(self.switches),
            "host_keys": self.folders.host_keys,
            "zone": self.folders.zone,
        }
        (self.slot.folder / "state.json").write_text(json.dumps(state), encoding="utf-8")
        if detached:
            (self.slot.folder / "detached").touch()

    def _shape_hosts(self) -> None:
        """For clusters that differ in more than switches; no daemon runs yet."""


def prepare(switches: Switches | None = None) -> Path:
    """Build what clusters share and no cluster should wait for; returns the users' Python.

    It lies in a cache: later calls find it and return at once.
    """
    wanted = switches or Switches()
    python = python_environment(wanted.root, newer=wanted.newer_python)
    database = cached(wanted.root)
    if wanted.accounting and not database.exists():
        with open(database.with_name("cluster-accounting.lock"), "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not database.exists():
                plain = Switches(slurm=wanted.slurm, newer_python=wanted.newer_python)
                Cluster(plain).fill_accounting(python)
    return python


class Attached(Handles):
    """The handles of a cluster that another process has brought up."""

    def __init__(self, slot: Slot) -> None:
        state = json.loads((slot.folder / "state.json").read_text(encoding="utf-8"))
        self.slot = slot
        lines = tuple(state["switches"].pop("slurm_lines"))
        self.switches = Switches(**state["switches"], slurm_lines=lines)
        self.folders = Folders(slot, state["host_keys"], state["zone"])
        self._take_hold(state["room"], state["hosts"])
