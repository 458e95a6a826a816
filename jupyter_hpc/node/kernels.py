"""Kernels of a job: each is one process that torch.distributed can start in by itself.

`init_process_group()` in a cell reads RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and
MASTER_PORT; nobody sets them in a kernel, and each kernel needs a port of its own.
Terminals do not get them: what is started there (torchrun, Lightning, srun) sets its own,
and Lightning takes LOCAL_RANK for the sign that somebody else starts its processes. For the
same reason a kernel keeps LOCAL_RANK for itself: `!python train.py` does not inherit it.
"""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Any

from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from jupyter_hpc.slurm.job_environment import read_job_environment

NAME = "jupyter-hpc-provisioner"
USUAL = "local-provisioner"

#: Below the ports that Linux gives to outgoing connections, which come and go.
PORTS = range(10000, 30000)


#: For IPython's kernel: `os.environ` keeps the variable, the process that children inherit from
#: does not (os.unsetenv leaves os.environ alone). `code_to_run` is the one piece of code of a
#: start that no configuration of the user has a use for.
KEEP_LOCAL_RANK = """--IPKernelApp.code_to_run=__import__("os").unsetenv("LOCAL_RANK")"""


class JobKernel(LocalProvisioner):
    """Starts kernels as Jupyter does, with the variables of a single process."""

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """The arguments of the launch; what the kernel's own specification sets stays."""
        prepared: dict[str, Any] = await super().pre_launch(**kwargs)
        environ = dict(prepared.get("env") or {})
        added = single_process(environ)
        prepared["env"] = {**environ, **added}
        if added and any("ipykernel" in word for word in prepared["cmd"][:4]):
            prepared["cmd"] = [*prepared["cmd"], KEEP_LOCAL_RANK]
        return prepared


def single_process(environ: Mapping[str, str]) -> dict[str, str]:
    """What to add for a process alone; nothing where a part of it is set already."""
    job = read_job_environment(environ)
    ranks = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    if job is None or any(name in environ for name in (*ranks, "MASTER_ADDR", "MASTER_PORT")):
        return {}
    # On several nodes it is inherited by what `srun` starts on the others.
    several = len(job.nodes) > 1
    address = environ.get("SLURMD_NODENAME") or job.nodes[0] if several else "127.0.0.1"
    return {**ranks, "MASTER_ADDR": address, "MASTER_PORT": str(free_port())}


def free_port() -> int:
    """A port that nobody listens on now."""
    for port in random.sample(PORTS, 50):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("", port))
            return port
    return PORTS[0]


async def evaluate(kernel: Any, expression: str, seconds: float) -> str:
    """The value of an expression in a kernel, as it would be shown; TimeoutError if it is late.

    Asked as tools ask: without an entry in the history, and nothing is shown. `kernel` is a
    jupyter_client.AsyncKernelManager.
    """
    client = kernel.client()
    client.start_channels(iopub=False, stdin=False, hb=False, control=False)
    try:
        reply = await client.execute(
            "",
            silent=True,
            store_history=False,
            allow_stdin=False,
            user_expressions={"value": expression},
            reply=True,
            timeout=seconds,
        )
    finally:
        client.stop_channels()
    value = reply["content"]["user_expressions"]["value"]
    if value["status"] != "ok":
        raise ValueError(f"{value.get('ename')}: {value.get('evalue')}")
    return str(value["data"]["text/plain"])


def use_for_kernels(factory: KernelProvisionerFactory, environ: Mapping[str, str]) -> None:
    """Start kernels this way in a job, unless their specification or the site names another."""
    if read_job_environment(environ) is None or factory.default_provisioner_name != USUAL:
        return
    where = f"{JobKernel.__module__}:{JobKernel.__name__}"
    factory.provisioners[NAME] = EntryPoint(NAME, where, factory.GROUP_NAME)
    factory.default_provisioner_name = NAME
