"""Values of a notebook that can be set from outside: found by tag or by reading the code."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jupyter_hpc.batch.convert.context import API
from jupyter_hpc.batch.convert.edits import Edit, Positions, apply
from jupyter_hpc.batch.convert.names import Usage
from jupyter_hpc.batch.convert.report import Parameter

#: Variables that POSIX gives a meaning, and those of shells, launchers and batch systems.
_RESERVED = frozenset(
    """ARFLAGS CC CDPATH CFLAGS CHARSET COLUMNS CXX DATEMSK DEAD DISPLAY EDITOR ENV EXINIT FC
    FCEDIT FFLAGS GET GFLAGS HISTFILE HISTORY HISTSIZE HOME HOST HOSTNAME IFS LANG LDFLAGS LEX
    LFLAGS LINENO LINES LISTER LOGNAME LPDEST MAIL MAILCHECK MAILER MAILPATH MAILRC MAKEFLAGS
    MAKESHELL MANPATH MBOX MORE MSGVERB NLSPATH NPROC OLDPWD OPTARG OPTERR OPTIND PAGER PATH
    PPID PRINTER PROCLANG PROJECTDIR PS1 PS2 PS3 PS4 PWD RANDOM SECONDS SHELL SHLVL TERM
    TERMCAP TERMINFO TMP TMPDIR TEMP TZ UID EUID USER USERNAME VISUAL YACC YFLAGS
    RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT GPU_DEVICE_ORDINAL
    MPLBACKEND VIRTUAL_ENV LOADEDMODULES ARCHIVE PROJECT SCRATCH STORE WORK
    """.split()  # noqa: SIM905 - a word list reads better than a hundred quotes
)
_RESERVED_STARTS = (
    *("LC_", "SLURM_", "SBATCH_", "SRUN_", "SALLOC_", "CUDA_", "OMP_", "JUPYTER_", "CONDA_"),
    *("SSH_", "XDG_", "PMI_", "PMIX_", "OMPI_", "NCCL_", "LD_", "MODULE", "BASH_", "PYTHON"),
    *("ROCR_", "HIP_", "ZE_", "APPTAINER_", "SINGULARITY_", "WANDB_"),
)


def reserved(name: str, environment: Iterable[str]) -> str:
    """Why a variable of that name is never taken from the environment; empty if it is."""
    if name in _RESERVED or name.startswith(_RESERVED_STARTS):
        return f"{name} has a meaning of its own in every environment"
    if name in environment:
        return f"{name} is already set where the job is submitted from"
    return ""


def other_cases(name: str, environment: Iterable[str]) -> list[str]:
    """The name in other cases that stand for something else, and so never set the parameter."""
    known = set(environment)
    spellings = {variable for variable in known if variable.lower() == name.lower()}
    spellings |= {name.upper(), name.lower()}
    return sorted(other for other in spellings - {name} if reserved(other, known))


def constant(node: ast.expr) -> object | None:
    """The value of a number, text, truth value or tuple of them written in the code."""
    try:
        if isinstance(node, ast.Constant | ast.UnaryOp | ast.Tuple):
            value = ast.literal_eval(node)
        elif isinstance(node, ast.BinOp) and _is_arithmetic(node):
            value = eval(compile(ast.Expression(node), "", "eval"), {})  # noqa: S307 - numbers only
        else:
            return None
    except (ValueError, ArithmeticError, SyntaxError, MemoryError):
        return None
    flat = value if isinstance(value, tuple) else (value,)
    plain = bool(flat) and all(isinstance(item, bool | int | float | str) for item in flat)
    return value if plain else None


def _is_arithmetic(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        power = isinstance(node.op, ast.Pow | ast.LShift)
        if power and not (isinstance(node.right, ast.Constant) and _small(node.right.value)):
            return False
        return _is_arithmetic(node.left) and _is_arithmetic(node.right)
    if isinstance(node, ast.UnaryOp):
        return _is_arithmetic(node.operand)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _small(value: object) -> bool:
    return isinstance(value, int) and 0 <= value <= 64


@dataclass(frozen=True)
class Assigned:
    """A constant at the top level of a cell: `name = value`."""

    name: str
    value: ast.expr
    line: int


def assigned(tree: ast.Module, tagged: bool = False) -> list[Assigned]:
    """Top-level assignments of constants; in a tagged cell, of anything."""
    found: list[Assigned] = []
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            pairs: list[tuple[ast.expr, ast.expr]] = [(node.target, node.value)]
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            pairs = _pairs(node.targets[0], node.value)
        else:
            continue
        for target, value in pairs:
            if not isinstance(target, ast.Name) or target.id.startswith("_"):
                continue
            if tagged or constant(value) is not None:
                found.append(Assigned(target.id, value, node.lineno))
    return found


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    both = (target, value)
    if all(isinstance(side, ast.Tuple) for side in both):
        names, values = target.elts, value.elts  # type: ignore[attr-defined]
        if len(names) == len(values) and all(isinstance(name, ast.Name) for name in names):
            return list(zip(names, values, strict=True))
    return [(target, value)]


@dataclass(frozen=True)
class CodeCell:
    """A converted cell, still with the values of the notebook."""

    number: int
    code: str
    tree: ast.Module
    usage: Usage
    tagged: bool


def with_parameters(
    cells: list[CodeCell], environment: Iterable[str], taken: Iterable[str]
) -> tuple[dict[int, str], list[Parameter]]:
    """The cells with their parameters made settable, by number, and the parameters.

    With a cell tagged `parameters` those are the parameters; without one, all constants
    that are assigned exactly once and read later.
    """
    names = set(environment)
    chosen = _chosen(cells, set(taken))
    codes: dict[int, str] = {}
    parameters: list[Parameter] = []
    for cell in cells:
        edits: list[Edit] = []
        positions = Positions(cell.code)
        for item in chosen.get(cell.number, ()):
            text = positions.text(item.value)
            if isinstance(item.value, ast.Tuple) and not text.startswith("("):
                text = f"({text})"
            edits.append(positions.replace(item.value, f"{API}.parameter({item.name!r}, {text})"))
            parameters.append(
                Parameter(
                    name=item.name,
                    kind="tagged" if cell.tagged else "constant",
                    cell=cell.number,
                    line=item.line,
                    default=ast.unparse(item.value),
                    not_from_environment=reserved(item.name, names),
                )
            )
        codes[cell.number] = apply(cell.code, edits)
    return codes, parameters


def _chosen(cells: list[CodeCell], taken: set[str]) -> Mapping[int, list[Assigned]]:
    tagged = [cell for cell in cells if cell.tagged]
    if tagged:
        return {cell.number: _last_of_each(assigned(cell.tree, tagged=True)) for cell in tagged}
    counts: dict[str, int] = {}
    read: dict[str, int] = {}
    for cell in cells:
        for name, count in cell.usage.counts.items():
            counts[name] = counts.get(name, 0) + count
        for name in (*cell.usage.reads, *cell.usage.later_reads, *cell.usage.own_reads):
            read[name] = cell.number
    chosen: dict[int, list[Assigned]] = {}
    for cell in cells:
        for item in assigned(cell.tree):
            once = counts.get(item.name) == 1 and item.name not in taken
            if once and read.get(item.name, 0) >= cell.number:
                chosen.setdefault(cell.number, []).append(item)
    return chosen


def _last_of_each(items: list[Assigned]) -> list[Assigned]:
    return list({item.name: item for item in items}.values())
