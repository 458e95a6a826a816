"""A second node for jobs outside of Slurm: another name, another disk in the place of scratch."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.batch.jobs import LocalJob

needs_namespaces = pytest.mark.skipif(
    os.getuid() != 0 or shutil.which("unshare") is None, reason="only root can mount"
)

#: Starts each command on both nodes, as srun does, and hands signals on to both. After the
#: staging it runs what $AFTER_STAGING says.
_SRUN = """\
import os, signal, subprocess, sys

words = sys.argv[1:]
while words and words[0].startswith("--"):
    words.pop(0)
if not words:
    sys.exit(0)
NODE = 'hostname n2 && mount --bind "$0" "$1" && cd "$PWD" && shift && exec "$@"'
other = ["unshare", "--mount", "--uts", "bash", "-c", NODE, OTHER, SCRATCH, *words]
started = []
for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM):
    signal.signal(number, lambda n, _: [each.send_signal(n) for each in started])
for node, argv in enumerate((words, other)):
    own = {"SLURM_NODEID": str(node), "SLURM_PROCID": str(node), "SLURM_LOCALID": "0"}
    started.append(subprocess.Popen(argv, env={**os.environ, **own}))
code = max(abs(each.wait()) for each in started)
if "stage" in words and "AFTER_STAGING" in os.environ:
    subprocess.run(["sh", "-c", os.environ["AFTER_STAGING"]], check=True)
sys.exit(code)
"""


def second_node(job: LocalJob) -> Path:
    """Give the job two nodes with a task each; the folder that the other one has for scratch."""
    other = job.root / "scratch of n2"
    other.mkdir()
    srun = job.root / "bin" / "srun"
    head = f"#!{sys.executable}\nOTHER, SCRATCH = {str(other)!r}, {str(job.scratch)!r}\n"
    srun.write_text(head + _SRUN, encoding="utf-8")
    job.job = replace(job.job, request=replace(job.job.request, nodes=2, tasks=2))
    return other
