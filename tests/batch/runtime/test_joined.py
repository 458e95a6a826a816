"""The two files that are joined from parts: old Pythons, nothing installed, each on its own."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from jupyter_hpc.batch.runtime import PARTS, RUNTIME_FILE, SIDECAR_FILE, shipped_source

_GENERIC = frozenset({"tuple", "list", "dict", "set", "type", "Callable", "Iterable", "Iterator"})

each = pytest.mark.parametrize("file", PARTS)


@each
def test_it_is_valid_for_python_3_9(file: str) -> None:
    ast.parse(shipped_source(file), feature_version=(3, 9))
    for node in ast.walk(ast.parse(shipped_source(file))):
        keywords = getattr(node, "keywords", ())
        assert not any(getattr(keyword, "arg", "") == "strict" for keyword in keywords)
        assert getattr(node, "attr", "") not in ("removeprefix", "removesuffix")
    for node in ast.parse(shipped_source(file)).body:
        if isinstance(node, ast.Assign):  # annotations are not evaluated, names for types are
            parts = [part for part in ast.walk(node.value) if isinstance(part, ast.Subscript)]
            assert not any(getattr(part.value, "id", "") in _GENERIC for part in parts)


@each
def test_it_needs_the_standard_library_only(file: str) -> None:
    allowed = sys.stdlib_module_names | ({"matplotlib"} if file == RUNTIME_FILE else set())
    for node in ast.walk(ast.parse(shipped_source(file))):
        if isinstance(node, ast.Import):
            assert {alias.name.split(".")[0] for alias in node.names} <= allowed
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").split(".")[0] in allowed


@each
def test_parts_do_not_hide_each_others_names(file: str) -> None:
    names: Counter[str] = Counter()
    for node in ast.parse(shipped_source(file)).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names[node.name] += 1
    assert len(PARTS[file]) > 2
    assert [name for name, count in names.items() if count > 1] == []


@each
def test_it_stands_alone(file: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text(shipped_source(file), encoding="utf-8")
    words = [sys.executable, "-I", "-c", f"import runpy; runpy.run_path({file!r}, run_name='x')"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@each
def test_each_part_uses_only_those_before_it(file: str) -> None:
    """Names of our own modules must have been defined further up in the joined file."""
    root = Path(sys.modules["jupyter_hpc.batch.runtime"].__file__ or "").parent
    for number, part in enumerate(PARTS[file]):
        tree = ast.parse((root / f"{part}.py").read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jupyter_hpc"):
                used = (node.module or "").partition(".runtime.")[2].replace(".", "/")
                assert used in PARTS[file][:number], f"{part} uses {used}"


def test_the_sidecar_and_the_runtime_share_the_log_only() -> None:
    assert set(PARTS[SIDECAR_FILE]) & set(PARTS[RUNTIME_FILE]) == {"log"}
    assert "stage-in" not in shipped_source(RUNTIME_FILE)
    assert "matplotlib" not in shipped_source(SIDECAR_FILE)
