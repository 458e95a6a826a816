"""Names that a notebook uses though no cell above gives them a value."""

from __future__ import annotations

from collections.abc import Mapping

from jupyter_hpc.batch.convert.context import API
from jupyter_hpc.batch.convert.names import ALWAYS
from jupyter_hpc.batch.convert.parameters import CodeCell
from jupyter_hpc.batch.convert.report import Notice

#: Names that the script has from its first line.
_GIVEN = ALWAYS | {API, "display", "In", "Out", "_", "__", "___", "_exit_code", "_timing"}


def hidden_state(cells: list[CodeCell], counts: Mapping[int, int]) -> list[Notice]:
    """One notice for each name that is used before or without being assigned.

    `counts` are the stored execution counts, which tell whether the author ran the
    cells in another order. After `import *` or `%run` nothing certain can be said.
    """
    first_bound: dict[str, int] = {}
    for cell in cells:
        for name in cell.usage.binds:
            first_bound.setdefault(name, cell.number)
    notices: list[Notice] = []
    reported: set[str] = set()
    so_far: set[str] = set()
    for cell in cells:
        if cell.usage.dynamic:
            return notices
        for name, line in (*cell.usage.reads.items(), *cell.usage.later_reads.items()):
            immediate = name in cell.usage.reads and line == cell.usage.reads[name]
            if name in _GIVEN or name in reported or name in so_far:
                continue
            where = first_bound.get(name)
            if where is not None and (not immediate or where == cell.number):
                continue
            reported.add(name)
            notices.append(Notice(cell.number, line, _message(name, where, cell.number, counts)))
        so_far.update(cell.usage.binds)
    return notices


def _message(name: str, where: int | None, cell: int, counts: Mapping[int, int]) -> str:
    if where is None:
        return f"{name!r} is used here, but no cell gives it a value."
    text = f"{name!r} is used here, but gets its value only in cell {where}."
    first, second = counts.get(where), counts.get(cell)
    if first is not None and second is not None and first < second:
        text += f" Cell {where} was run before this one ({first} before {second})."
    return text
