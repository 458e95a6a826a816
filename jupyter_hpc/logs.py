"""What this program logs, and where it goes: to a file of the session, to the terminal.

    log = Log()                                   nothing is logged yet
    log.show(verbose, write)                      -v: INFO, -vv: DEBUG, as lines to `write`
    log.keep(name, path, on_trouble)              everything, to the session's file
    log.close()

Modules log to `logging.getLogger(__name__)` and configure nothing. Every line is redacted
where it is formatted, tracebacks too, and a log that cannot be written never ends a session.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import io
import logging
import logging.handlers
import os
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path

from jupyter_hpc.redaction import Redactor
from jupyter_hpc.text import printable

#: Bytes of one file; there is one older file beside it.
MAX_BYTES = 1_000_000

OURS = "jupyter_hpc"

#: Libraries whose lines help, and the level of theirs that is kept.
_LIBRARIES = {"asyncssh": logging.WARNING, "asyncio": logging.WARNING}

#: Characters of a message that are looked at; a line has 2,000 of them at most.
_MAX_MESSAGE_CHARACTERS = 20_000

#: Levels of the terminal for -v and -vv.
_SHOWN = (logging.WARNING, logging.INFO, logging.DEBUG)


class Log:
    """The log of one process; `session` stands in each line."""

    def __init__(self) -> None:
        self.session = "-"
        self.verbose = 0
        self._handlers: list[logging.Handler] = []
        self._levels: dict[str, int] = {}
        self._writer: _Writer | None = None
        self._file: PrivateFile | None = None
        # Without any handler, Python would print our warnings on the terminal.
        self._add(logging.NullHandler())

    @cached_property
    def redact(self) -> Redactor:
        """What takes the secrets out of each line."""
        return Redactor()

    def show(self, verbose: int, write: Callable[[str], None]) -> None:
        """Give lines to `write`: with 1 those of INFO and above, with 2 all of them."""
        self.verbose = verbose
        if self._writer is not None:
            self._remove(self._writer)
            self._writer = None
        if verbose:
            self._writer = _Writer(write)
            self._writer.setLevel(_SHOWN[min(verbose, 2)])
            self._add(self._writer)

    def keep(self, name: str, path: Path, on_trouble: Callable[[str], None]) -> None:
        """Write everything to the file of the session `name`.

        If that cannot be done, `on_trouble` is told why, once, and the session goes on.
        """
        self.session = name
        self._file = PrivateFile(path, on_trouble)
        self._add(self._file)

    def rename(self, name: str, path: Path) -> None:
        """The session has another name from now on, and with it another file."""
        if self._file is None:
            return
        before, self.session = self.session, name
        self._file.move_to(path)
        logging.getLogger(__name__).info("the log goes on here; it began as %s", before)

    def close(self) -> None:
        """Log nothing more, and leave Python's loggers as they were."""
        for name, level in self._levels.items():
            logging.getLogger(name).setLevel(level)
        for handler in list(self._handlers):
            self._remove(handler)
        self._file = self._writer = None

    def _remove(self, handler: logging.Handler) -> None:
        for name in (OURS, *_LIBRARIES):
            logging.getLogger(name).removeHandler(handler)
        self._handlers.remove(handler)
        handler.close()

    def _add(self, handler: logging.Handler) -> None:
        self._handlers.append(handler)
        handler.setFormatter(_Lines(self))
        handler.addFilter(_without_channels)
        wanted = {OURS: logging.DEBUG, **_LIBRARIES}
        if self.verbose >= 2:
            wanted["asyncssh"] = logging.INFO
        for name, level in wanted.items():
            logger = logging.getLogger(name)
            self._levels.setdefault(name, logger.level)
            logger.setLevel(level)
            logger.addHandler(handler)


