"""Shell lines of a notebook: `!command`, `lines = !command`, `%%bash`."""

from __future__ import annotations

import atexit
import builtins
import codecs
import errno
import os
import re
import shutil
import signal
import string
import subprocess
import sys
from typing import Any

from jupyter_hpc.batch.runtime.log import log
from jupyter_hpc.batch.runtime.script.ranks import once

#: `$name` and `$name.attribute` outside of single quotes; `$$name` stays for the shell.
_DOLLAR = re.compile(r"\$(\$?[\w.]+)")


def expand(text: str, names: dict[str, Any]) -> str:
    """Put values for `{expression}` and `$name`, as a notebook does.

    If one of them cannot be computed, the whole text is left to the shell: that is
    what makes `!echo $HOME` work.
    """
    try:
        return "".join(_expanded(text, names))
    except Exception:
        return text


def _expanded(text: str, names: dict[str, Any]) -> list[str]:
    parts: list[str] = []
    for literal, field, spec, conversion in string.Formatter().parse(text):
        start = 0
        for match in _DOLLAR.finditer(literal):
            if literal.count("'", match.end()) % 2:  # inside single quotes
                continue
            parts.append(literal[start : match.start()])
            start = match.end()
            name = match.group(1)
            parts.append(name if name.startswith("$") else format(_value(name, names)))
        parts.append(literal[start:])
        if field is not None:
            value = _value(field + (":" + spec if spec else ""), names)
            if conversion:
                value = repr(value) if conversion == "r" else str(value)
            parts.append(format(value))
    return parts


def _value(expression: str, names: dict[str, Any]) -> Any:
    return eval(expression, dict(names))  # noqa: S307 - the notebook's own expression


def caller_names(depth: int = 2) -> dict[str, Any]:
    """The names that the code `depth` calls up can see."""
    frame = sys._getframe(depth)
    names = dict(frame.f_globals)
    names.update(frame.f_locals)
    return names


def _shell() -> str:
    return "/bin/bash" if os.path.exists("/bin/bash") else shutil.which("bash") or "/bin/sh"


def _background(command: str) -> None:
    if command.rstrip().endswith("&"):
        raise OSError("A shell line of a notebook cannot run in the background.")


def sh(command: str) -> None:
    """`!command`: run it, show its output. Failure is logged, not raised, as in a notebook."""
    command = expand(command, caller_names())
    _background(command)
    sys.stdout.flush()
    code = once(lambda: _run_shown(command))
    sys._getframe(1).f_globals["_exit_code"] = code
    if code:
        log(f"the shell command ended with code {code}: {command.strip()[:200]}")


