"""What only a job can tell: whether its node takes SSH, and reaches the Internet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jupyter_hpc.connect.job.short_job import Wanted, short_job, small_requests
from jupyter_hpc.connect.ssh.interfaces import LoginConnection
from jupyter_hpc.connect.ssh.prompts import Prompter
from jupyter_hpc.errors import PipeRefused
from jupyter_hpc.slurm.models import Request

#: Prints "yes", "proxy" or "no"; a name that is made for examples is looked up and connected to.
_INTERNET = """\
if [ -n "${https_proxy:-}${HTTPS_PROXY:-}" ]; then echo proxy; exit; fi
if timeout 8 bash -c ': > /dev/tcp/example.org/443' 2> /dev/null; then echo yes; else echo no; fi
"""


@dataclass(frozen=True)
class NodeFacts:
    """`transport` is "ssh" or "srun", `internet` as in a profile; `note` what was done."""

    transport: str
    internet: str
    note: str


async def node_facts(
    login: LoginConnection, prompter: Prompter, tell: Callable[[str], None], asked: Request
) -> NodeFacts:
    """Ask for a short job where `asked` says, look around in it, give it back.

    Raises JobNeverRan.
    """
    wanted = Wanted(
        small_requests(asked),
        "to look at a node",
        "Try again when the queue is shorter, or leave --job out.",
    )
    async with short_job(login, wanted, tell, lambda ended: tell(ended.sentence)) as job:
        said = await job.steps.run(["sh", "-c", _INTERNET], timeout=40.0)
        internet = said.stdout.strip().rpartition("\n")[2]
        return NodeFacts(
            transport=await _transport(login, job.node, prompter),
            internet=internet if internet in ("yes", "no", "proxy") else "unknown",
            note=f"Looked at {job.node} in job {job.job_id}.",
        )


async def _transport(login: LoginConnection, node: str, prompter: Prompter) -> str:
    try:
        connection = await login.open_node(node, prompter)
    except PipeRefused:
        return "srun"
    connection.close()
    return "ssh"
