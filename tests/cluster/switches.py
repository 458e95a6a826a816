"""What can differ from one test cluster to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tests.cluster.layout import GPU_NODE, NODES
from tests.cluster.roots import Root, brings_python, default_release, root_of


@dataclass(frozen=True)
class Switches:
    """The site's policies; the defaults describe a friendly site with accounting."""

    #: Run MariaDB and slurmdbd and enforce associations, limits and QOS.
    accounting: bool = True
    #: pam_slurm_adopt on the nodes: SSH only with a job there, into that job.
    adopt: bool = False
    #: "denied": the nodes refuse every login; "closed": no sshd runs there.
    node_ssh: Literal["open", "denied", "closed"] = "open"
    #: False: only the login host's own key opens the nodes.
    laptop_key_on_nodes: bool = True
    #: False: the login host's sshd forbids every kind of forwarding.
    login_forwarding: bool = True
    #: The login host asks for password and code (keyboard-interactive through PAM).
    mfa: bool = False
    #: The login host takes only keys that the cluster's authority has signed.
    certificates: bool = False
    #: Slurm's InactiveLimit in seconds; 0 is off.
    inactive_limit: int = 0
    #: The login host ends all processes of an SSH session with it, detached ones too.
    kill_at_logout: bool = False
    #: Each job has its own /tmp and /dev/shm (job_container/tmpfs).
    private_tmp: bool = False
    #: Jobs without a script are refused at submission, salloc --no-shell too.
    batch_only: bool = False
    #: False: the cluster's Python has JupyterLab but not jupyter-hpc.
    product_installed: bool = True
    #: cpu01 has the same GPUs as gpu01, and a partition "wide" holds both.
    two_gpu_nodes: bool = False
    #: Further lines for slurm.conf.
    slurm_lines: tuple[str, ...] = ()
    #: The release of Slurm, whose root `make matrix` has made; empty: this machine's own.
    slurm: str = field(default_factory=default_release)
    #: The users' Python is not that of the root but a newer one, as people bring it themselves.
    newer_python: bool = field(default_factory=brings_python)

    @property
    def takes_product(self) -> bool:
        """Whether the users' Python can have jupyter-hpc."""
        return self.newer_python or self.root.takes_product

    @property
    def root(self) -> Root:
        """The file system of the hosts."""
        return root_of(self.slurm)

    @property
    def gpu_nodes(self) -> tuple[str, ...]:
        """The hosts with simulated GPUs."""
        return NODES if self.two_gpu_nodes else (GPU_NODE,)
