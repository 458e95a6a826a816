"""One code cell: from its text to the text that stands in the script."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from typing import Literal

from jupyter_hpc.batch.convert.asynchronous import MENTIONS_LOOP, as_async_cell, needs_loop
from jupyter_hpc.batch.convert.context import API, Action, CellContext, Refused, Use, call, dropped
from jupyter_hpc.batch.convert.edits import Edit, Positions, apply, indented, is_enclosed, literal
from jupyter_hpc.batch.convert.imports import WIDGET_MODULES, replacement
from jupyter_hpc.batch.convert.magics.cell import CELL_MAGICS, SHOW
from jupyter_hpc.batch.convert.magics.line import AUTOMAGIC, LINE_MAGICS, Handler
from jupyter_hpc.batch.convert.magics.shell import shell_action
from jupyter_hpc.batch.convert.questions import Receiver, question
from jupyter_hpc.batch.convert.report import CORRECT_IT, NOT_PYTHON
from jupyter_hpc.batch.convert.transform import NotPython, Python, parse

_SHOWN = "the value is printed and its richer forms are saved"
_WHY_SHOWN = "a script shows no values by itself"

_LOOPS = ast.For | ast.AsyncFor | ast.While


def convert_code(source: str, context: CellContext, show: str) -> str:
    """Convert the code of a cell, or of the body of a cell magic.

    `show` is the function that is given the value of the last expression; empty: none.
    """
    try:
        python = context.transform(source, AUTOMAGIC, context.bound)
    except NotPython as error:
        context.refuse(
            error.line + context.lines_above,
            f"{NOT_PYTHON} ({error.reason}).",
            CORRECT_IT,
        )
        return ""
    rewriter = _Rewriter(python, context, show if not ends_quietly(source) else "")
    code = rewriter.rewritten()
    if MENTIONS_LOOP.search(source) and needs_loop(python.tree):
        return as_async_cell(code, context)
    return code


def ends_quietly(source: str) -> bool:
    """Whether the last token of a cell is a semicolon, which hides the result."""
    if ";" not in source:
        return False
    last = ""
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type in (tokenize.OP, tokenize.NAME, tokenize.NUMBER, tokenize.STRING):
                last = token.string
    except (tokenize.TokenError, SyntaxError):
        return source.rstrip().endswith(";")
    return last == ";"


class _Rewriter:
    """Collects the edits of one cell while walking its tree."""

    def __init__(self, python: Python, context: CellContext, show: str) -> None:
        self.python = python
        self.context = context
        self.show = show
        self.positions = Positions(python.source)
        self.edits: list[Edit] = []
        self.loops = 0
        self.tries = 0

    def rewritten(self) -> str:
        body = self.python.tree.body
        shown = set(self._shown_statements(body))
        for statement in body:
            self._statement(statement, statement in shown, top=True)
        code = apply(self.python.source, self.edits)
        return code if code.endswith("\n") or not code else code + "\n"

    def _shown_statements(self, body: list[ast.stmt]) -> Iterator[ast.stmt]:
        if not self.show or not body:
            return
        if self.context.interactivity == "all":
            yield from (node for node in body if isinstance(node, ast.Expr))
        elif isinstance(body[-1], ast.Expr) or self.context.interactivity == "last_expr_or_assign":
            yield body[-1]

    def _statement(self, node: ast.stmt, shown: bool, top: bool) -> None:
        if isinstance(node, ast.Expr):
            use = _use(node.value, is_statement=True, is_shown=shown, top=top)
            if use is not None:
                self._magic_statement(node, use)
                return
            self._walk(node.value, None)
            if shown and not self.context.returns.is_none(node.value):
                self._show(node)
            return
        if isinstance(node, ast.Import | ast.ImportFrom):
            self._import(node)
            return
        if isinstance(node, ast.ClassDef):
            self._class(node)
        if shown and isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            self._show_assigned(node)
        target = None
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            target = node.targets[0].id
        self._children(node, target)

    def _children(self, node: ast.AST, target: str | None) -> None:
        loop, guard = isinstance(node, _LOOPS), isinstance(node, ast.Try)
        self.loops += loop
        self.tries += guard
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                self._statement(child, shown=False, top=False)
            else:
                self._walk(child, target)
        self.loops -= loop
        self.tries -= guard

    def _walk(self, node: ast.AST, target: str | None) -> None:
        if isinstance(node, ast.stmt):
            self._statement(node, shown=False, top=False)
            return
        if isinstance(node, ast.Call):
            use = _use(node, is_statement=False, is_shown=False, top=False)
            if use is not None:
                self._magic_value(node, use)
                return
            text = self.positions.text(node)
            receiver = Receiver(target, in_loop=self.loops > 0)
            line = node.lineno + self.context.lines_above
            answer = question(node, receiver, self.context, line, text)
            if answer is not None:
                self.edits.append(self.positions.replace(node, answer))
                return
        if isinstance(node, ast.Name) and node.id == "get_ipython":
            self.edits.append(self.positions.replace(node, f"{API}.shell"))
            return
        self._children(node, target)

    def _show(self, node: ast.Expr) -> None:
        line = node.lineno + self.context.lines_above
        self.context.change(line, self.context.text_at(line), _SHOWN, _WHY_SHOWN)
        before, after = f"{self.show}(", ")"
        bare = isinstance(node.value, ast.Tuple | ast.Yield | ast.Starred)
        if bare and not is_enclosed(self.positions.text(node)):
            before, after = f"{self.show}((", "))"
        self.edits += self.positions.wrap(node, before, after)

    def _show_assigned(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if isinstance(target, ast.Name):
            end = self.positions.span(node)[1]
            self.edits.append(Edit(end, end, f"; {self.show}({target.id})"))

    def _class(self, node: ast.ClassDef) -> None:
        stands_for = self.context.returns.stands_for
        if any(name.startswith(WIDGET_MODULES) for base in node.bases for name in stands_for(base)):
            self.context.refuse(
                node.lineno + self.context.lines_above,
                f"{node.name} is a control of the notebook's own, which needs a browser.",
                "Leave it out of what runs in the job.",
            )

    # Magics and shell lines -------------------------------------------------------

    def _action(self, use: Use, fallback: int) -> tuple[Action, int]:
        line = self.context.line_of(_pattern(use), fallback)
        try:
            if use.kind in ("system", "getoutput"):
                action = shell_action(use, self.context, line)
            else:
                table = LINE_MAGICS if use.kind == "line" else CELL_MAGICS
                own = use.name in self.context.own_magics
                handler: Handler | None = own_magic if own else table.get(use.name)
                if handler is None:
                    raise _unknown(use)
                self.context.lines_above += use.kind == "cell"
                action = handler(use, self.context, line)
                self.context.lines_above -= use.kind == "cell"
            if action.is_block and not use.is_statement:
                raise Refused(f"{use.written!r} cannot give a value in a script.")
        except Refused as refused:
            reason = refused.reason[:1].upper() + refused.reason[1:]
            self.context.refuse(line, reason, refused.hint)
            action = dropped("refused")
        source = self.context.text_at(line) or use.written
        self.context.change(line, source, action.what, action.why)
        return action, line

    def _magic_statement(self, node: ast.Expr, use: Use) -> None:
        action, line = self._action(use, node.lineno)
        indent = " " * node.col_offset
        if not action.code:
            written = use.written if "\n" in use.written else self._written(use, line)
            comment = _comment(f"{written}  ({action.what})")
            keep = node.col_offset or not self.positions.stands_alone(node)
            self.edits.append(self.positions.replace(node, f"pass  {comment}" if keep else comment))
            return
        code = action.code
        if action.has_value and use.is_shown:
            code = f"{self.show}({code})"
        if action.is_block and not self.positions.stands_alone(node):
            self.context.refuse(node.lineno, f"{use.written!r} shares its line with other code.")
            return
        first, newline, rest = code.partition("\n")
        if newline:
            # The first line stands where the statement stood; string contents stay put.
            code = indented(first + newline + rest, indent)[len(indent) :].rstrip("\n")
        self.edits.append(self.positions.replace(node, code))

    def _written(self, use: Use, line: int) -> str:
        """The line of the notebook, if it is this use and nothing else."""
        text = self.context.text_at(line)
        return text if text.startswith(("%", "!", "?")) or text.endswith("?") else use.written

    def _magic_value(self, node: ast.Call, use: Use) -> None:
        action, _ = self._action(use, node.lineno)
        self.edits.append(self.positions.replace(node, action.code or "None"))

    # Imports ----------------------------------------------------------------------

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            self.context.findings.futures += [alias.name for alias in node.names]
            keep = "pass  " if node.col_offset else ""
            text = f"{keep}# {self.positions.text(node)}  (moved to the top)"
            self.edits.append(self.positions.replace(node, text))
            return
        line = node.lineno + self.context.lines_above
        found = replacement(node, self.context, line, guarded=self.tries > 0)
        if found is not None:
            code, what, why = found
            self.context.change(line, self.positions.text(node), what, why)
            self.edits.append(self.positions.replace(node, code))


def own_magic(use: Use, context: CellContext, line: int) -> Action:
    """A magic that the notebook defines: the function is called as IPython would."""
    arguments = [repr(use.name), repr(use.line)]
    if use.kind == "cell":
        text = literal(use.body)
        try:
            parse(use.body)
        except SyntaxError:
            text = f"{API}.cell_text({text}, {literal(context.convert_body(use.body, SHOW))})"
        arguments.append(text)
    code = f"{API}.own_magic({', '.join(arguments)})"
    return call(code, "the notebook's own function", has_value=True)


def _pattern(use: Use) -> str:
    """What the line of a use looks like in the notebook."""
    if use.kind in ("system", "getoutput"):
        return r"^\s*!|=\s*!|get_ipython"
    if use.name in ("pinfo", "pinfo2"):
        return r"\?"
    name = re.escape(use.name.lstrip("%"))
    return rf"%\s*{name}(?!\w)|^\s*{name}(?!\w)|get_ipython"


def _unknown(use: Use) -> Refused:
    if use.kind == "line" and use.name.lstrip("%") in CELL_MAGICS and use.name[:1] == "%":
        return Refused(
            f"%{use.name} stands below the first line of its cell, where IPython does not know it.",
            "Make it the first line of the cell.",
        )
    sign = "%%" if use.kind == "cell" else "%"
    return Refused(f"the magic {sign}{use.name} is not known, so its meaning cannot be kept.")


def _comment(text: str) -> str:
    first, *rest = text.splitlines()
    return "\n".join([f"# {first}", *(f"# {line}" for line in rest)])


def _use(node: ast.expr, is_statement: bool, is_shown: bool, top: bool) -> Use | None:
    """The magic or shell command behind a call of get_ipython(), if it is one."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    holder = node.func.value
    if not (
        isinstance(holder, ast.Call)
        and isinstance(holder.func, ast.Name)
        and holder.func.id == "get_ipython"
    ):
        return None
    texts = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
    if len(texts) != len(node.args) or not all(isinstance(text, str) for text in texts):
        return None
    arguments = [str(text) for text in texts]
    method = node.func.attr
    flags = (is_statement, is_shown, top)
    if method in ("system", "getoutput") and len(arguments) == 1:
        kind: Literal["system", "getoutput"] = "system" if method == "system" else "getoutput"
        return Use(kind, "", arguments[0], "", *flags)
    if method in ("run_line_magic", "magic") and arguments:
        if method == "magic" or len(arguments) == 1:
            name, _, line = arguments[0].lstrip("%").partition(" ")
        else:
            name, line = arguments[0], arguments[1]
        if not name and line.split():  # `% time x`, as old notebooks have it
            name, _, line = line.strip().partition(" ")
        if name.startswith("%"):  # a cell magic in the middle of a cell
            name = "%" + name.lstrip("%")
        return Use("line", name, line, "", *flags)
    if method == "run_cell_magic" and len(arguments) == 3:
        return Use("cell", arguments[0], arguments[1], arguments[2], *flags)
    return None
