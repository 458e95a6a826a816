"""Variables that are assigned more than once: which of their values is ever read."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from jupyter_hpc.batch.convert.parameters.signatures import Function, dotted

#: A place in the notebook: cell, line, column.
Position = tuple[int, int, int]


class LiveAssignments:
    """Where names get values at the top level of cells, and where they are read."""

    def __init__(self, trees: Mapping[int, ast.Module]) -> None:
        self._reads: dict[str, list[Position]] = {}
        #: Ends of the statements that give a name another value in any case.
        self._writes: dict[str, list[Position]] = {}
        self._ends: dict[int, Position] = {}
        inside: dict[str, set[str]] = {}
        for tree in trees.values():
            for node in ast.walk(tree):
                if isinstance(node, Function):
                    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
                    inside.setdefault(node.name, set()).update(names)
        for cell, tree in trees.items():
            for statement in tree.body:
                self._statement(cell, statement, inside)

    def _statement(self, cell: int, node: ast.stmt, inside: Mapping[str, set[str]]) -> None:
        end = (cell, node.end_lineno or node.lineno, node.end_col_offset or 0)
        for part in ast.walk(node):
            if isinstance(part, ast.expr):
                self._ends[id(part)] = (cell, part.end_lineno or 0, part.end_col_offset or 0)
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
                position = (cell, part.lineno, part.col_offset)
                self._reads.setdefault(part.id, []).append(position)
            elif isinstance(part, ast.Call):
                position = (cell, part.lineno, part.col_offset)
                for name in inside.get(dotted(part.func).rpartition(".")[2], ()):
                    self._reads.setdefault(name, []).append(position)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                for part in ast.walk(target):
                    if isinstance(part, ast.Name):
                        self._writes.setdefault(part.id, []).append(end)

    def is_read(self, name: str, value: ast.expr) -> bool:
        """Whether this value of the name is read before it gets the next one."""
        start = self._ends[id(value)]
        following = [end for end in self._writes.get(name, ()) if end > start]
        # The first of them ends the statement of the value itself, if that is at the top level.
        own = [end for end in following if end[:2] == start[:2]]
        rest = [end for end in following if end not in own]
        limit = min(rest, default=(1 << 30, 0, 0))
        return any(start <= read <= limit for read in self._reads.get(name, ()))
