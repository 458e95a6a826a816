"""Much data of a job as one transfer, which a cut does not lose."""

from __future__ import annotations

import contextlib
import posixpath
import tempfile
from pathlib import Path

from jupyter_hpc.batch.submit.snapshot import Send
from jupyter_hpc.cli.file_progress import Progress
from jupyter_hpc.cli.hosts import ClusterRunner, Host
from jupyter_hpc.connect.files.frames import Wire
from jupyter_hpc.connect.files.listing import Source
from jupyter_hpc.connect.files.moving import transfer
from jupyter_hpc.connect.files.transfer import Options, Outcome, push
from jupyter_hpc.connect.files.tree import part_name
from jupyter_hpc.errors import CommandError, CommandFailed, HpcError

#: Only the owner may look into the folder of the runs.
_MAKE = 'umask 077; mkdir -p -- "$1"'


def sending(host: Host) -> Send | None:
    """How files of a job come to this host; None where they are there."""
    runner = host.runner
    if not isinstance(runner, ClusterRunner):
        return None

    async def send(data: bytes, path: str) -> bool:
        return await _send(runner, data, path)

    return send


async def _send(runner: ClusterRunner, data: bytes, path: str) -> bool:
    folder, name = posixpath.split(path)
    await runner.run(["sh", "-c", _MAKE, "sh", folder])
    progress = Progress(where=folder, delete=False, sure=False, dry=False)

    def work(wire: Wire) -> Outcome:
        return push(wire, [Source(str(file), name)], folder, Options(contents=True), progress)

    with tempfile.TemporaryDirectory(prefix="jupyter-hpc-") as here:
        file = Path(here) / "files.tar"
        file.touch(0o600)
        file.write_bytes(data)
        try:
            outcome = await transfer(runner, work, progress.cut)
        except CommandError:
            return False
        except BaseException:
            part = posixpath.join(folder, part_name(name))
            with contextlib.suppress(HpcError):  # it may be the connection that is lost
                await runner.run(["rm", "-f", "--", path, part], timeout=10.0)
            raise
        finally:
            progress.clear()
    for _, why in outcome.left:
        raise CommandFailed(
            f"The files of the job could not be written to {folder}: {why}.",
            "Nothing was submitted.",
        )
    return True
