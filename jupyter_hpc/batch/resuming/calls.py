"""Calls that are plain statements of a notebook, and changes to them by position."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from jupyter_hpc.batch.convert.edits import Edit, Positions, apply
from jupyter_hpc.batch.resuming.loops import NotSure
from jupyter_hpc.batch.resuming.program import CodeCell, Program
from jupyter_hpc.batch.resuming.rewrite import STEP, check_text


@dataclass
class Draft:
    """What changes in the cells of a notebook."""

    program: Program
    edits: dict[int, list[Edit]] = field(default_factory=dict)
    #: Texts that are meant to go.
    gone: list[str] = field(default_factory=list)

    def places(self, node: ast.AST) -> Positions:
        return Positions(self.program.cell(node).source)

    def add(self, node: ast.AST, *edits: Edit) -> None:
        self.edits.setdefault(self.program.cell(node).number, []).extend(edits)

    def before(self, statement: ast.stmt, text: str) -> None:
        at = self.places(statement).offset(statement.lineno, 0)
        self.add(statement, Edit(at, at, text))

    def argument(self, call: ast.Call, text: str) -> None:
        """One more keyword at the end of a call."""
        given = [*call.args, *(each.value for each in call.keywords)]
        self._append(call, given, text)

    def item(self, of: ast.List, text: str) -> None:
        self._append(of, of.elts, text)

    def _append(self, owner: ast.Call | ast.List, given: Sequence[ast.expr], text: str) -> None:
        places = self.places(owner)
        end = places.span(owner)[1] - 1
        at = max((places.span(each)[1] for each in given), default=end)
        if places.source[at:end].strip() not in ("", ","):
            raise NotSure("The call is written in a way that is not followed.")
        self.add(owner, Edit(at, at, f", {text}" if given else text))

    def cells(self) -> list[tuple[CodeCell, str]]:
        """Each changed cell with its new text; NotSure for one that would be no Python."""
        found = []
        for cell in self.program.cells:
            if cell.number in self.edits:
                text = apply(cell.source, self.edits[cell.number])
                check_text(cell.source, text, self.gone)
                found.append((cell, text))
        return found


def calls(program: Program) -> list[ast.Call]:
    """All calls of the notebook."""
    return [
        node
        for cell in program.cells
        for node in ast.walk(cell.code.tree)
        if isinstance(node, ast.Call)
    ]


def made(program: Program, is_it: Callable[[str], bool], what: str) -> ast.Call:
    """The one call of a class by its full name."""
    found = [call for call in calls(program) if is_it(program.full_name(call.func))]
    if len(found) != 1:
        raise NotSure(f"{what} is made {len(found)} times, or in a way that is not followed.")
    return found[0]


def top_statement(program: Program, node: ast.AST) -> ast.stmt:
    """The statement, outside of functions and blocks and on lines of its own, with a node."""
    for statement in program.top.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr) and any(
            each is node for each in ast.walk(statement)
        ):
            source = program.cell(statement).source
            end = source.split("\n")[(statement.end_lineno or 0) - 1]
            rest = end.encode()[statement.end_col_offset :].decode().strip().lstrip(";")
            if Positions(source).stands_alone(statement) and (not rest or rest[0] == "#"):
                return statement
    raise NotSure("Trainer and its start are not plain statements on lines of their own.")


def position(program: Program, statement: ast.stmt) -> int:
    """Where a statement stands among those of the notebook."""
    return next(at for at, each in enumerate(program.top.body) if each is statement)


def plain_call(call: ast.Call, most: int, what: str) -> None:
    """NotSure for arguments that are not seen: stars, or more without a name than `most`."""
    starred = any(isinstance(each, ast.Starred) for each in call.args)
    if starred or len(call.args) > most or any(each.arg is None for each in call.keywords):
        raise NotSure(f"The arguments of {what} are not all seen.")


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """What a call gives for a name; None where it does not."""
    return next((each.value for each in call.keywords if each.arg == name), None)


def indent(draft: Draft, statement: ast.stmt, head: str) -> None:
    """The statement as the body of a block; strings of several lines are left as they are."""
    if any(
        isinstance(node, ast.Constant | ast.JoinedStr) and node.lineno != node.end_lineno
        for node in ast.walk(statement)
    ):
        raise NotSure("The statement has a text of several lines.")
    places = draft.places(statement)
    for number in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1):
        at = places.offset(number, 0)
        draft.add(statement, Edit(at, at, f"{head}{STEP}" if number == statement.lineno else STEP))
