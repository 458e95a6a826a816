"""sbatch: submit a script, ask when it could start, write its header lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from jupyter_hpc.errors import UnreadableAnswer, UsageError
from jupyter_hpc.slurm.models import Estimate, Request, Submitted
from jupyter_hpc.slurm.options import request_options
from jupyter_hpc.text import printable


@dataclass(frozen=True)
class BatchOptions:
    """What a batch job has beyond its resources."""

    output: str | None = None  #: may hold Slurm's patterns, such as %j
    error: str | None = None
    work_dir: str | None = None
    array: str | None = None  #: "1-12%3"
    signal: str | None = None  #: "B:USR1@120"
    dependency: str | None = None
    requeue: bool | None = None
    open_append: bool = False  #: keep the log of an earlier run of a requeued job
    begin: str | None = None
    export: str | None = None
    mail_type: str | None = None
    mail_user: str | None = None
    hold: bool = False

    def words(self) -> list[str]:
        """These options as `--option=value` words, in a fixed order."""
        values = [
            ("output", self.output),
            ("error", self.error),
            ("chdir", self.work_dir),
            ("array", self.array),
            ("signal", self.signal),
            ("dependency", self.dependency),
            ("begin", self.begin),
            ("export", self.export),
            ("mail-type", self.mail_type),
            ("mail-user", self.mail_user),
            ("open-mode", "append" if self.open_append else None),
        ]
        words = [f"--{option}={value}" for option, value in values if value]
        if self.requeue is not None:
            words.append("--requeue" if self.requeue else "--no-requeue")
        if self.hold:
            words.append("--hold")
        return words


#: Variables of the job in which we run that sbatch would pass on to the new job
#: and that contradict its own request there (srun refuses two memory variables).
_INHERITED = (
    "SLURM_MEM_PER_CPU",
    "SLURM_MEM_PER_GPU",
    "SLURM_MEM_PER_NODE",
    "SLURM_CPUS_PER_TASK",
    "SLURM_TRES_PER_TASK",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_GPUS",
    "SLURM_GPUS_PER_NODE",
    "SLURM_GPUS_PER_TASK",
    "SLURM_CPU_BIND",
    "SLURM_CPU_BIND_LIST",
    "SLURM_CPU_BIND_TYPE",
    "SLURM_CPU_BIND_VERBOSE",
    "SLURM_DISTRIBUTION",
    "SLURM_OVERLAP",
    "SRUN_CPUS_PER_TASK",
)

#: What the Jupyter server or kernel around us knows and no job may: its tokens, and
#: folders and settings that are true for this one process only.
_OF_THE_SERVER = (
    "JUPYTER_TOKEN",
    "JUPYTER_TOKEN_FILE",
    "JUPYTERHUB_API_TOKEN",
    "JPY_API_TOKEN",
    "CONFIGPROXY_AUTH_TOKEN",
    "JUPYTER_RUNTIME_DIR",
    "JPY_PARENT_PID",
    "JPY_SESSION_NAME",
    "MPLBACKEND",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
)


def sbatch_argv(
    request: Request | None = None,
    options: BatchOptions | None = None,
    *,
    script: str | None = None,
    arguments: Sequence[str] = (),
    test_only: bool = False,
) -> list[str]:
    """sbatch with a script file, or with the script on stdin where there is none.

    Options on the command line win over the script's #SBATCH lines.
    """
    words = ["env"]
    for name in (*_INHERITED, *_OF_THE_SERVER):
        words += ["-u", name]
    # only the estimate has a time in it; a real submission would pass the setting on to the job
    words += (
        ["SLURM_TIME_FORMAT=%s", "sbatch", "--test-only"] if test_only else ["sbatch", "--parsable"]
    )
    if request is not None:
        words += request_options(request)
    if options is not None:
        words += options.words()
    if script is not None:
        if script.startswith("-"):
            script = f"./{script}"
        words += [script, *arguments]
    return words


def read_submitted(stdout: str, stderr: str = "") -> Submitted:
    """The id of `--parsable`: the last line that is one, as sites print banners."""
    for line in reversed(stdout.splitlines()):
        found = re.fullmatch(r"(?P<id>\d+)(?:;(?P<cluster>\S+))?", line.strip())
        if found:
            messages = tuple(
                re.sub(r"^sbatch: ", "", said) for said in stderr.splitlines() if said.strip()
            )
            return Submitted(found["id"], found["cluster"] or "", messages)
    raise UnreadableAnswer(
        f"sbatch gave no job id ({printable(stdout, 200)!r}).",
        "Look at the queue: the job may have been submitted all the same.",
    )


_START = re.compile(
    r"Job (?P<id>\d+) to start at (?P<start>\S+) (?:a )?using (?P<cpus>\d+) processors on "
    r"(?:nodes )?(?P<nodes>\S+)(?: in partition (?P<partition>\S+))?"
)


def read_test_only(stderr: str) -> Estimate | None:
    """The answer of --test-only, which comes on stderr; None if it is not there."""
    found = _START.search(stderr)
    if not found:
        return None
    start = found["start"]
    return Estimate(
        int(start) if start.isdigit() else None,
        nodes=found["nodes"],
        partition=found["partition"] or "",
        cpus=int(found["cpus"]),
    )


def header_lines(request: Request, options: BatchOptions | None = None) -> list[str]:
    """The same request as `#SBATCH` lines of a script, in the same order."""
    words = request_options(request) + (options.words() if options is not None else [])
    return [f"#SBATCH {_quoted(word)}" for word in words]


def _quoted(word: str) -> str:
    """Quote what sbatch would split or read as a comment; it takes no expansions."""
    if re.search(r"[\n\r\0]", word):
        raise UsageError(
            f"{printable(word, 120)!r} holds a line break, which no #SBATCH line may.",
            "Remove it.",
        )
    if not re.search(r"[\s\"'\\#]", word):
        return word
    option, equals, value = word.partition("=")
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{option}{equals}"{escaped}"'
