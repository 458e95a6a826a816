"""The second hop: from this machine through the login host to a compute node."""

from __future__ import annotations

import logging
from collections.abc import Callable

from jupyter_hpc.connect.ssh.hop import Hop, open_hop
from jupyter_hpc.connect.ssh.hostkeys import KnownHosts, entry_name
from jupyter_hpc.connect.ssh.keys import KeyRing
from jupyter_hpc.connect.ssh.prompts import HostKeyQuestion, NoPrompter, Prompter, Question
from jupyter_hpc.connect.ssh.settings import Settings, Target, resolve
from jupyter_hpc.errors import (
    AuthenticationFailed,
    CommandError,
    ConnectError,
    ForwardingDenied,
    HostKeyChanged,
    HostKeyRefused,
    PipeRefused,
    PromptNeeded,
    Unreachable,
)
from jupyter_hpc.runner import Runner

_log = logging.getLogger(__name__)

#: The login host's own knowledge of its nodes.
_LOGIN_KNOWN_HOSTS = r"""# read known_hosts
for f in /etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2 ~/.ssh/known_hosts; do
    [ -r "$f" ] && cat "$f" && echo
done
exit 0
"""


class _HostKeyOnly:
    """Lets a question about the host key through, and nothing else."""

    can_ask = False

    def __init__(self, prompter: Prompter) -> None:
        self._prompter = prompter

    async def ask(self, question: Question) -> list[str]:
        return await NoPrompter().ask(question)

    async def confirm_host_key(self, question: HostKeyQuestion) -> bool:
        return await self._prompter.confirm_host_key(question)

    def tell(self, text: str) -> None:
        """Nodes repeat the banner of the login host; once is enough."""


async def open_second_hop(
    target: Target,
    login_user: str,
    prompter: Prompter,
    ring: KeyRing,
    login_runner: Runner,
    timeout: float,
    *,
    through: Hop | None = None,
    proxy_command: Callable[[str, int], list[str]] | None = None,
) -> Hop:
    """Connect to the node `through` another hop, or by the command that leads to a host and port.

    Raises PipeRefused with the reason, or HostKeyChanged: then nothing else is tried.
    """
    settings = await resolve(target)
    if not settings.option("User") and settings.user != login_user:
        settings = await resolve(Target(target.name, login_user, target.port, target.ssh_config))
    elsewhere = None if _known_here(settings) else await _login_known_hosts(login_runner)
    try:
        return await open_hop(
            settings,
            _HostKeyOnly(prompter),
            ring,
            extra_known=elsewhere,
            timeout=timeout,
            through=through,
            proxy_command=proxy_command(settings.host, settings.port) if proxy_command else None,
        )
    except HostKeyChanged:
        raise
    except HostKeyRefused as error:
        raise PipeRefused(error.message, error.hint) from error
    except AuthenticationFailed as error:
        raise PipeRefused(
            f"{target.name} accepts no key of this machine for {settings.user}.",
            "Add your public key to ~/.ssh/authorized_keys on the cluster to use this way.",
        ) from error
    except PromptNeeded as error:
        raise PipeRefused(
            f"{target.name} wants an answer from a person, and this way never asks for one.",
            "A key in ~/.ssh/authorized_keys on the cluster makes this way usable.",
        ) from error
    except (Unreachable, ConnectError) as error:
        raise PipeRefused(
            f"No SSH connection through the login host to {target.name}: {error.message}",
            "The site may forbid forwarding, or SSH to its nodes.",
        ) from error


def forwarding_denied(host: str) -> ForwardingDenied:
    """What to say of a login host whose SSH server forwards nothing, or not there."""
    return ForwardingDenied(
        f"The SSH server of {host} forbids forwarding.",
        "Use another transport (--via), or ask the site.",
    )


def _known_here(settings: Settings) -> bool:
    name = entry_name(settings.host, settings.port, settings.host_key_alias)
    files = [*settings.user_known_hosts, *settings.global_known_hosts]
    return bool(KnownHosts.read(files).find(name))


async def _login_known_hosts(runner: Runner) -> KnownHosts | None:
    try:
        done = await runner.run(["sh", "-c", _LOGIN_KNOWN_HOSTS], timeout=15.0)
    except (CommandError, ConnectError) as error:
        _log.info("the login host's known_hosts could not be read: %s", error.message)
        return None
    known = KnownHosts()
    known.add_text(done.stdout, "the login host's known_hosts")
    return known
