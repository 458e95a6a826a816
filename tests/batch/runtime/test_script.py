"""The runtime file: one file, old Pythons, several processes, no surprises for imports."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import IPython.display
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from IPython.lib.pretty import pretty as ipython_pretty

from jupyter_hpc.batch.runtime import RUNTIME_FILE, shipped_source
from jupyter_hpc.batch.runtime.display.values import pretty
from jupyter_hpc.batch.runtime.script.shell import expand
from tests.batch.notebooks import converted, run_script

_GENERIC = frozenset({"tuple", "list", "dict", "set", "type", "Callable", "Iterable", "Iterator"})


def test_display_offers_what_the_module_of_ipython_offers(tmp_path: Path) -> None:
    """Also the names that left it, and those of matplotlib's backend for notebooks."""
    offered = {name for name in dir(IPython.display) if not name.startswith("_")}
    names = sorted(offered | {"set_matplotlib_formats", "set_matplotlib_close"})
    cells = [
        f"from IPython import display\n[n for n in {names} if not hasattr(display, n)]",
        "from matplotlib_inline import backend_inline as b\nb.set_matplotlib_formats('svg')",
    ]
    ran = run_script(converted(tmp_path, cells), tmp_path / "run")
    assert ran.code == 0 and ran.outputs[1].text == "[]", ran


def test_a_script_named_like_a_module_hides_nothing(tmp_path: Path) -> None:
    conversion = converted(tmp_path, ["import random, json\nrandom.Random(1).random() > 0"])
    for name in ("random.py", "json.py", "types.py"):
        ran = run_script(conversion, tmp_path / name[:-3], name=name)
        assert ran.code == 0, ran.stderr
        assert ran.outputs[1].text == "True"


def test_modules_beside_the_notebook_are_found(tmp_path: Path) -> None:
    conversion = converted(tmp_path, ["import helper\nhelper.VALUE"])
    folder = tmp_path / "script"
    folder.mkdir()
    (folder / "helper.py").write_text("VALUE = 'live'", encoding="utf-8")
    assert run_script(conversion, folder).outputs[1].text == "'live'"
    frozen = tmp_path / "script-run" / "modules"
    frozen.mkdir()
    (frozen / "helper.py").write_text("VALUE = 'frozen'", encoding="utf-8")
    assert run_script(conversion, folder).outputs[1].text == "'frozen'"


