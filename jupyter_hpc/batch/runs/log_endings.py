"""What the end of a job's log says of its failure: known causes, each with what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from jupyter_hpc.slurm.endings import Ending
from jupyter_hpc.text import printable

#: So much of the end of a log is looked at.
LOG_END_BYTES = 16_000

_Found = re.Match[str]

#: The cause where only Python's own words are known. Such a program ends with code 1.
EXCEPTION = "exception"


def _gpu_memory(found: _Found) -> Ending:
    asked = re.search(
        r"[Tt]r(?:ied|ying) to allocate ([\d.]+ ?[KMGT]i?B)", found.string[found.start() :]
    )
    amount = f" when it asked for {asked[1]} more" if asked else ""
    return Ending(
        f"The memory of the GPU was full{amount} (CUDA out of memory).",
        "Use a smaller batch, or a GPU with more memory: --gpu-type.",
        "gpu_memory",
    )


def _memory(found: _Found) -> Ending:
    return Ending(
        "The program used more memory than the job had asked for, and was killed.",
        "Ask for more with --mem, or load less at once: a smaller batch, fewer workers.",
        "out_of_memory",
    )


def _python_memory(found: _Found) -> Ending:
    return Ending(
        "The program could not get the memory that it asked for (MemoryError).",
        "Ask for more with --mem, or load less at once.",
        "out_of_memory",
    )


def _disk_full(found: _Found) -> Ending:
    return Ending(
        f"A disk is full: {_file_of(found)} could not be written (No space left on device).",
        "If it is a node's own disk, another node may have more room "
        "(--option=--exclude=NODE); else delete what is not needed there.",
        "disk_full",
    )


def _quota(found: _Found) -> Ending:
    return Ending(
        f"A quota is used up: {_file_of(found)} could not be written (Disk quota exceeded).",
        "Delete what is not needed there, or write to a file system with more room.",
        "quota",
    )


def _module(found: _Found) -> Ending:
    name = printable(found["name"], 60)
    package = name.partition(".")[0]
    return Ending(
        f"The job's Python has no module {name!r}.",
        f"Install {package} in the environment of the job, or name another one: "
        "--conda, --venv, --build.",
        "module",
    )


def _ended_from_outside(found: _Found) -> Ending:
    return Ending(
        "The job was ended from outside, by a signal through Slurm (scancel --signal).",
        "If you did not send it, ask the site's support.",
        "ended",
    )


def _not_started(found: _Found) -> Ending:
    why = printable(found["why"].rstrip(), 400).rstrip(".")
    return Ending(
        f"It was not started: {why}.",
        "See to that one first, then submit this one again.",
        "not_started",
    )


def _exception(found: _Found) -> Ending:
    cell = re.search(r"^\[jupyter-hpc\] failed in cell (\d+)", found.string[found.end() :], re.M)
    who = f"Cell {cell[1]}" if cell else "The program"
    error = printable(found["error"], 200)
    return Ending(
        f"{who} ended with {error.rstrip('.')}.", "Look at the end of its log.", EXCEPTION
    )


def _file_of(found: _Found) -> str:
    """The file in the line of the error, else in the line of code that Python shows before it."""
    line_end = found.string.find("\n", found.end())
    rest = found.string[found.end() : line_end if line_end >= 0 else None]
    before, _, line = found.string[: found.start()].rpartition("\n")
    named = re.match(r":\s*b?(['\"])(?P<path>.+?)\1", rest)
    # "cp: error writing 'a/b': No space left on device"
    named = named or re.search(r"['‘](?P<path>[^'’]+)['’]: (?:\[Errno \d+\] )?$", line)
    if named is None:
        code = [text for text in before.splitlines()[-8:] if re.match(r" {4}\s*\S", text)]
        quoted = re.findall(r"['\"]([^'\"\s]*[./][^'\"\s]*)['\"]", "\n".join(code))
        return printable(quoted[-1], 200) if quoted else "a file"
    return printable(named["path"], 200)


#: The newest in the log counts; of two that end at the same place the first here.
_KNOWN: tuple[tuple[re.Pattern[str], Callable[[_Found], Ending]], ...] = (
    (
        re.compile(
            r"CUDA out of memory|(?:HIP|CUDA) error: out of memory|OutOfMemoryError|"
            r"RESOURCE_EXHAUSTED: Out of memory|CU(?:BLAS|DNN)_STATUS_ALLOC_FAILED|"
            r"OOM when allocating tensor[^\n]*GPU"
        ),
        _gpu_memory,
    ),
    (
        re.compile(
            r"oom[_-]kill event|OOM Killed|out-of-memory handler|"
            r"Exceeded (?:job|step) memory limit|Out Of Memory"
        ),
        _memory,
    ),
    # Slurm says "DUE TO" where the cause is its own; a step also ends for the failure of a task.
    (re.compile(r"error: \*\*\* JOB \S+ ON \S+ CANCELLED AT \S+ \*\*\*"), _ended_from_outside),
    (re.compile(r"^\[jupyter-hpc\] not started: (?P<why>.*)$", re.MULTILINE), _not_started),
    (re.compile(r"No space left on device"), _disk_full),
    (re.compile(r"Disk quota exceeded"), _quota),
    (
        re.compile(r"^ModuleNotFoundError: No module named '(?P<name>[\w.]+)'", re.MULTILINE),
        _module,
    ),
    (re.compile(r"^MemoryError\b|^numpy\S*MemoryError", re.MULTILINE), _python_memory),
    (
        re.compile(
            r"^Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*"
            r"(?P<error>[A-Za-z_][\w.]*(?:: .*)?)$",
            re.MULTILINE,
        ),
        _exception,
    ),
)


def recognised(log_end: str, nodes: str = "", code: int | None = 1) -> Ending | None:
    """The cause of a failure that the end of its log names; None if it names none that is known.

    `nodes` is where the job ran, `code` what it ended with. Only for jobs that failed: a program
    may print such words and go on.
    """
    text = log_end[-LOG_END_BYTES:]
    newest: tuple[int, Ending] | None = None
    for pattern, explain in _KNOWN:
        matches = list(pattern.finditer(text))
        if matches and (newest is None or matches[-1].start() > newest[0]):
            newest = (matches[-1].start(), explain(matches[-1]))
    if newest is None or (newest[1].cause == EXCEPTION and code != 1):
        return None
    ending = newest[1]
    return replace(ending, advice=ending.advice.replace("=NODE", f"={nodes or 'NODE'}"))
