"""sympy: after init_printing() a notebook shows values as formulas, text and LaTeX."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from jupyter_hpc.batch.runtime.display.display import SPECIAL
from jupyter_hpc.batch.runtime.script.state import after_import

#: Methods by which a type tells sympy how to print it.
_FORMULA_METHODS = ("_latex", "_sympystr", "_pretty", "_sympyrepr")
_CONTAINERS = (list, tuple, set, frozenset)


class _Formulas:
    """How formulas are written; nothing is one before init_printing() was called."""

    kinds: tuple[type, ...] = ()
    numbers = True
    text: Callable[[Any], str] = repr
    latex: Callable[[Any], str] | None = None


def _has_own_text(value: Any, builtin: tuple[type, ...]) -> bool:
    """Whether a value of a built-in kind has a text that is not the built-in one's."""
    kind: Any = type(value)
    return kind.__repr__ not in [known.__repr__ for known in builtin]


def _is_formula(value: Any) -> bool:
    """Whether sympy writes the value: what is its own, numbers, containers of only these."""
    if isinstance(value, _CONTAINERS):
        return not _has_own_text(value, _CONTAINERS) and all(map(_is_formula, value))
    if isinstance(value, dict):
        return all(_is_formula(key) and _is_formula(item) for key, item in value.items())
    if isinstance(value, bool):
        return False
    if isinstance(value, _Formulas.kinds) or any(hasattr(value, m) for m in _FORMULA_METHODS):
        return True
    return _Formulas.numbers and isinstance(value, (float, int))


def _shown_as_formula(value: Any) -> bool:
    if not isinstance(value, _Formulas.kinds):
        builtin = (float, int, dict, *_CONTAINERS)
        if not (_Formulas.kinds and isinstance(value, builtin)) or _has_own_text(value, builtin):
            return False
    try:
        return _is_formula(value)
    except RecursionError:  # a container that holds itself
        return False


def _formula_forms(value: Any) -> dict[str, Any]:
    forms = {"text/plain": _Formulas.text(value)}
    if _Formulas.latex is not None:
        forms["text/latex"] = f"$\\displaystyle {_Formulas.latex(value)}$"
    return forms


SPECIAL.append((_shown_as_formula, _formula_forms))


def _prepare_sympy(sympy: Any) -> None:
    printer = importlib.import_module("sympy.printing.printer").Printer
    names = ("order", "use_unicode", "wrap_line", "num_columns")

    def init_printing(
        pretty_print: bool = True, order: Any = None, use_unicode: Any = None, **options: Any
    ) -> None:
        if pretty_print and use_unicode is None:
            use_unicode = True
        given = dict(options, order=order, use_unicode=use_unicode)
        printer.set_global_settings(**{name: given.get(name) for name in names})
        own = options.get("pretty_printer" if pretty_print else "str_printer")
        use_latex = options.get("use_latex", True if pretty_print else None)
        _Formulas.kinds = _sympy_kinds(sympy)
        _Formulas.numbers = options.get("print_builtin", True)
        _Formulas.text = own or (sympy.pretty if pretty_print else sympy.sstrrepr)
        _Formulas.latex = (options.get("latex_printer") or sympy.latex) if use_latex else None

    for name in ("sympy", "sympy.interactive", "sympy.interactive.printing"):
        module: Any = sys.modules.get(name)
        if module is not None:
            module.init_printing = init_printing


def _sympy_kinds(sympy: Any) -> tuple[type, ...]:
    kinds = (sympy.Basic, sympy.matrices.MatrixBase)
    printable = getattr(sys.modules.get("sympy.printing.defaults"), "Printable", None)
    return (*kinds, printable) if printable is not None else kinds


def prepare_formulas() -> None:
    """Arrange for sympy to be prepared when the notebook imports it."""
    after_import("sympy", _prepare_sympy)
