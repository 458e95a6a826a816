"""Names, numbers and people of the test clusters; every other module asks here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

#: How many clusters may run on one machine at the same time.
SLOTS = 40

#: Where clusters keep their files: one folder and one lock file per slot.
BASE = Path("/var/tmp/jupyter-hpc-clusters")

LOGIN = "login1"
GPU_NODE = "gpu01"
CPU_NODE = "cpu01"
NODES = (GPU_NODE, CPU_NODE)
HOSTS = (LOGIN, *NODES)

#: The last byte of each host's address, on both networks.
_HOST_NUMBERS = {LOGIN: 10, GPU_NODE: 11, CPU_NODE: 12}

#: Types of the simulated GPUs of gpu01, in the order of their device files.
GPU_TYPES = ("a100", "a100", "p4", "p4")

CLUSTER_NAME = "mini"

#: Fixed paths inside the hosts.
ENV_PATH = "/opt/hpc-env"
SOURCE_PATH = "/opt/hpc-src"

#: Where programs on the hosts record the commands they run, as those on the laptop do.
COMMAND_LOG = "/home/.commands"

#: The second factor of every user, for clusters that ask for a password and a code.
PASSWORD = "tin-kettle-42"
CODE_SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEH"


@dataclass(frozen=True)
class User:
    """One person with an account on the cluster."""

    name: str
    uid: int
    shell: str = "/bin/bash"
    #: Slurm accounts, the default one first; empty: no association at all.
    accounts: tuple[str, ...] = ("research",)
    #: Whether .bashrc prints, even in shells that are not interactive.
    chatty: bool = False

    @property
    def home(self) -> str:
        return f"/home/{self.name}"


USERS = (
    User("alice", 61001, accounts=("research", "tiny")),
    User("mallory", 61002),
    User("carol", 61003, accounts=()),
    User("tara", 61004, shell="/bin/tcsh"),
    User("fiona", 61005, shell="/usr/bin/fish"),
    User("chad", 61006, chatty=True),
)

#: What chad's shell prints on standard output and standard error, whatever it was asked to run.
CHATTER = "Welcome to mini! \u2603 Your quota is 93% used."


def user_named(name: str) -> User:
    """The user called `name`, or an error that lists the names there are."""
    for user in USERS:
        if user.name == name:
            return user
    raise ValueError(f"no user {name!r}; there are {', '.join(u.name for u in USERS)}")


@dataclass(frozen=True)
class Slot:
    """One of the clusters that can exist side by side: its names and addresses."""

    number: int

    @property
    def name(self) -> str:
        return f"jhpc{self.number}"

    @property
    def folder(self) -> Path:
        return BASE / f"slot-{self.number}"

    @property
    def lock(self) -> Path:
        return BASE / f"slot-{self.number}.lock"

    @property
    def laptop_link(self) -> str:
        """Name of the laptop's end of its cable to the login host."""
        return f"{self.name}-lap"

    @property
    def front(self) -> str:
        """The network of the laptop and the login host."""
        return f"10.77.{self.number}.0/24"

    @property
    def back(self) -> str:
        """The network inside the cluster; the laptop has no way into it."""
        return f"10.88.{self.number}.0/24"

    @property
    def laptop_address(self) -> str:
        return f"10.77.{self.number}.1"

    @property
    def login_address(self) -> str:
        """Where the laptop finds the login host."""
        return f"10.77.{self.number}.{_HOST_NUMBERS[LOGIN]}"

    def address(self, host: str) -> str:
        """The address of a host inside the cluster."""
        return f"10.88.{self.number}.{_HOST_NUMBERS[host]}"
