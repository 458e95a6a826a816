"""What a batch job of a notebook consists of, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jupyter_hpc.errors import UsageError
from jupyter_hpc.slurm.models import Request

#: One GPU, 6 CPUs and 32 GB are a good start for one training.
DEFAULT_REQUEST = Request(time="01:00:00", cpus=6, memory="32000M", gpus=1)

#: Where node-local scratch is on most clusters, best first.
DEFAULT_SCRATCH_ROOTS = (
    "$SLURM_TMPDIR",
    "$TMPDIR",
    "/disk/scratch/$USER",
    "/scratch/local",
    "/tmp",  # noqa: S108
)

#: Seconds between the warning and the time limit: enough to save a large model.
WARNING_SECONDS = 120


#: Until when a run goes on; see BatchJob.
Until = Literal["done", "exit", "all"]


@dataclass(frozen=True)
class Environment:
    """How the job gets the right Python; several parts can be combined."""

    #: Lines of the cluster's profile, as they are.
    setup: tuple[str, ...] = ()
    #: Words before Slurm's commands, where jobs do not find them.
    slurm_prefix: tuple[str, ...] = ()
    #: The user's own login files are read first.
    login_shell: bool = False
    modules: tuple[str, ...] = ()
    conda: str | None = None
    venv: str | None = None
    #: A requirements file from which each node builds its own environment.
    build_from: str | None = None
    #: A folder with wheels for that; the site's own are used in any case.
    wheels: str | None = None
    #: An Apptainer image.
    container: str | None = None

    def __post_init__(self) -> None:
        pythons = [self.conda, self.venv, self.build_from, self.container]
        if sum(value is not None for value in pythons) > 1:
            raise UsageError(
                "A job has one Python: conda, a virtual environment, one that is built in the "
                "job, or a container.",
                "Give one of them; modules can be added to each.",
            )


@dataclass(frozen=True)
class Input:
    """Something that is copied to scratch before the program starts."""

    source: str
    #: Where it appears, relative to the working directory of the program.
    target: str
    kind: Literal["file", "tar"] = "file"
    #: The folder on the cluster that a tar was made of, to which its links may lead back.
    origin: str = ""


@dataclass(frozen=True)
class Staging:
    """A working directory on node-local scratch."""

    inputs: tuple[Input, ...] = ()
    #: Files that come back; none named: all that are new or changed.
    outputs: tuple[str, ...] = ()
    scratch_roots: tuple[str, ...] = DEFAULT_SCRATCH_ROOTS
    #: Seconds between two copies while the program runs.
    interval: int = 300

    def __post_init__(self) -> None:
        targets = [item.target for item in self.inputs]
        twice = next((target for target in targets if targets.count(target) > 1), None)
        if twice is not None:
            raise UsageError(
                f"Two inputs would both be {twice!r} in the job's working directory.",
                "Give one of them another name.",
            )

    def to_json(self) -> dict[str, Any]:
        return {
            "inputs": [vars(item) for item in self.inputs],
            "outputs": list(self.outputs),
            "scratch_roots": list(self.scratch_roots),
        }


@dataclass(frozen=True)
class OwnFolder:
    """A working folder that each run has for itself, with what the notebook's folder holds."""

    #: The notebook's folder.
    source: str
    #: So many folders around it are reached by `..` in the notebook.
    levels: int = 0
    #: Paths that the code is seen to write: these are never links.
    written: tuple[Mapping[str, str], ...] = ()
    #: Files up to this size are copied, larger ones are linked.
    small_bytes: int = 1_000_000
    #: A folder with more files or bytes than this is data, and linked as a whole.
    data_files: int = 100
    data_bytes: int = 20_000_000
    #: So many bytes of files that will be written are copied, however large they are.
    written_bytes: int = 2_000_000_000
    #: What lies around it is none of the notebook's: it came from a laptop.
    alone: bool = False

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "written": [dict(item) for item in self.written]}


@dataclass(frozen=True)
class Flag:
    """An option of a script: the word, and whether it stands without a value."""

    word: str
    switch: bool = False