class Rows:
    """A value whose text has several lines, as that of an array."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def __repr__(self) -> str:
        return "Rows([" + ",\n      ".join("[1, 2, 3]" for _ in range(self.rows)) + "])"


class Described:
    """A value that describes itself to the printer of a notebook."""

    def __init__(self, *items: object) -> None:
        self.items = items

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        with printer.group(4, "Described(", ")"):
            for number, item in enumerate(self.items):
                if number:
                    printer.text(",")
                    printer.breakable()
                printer.pretty(item)
            with printer.indent(2):
                printer.break_()
                printer.text("end")


_leaves = st.one_of(
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=30),
    st.none(),
    st.binary(max_size=9),
    st.builds(Rows, st.integers(0, 3)),
)
_values = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=8),
        st.tuples(inner),
        st.tuples(inner, inner),
        st.builds(Described, inner, inner),
        st.dictionaries(st.tuples(st.integers(), st.text(max_size=12)), inner, max_size=4),
        st.dictionaries(st.text(max_size=12), inner, max_size=6),
        st.sets(st.integers() | st.none() | st.text(max_size=3), max_size=9),
        st.builds(Counter, st.lists(st.integers(0, 3), max_size=5)),
    ),
    max_leaves=40,
)


@settings(max_examples=200, deadline=None)
@given(_values)
def test_values_are_laid_out_as_a_notebook_does(value: object) -> None:
    assert pretty(value) == ipython_pretty(value)  # type: ignore[no-untyped-call]


def test_values_in_circles_are_shown_once() -> None:
    circle: list[Any] = [1]
    circle += [{"again": circle}, super(Rows, Rows(2))]
    assert pretty(circle) == ipython_pretty(circle)  # type: ignore[no-untyped-call]


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="ab{}$'\" .:1[]", max_size=20))
def test_shell_lines_are_expanded_as_ipython_does(text: str) -> None:
    from IPython.utils.text import DollarFormatter

    names = {"a": "x y", "b": [1, 2], "ab": "z"}
    try:
        expected = DollarFormatter().vformat(text, (), dict(names))
    except Exception:
        expected = text
    assert expand(text, dict(names)) == expected


def _ranks(tmp_path: Path, folder: str | None) -> list[subprocess.CompletedProcess[str]]:
    cells = [
        "!echo one >> shared.txt; sleep 0.3",
        "lines = !cat shared.txt\nprint(len(lines))",
        "%%writefile out.txt\nx",
        "import matplotlib.pyplot as plt\nplt.plot([1]);",
        "5",
    ]
    conversion = converted(tmp_path, cells)
    tools = tmp_path / "run"
    tools.mkdir()
    (tools / "script.py").write_text(conversion.script, encoding="utf-8")
    (tools / RUNTIME_FILE).write_text(shipped_source(RUNTIME_FILE), encoding="utf-8")
    running = []
    for rank in (1, 0):
        environment = {**os.environ, "RANK": str(rank), "JUPYTER_HPC_OUTPUT": str(tools)}
        environment.pop("JUPYTER_HPC_RANKS", None)
        if folder:
            environment["JUPYTER_HPC_RANKS"] = folder
        running.append(
            subprocess.Popen(
                [sys.executable, str(tools / "script.py")],
                cwd=tmp_path,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        time.sleep(0.1)
    done = []
    for process in running:
        out, err = process.communicate(timeout=100)
        done.append(subprocess.CompletedProcess(process.args, process.returncode, out, err))
    return done


def test_several_processes_share_one_shell_line_and_one_figure(tmp_path: Path) -> None:
    second, first = _ranks(tmp_path, str(tmp_path / "ranks"))
    assert first.returncode == 0 and second.returncode == 0, first.stderr + second.stderr
    assert (tmp_path / "shared.txt").read_text() == "one\n"
    assert first.stdout.splitlines()[0] == "1" and second.stdout.splitlines()[0] == "1"
    assert [file.name for file in (tmp_path / "run" / "figures").iterdir()] == ["cell04_1.png"]
    assert "5" in first.stdout.split() and "5" not in second.stdout.split()


def test_processes_started_by_spawn_do_not_run_the_notebook_again(tmp_path: Path) -> None:
    cells = [
        "print('once')\nimport multiprocessing as mp, math",
        "with mp.get_context('spawn').Pool(2) as pool:\n    print(pool.map(math.sqrt, [4.0, 9.0]))",
    ]
    ran = run_script(converted(tmp_path, cells), tmp_path / "s")
    assert ran.code == 0, ran.stderr
    assert ran.stdout.count("once") == 1 and ran.outputs[2].text == "[2.0, 3.0]"


@pytest.mark.parametrize(("name", "code"), [("TERM", 143), ("USR1", 0)])
def test_signals_lose_no_output(name: str, code: int, tmp_path: Path) -> None:
    cells = [
        "import matplotlib.pyplot as plt, time\nplt.plot([1])\nprint('ready', flush=True)\n"
        "import os\nwhile not os.path.exists('go'): time.sleep(0.05)",
    ]
    conversion = converted(tmp_path, cells)
    tools = tmp_path / "run"
    tools.mkdir()
    (tools / "script.py").write_text(conversion.script, encoding="utf-8")
    (tools / RUNTIME_FILE).write_text(shipped_source(RUNTIME_FILE), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, str(tools / "script.py")],
        cwd=tools,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(getattr(__import__("signal"), f"SIG{name}"))
    said = ""
    if name == "USR1":
        assert process.stderr is not None
        said = process.stderr.readline()
        (tools / "go").touch()
    _, errors = process.communicate(timeout=60)
    errors = said + errors
    assert process.returncode == code, errors
    assert (tools / "figures" / "cell01_1.png").exists()
    assert ("nearly over" in errors) == (name == "USR1")


def test_tables_are_as_wide_as_in_a_notebook(tmp_path: Path) -> None:
    cells = [
        # As pandas does it where it finds no kernel.
        "%%writefile pandas.py\noptions = {'display.max_columns': 0}\n"
        "get_option, set_option = options.get, options.__setitem__",
        "import pandas\npandas.options",
    ]
    ran = run_script(converted(tmp_path, cells), tmp_path / "run")
    assert ran.outputs[2].text == "{'display.max_columns': 20}", ran.stderr


_SYMPY = """
class Basic:
    def __repr__(self): return 'plain'
