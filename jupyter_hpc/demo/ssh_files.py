"""Keys, known_hosts and ssh_config: the cluster as asyncssh and OpenSSH see it."""

from __future__ import annotations

from collections.abc import Sequence

import asyncssh

from jupyter_hpc.demo.layout import Layout, write_private

LOGIN = "demo-login"


def quoted(path: object) -> str:
    """A path as ssh_config takes it, blanks and percent signs included."""
    return '"' + str(path).replace("%", "%%") + '"'


def load_or_make_key(layout: Layout, name: str) -> asyncssh.SSHKey:
    """The key of a host or a user; made once, then kept, so that trust in it lasts."""
    path = layout.user_key if name == "user" else layout.keys / name
    if not path.exists():
        key = asyncssh.generate_private_key("ssh-ed25519", comment=f"jupyter-hpc demo {name}")
        write_private(path, key.export_private_key().decode())
        write_private(path.with_name(path.name + ".pub"), key.export_public_key().decode())
    return asyncssh.read_private_key(str(path))


def write_ssh_files(layout: Layout, port: int, nodes: Sequence[str], *, mfa: bool) -> None:
    """Write what a client needs; `port` is the login host's port on loopback."""
    lines = []
    for host in (LOGIN, *nodes):
        public = load_or_make_key(layout, host).export_public_key().decode().split()[:2]
        names = f"{host},[127.0.0.1]:{port},[localhost]:{port}" if host == LOGIN else host
        lines.append(f"{names} {' '.join(public)}\n")
    write_private(layout.known_hosts, "".join(lines))
    common = f"""\
Host {LOGIN} {" ".join(nodes)}
  User {layout.user}
  IdentityFile {quoted(layout.user_key)}
  IdentitiesOnly yes
  UserKnownHostsFile {quoted(layout.known_hosts)}
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
"""
    login_methods = "keyboard-interactive" if mfa else "publickey"
    write_private(
        layout.ssh_config,
        f"""\
# The embedded demo cluster of jupyter-hpc; rewritten at each start.
Host {LOGIN}
  HostName 127.0.0.1
  Port {port}
  HostKeyAlias {LOGIN}
  PreferredAuthentications {login_methods}
Host {" ".join(nodes)}
  ProxyJump {LOGIN}
{common}""",
    )
    # On the hosts themselves ssh reaches the others through the controller's socket:
    # ssh is handed the connected socket, no process copies bytes.
    write_private(
        layout.inner_ssh_config,
        f"""\
Host {LOGIN} {" ".join(nodes)}
  ProxyCommand {quoted(layout.bin / "demo-connect")} %h
  ProxyUseFdpass yes
  BatchMode yes
{common}""",
    )
