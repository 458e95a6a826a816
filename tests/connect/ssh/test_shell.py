from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_hpc.connect.ssh.runner import Marker, command_line, script_for

MARKER = Marker("0123abcd")
#: The ones that this machine has; the test cluster's packages bring tcsh and fish.
SHELLS = [s for s in ("sh", "dash", "bash", "zsh", "ksh", "tcsh", "csh", "fish") if shutil.which(s)]

HOSTILE = [
    "a b", "!x !! !$ ^a^b", "it's", '"q"', "$HOME `id` $(id) ${x}", "back\\slash\\", "tab\there",
    "line\nbreak\n\n", "%d %s %b \\c", "é€\u2028", "*?[a]{b,c}~ ~root #;&|<>()", "", "-n", "--",
    "=x", "\x01\x1b\x7f", "x" * 20000,
]  # fmt: skip


def run(shell: str, argv: list[str]) -> subprocess.CompletedProcess[bytes]:
    line = command_line(script_for(argv, MARKER))
    return subprocess.run(
        [shell, "-c", line], stdin=subprocess.DEVNULL, capture_output=True, timeout=30
    )


@pytest.mark.parametrize("shell", SHELLS)
def test_arguments_arrive_unchanged_in_every_shell(shell: str) -> None:
    done = run(shell, ["printf", "%s\\0", *HOSTILE])
    noise, output, pid = MARKER.split(done.stdout)
    assert noise == b"" and pid is not None
    assert output == b"".join(word.encode() + b"\0" for word in HOSTILE)
    assert MARKER.split(done.stderr)[1] == b"" and done.returncode == 0


@pytest.mark.parametrize("shell", SHELLS)
def test_missing_programs_end_with_127(shell: str) -> None:
    assert run(shell, ["no-such-program", "x"]).returncode == 127
    assert run(shell, ["sh", "-c", "exit 5"]).returncode == 5


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
def test_any_arguments_arrive(words: list[str]) -> None:
    done = run("sh", ["printf", "%s\\0", "first", *words])
    assert MARKER.split(done.stdout)[1] == "\0".join(["first", *words, ""]).encode()


def test_the_line_holds_nothing_that_a_shell_changes() -> None:
    line = command_line(script_for(HOSTILE, MARKER))
    head, _, payload = line.partition(" sh '")
    assert "\n" not in line and "!" not in line
    assert set('$"`%;&|<>(){}[]*?~#^').isdisjoint(payload)
    assert max(len(word) for word in payload.split("' '")) < 1000
    assert head == '/bin/sh -c \'eval "$(printf %b "$@")"\''


def test_programs_of_login_shells_are_found(tmp_path: Path) -> None:
    """Sites that put Slurm on the PATH only in /etc/profile.d or ~/.bash_profile."""
    home = tmp_path
    (home / "bin").mkdir()
    (home / "bin/only-at-login").write_text('#!/bin/sh\necho "found $1"\n')
    (home / "bin/only-at-login").chmod(0o755)
    (home / ".bash_profile").write_text(f"PATH=$PATH:{home}/bin\necho noise\necho noise >&2\n")
    done = subprocess.run(
        ["sh", "-c", command_line(script_for(["only-at-login", "it's"], MARKER))],
        capture_output=True, timeout=30, env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert MARKER.split(done.stdout)[:2] == (b"noise\n", b"found it's\n")
    assert MARKER.split(done.stderr)[1] == b""


def test_the_last_marker_counts_for_reasons() -> None:
    mark = b"\x01jhpc-0123abcd:7\x02"
    assert MARKER.after_last(b"a" + mark + b"b" + mark + b"c") == b"c"
    assert MARKER.after_last(b"plain") == b"plain"
    assert MARKER.split(b"never began") == (b"never began", None, None)


def test_a_process_id_without_end_is_none() -> None:
    output = b"\x01jhpc-n:" + b"9" * 5000 + b"\x02hello"
    assert Marker("n").split(output) == (output, None, None)
