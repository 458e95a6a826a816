"""`clusters new`: one login, the questions, the text of a profile."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from typing import Any

import click

from jupyter_hpc.clusters.draft import Facts, draft
from jupyter_hpc.clusters.schema import check_profile
from jupyter_hpc.clusters.sections import Login
from jupyter_hpc.connect.job.node_facts import NodeFacts, node_facts
from jupyter_hpc.connect.job.request import check_name
from jupyter_hpc.connect.job.survey import Survey, gpu_partitions, survey
from jupyter_hpc.connect.ssh.login import LoginConnection, open_login
from jupyter_hpc.connect.ssh.prompts import Prompter, terminal_prompter
from jupyter_hpc.errors import HpcError
from jupyter_hpc.slurm.models import Request
from jupyter_hpc.text import printable


@dataclass(frozen=True)
class Wanted:
    """What `clusters new` was asked for."""

    name: str
    host: str
    user: str | None = None
    ssh_config: str | None = None
    job: bool = False


@dataclass(frozen=True)
class Drafted:
    """The text of a profile, and how many environments with JupyterLab were found."""

    text: str
    environments: int


async def drafted(wanted: Wanted) -> Drafted:
    """A profile for the cluster behind the host.

    Raises what a login raises, and HpcError where the host has no Slurm at all.
    """
    given: dict[str, Any] = {"host": wanted.host, "user": wanted.user}
    given["ssh_config"] = wanted.ssh_config
    values = {key: value for key, value in given.items() if value is not None}
    checked = check_profile({"login": values}, f"clusters new {wanted.host}")
    prompter = terminal_prompter()
    login = await open_login(Login(**checked["login"]), prompter)
    try:
        _tell(f"Logged in to {wanted.host}; asking what is there.")
        found = await survey(login.runner)
        if found.release is None and not found.partitions:
            raise HpcError(
                f"{wanted.host} shows no Slurm: {'; '.join(found.unknown)}",
                "Is it the login host of the cluster? Where Slurm is not on the PATH of plain "
                "shells, set it in ~/.bashrc there.",
            )
        node = await _node(login, prompter, found, wanted.name) if wanted.job else None
    finally:
        login.close()
    text = draft(_facts(wanted.host, found, node), values, _head(wanted.host, node))
    return Drafted(text, len(found.shell.environments))


async def _node(
    login: LoginConnection, prompter: Prompter, found: Survey, name: str
) -> NodeFacts | None:
    """A look at a node; that it failed is said, and the rest of the profile is written."""
    named = next((each for each in found.partitions if each.default), None)
    first = named or next(iter(gpu_partitions(found.partitions)), None)
    asked = Request(
        name=check_name(name),
        partition=first.name if first else None,
        gpus=1 if first and first.gpus else None,
    )
    try:
        return await node_facts(login, prompter, _tell, asked)
    except HpcError as error:
        _tell(f"No node could be looked at: {error}")
        return None


def _facts(host: str, found: Survey, node: NodeFacts | None) -> Facts:
    shell = found.shell
    return Facts(
        host=host,
        release=f"{found.release[0]}.{found.release[1]:02d}" if found.release else "",
        partitions=found.partitions,
        accounts=found.accounts,
        qos=found.qos,
        select_type=found.select_type,
        modules=shell.modules,
        variables=shell.variables,
        programs=shell.programs,
        environments=[
            (
                each.name,
                each.setup or [_load(name) for name in each.modules],
            )
            for each in shell.environments
        ],
        transport=node.transport if node else "",
        internet=node.internet if node else "",
        unknown=found.unknown,
    )


def _load(module: str) -> str:
    """The line of a shell; the name is what somebody called a file."""
    return shlex.join(["module", "load", module])


def _head(host: str, node: NodeFacts | None) -> str:
    day = time.strftime("%Y-%m-%d")
    looked = f"\n{node.note}" if node else ""
    return (
        f"Written on {day} of what {host} told; change what you like.{looked}\n"
        "All keys: docs/users/profiles.md. Check: jupyter-hpc clusters check FILE"
    )


def _tell(text: str) -> None:
    click.echo(printable(text, 500), err=True)
