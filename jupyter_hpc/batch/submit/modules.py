"""The modules beside a notebook that it imports, directly or through each other."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from jupyter_hpc.batch.convert.imports import top_level_modules

#: A folder with more files than this is no module of a notebook.
MAX_FILES = 500


def sibling_modules(folder: Path, imports: Iterable[str]) -> dict[str, Path]:
    """Files to freeze, by their path relative to `folder`."""
    found: dict[str, Path] = {}
    waiting = list(imports)
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen or not name.isidentifier():
            continue
        seen.add(name)
        for file in _files_of(folder, name):
            found[str(file.relative_to(folder))] = file
            if file.suffix == ".py":
                waiting.extend(_imports_of(file))
    return dict(sorted(found.items()))


def _files_of(folder: Path, name: str) -> list[Path]:
    module = folder / f"{name}.py"
    if module.is_file():
        return [module]
    package = folder / name
    if not package.is_dir() or not any(package.glob("*.py")):
        return []
    files = [
        file
        for file in sorted(package.rglob("*"))
        if file.is_file()
        and not file.is_symlink()
        and "__pycache__" not in file.parts
        and file.suffix in (".py", ".json", ".yaml", ".yml", ".toml", ".txt", ".cfg", ".so")
    ]
    return files[:MAX_FILES]


def _imports_of(file: Path) -> set[str]:
    try:
        tree = ast.parse(file.read_text(encoding="utf-8", errors="replace"))
    except (OSError, SyntaxError, ValueError):
        return set()
    return top_level_modules(tree)
