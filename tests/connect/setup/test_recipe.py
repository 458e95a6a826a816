"""Which environment is made of a profile and a command line, and why a build failed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_hpc.clusters import Profile, load
from jupyter_hpc.connect.setup.failures import explain
from jupyter_hpc.connect.setup.recipe import Recipe, Wishes, recipe_for
from jupyter_hpc.errors import UsageError


def profile(**environment: object) -> Profile:
    known = load("demo")
    return replace(known, environment=replace(known.environment, **environment))  # type: ignore[arg-type]


def made(wishes: Wishes | None = None, *, has_uv: bool = False, **environment: object) -> Recipe:
    return recipe_for(profile(**environment), wishes or Wishes(), has_uv=has_uv)


def test_the_profile_decides_and_the_command_line_overrides() -> None:
    assert made(style="any").style == "venv"
    assert made(style="any", has_uv=True).style == "uv"
    assert made(style="modules", modules=("python/3.11",), has_uv=True).style == "venv"
    assert made(style="conda").style == "conda"
    assert made(style="container").style == "packed"
    assert made(style="wheels").wheels == "no-index"
    assert made(style="wheels", wheels="/cvmfs/wheels").wheels == "/cvmfs/wheels"
    assert made(Wishes(style="venv", wheels="/w"), style="conda").wheels == "/w"
    for word in ("--hidden", "a b", "a\nb"):
        with pytest.raises(UsageError):
            made(Wishes(modules=(word,)))
        with pytest.raises(UsageError):
            made(Wishes(packages=(word,)))


def test_a_file_says_what_it_is(tmp_path: Path) -> None:
    conda, plain = tmp_path / "a", tmp_path / "b"
    conda.write_text("channels:\n- conda-forge\ndependencies:\n- python\n")
    plain.write_text("numpy==2.0\n")
    assert made(Wishes(file=conda)).spec_name == "environment.yml"
    assert made(Wishes(file=conda)).style == "conda"
    assert made(Wishes(file=plain)).spec_name == "requirements.txt"
    with pytest.raises(UsageError, match="describes a conda environment"):
        made(Wishes(file=conda, style="venv"))
    with pytest.raises(UsageError, match="cannot be read"):
        made(Wishes(file=tmp_path / "none"))


def test_the_key_changes_with_all_that_it_is_made_of(tmp_path: Path) -> None:
    file = tmp_path / "r.txt"
    file.write_text("numpy\n")
    recipes = [
        made(Wishes(modules=("a",))),
        made(Wishes(packages=("a",))),
        made(Wishes(python="a")),
        made(Wishes(wheels="a")),
        made(Wishes(file=file)),
        made(),
    ]
    assert len({recipe.key(b"wheel") for recipe in recipes} | {made().key(b"other")}) == 7


def test_lines_quote_the_folder() -> None:
    lines = made().profile_lines("/a b/$c")["environment.setup"]
    assert lines == ["source '/a b/$c'/bin/activate"]
    conda = made(Wishes(style="conda")).profile_lines("/a b")["environment.setup"]
    assert conda[0] == "export CONDA_PREFIX=$(readlink -f '/a b')"


@pytest.mark.parametrize(
    ("code", "log", "sentence"),
    [
        (30, "OSError: [Errno 122] Disk quota exceeded", "quota on h is used up"),
        (30, "No space left on device\njupyter-hpc: inodes 0", "no free inodes"),
        (
            27,
            "ensurepip failed\njupyter-hpc: space 900\njupyter-hpc: inodes 9999",
            "disk on h is full",
        ),
        (
            27,
            "ensurepip failed\njupyter-hpc: space 9000000\njupyter-hpc: inodes 9",
            "no free inodes",
        ),
        (27, "ensurepip failed\njupyter-hpc: space 9000000", "its venv or pip is missing"),
        (137, "", "was ended on h before it was over"),
        (30, "No space left on device\njupyter-hpc: inodes 99999", "disk on h is full"),
        (30, "Temporary failure in name resolution", "does not reach the Internet"),
        (31, "CondaHTTPError: HTTP 000", "from where conda's packages would come. Many sites"),
        (30, "ERROR: No matching distribution found for torch>=2", "no package 'torch>=2'"),
        (
            31,
            "PackagesNotFoundInChannelsError: The following packages are missing from the target "
            "environment:\n\n  - nothere=1\n",
            "no package 'nothere' that fits in the channels",
        ),
        (31, "ResolvePackageNotFound: \n  - nothere=1\n", "no package 'nothere'"),
        (
            31,
            "LibMambaUnsatisfiableError: Encountered problems while solving:\n"
            "  - nothing provides requested nothere\n",
            "no package 'nothere'",
        ),
        (
            31,
            "error    libmamba Could not solve for environment specs\n"
            "The following package could not be found\n"
            "└─ nothere =* * does not exist (perhaps a typo or a missing channel).",
            "no package 'nothere'",
        ),
        (30, "ERROR: Package 'x' requires a different Python: 3.11.2", "no package 'x'"),
        (22, "jupyter-hpc: fault python/9 none", "no module command"),
        (22, "jupyter-hpc: offer python/3.11\njupyter-hpc: fault python/9", "python/3.11"),
        (
            22,
            "motd\njupyter-hpc: said Lmod: one of these must be loaded:\n"
            "jupyter-hpc: said    gcc/12\njupyter-hpc: offer python/3\njupyter-hpc: fault python/3",
            "It says: Lmod: one of these must be loaded: gcc/12 It is there, and may need another",
        ),
        (27, "jupyter-hpc: room dd: fsync failed: Disk quota exceeded", "quota on h is used up"),
        (20, "jupyter-hpc: fault none", "has no Python"),
        (21, "jupyter-hpc: fault Python 3.6.8", "3.6.8 on h is too old"),
        (23, "", "neither conda"),
        (33, "ImportError: libfoo\x1b[31m", "libfoo"),
    ],
)
def test_the_cause_that_is_named_is_the_true_one(code: int, log: str, sentence: str) -> None:
    error = str(explain(code, log, made(), "h"))
    assert sentence in error and error.isprintable()
