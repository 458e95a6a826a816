"""Runs the program that reads run folders, where they are."""

from __future__ import annotations

from jupyter_hpc.batch.runtime import RUNS_FILE, shipped_source
from jupyter_hpc.batch.submit.runs import NOTES
from jupyter_hpc.errors import CommandFailed
from jupyter_hpc.runner import Runner

#: A slow disk takes its time for a thousand folders.
_SECONDS = 60.0

#: The code of _START where no Python is new enough.
_NO_PYTHON = 77

#: Runs the program on stdin with the first Python that is new enough.
_START = f"""# read the runs
program=$1 verb=$2; shift 2
for python in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9; do
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2> /dev/null || continue
    exec "$python" -I -c "$program" "$verb" "{NOTES}" "$@"
done
exit {_NO_PYTHON}
"""
_PROGRAM = (
    "import sys; exec(compile(sys.stdin.read(), 'runs', 'exec'), "
    "{'__name__': '__main__', '__file__': '/runs'})"
)


async def ask_runs(
    runner: Runner, failure: str, verb: str, *words: str, seconds: float = _SECONDS
) -> str:
    """What the program prints for a verb (see batch/runtime/runs/start.py); CommandFailed, which
    begins with the sentence `failure`, if it cannot run.
    """
    source = shipped_source(RUNS_FILE).encode()
    argv = ["sh", "-c", _START, "sh", _PROGRAM, verb, *words]
    done = await runner.run(argv, stdin=source, timeout=seconds)
    if done.returncode == _NO_PYTHON:
        raise CommandFailed(
            f"{failure}: no Python 3.9 or newer is found on the login host.",
            "Load a module with one in your login files, or look into the folders hpc-batch "
            "beside your notebooks.",
        )
    if not done.ok:
        said = done.stderr.strip().rpartition("\n")[2]
        raise CommandFailed(f"{failure}: {said}", "Is the home folder readable?")
    return done.stdout
