"""The cell of a training with Run around its loop: text by position, so that all else stays."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from jupyter_hpc.batch.convert.edits import Edit, Positions, apply
from jupyter_hpc.batch.convert.masked import masked
from jupyter_hpc.batch.resuming.carried import Changes
from jupyter_hpc.batch.resuming.loops import EpochLoop, NotSure
from jupyter_hpc.batch.resuming.program import Program, stored
from jupyter_hpc.batch.resuming.seen import KIT

#: One level deeper.
STEP = "    "
_WIDTH = 88
IMPORT = f"from {KIT} import Run"


@dataclass(frozen=True)
class Plan:
    """What is to be written around and into one loop."""

    loop: EpochLoop
    parts: tuple[str, ...]
    #: Names that go from one turn to the next.
    carried: tuple[str, ...]
    #: Where each batch is a point to go on from: the loader's expression in the loop over them.
    loader: ast.Name | None = None
    #: The `enumerate` around it, which would begin at zero again.
    enumerate: ast.Call | None = None
    #: A progress bar around it.
    bar: ast.Call | None = None
    #: Names that go from one batch to the next, and begin anew in each epoch.
    sums: tuple[str, ...] = ()


def rewritten(program: Program, plan: Plan) -> str:
    """The new text of the loop's cell; NotSure where it cannot be written by position."""
    cell, loop = plan.loop.cell, plan.loop.node
    # A line after the last one begins on a new line.
    source = cell.source if cell.source.endswith("\n") else cell.source + "\n"
    lines = source.split("\n")
    places = Positions(source)
    if not places.stands_alone(loop):
        raise NotSure(f"The loop of cell {cell.number} is not on lines of its own.")
    run = _free_name(program)
    prefix = lines[loop.lineno - 1][: loop.col_offset]
    edits = [
        *_loop_edits(places, plan, run),
        *_state_edits(places, plan, run, lines),
        *_indents(cell.code.tree, loop, lines, places, prefix),
    ]
    head = f"{prefix}with {_call(plan, prefix)} as {run}:\n"
    for name in plan.carried:
        head += f'{prefix}{STEP}{name} = {run}.state.setdefault("{name}", {name})\n'
    start = places.offset(loop.lineno, 0)
    top = _import_line(cell.code.tree, loop)
    if top == loop.lineno:
        head = f"{prefix}{IMPORT}\n\n{head}"
    else:
        at = places.offset(top, 0)
        indent = lines[top - 1][: len(lines[top - 1]) - len(lines[top - 1].lstrip())]
        edits.append(Edit(at, at, f"{indent}{IMPORT}\n\n\n"))
    edits.append(Edit(start, start, head))
    text = apply(source, _merged(edits))
    if source != cell.source:
        text = text.removesuffix("\n")
    check_text(cell.source, text)
    return text


def _call(plan: Plan, prefix: str) -> str:
    words = [f"{name}={name}" for name in plan.parts] + ['every="10 min"']
    if not plan.loop.is_epochs:
        words.append("each_epoch=False")
    line = f"Run({', '.join(words)})"
    if len(prefix) + len(line) + len("with  as run:") <= _WIDTH:
        return line
    inner = "".join(f"{prefix}{STEP}{word},\n" for word in words)
    return f"Run(\n{inner}{prefix})"


def _free_name(program: Program) -> str:
    taken = {
        each.id
        for cell in program.cells
        for each in ast.walk(cell.code.tree)
        if isinstance(each, ast.Name)
    } | set(program.imports)
    if "Run" in taken and program.imports.get("Run") != f"{KIT}.Run":
        raise NotSure("The notebook has something else that is called Run.")
    for name in ("run", "training", "training_run"):
        if name not in taken and name not in program.functions:
            return name
    raise NotSure("There is no free name for the run.")


def _loop_edits(places: Positions, plan: Plan, run: str) -> Iterator[Edit]:
    turns, loop = plan.loop.turns, plan.loop.node
    yield places.replace(turns.call, f"{run}.epochs({turns.count})")
    if turns.bar is not None and "total" not in {key.arg for key in turns.bar.keywords}:
        yield _added(places, turns.bar, f"total={turns.count}")
    if turns.first:
        at = places.offset(loop.body[0].lineno, 0)
        indent = places.source[at : places.offset(loop.body[0].lineno, loop.body[0].col_offset)]
        if indent.strip():
            raise NotSure("The loop over epochs is written on one line.")
        yield Edit(at, at, f"{STEP}{indent}{plan.loop.target} += {turns.first}\n")
    if plan.loader is None:
        return
    loader = plan.loader.id
    yield places.replace(plan.loader, f"{run}.batches({loader})")
    if plan.enumerate is not None:
        done = f"{run}.step % len({loader})"
        given = [*plan.enumerate.args[1:], *(key.value for key in plan.enumerate.keywords)]
        if given:
            yield places.replace(given[0], f"{places.text(given[0])} + {done}")
        else:
            yield _added(places, plan.enumerate, done)
    if plan.bar is not None and "total" not in {key.arg for key in plan.bar.keywords}:
        yield _added(places, plan.bar, f"total=len({loader})")


