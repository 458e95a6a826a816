"""Bad notebooks: a clear error each, and nothing written."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_hpc.batch.convert.convert import Options, convert, convert_notebook
from jupyter_hpc.batch.convert.reading import parse_notebook, read_notebook
from jupyter_hpc.errors import UsageError
from tests.batch.notebooks import converted, notebook, run_script, write_notebook


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{broken", "not valid JSON"),
        ("", "it is empty"),
        ("[1]", "no format number"),
        ('{"nbformat": "4"}', "no format number"),
        ('{"nbformat": 9, "cells": []}', "format 9 is not known"),
        ('{"nbformat": 4}', "no list of cells"),
        ('{"nbformat": 4, "cells": [3]}', "cell 1 is not an object"),
        ('{"nbformat": 4, "cells": [{"cell_type": "video"}]}', "unknown type 'video'"),
        ('{"nbformat": 4, "cells": [{"cell_type": "code", "source": 5}]}', "neither text nor"),
        ('{"nbformat": 3, "worksheets": 7}', "cannot be upgraded"),
        ("[" * 100_000, "not valid JSON"),
    ],
)
def test_what_is_no_notebook_is_said_in_words(content: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_notebook(content, "a.ipynb")


def test_a_missing_file_is_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no notebook"):
        read_notebook(tmp_path / "none.ipynb")
    os.mkfifo(tmp_path / "pipe.ipynb")
    for path in (tmp_path, tmp_path / "pipe.ipynb"):
        with pytest.raises(UsageError, match="cannot be read"):
            read_notebook(path)


def test_format_3_is_upgraded(tmp_path: Path) -> None:
    old = {
        "nbformat": 3,
        "nbformat_minor": 0,
        "metadata": {"name": ""},
        "worksheets": [
            {
                "cells": [
                    {"cell_type": "heading", "level": 1, "source": ["Old"], "metadata": {}},
                    {
                        "cell_type": "code",
                        "language": "python",
                        "input": ["x = 1\n", "x"],
                        "outputs": [],
                        "metadata": {},
                    },
                ],
                "metadata": {},
            }
        ],
    }
    path = tmp_path / "old.ipynb"
    path.write_text(json.dumps(old), encoding="utf-8")
    ran = run_script(convert(path), tmp_path / "script")
    assert ran.outputs[2].text == "1"


def test_no_kernelspec_means_python(tmp_path: Path) -> None:
    assert converted(tmp_path, ["1 + 1"], metadata={}).ok


@pytest.mark.parametrize(
    "metadata",
    [
        {"kernelspec": {"name": "ir", "language": "R"}, "language_info": {"name": "R"}},
        {"kernelspec": {"name": "julia-1.10", "language": "julia"}},
    ],
)
def test_another_language_is_refused_with_the_way_out(
    metadata: dict[str, Any], tmp_path: Path
) -> None:
    conversion = converted(tmp_path, ["x <- 1"], metadata=metadata)
    assert not conversion.ok and conversion.script == ""
    assert "executed notebook" in str(conversion.refusals[0])


def test_an_empty_notebook_gives_a_script_that_runs(tmp_path: Path) -> None:
    assert run_script(converted(tmp_path, []), tmp_path / "script").code == 0


def test_a_thousand_cells(tmp_path: Path) -> None:
    cells = [f"x{n} = {n}\nx{n} + 1" for n in range(1000)]
    conversion = converted(tmp_path, cells)
    ran = run_script(conversion, tmp_path / "script")
    assert ran.code == 0 and ran.outputs[1000].text == "1000"


@pytest.mark.parametrize(
    "cell",
    [
        "a = 1\nb = " + " + ".join(["a"] * 1000) + "\nprint(b)",
        "print(" + "+".join(["1"] * 1000) + ")",
        "b = " + "+".join(["1"] * 1000) + "\nprint(b)",
        "a = 1000\nif a == 0:\n    pass\n"
        + "".join(f"elif a == {n}:\n    print(a)\n" for n in range(1, 1001)),
    ],
    ids=["names", "shown", "constant", "elif"],
)
def test_a_thousand_operators(cell: str, tmp_path: Path) -> None:
    conversion = converted(tmp_path, ["!true", cell, "b = 1"])
    assert sys.getrecursionlimit() < 10_000
    ran = run_script(conversion, tmp_path / "script")
    assert ran.code == 0 and ran.outputs[2].text == "1000", ran.stderr


def test_what_is_too_deep_for_python_is_refused(tmp_path: Path) -> None:
    conversion = converted(tmp_path, ["x = 1", "x" + " + x" * 100_000])
    assert [refusal.cell for refusal in conversion.refusals] == [2]
    assert str(conversion.refusals[0]).startswith("cell 2, line 1: The cell is not valid Python")


def test_a_cell_magic_whose_code_ends_with_a_backslash(tmp_path: Path) -> None:
    cells = [f"{magic}\nx = 1 \\\n\n" for magic in ("%%time", "%%capture", "%%timeit")]
    conversion = converted(tmp_path, [*cells, "print(x)"])
    assert run_script(conversion, tmp_path / "script").outputs[4].text == "1"


def test_hostile_metadata_is_no_danger(tmp_path: Path) -> None:
    content = notebook(["1"])
    content["metadata"] = {"kernelspec": ["x"], "language_info": {"name": "python"}}
    content["cells"][0]["metadata"] = {"tags": {"skip": 1}, "name": "../../etc/passwd"}
    content["cells"][0]["outputs"] = "none"
    content["cells"][0]["execution_count"] = {"a": 1}
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps(content), encoding="utf-8")
    assert convert(path).ok


def test_a_syntax_error_names_its_cell_and_line(tmp_path: Path) -> None:
    conversion = converted(tmp_path, ["x = 1", "y = 2\nfor in x:"])
    assert [(r.cell, r.line) for r in conversion.refusals] == [(2, 2)]
    assert "not valid Python" in conversion.refusals[0].reason
    assert not conversion.runs_as_notebook
    assert converted(tmp_path, ["%nosuch"]).runs_as_notebook
    assert conversion.script == ""


_scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
_json = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=10,
)
_cells = st.lists(
    st.fixed_dictionaries(
        {"cell_type": st.sampled_from(["code", "markdown", "raw"]), "source": st.text(max_size=60)},
        optional={"metadata": _json, "outputs": _json, "execution_count": _json},
    ),
    max_size=4,
)


@settings(max_examples=120, deadline=None)
@given(cells=_cells, metadata=_json)
def test_anything_gives_a_script_or_a_reason(cells: Any, metadata: Any) -> None:
    content = json.dumps({"nbformat": 4, "cells": cells, "metadata": metadata})
    read = parse_notebook(content, "a.ipynb")
    conversion = convert_notebook(read, None, Options(environment=frozenset()))
    if conversion.ok:
        compile(conversion.script, "a.py", "exec")
    else:
        assert all(refusal.reason for refusal in conversion.refusals)


_lines = st.lists(
    st.sampled_from(
        [
            *("%time x = 1", "!echo {x}", "%%bash", "x", "x;", "if x:", "    !ls", "y = !ls"),
            *("for i in x:", "    %timeit i", "    pass", "%cd /tmp", "'''", "%%capture out"),
            *("await f()", "%run a.py", "ls", "?x", "x?", "def f():", "    return 1", "%%time", ""),
            *("# comment", "\\", "(", ")", "%who", "x = %env HOME", "import IPython", "input('a')"),
        ]
    ),
    max_size=6,
)


@settings(max_examples=200, deadline=None)
@given(cells=st.lists(_lines, min_size=1, max_size=3))
def test_any_mixture_of_notebook_syntax_compiles_or_is_refused(cells: list[list[str]]) -> None:
    content = json.dumps(notebook(["\n".join(lines) for lines in cells]))
    read = parse_notebook(content, "a.ipynb")
    conversion = convert_notebook(read, None, Options(environment=frozenset()))
    if conversion.ok:
        compile(conversion.script, "a.py", "exec")
        assert "get_ipython" not in conversion.script


def test_names_with_blanks_and_unicode(tmp_path: Path) -> None:
    path = write_notebook(tmp_path / "my nötebook 'x'.ipynb", ["print(1)"])
    conversion = convert(path)
    assert conversion.ok and conversion.notebook == path.name
    assert run_script(conversion, tmp_path / "script").outputs[1].text == "1"
