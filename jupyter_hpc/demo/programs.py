"""The programs in FOLDER/bin, first on the PATH of every host."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from jupyter_hpc.demo.layout import Layout, write_private

_CLIENT = """\
#!/bin/sh
exec {python} -I -S {client} {socket} {name} "$@"
"""
_HOSTNAME = """\
#!/bin/sh
# The name of the simulated host; with an option, the system's own program.
case "$#" in
  0) printf '%s\\n' "${JUPYTER_HPC_DEMO_HOST:-demo-login}" ;;
  *) case "$1" in
       -s|-f|--short|--fqdn) printf '%s\\n' "${JUPYTER_HPC_DEMO_HOST:-demo-login}" ;;
       *) exec /bin/hostname "$@" ;;
     esac ;;
esac
"""
_SSH = """\
#!/bin/sh
# ssh between the hosts of the demo cluster, and nowhere else.
exec {ssh} -F {config} "$@"
"""

#: Commands of Slurm that the demo does not have. A machine may have the real ones
#: installed, and those must not be found in their place.
_MISSING = ("sattach", "sbcast", "scrontab", "sdiag", "sprio", "sreport", "strigger")
_REFUSES = """\
#!/bin/sh
echo "{name}: the demo cluster does not have this command" >&2
exit 127
"""


def write_programs(layout: Layout, commands: Iterable[str]) -> None:
    """Write the commands anew: the controller's socket may have moved."""
    shutil.rmtree(layout.bin, ignore_errors=True)
    layout.bin.mkdir(mode=0o700)
    client = shlex.quote(str(Path(__file__).with_name("client.py")))
    for name in (*commands, "demo-connect"):
        text = _CLIENT.format(
            python=shlex.quote(sys.executable),
            client=client,
            socket=shlex.quote(str(layout.socket)),
            name=name,
        )
        write_private(layout.bin / name, text, 0o700)
    for name in _MISSING:
        write_private(layout.bin / name, _REFUSES.format(name=name), 0o700)
    write_private(layout.bin / "hostname", _HOSTNAME, 0o700)
    real = shutil.which("ssh")
    if real:
        text = _SSH.format(ssh=shlex.quote(real), config=shlex.quote(str(layout.inner_ssh_config)))
        write_private(layout.bin / "ssh", text, 0o700)