def _run_shown(command: str) -> int:
    """Run on a terminal of 80 columns, as a notebook does, so that `ls` looks the same."""
    argv = [_shell(), "-c", command]
    environment = dict(os.environ, TERM="dumb", PAGER="cat", GIT_PAGER="cat")
    terminal = _open_terminal()
    if terminal is None:
        return _run_piped(argv, environment)
    ours, theirs = terminal
    process = subprocess.Popen(
        *(argv,),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        _copy_terminal(ours)
        return process.wait()
    except BaseException:
        _end(process)
        raise
    finally:
        os.close(ours)


def _open_terminal() -> tuple[int, int] | None:
    try:
        import fcntl
        import pty
        import struct
        import termios

        ours, theirs = pty.openpty()
    except (ImportError, OSError):
        return None
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    return ours, theirs


def _copy_terminal(descriptor: int) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while True:
        try:
            data = os.read(descriptor, 65536)
        except OSError as error:
            if error.errno == errno.EIO:  # the last writer is gone
                break
            raise
        if not data:
            break
        sys.stdout.write(decoder.decode(data).replace("\r\n", "\n"))
        sys.stdout.flush()


def _run_piped(argv: list[str], environment: dict[str, str]) -> int:
    process = subprocess.Popen(
        *(argv,),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
    )
    assert process.stdout is not None  # noqa: S101
    for line in process.stdout:
        sys.stdout.write(line.decode("utf-8", "replace"))
        sys.stdout.flush()
    return process.wait()


def _end(process: Any) -> None:
    try:
        os.killpg(process.pid, signal.SIGTERM)
    except OSError:
        process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()


class Lines(list):  # type: ignore[type-arg]
    """The output of `lines = !command`: a list, with the views that notebooks use."""

    @property
    def l(self) -> builtins.list[str]:  # noqa: E743 - the name that notebooks use
        return list(self)

    list = l

    @property
    def n(self) -> str:
        return "\n".join(self)

    nlstr = n

    @property
    def s(self) -> str:
        return " ".join(self)

    spstr = s

    def grep(self, pattern: Any, prune: bool = False, field: int | None = None) -> Lines:
        """The lines that match a pattern (or do not, with `prune`)."""

        def matches(line: str) -> bool:
            words = line.split()
            text = line if field is None else (words[field] if field < len(words) else "")
            found = pattern(text) if callable(pattern) else re.search(pattern, text, re.I)
            return bool(found) != prune

        return Lines(line for line in self if matches(line))

    def fields(self, *numbers: int) -> Any:
        """The words of each line at the given places."""
        rows = [line.split() for line in self]
        if not numbers:
            return rows
        return Lines(
            " ".join(row[number] for number in numbers if -len(row) <= number < len(row))
            for row in rows
        )


def sh_lines(command: str) -> Lines:
    """`lines = !command`: the output, standard error included, as a list of lines."""
    command = expand(command, caller_names())
    _background(command)
    sys.stdout.flush()

    def run() -> list[Any]:
        done = subprocess.run(
            *([_shell(), "-c", command],),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        text = done.stdout.decode("utf-8", "replace").replace("\r\n", "\n")
        return [done.returncode, text.splitlines()]

    code, lines = once(run)
    sys._getframe(1).f_globals["_exit_code"] = code
    if code:
        log(f"the shell command ended with code {code}: {command.strip()[:200]}")
    return Lines(lines)


def run_script(
    program: list[str],
    text: str,
    out: str | None = None,
    err: str | None = None,
    raises: bool = True,
    background: bool = False,
) -> None:
    """`%%bash` and its like: the cell is the program's input; failure is raised.

    In the background its output is dropped, and it ends with this run, as in a notebook.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    if background:
        once(lambda: _start(program, text))
        return

    def run() -> list[Any]:
        return _feed(program, text, bool(out), bool(err))

    code, output, errors = once(run)
    names = sys._getframe(1).f_globals
    if out:
        names[out] = output
    if err:
        names[err] = errors
    if code and raises:
        raise subprocess.CalledProcessError(code, text)


def _start(program: list[str], text: str) -> None:
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        *(program,), stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True
    )
    atexit.register(_end, process)
    assert process.stdin is not None  # noqa: S101
    process.stdin.write(text.encode("utf-8"))
    process.stdin.close()


def _feed(program: list[str], text: str, keep_out: bool, keep_err: bool) -> list[Any]:
    import threading

    try:
        process = subprocess.Popen(
            *(program,),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except FileNotFoundError:
        print(f"Couldn't find program: {program[0]!r}")
        return [0, "", ""]
    kept: dict[str, list[str]] = {"out": [], "err": []}

    def copy(stream: Any, target: Any, keep: bool, name: str) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for chunk in iter(lambda: stream.read1(65536), b""):
            part = decoder.decode(chunk)
            if keep:
                kept[name].append(part)
            else:
                target.write(part)
                target.flush()

    threads = [
        threading.Thread(target=copy, args=(process.stdout, sys.stdout, keep_out, "out")),
        threading.Thread(target=copy, args=(process.stderr, sys.stderr, keep_err, "err")),
    ]
    for thread in threads:
        thread.start()
    try:
        assert process.stdin is not None  # noqa: S101
        process.stdin.write(text.encode("utf-8"))
        process.stdin.close()
    except BrokenPipeError:
        pass
    for thread in threads:
        thread.join()
    return [process.wait(), "".join(kept["out"]), "".join(kept["err"])]