class PrivateFile(logging.handlers.RotatingFileHandler):
    """A rotating file that only its owner can read, from its first moment on."""

    def __init__(self, path: Path, on_trouble: Callable[[str], None]) -> None:
        super().__init__(path, maxBytes=MAX_BYTES, backupCount=1, encoding="utf-8", delay=True)
        self._on_trouble: Callable[[str], None] | None = on_trouble

    def _open(self) -> io.TextIOWrapper:
        path = Path(self.baseFilename)
        private_folder(path.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        descriptor = os.open(path, flags, 0o600)
        if sys.platform != "win32":
            os.fchmod(descriptor, 0o600)
        return open(descriptor, "a", encoding="utf-8", errors="backslashreplace")

    def move_to(self, path: Path) -> None:
        """Write to another file from now on."""
        self.acquire()
        try:
            if self.stream is not None:
                with contextlib.suppress(OSError):
                    self.stream.close()
            self.stream = None
            self.baseFilename = os.path.abspath(path)
        finally:
            self.release()

    def handleError(self, record: logging.LogRecord) -> None:
        """Say once why there is no log; a full disk must not end a session."""
        error = sys.exc_info()[1]
        tell, self._on_trouble = self._on_trouble, None
        if tell is not None:
            why = error.strerror if isinstance(error, OSError) else str(error)
            with contextlib.suppress(Exception):
                tell(
                    f"The log {self.baseFilename} cannot be written ({why}); "
                    "the session goes on without it."
                )

    def close(self) -> None:
        with contextlib.suppress(OSError):
            super().close()


class Forward(logging.Handler):
    """Gives what we log to the logger of the program that we run in, at that logger's level."""

    def __init__(self, target: logging.Logger) -> None:
        super().__init__()
        self._target = target
        self._redact = Redactor()
        self._before: tuple[int, bool] | None = None

    def begin(self) -> None:
        """From now on; nothing is passed on elsewhere, or each line would come twice."""
        ours = logging.getLogger(OURS)
        for other in [one for one in ours.handlers if isinstance(one, Forward)]:
            other.end()  # of a server that was here before, and was not stopped
        self._before = ours.level, ours.propagate
        ours.setLevel(self._target.getEffectiveLevel())
        ours.propagate = False
        ours.addHandler(self)

    def end(self) -> None:
        """Leave Python's loggers as they were."""
        ours = logging.getLogger(OURS)
        ours.removeHandler(self)
        if self._before is not None:
            ours.setLevel(self._before[0])
            ours.propagate = self._before[1]
            self._before = None

    def emit(self, record: logging.LogRecord) -> None:
        clean = copy.copy(record)
        clean.msg, clean.args = self._redact(record.getMessage()), None
        self._target.handle(clean)


class _Writer(logging.Handler):
    """Gives each line to a function."""

    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__()
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        # A terminal that is gone is no reason to stop.
        with contextlib.suppress(Exception):
            self._write(self.format(record))


class _Lines(logging.Formatter):
    """One line for each record, a traceback below it, and no secret in either."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, timezone.utc)
        stamp = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        name = record.name.removeprefix(f"{OURS}.")
        message = printable(self._log.redact(record.getMessage()[:_MAX_MESSAGE_CHARACTERS]))
        lines = [f"{stamp} {record.levelname} {self._log.session} {name}: {message}"]
        if record.exc_info:
            trace = self._log.redact(self.formatException(record.exc_info))
            lines += [f"    {printable(line)}" for line in trace.splitlines()]
        return "\n".join(lines)


def _without_channels(record: logging.LogRecord) -> bool:
    """Leave out what asyncssh says of each channel: our runner says it in one line, and in words.

    The commands among it are as they travel, in octal escapes that nothing could redact.
    """
    theirs = record.name.startswith("asyncssh") and record.levelno < logging.WARNING
    return not (theirs and "chan=" in record.getMessage())


def private_folder(folder: Path) -> None:
    """Make a folder that only its owner can enter, or make it so; missing ones above it as well.

    PermissionError where it is another user's.
    """
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(exist_ok=True, mode=0o700)  # not parents=True: that leaves theirs to the umask
    if sys.platform != "win32":
        about = folder.stat()
        if about.st_uid != os.geteuid() != 0:
            raise PermissionError(errno.EPERM, "it belongs to another user", str(folder))
        if about.st_mode & 0o077:
            folder.chmod(0o700)
