"""Commands on this machine: what goes wrong with them, in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_hpc import runner
from jupyter_hpc.errors import CommandError, CommandMissing, CommandTimeout
from jupyter_hpc.runner import LocalRunner


def script(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


async def test_a_script_that_names_no_interpreter_is_explained(tmp_path: Path) -> None:
    program = script(tmp_path / "myquota", "echo 5 of 10\n")
    with pytest.raises(CommandError, match="cannot be started") as raised:
        await LocalRunner().run([program])
    assert "#!/bin/sh" in raised.value.hint


@pytest.mark.parametrize("program", ["a\0b", "\ud800", "x" * 5000])
async def test_an_impossible_name_is_a_sentence(program: str) -> None:
    with pytest.raises(CommandError, match="cannot be started"):
        await LocalRunner().run([program])


@pytest.mark.parametrize("program", ["/etc/passwd", "/etc/passwd/x", "/no/such", ""])
async def test_what_is_no_program_is_not_found(program: str) -> None:
    with pytest.raises(CommandMissing):
        await LocalRunner().run([program])


async def test_a_late_command_is_named_although_env_starts_it() -> None:
    with pytest.raises(CommandTimeout, match=r"^'sleep' on this machine"):
        await LocalRunner().run(["env", "-u", "A", "B=1", "sleep", "60"], timeout=0.2)


async def test_a_command_that_prints_without_an_end_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "MAX_OUTPUT_BYTES", 3 << 20)
    with pytest.raises(CommandError, match="'yes' printed more than 3 MiB and was stopped"):
        await LocalRunner().run(["yes"], timeout=60)


async def test_input_output_and_errors_are_whole() -> None:
    given = b"0123456789" * 100_000
    done = await LocalRunner().run(["sh", "-c", "tee /dev/stderr"], stdin=given)
    assert done.stdout == done.stderr == given.decode()


async def test_a_command_need_not_read_its_input() -> None:
    done = await LocalRunner().run(["true"], stdin=b"x" * 1_000_000)
    assert done.ok
