"""The list of modules, as Lmod, Environment Modules and hosts without either give it."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_hpc.batch.preflight.modules import available_modules, module_names
from jupyter_hpc.runner import LocalRunner

#: Lmod names a folder beside its versions and marks defaults; so does Environment Modules.
LMOD = """\
/cvmfs/modules/Core:
StdEnv/2023(default)
cuda/
cuda/12.2
gcc/12.3 (L,D)
"""
ENVIRONMENT_MODULES = """\
Welcome to this cluster
/usr/share/modules/modulefiles:
dot
python/3.11(default)
python/3.11-lab(L:stable)
/opt/empty:
-----------
"""


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        (LMOD, ("StdEnv/2023", "cuda", "cuda/12.2", "gcc/12.3")),
        (ENVIRONMENT_MODULES, ("dot", "python/3.11", "python/3.11-lab")),
        ("No modules found!\n\x1b[31mred\n--force\n", ()),
        ("", ()),
    ],
)
def test_names_alone(listed: str, names: tuple[str, ...]) -> None:
    assert module_names(listed) == names


async def test_a_shell_that_has_to_learn_of_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`module` is a function that its init file brings, and lists on stderr."""
    (tmp_path / "init").mkdir()
    function = "module() { [ \"$*\" = '-t avail' ] && printf '/m:\\ncuda/12\\n' >&2; }\n"
    (tmp_path / "init/bash").write_text(function, encoding="utf-8")
    monkeypatch.setenv("MODULESHOME", str(tmp_path))
    assert await available_modules(LocalRunner()) == ("cuda/12",)


async def test_no_modules_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MODULESHOME", raising=False)
    assert await available_modules(LocalRunner()) == ()