class matrices:
    class MatrixBase: pass
def pretty(value): return f'formula of {type(value).__name__}'
latex = sstrrepr = pretty
"""


def test_containers_of_formulas_are_formulas_after_init_printing(tmp_path: Path) -> None:
    cells = [
        "!mkdir -p sympy/printing && touch sympy/printing/__init__.py",
        "%%writefile sympy/printing/printer.py\nclass Printer:\n"
        "    set_global_settings = staticmethod(lambda **settings: None)",
        f"%%writefile sympy/__init__.py{_SYMPY}",
        "import sympy, collections\nx = sympy.Basic()\nx, 0.1",
        "sympy.init_printing()\nx",
        "[x, (0.1, {x: 2})]",
        "0.1",
        "[x, 'text']",
        "True",
        "collections.Counter([x])",
    ]
    ran = run_script(converted(tmp_path, cells), tmp_path / "run")
    assert ran.code == 0, ran.stderr
    assert [ran.outputs[number].text for number in range(4, 11)] == [
        *("(plain, 0.1)", "formula of Basic", "formula of list", "formula of float"),
        *("[plain, 'text']", "True", "Counter({plain: 1})"),
    ]


def test_a_value_that_is_replaced_has_its_last_form_only(tmp_path: Path) -> None:
    cells = [
        "from IPython.display import HTML, Markdown, display\n"
        "display(HTML('<p>kept</p>'), display_id='two')\n"
        "bar = display(HTML('<p>0</p>'), display_id=True)\n"
        "for n in range(1, 5):\n    bar.update(HTML(f'<p>{n}</p>'))",
        "bar.update(HTML('<p>last</p>'))\nup = display(Markdown('x'), display_id=True)\n"
        "up.update(HTML('<p>other</p>'))",
    ]
    ran = run_script(converted(tmp_path / "n", cells), tmp_path / "w")
    files = {file.name: file.read_text() for file in (ran.folder / "displays").iterdir()}
    assert files == {
        "cell01_1.html": "<p>kept</p>",
        "cell01_2.html": "<p>last</p>",
        "cell02_2.html": "<p>other</p>",
    }


def test_a_chart_of_altair_is_a_page_and_its_text(tmp_path: Path) -> None:
    cells = [
        "%%writefile altair.py\nclass TopLevelMixin: pass\nclass Chart:\n"
        "    to_html = None\n    def save(self, path): open(path, 'w').close()\n"
        "    def __repr__(self): return 'alt.Chart(...)'",
        "import altair\naltair.Chart()",
    ]
    ran = run_script(converted(tmp_path, cells), tmp_path / "run")
    assert ran.outputs[2].text == "alt.Chart(...)", ran.stderr
    assert (ran.folder / "figures" / "cell02_1.html").exists()


def test_a_cell_that_ends_without_a_line_end_keeps_its_line(tmp_path: Path) -> None:
    cells = ["print('a', end='')", "print('b')", "print('c', end='')"]
    ran = run_script(
        converted(tmp_path, cells), tmp_path / "script", (), {"JUPYTER_HPC_MARK_CELLS": ""}
    )
    assert ran.stdout == "a\nb\nc"
