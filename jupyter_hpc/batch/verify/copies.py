"""A folder like that of a notebook, in which a trial can write without harm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_hpc.batch.convert.report import Conversion
from jupyter_hpc.batch.paths.outside import levels_above
from jupyter_hpc.batch.paths.written import written_paths
from jupyter_hpc.batch.runtime.job.folder import Mirror
from jupyter_hpc.batch.runtime.job.folder_plan import FolderPlan
from jupyter_hpc.batch.runtime.job.linked import clock_of, watch

#: Files and folders up to this size are copied for a trial, larger ones are linked.
_MAX_COPIED_BYTES = 20_000_000
_MAX_COPIED_FILES = 2000
#: So much of what is written is copied for each trial.
_MAX_WRITTEN_BYTES = 2_000_000_000


@dataclass(frozen=True)
class WorkCopy:
    """The folder, and what its links lead to, as it was before."""

    folder: Path
    watched: dict[str, Any]


def work_copy(
    tree: Path, notebook: Path, conversion: Conversion, values: Mapping[str, Any]
) -> WorkCopy:
    """Make it below `tree`; large things are links, but nothing that the notebook writes."""
    code = conversion.script
    written = written_paths(code, {each: [value] for each, value in values.items()})
    plan = FolderPlan(
        {
            "source": str(notebook.resolve().parent),
            "levels": levels_above(code),
            "written": [{"path": each.path, "effect": each.effect} for each in written],
            "small_bytes": _MAX_COPIED_BYTES,
            "data_files": _MAX_COPIED_FILES,
            "data_bytes": _MAX_COPIED_BYTES,
            "written_bytes": _MAX_WRITTEN_BYTES,
        }
    )
    mirror = Mirror(plan, tree, [])
    begun = clock_of(str(tree.parent))
    folder = mirror.run()
    return WorkCopy(folder, watch(mirror.links, begun, mirror.patterns))
