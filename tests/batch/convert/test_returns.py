"""Values that are known to be None: their cells read as in the notebook, and show the same."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path

import matplotlib.pyplot
import numpy as np
import pytest

from jupyter_hpc.batch.convert.context import API
from jupyter_hpc.batch.convert.returns import RETURN_NONE
from tests.batch.notebooks import converted, run_notebook, run_script, write_notebook

PLOT = "import matplotlib.pyplot as plt\n"

PLAIN = [
    PLOT + "plt.plot([1, 2])\nplt.show()",
    "from matplotlib import pyplot as plt\nplt.plot([2])\nplt.tight_layout()",
    "print(1)",
    "def f(n):\n    if n: return\n    def g(): return 3\n    print(g())\n    return None\nf(0)",
    "display(7)",
    "%%time\nprint(2)",
    "print(3) if 1 else 4",  # no call, so its value is shown as before
]

#: Cells whose last value may be something, though it looks as if it were None.
WRAPPED = {
    "another print": ["def print(*x): return x", "print(1)"],
    "print of a cell magic": ["%%capture c\n!true\ndef print(*x): return x", "print(1)"],
    "a function of a star import": ["def f(): pass\nfrom os.path import *", "f()"],
    "show of another name": ["from os.path import *", "plt.show() if 0 else 1"],
    "deleted after a star import": ["from os.path import *\nprint = len", "del print", "print(1)"],
    "print that is deleted": ["print = len", "del print", "print(1)"],
    "names that another notebook binds": ["def f(): pass\n%run other.ipynb", "f()"],
    "code that binds names": ["exec('def print(x): return x')", "print(1)"],
    "another plt": [PLOT + "plt = [1]", "plt.show()"],
    "another show": [PLOT + "plt.show = lambda: 5", "plt.show()"],
    "plt of a function": [PLOT + "def f(plt): return plt.show()", "plt.show()"],
    "a function with a value": ["def f(n):\n    if n: return 1", "f(1)"],
    "a generator": ["def f():\n    yield 1", "f()"],
    "a coroutine": ["async def f(): pass", "f().close() or f"],
    "a decorated function": ["import functools\n@functools.cache\ndef f(): pass", "f()"],
    "two definitions": ["def f(): pass", "def f(): return 2", "f()"],
    "a global of a function": ["def f(): pass\ndef g():\n    global f\n    f = len\ng()", "f('')"],
    "a method": ["class A:\n    def f(self): return 1", "A().f()"],
    "a handle": ["display(1, display_id='x')"],
    "options": ["display(1, **{})"],
}


def test_a_known_none_is_not_wrapped(tmp_path: Path) -> None:
    conversion = converted(tmp_path, PLAIN)
    wrapped = [line for line in conversion.script.splitlines() if f"{API}.show(" in line]
    assert wrapped == [f"{API}.show(print(3) if 1 else 4)"]
    notebook = run_notebook(tmp_path / "a.ipynb", tmp_path / "nb")
    script = run_script(conversion, tmp_path / "s")
    for number, output in notebook.outputs.items():
        if number != 6:  # how long it took
            assert script.outputs[number] == output, number


def test_what_prints_and_plots_is_not_wrapped_where_names_come_from_elsewhere(
    tmp_path: Path,
) -> None:
    write_notebook(tmp_path / "other.ipynb", ["x = 1"])
    cells = [
        PLOT + "from os.path import *\nplt.plot([1])\nplt.show()",
        "%run other.ipynb",
        "print(x)",
    ]
    conversion = converted(tmp_path, cells)
    assert f"{API}.show(" not in conversion.script
    assert run_script(conversion, tmp_path / "s").outputs[3].text == "1"


@pytest.mark.parametrize("name", WRAPPED)
def test_what_may_have_a_value_is_wrapped(name: str, tmp_path: Path) -> None:
    write_notebook(tmp_path / "other.ipynb", ["x = 1"])
    conversion = converted(tmp_path, WRAPPED[name])
    assert conversion.ok, conversion.refusals
    last = [line for line in conversion.script.splitlines() if line.strip()][-1]
    assert f"{API}.show(" in last


def test_the_table_is_true() -> None:
    """By what matplotlib says of its functions, and by calling the others."""
    for name in RETURN_NONE:
        module, _, function = name.rpartition(".")
        if module == "matplotlib.pyplot":
            signature = inspect.signature(getattr(matplotlib.pyplot, function))
            assert signature.return_annotation in (None, "None"), name
    import random
    import time

    with warnings.catch_warnings():
        values = [np.random.seed(1), random.seed(1), time.sleep(0), np.set_printoptions()]  # type: ignore[func-returns-value]
        values += [warnings.filterwarnings("ignore"), warnings.simplefilter("ignore")]  # type: ignore[func-returns-value]
    assert values == [None] * 6
    assert len([name for name in RETURN_NONE if "pyplot" not in name]) == len(values) + 1  # print
