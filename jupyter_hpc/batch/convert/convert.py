"""A notebook to a script: `convert(path, options) -> Conversion`."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jupyter_hpc.batch.convert.context import API, CellContext, Findings
from jupyter_hpc.batch.convert.emit import Emitted, Header, commented, script_text
from jupyter_hpc.batch.convert.imports import RUNTIME, own_magics, top_level_modules
from jupyter_hpc.batch.convert.magics.cell import SHOW
from jupyter_hpc.batch.convert.names import ALWAYS, bound_in, usage
from jupyter_hpc.batch.convert.notices import case_notices, hidden_state, notices_of
from jupyter_hpc.batch.convert.parameters.constants import CodeCell, assigned, constant
from jupyter_hpc.batch.convert.parameters.reserved import other_cases
from jupyter_hpc.batch.convert.parameters.settable import with_parameters
from jupyter_hpc.batch.convert.processes import process_notices
from jupyter_hpc.batch.convert.reading import Cell, Notebook, parse_notebook, read_notebook
from jupyter_hpc.batch.convert.report import (
    CORRECT_IT,
    NOT_PYTHON,
    SETTABLE,
    Change,
    Conversion,
    Notice,
    Parameter,
    Refusal,
    with_after,
)
from jupyter_hpc.batch.convert.returns import Returns
from jupyter_hpc.batch.convert.rewrite import convert_code
from jupyter_hpc.batch.convert.transform import (
    NotPython,
    Transformer,
    check,
    deeply,
    is_too_deep,
    parse,
)

_INTERACTIVITY = re.compile(r"ast_node_interactivity\s*=\s*['\"](\w+)['\"]")
_BACKEND = re.compile(r"\b(?:matplotlib|mpl)\.use\(|\bswitch_backend\(")
#: Said of a cell that is not Python where such cells are left out.
LEFT_OUT = "left out: it is not Python"
SKIPPED = "This cell is left out, as --skip-invalid asks:"
_HISTORY = re.compile(r"_i{0,3}\d*|_{1,3}|In|Out|_oh|_ih|_dh")


@dataclass(frozen=True)
class Options:
    """What a conversion depends on besides the notebook."""

    #: Variables of the environment from which the job will be submitted.
    environment: frozenset[str] = field(default_factory=lambda: frozenset(os.environ))
    #: The notebook's folder as seen from the script, so that its modules are found.
    folder_from_script: str | None = None
    #: Leave out cells that are not Python, instead of refusing the notebook for them.
    skip_invalid: bool = False
    #: Whether compute nodes reach the Internet, as the cluster's profile says it.
    internet: str = "unknown"


def convert(path: Path, options: Options | None = None) -> Conversion:
    """Convert a notebook file; see convert_notebook. Unreadable files raise UsageError."""
    return convert_notebook(read_notebook(path), path.parent, options or Options())


def convert_text(text: str, name: str, folder: Path | None = None) -> Conversion:
    """Convert the content of a notebook that need not be a file."""
    return convert_notebook(parse_notebook(text, name), folder, Options())


def convert_notebook(notebook: Notebook, folder: Path | None, options: Options) -> Conversion:
    """The script, or the reasons why the notebook cannot be one; never an exception."""
    if notebook.language not in ("python", "python3", "ipython"):
        reason = f"The notebook is written in {notebook.language}, not in Python."
        hint = "It can run as an executed notebook."
        return Conversion(notebook.name, "", refusals=(Refusal(0, 0, reason, hint),))
    try:
        return _Converter(notebook, folder, options).conversion()
    except RecursionError:
        too_deep = {cell.number for cell in notebook.cells if is_too_deep(cell.source)}
        return deeply(lambda: _Converter(notebook, folder, options, (), too_deep).conversion())


class _Converter:
    """One conversion; cells are converted in order, then seen together."""

    def __init__(
        self,
        notebook: Notebook,
        folder: Path | None,
        options: Options,
        parents: tuple[Path, ...] = (),
        too_deep: Collection[int] = (),
    ) -> None:
        self.notebook = notebook
        self.folder = folder
        self.options = options
        self.parents = parents
        self.too_deep = too_deep
        self.findings = Findings()
        self.constants: dict[str, Any] = {}
        self.bound: set[str] = set()
        self.transform = Transformer()
        self.all_bound = frozenset(self._all_bound())
        cells = [cell for cell in notebook.cells if cell.kind == "code" and not cell.skipped]
        # A notebook that another one runs shares its names, which are not known here.
        self.returns = Returns((cell.source for cell in cells), self.transform, certain=not parents)
        self.interactivity = "last_expr"
        self.own_magics: set[str] = set()
        self.chooses_backend = any(_BACKEND.search(cell.source) for cell in notebook.cells)
        self.cells: list[CodeCell] = []
        self.inputs: list[str] = []
        self.comments: dict[int, Emitted] = {}

    def conversion(self) -> Conversion:
        if API in self.all_bound:
            reason = f"The notebook uses the name {API}, which the script needs for itself."
            self.findings.refusals.append(Refusal(0, 0, reason, "Choose another name."))
        for cell in self.notebook.cells:
            self._cell(cell)
        codes, parameters = with_parameters(
            self.cells, self.options.environment, (p.name for p in self.findings.parameters)
        )
        questions = [
            replace(parameter, not_from_environment="") for parameter in self.findings.parameters
        ]
        parameters += questions
        self.findings.changes += [
            Change(p.cell, p.line, f"{p.name} = {p.default}", SETTABLE, p.kind)
            for p in parameters
            if not p.needs_answer
        ]
        notices = (
            *self.findings.notices,
            *self._notices(),
            *case_notices(parameters, self.options.environment),
        )
        changes = with_after(
            sorted(self.findings.changes, key=lambda change: (change.cell, change.line)),
            {cell.number: cell.source for cell in self.cells},
            codes,
        )
        return Conversion(
            notebook=self.notebook.name,
            script="" if self.findings.refusals else self._script(codes, parameters),
            changes=tuple(changes),
            notices=tuple(sorted(notices, key=lambda notice: (notice.cell, notice.line))),
            refusals=tuple(self.findings.refusals),
            parameters=tuple(parameters),
            notebook_notices=tuple(process_notices(self.cells)),
            prepare=tuple(self.findings.prepare),
            requirements=tuple(self.findings.requirements),
            imports=tuple(sorted(self._imports())),
            executions=self._executions(),
        )

    def _cell(self, cell: Cell) -> None:
        if cell.kind != "code":
            note = "" if cell.kind == "markdown" else cell.kind
            self.comments[cell.number] = Emitted(cell.number, "", cell.source, note)
            return
        if cell.skipped:
            self.comments[cell.number] = Emitted(cell.number, "", cell.source, "skipped by its tag")
            return
        before = self.findings.sizes()
        code = self._converted(cell)
        try:
            tree = parse(code)
            check(tree)
        except (SyntaxError, ValueError) as error:  # such as `return` outside of a function
            reason = f"{NOT_PYTHON} ({getattr(error, 'msg', error)})."
            self.findings.refusals.append(Refusal(cell.number, 1, reason, CORRECT_IT))
            tree, code = parse(""), ""
        new = self.findings.refusals[before["refusals"] :]
        if self.options.skip_invalid and any(r.reason.startswith(NOT_PYTHON) for r in new):
            self.findings.back_to(before)
            message = f"{SKIPPED} {new[0].reason}"
            self.findings.notices.append(Notice(cell.number, new[0].line, message))
            self.comments[cell.number] = Emitted(cell.number, "", cell.source, LEFT_OUT)
            return
        used = usage(tree)
        if "register_" in cell.source:
            self.own_magics |= own_magics(tree)
        tagged = "parameters" in cell.tags
        self.cells.append(CodeCell(cell.number, code, cell.source, tree, used, tagged))
        self.bound.update(used.binds)
        for item in assigned(tree):
            self.constants[item.name] = constant(item.value)

    def _converted(self, cell: Cell) -> str:
        if not cell.source.strip():
            return ""
        if cell.number in self.too_deep:
            reason = f"{NOT_PYTHON} (it is nested too deeply)."
            self.findings.refusals.append(Refusal(cell.number, 1, reason))
            return ""
        self.inputs.append(cell.source)
        context = self._context(cell.number, cell.source)
        code = convert_code(cell.source, context, SHOW)
        if found := _INTERACTIVITY.findall(cell.source):
            self.interactivity = found[-1]
        return code

    def _context(self, number: int, source: str) -> CellContext:
        context = CellContext(
            number=number,
            source=source,
            findings=self.findings,
            bound=self.bound,
            transform=self.transform,
            returns=self.returns,
            all_bound=self.all_bound,
            constants=self.constants,
            folder=self.folder,
            interactivity=self.interactivity,
            own_magics=frozenset(self.own_magics),
            chooses_backend=self.chooses_backend,
            inputs=() if self.parents else tuple(self.inputs),
            convert_body=lambda code, show: convert_code(code, context, show),
            convert_notebook=lambda path: self._included(path, number),
        )
        return context

    def _included(self, path: Path, number: int) -> str:
        """The cells of a notebook that `%run` names, under the number of the cell that runs it."""
        if path.resolve() in self.parents or len(self.parents) > 20:
            self.findings.refusals.append(
                Refusal(number, 1, f"The notebook {path.name!r} runs itself in a circle.")
            )
            return ""
        other = _Converter(
            read_notebook(path), path.parent, self.options, (*self.parents, path.resolve())
        )
        other.bound = set(self.bound)
        other.all_bound |= self.all_bound
        other.interactivity = self.interactivity
        for cell in other.notebook.cells:
            other._cell(cell)
        # Under the number of the cell at hand, so that every line is found in the report.
        self.findings.changes += [
            replace(change, cell=number, source=f"{path.name}: {change.source}")
            for change in other.findings.changes
        ]
        for kind in ("notices", "refusals", "prepare", "requirements", "futures"):
            getattr(self.findings, kind).extend(getattr(other.findings, kind))
        texts = [f"# %% [cell {number} > {path.name}]\n"]
        by_number = {cell.number: cell.code for cell in other.cells}
        for cell in other.notebook.cells:
            comment = other.comments.get(cell.number)
            code = by_number.get(cell.number, "")
            texts.append(commented(comment.comment) if comment else code)
        return "\n".join(text.rstrip("\n") for text in texts if text.strip()) + "\n"

    def _all_bound(self) -> Iterable[str]:
        for cell in self.notebook.cells:
            if cell.kind == "code" and not cell.skipped:
                try:
                    tree = self.transform(cell.source, frozenset(), ()).tree
                except NotPython:
                    continue
                yield from bound_in(tree.body)

    # The notebook as a whole ------------------------------------------------------

    def _notices(self) -> Iterable[Notice]:
        yield from hidden_state(self.cells, self._executions())
        yield from notices_of(self.notebook, self.cells, self.options.internet)

    def _executions(self) -> dict[int, int]:
        return {
            cell.number: cell.execution_count
            for cell in self.notebook.cells
            if cell.execution_count is not None
        }

    def _other_cases(self, parameter: Parameter) -> list[str]:
        return other_cases(parameter.name, self.options.environment)

    def _imports(self) -> set[str]:
        trees = [cell.tree for cell in self.cells if "import" in cell.code]
        return {name for tree in trees for name in top_level_modules(tree)} - {RUNTIME}

    def _free_names(self) -> set[str]:
        free: set[str] = set()
        bound: set[str] = set()
        for cell in self.cells:
            free.update(name for name in cell.usage.reads if name not in bound)
            bound.update(cell.usage.binds)
        later = {name for cell in self.cells for name in cell.usage.later_reads}
        return (free | (later - bound)) - ALWAYS

    def _script(self, codes: dict[int, str], parameters: list[Parameter]) -> str:
        free = self._free_names()
        history = any(_HISTORY.fullmatch(name) for name in free)
        cells = []
        for cell in self.notebook.cells:
            if cell.number in self.comments:
                cells.append(self.comments[cell.number])
            else:
                may_fail = "raises-exception" in cell.tags
                cells.append(Emitted(cell.number, codes[cell.number], may_fail=may_fail))
        inputs = [cell.source for cell in self.notebook.cells if cell.kind == "code"]
        header = Header(
            notebook=self.notebook.name,
            script_name=Path(self.notebook.name).stem,
            parameters=parameters,
            closed=sorted({name for p in parameters for name in self._other_cases(p)}),
            futures=self.findings.futures,
            needs_display="display" in free,
            keeps_history=history,
            inputs=inputs if "In" in free else (),
            folder=self.options.folder_from_script,
        )
        return script_text(header, cells)


__all__ = ["API", "Options", "convert", "convert_notebook", "convert_text"]
