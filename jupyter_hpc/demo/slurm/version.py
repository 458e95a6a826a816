"""Which Slurm the work-alike says it is, and what its answers owe to that.

Only differences that a reader of ours sees are here; the rest is as 22.05 has it.
"""

from __future__ import annotations

#: Release -> the version that it says.
VERSIONS = {"20.11": "20.11.4", "22.05": "22.05.8", "24.11": "24.11.5", "26.05": "26.05.5"}
DEFAULT_RELEASE = "24.11"


def version_line(release: str) -> str:
    """What --version prints."""
    return f"slurm-wlm {VERSIONS[release]}\n"


def names_both_tres(release: str) -> bool:
    """ReqTRES= and AllocTRES= for TRES=, and a job's times in its environment: since 23.02."""
    return release >= "23.02"


def names_arguments(release: str) -> bool:
    """Whether Command= of a job has its arguments, too: before 24.11."""
    return release < "24.11"


def says_ready(release: str) -> bool:
    """Whether salloc says that the nodes are ready: since 24.11."""
    return release >= "24.11"


def names_shared_errors(release: str) -> bool:
    """Whether StdErr= is set where errors go to the output file: before 26.05."""
    return release < "26.05"


def refuses_what_never_fits(release: str) -> bool:
    """Whether more nodes or CPUs than there are are refused, not queued for ever: 24.11 alone."""
    return release == "24.11"


def names_node_limit(release: str) -> bool:
    """Whether too many nodes have a reason of their own: before 24.11."""
    return release < "24.11"