@dataclass(frozen=True)
class Step:
    """A script that a job runs as it is."""

    #: Below the folder of the frozen scripts, as it is below the working directory.
    path: str
    kind: Literal["python", "shell"] = "python"
    arguments: tuple[str, ...] = ()
    #: The options that it takes, by the names of parameters.
    flags: Mapping[str, Flag] = field(default_factory=dict)
    #: It has a handler for the warning before the time limit, which ends other programs.
    hears_warning: bool = False


@dataclass(frozen=True)
class Before:
    """A chain that must be done before a job starts."""

    job_id: str
    #: Where its runs leave how they ended.
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class BatchJob:
    """One submission: a single run, a chain of runs, or a sweep."""

    notebook: str
    #: The folder that holds everything of this run.
    run_dir: str
    #: The notebook's folder, which is the working directory without staging.
    work_dir: str
    request: Request = DEFAULT_REQUEST
    mode: Literal["script", "notebook"] = "script"
    #: Scripts that run one after the other, instead of a notebook.
    steps: tuple[Step, ...] = ()
    #: Jobs that must have ended well before this one starts.
    after: tuple[str, ...] = ()
    #: Those of them that are chains. How these ended only their run folders tell: one that is
    #: done has cancelled parts, and one that is used up has none that failed.
    after_chains: tuple[Before, ...] = ()
    environment: Environment = field(default_factory=Environment)
    staging: Staging | None = None
    #: None: the program works in the notebook's folder, or among staged inputs alone.
    folder: OwnFolder | None = None
    #: So many parts one after the other, each going on where the last one ended.
    chain: int | None = None
    #: What ends a chain or a requeued job: code 0, a file DONE, or nothing but its last part.
    until: Until = "exit"
    #: The parameters of each run of a sweep.
    sweep: tuple[Mapping[str, Any], ...] = ()
    at_once: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    #: Parameters stand in the script itself, not in a file beside it.
    parameters_inline: bool = False
    requeue: bool = False
    #: The end is told to the user, by the job itself where no laptop does it.
    notify: bool = False
    warning: int = WARNING_SECONDS
    #: The program needs PyTorch with a GPU, which is checked first.
    check_gpu: bool = False
    #: Folder for the logs; by default one in the run folder.
    log_dir: str = ""

    def __post_init__(self) -> None:
        if self.chain is not None and self.chain < 2:
            raise UsageError("A chain has at least two parts.", "Give 2 or more.").of("chain")
        if self.chain is not None and self.requeue:
            raise UsageError(
                "A chain starts its next part itself, so it is not requeued as well.",
                "Choose one of the two.",
            ).of("chain")
        if self.until == "all" and self.chain is None:
            raise UsageError(
                "Until all parts have run (--until all) is about a chain, and this is none.",
                "Give the number of parts: --chain N.",
            ).of("chain")
        if self.at_once is not None and self.at_once < 1:
            raise UsageError("At least one run of a sweep must run at a time.", "").of("at_once")

    @property
    def runs(self) -> int:
        """How often the program runs in all."""
        return (len(self.sweep) or 1) * (self.chain or 1)

    @property
    def goes_on(self) -> bool:
        """Whether one run may have several parts."""
        return self.chain is not None or self.requeue

    @property
    def in_array(self) -> bool:
        """Whether the parts are the tasks of an array; else the job goes back to the queue."""
        return self.chain is not None and not self.sweep

    @property
    def isolated(self) -> bool:
        """Whether each run works in a folder of its own on the shared disk."""
        return self.folder is not None and self.staging is None

    @property
    def in_notebooks_folder(self) -> bool:
        """Whether the program works where the session and other jobs may work as well."""
        return self.folder is None and self.staging is None and not self.from_laptop

    @property
    def from_laptop(self) -> bool:
        """Whether the notebook's folder is one that this submit has made for it."""
        return f"{self.work_dir}/".startswith(f"{self.run_dir}/")

    @property
    def tasks(self) -> int:
        return self.request.tasks or 1

    @property
    def nodes(self) -> int:
        return self.request.nodes or 1

    @property
    def gpus(self) -> int:
        return self.request.gpus or 0
