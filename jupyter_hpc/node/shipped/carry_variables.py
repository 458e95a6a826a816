"""Runs inside a kernel: writes its variables to a file, or reads them from one.

    {"do": "write", "file", "each_bytes", "total_bytes", "each_seconds", "seconds"}
    {"do": "read", "file", "digest"}

Executed in a namespace of its own, so that nothing of it stays in the notebook's; needs nothing
but the standard library of the kernel's own Python. One Pickler writes all variables, so that
what two of them share (a model, and the optimizer that holds its parameters) is still shared
when they are read. As one that fails would spoil the file, each is first written to nowhere.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import signal
import stat
import sys
import threading
import time
import types
from collections.abc import Iterator, Mapping
from typing import Any

_CHUNK_BYTES = 1 << 20
_MAX_REASON = 200


class Left(Exception):
    """Why a variable is not carried over."""


class Counted:
    """A file that keeps nothing, and says when there is too much of it."""

    def __init__(self, most: int) -> None:
        self.size = 0
        self._most = most

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self.size += size
        if self.size > self._most:
            raise Left(f"larger than {_megabytes(self._most)}")
        return size


class Hashed:
    """A file whose content is hashed as it is written."""

    def __init__(self, file: Any) -> None:
        self.hash = hashlib.blake2b()
        self._file = file

    def write(self, data: Any) -> int:
        self.hash.update(data)
        return int(self._file.write(data))


class Pickler(pickle.Pickler):
    """Refuses what the next kernel could not find: all that is defined in the notebook itself."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (type, types.FunctionType)) and obj.__module__ == "__main__":
            kind = "class" if isinstance(obj, type) else "function"
            raise Left(f"needs the {kind} {obj.__qualname__}, which is defined in the notebook")
        return NotImplemented


class Watch:
    """Interrupts the main thread when something takes too long, as the stop button does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._round = 0

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        with self._lock:
            self._round += 1
            mine = self._round
        timer = threading.Timer(max(0.05, seconds), self._interrupt, (mine,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            with self._lock:
                self._round += 1

    def _interrupt(self, mine: int) -> None:
        with self._lock:
            main = threading.main_thread().ident
            if self._round == mine and main is not None:
                # Not interrupt_main: that does not end a sleep or a read.
                signal.pthread_kill(main, signal.SIGINT)


def carry(asked: Mapping[str, Any], shell: Any) -> dict[str, Any]:
    """What was asked for; always an answer."""
    if pickle.HIGHEST_PROTOCOL < 5:
        return _nothing("the kernel's Python is older than 3.8")
    try:
        if asked["do"] == "read":
            return _read(asked, shell.user_ns)
        return _write(asked, shell.user_ns, set(shell.user_ns_hidden))
    except BaseException as error:  # whatever objects raise, SystemExit too
        return _nothing(_because(error))


def _nothing(problem: str) -> dict[str, Any]:
    return {"names": [], "left": [], "problem": problem, "digest": "", "bytes": 0}


def _write(asked: Mapping[str, Any], space: dict[str, Any], hidden: set[str]) -> dict[str, Any]:
    ends = time.monotonic() + asked["seconds"]
    watch = Watch()
    room = asked["total_bytes"]
    chosen: list[str] = []
    left: list[dict[str, str]] = []
    for name in [name for name in space if not name.startswith("_") and name not in hidden]:
        try:
            size = _size(space[name], name, asked, room, min(ends - time.monotonic(), 1e6), watch)
        except KeyboardInterrupt:
            left.append({"name": name, "reason": "took too long to be written"})
        except BaseException as error:
            left.append({"name": name, "reason": _because(error)})
        else:
            room -= size
            chosen.append(name)
    report = {"names": chosen, "left": left, "problem": "", "digest": "", "bytes": 0}
    if not chosen:
        return report
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(asked["file"], flags, 0o600), "wb") as file:
            out = Hashed(file)
            pickler = Pickler(out, pickle.HIGHEST_PROTOCOL)
            with watch.within(ends - time.monotonic()):
                for name in chosen:
                    pickler.dump((name, space[name]))
            file.flush()
            os.fsync(file.fileno())
            report.update(digest=out.hash.hexdigest(), bytes=file.tell())
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(asked["file"])
        late = isinstance(error, KeyboardInterrupt)
        return {**_nothing("writing took too long" if late else _because(error)), "left": left}
    return report


def _size(
    value: Any, name: str, asked: Mapping[str, Any], room: int, seconds: float, watch: Watch
) -> int:
    """How large it is in the file; Left, or whatever it raises, if it cannot be there."""
    if isinstance(value, types.ModuleType):
        raise Left("a module: import it again")
    if isinstance(value, (type, types.FunctionType)) and value.__module__ == "__main__":
        kind = "class" if isinstance(value, type) else "function"
        raise Left(f"a {kind} that is defined in the notebook: run its cell again")
    if seconds <= 0:
        raise Left("no time was left for it")
    counted = Counted(asked["each_bytes"])
    with contextlib.suppress(TypeError, AttributeError):
        if sys.getsizeof(value) > asked["each_bytes"]:
            raise Left(f"larger than {_megabytes(asked['each_bytes'])}")
    with watch.within(min(asked["each_seconds"], seconds)):
        Pickler(counted, pickle.HIGHEST_PROTOCOL).dump((name, value))
    if counted.size > room:
        raise Left(f"beyond the {_megabytes(asked['total_bytes'])} for all variables")
    return counted.size


def _read(asked: Mapping[str, Any], space: dict[str, Any]) -> dict[str, Any]:
    with os.fdopen(os.open(asked["file"], os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        about = os.fstat(file.fileno())
        private = about.st_uid == os.getuid() and not stat.S_IMODE(about.st_mode) & 0o077
        if not stat.S_ISREG(about.st_mode) or not private:
            return _nothing("the file of the variables is not this user's alone")
        found = hashlib.blake2b()
        while True:
            chunk = file.read(_CHUNK_BYTES)
            if not chunk:
                break
            found.update(chunk)
        # To read a pickle is to run it: only what the other kernel wrote, to the last byte.
        if found.hexdigest() != asked["digest"]:
            return _nothing("the file of the variables is not the one that was written")
        file.seek(0)
        unpickler = pickle.Unpickler(file)  # noqa: S301 (its digest was checked)
        names: list[str] = []
        wanted = list(asked["names"])
        while len(names) < len(wanted):
            try:
                name, value = unpickler.load()
            except BaseException as error:
                spoilt, *others = wanted[len(names) :]
                left = [{"name": spoilt, "reason": _because(error)}]
                why = f"could not be read after {spoilt}"
                left += [{"name": other, "reason": why} for other in others]
                return {**_nothing(""), "names": names, "left": left}
            space[name] = value
            names.append(name)
    return {**_nothing(""), "names": names}


def _because(error: BaseException) -> str:
    if isinstance(error, Left):
        return str(error)
    try:
        words = " ".join(str(error).split())
    except BaseException:
        words = ""
    return f"{type(error).__name__}: {words}"[:_MAX_REASON].rstrip(": ")


def _megabytes(count: int) -> str:
    return f"{count / 2**20:g} MB"