def _added(places: Positions, call: ast.Call, text: str) -> Edit:
    """One more argument at the end of a call."""
    last = max([*call.args, *(key.value for key in call.keywords)], key=lambda each: (
        each.end_lineno or 0, each.end_col_offset or 0))  # fmt: skip
    end = places.span(last)[1]
    return Edit(end, end, f", {text}")


def _state_edits(places: Positions, plan: Plan, run: str, lines: list[str]) -> Iterator[Edit]:
    loop = plan.loop.node
    for name, statement in _stores(loop.body, plan.carried):
        yield _after(places, lines, statement, f'{run}.state["{name}"] = {name}')
    batches = plan.loop.batches
    if not plan.sums or batches is None:
        return
    for name, statement in _stores(batches.body, plan.sums):
        yield _after(places, lines, statement, f'{run}.state["{name}"] = {name}')
    for statement in loop.body[: loop.body.index(batches)]:
        if isinstance(statement, ast.Assign):
            for name, value in stored(statement):
                if name in plan.sums and value is not None:
                    text = f'{run}.state.setdefault("{name}", {places.text(value)})'
                    yield places.replace(value, text)
    for name in plan.sums:
        yield _after(places, lines, batches, f'{run}.state.pop("{name}")')


def _stores(body: list[ast.stmt], names: tuple[str, ...]) -> list[tuple[str, ast.stmt]]:
    found: dict[tuple[str, int], tuple[str, ast.stmt]] = {}
    for name, statement in Changes(body).stores:
        if name in names:
            if not isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
                raise NotSure(f"`{name}` gets its value in a way that is not followed.")
            found[(name, statement.lineno)] = (name, statement)
    return list(found.values())


def _after(places: Positions, lines: list[str], statement: ast.stmt, text: str) -> Edit:
    """A line after a statement that has its lines for itself."""
    end = statement.end_lineno or statement.lineno
    rest = lines[end - 1].encode()[statement.end_col_offset :].decode().strip()
    if not places.stands_alone(statement) or (rest and not rest.startswith("#")):
        raise NotSure("Several statements of the loop are on one line.")
    indent = lines[statement.lineno - 1][: statement.col_offset]
    at = places.offset(end + 1, 0)
    return Edit(at, at, f"{STEP}{indent}{text}\n")


def _indents(
    tree: ast.Module, loop: ast.For, lines: list[str], places: Positions, prefix: str
) -> Iterator[Edit]:
    inside = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
        for line in range(node.lineno + 1, (node.end_lineno or node.lineno) + 1)
    }
    last = loop.end_lineno or loop.lineno
    while last < len(lines) and _is_comment_of(lines[last], prefix):
        last += 1
    for number in range(loop.lineno, last + 1):
        if lines[number - 1].strip() and number not in inside:
            at = places.offset(number, 0)
            yield Edit(at, at, STEP)


def _is_comment_of(line: str, prefix: str) -> bool:
    text = line.lstrip()
    return text.startswith("#") and len(line) - len(text) > len(prefix)


def _import_line(tree: ast.Module, loop: ast.For) -> int:
    """Before the loop, or before the function that it is in."""
    for statement in tree.body:
        around = statement.lineno <= loop.lineno <= (statement.end_lineno or 0)
        if around and isinstance(statement, ast.FunctionDef):
            return min([statement.lineno, *(each.lineno for each in statement.decorator_list)])
    return loop.lineno


def _merged(edits: list[Edit]) -> list[Edit]:
    """Insertions at one place as one, in the order in which they belong."""
    at: dict[int, list[str]] = {}
    for edit in edits:
        if edit.start == edit.end:
            at.setdefault(edit.start, []).append(edit.text)
    merged = [
        Edit(start, start, "".join(sorted(texts, key=lambda text: text == STEP)))
        for start, texts in at.items()
    ]
    return [*merged, *(edit for edit in edits if edit.start != edit.end)]


def check_text(before: str, after: str, gone: Collection[str] = ()) -> None:
    """NotSure unless the new text is Python that holds every text of the old one, but `gone`."""
    old, new = masked(before), masked(after)
    if old is None or new is None:
        raise NotSure("The change would be no valid Python.")
    try:
        compile(after if not new.has_notebook_lines else new.text, "cell", "exec")
    except (SyntaxError, ValueError):
        if not after.lstrip().startswith("%"):
            raise NotSure("The change would be no valid Python.") from None
    left, right = _texts(old.tree), _texts(new.tree)
    for text in left:
        if text in right:
            right.remove(text)
        elif text not in gone:
            raise NotSure("The change would touch a text of the loop.")


def _texts(tree: ast.Module) -> list[str]:
    return [
        each.value
        for each in ast.walk(tree)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
