"""One command line that means the same in every login shell.

sshd hands a command to the user's login shell, which may be bash, zsh, tcsh, fish or
something older, each with quoting rules of its own. So the real POSIX sh script
travels as octal escapes inside single quotes, where none of these shells finds a
character that it would change, and /bin/sh decodes and runs it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

#: Bytes that no shell, and no printf %b, gives a meaning to inside single quotes.
_SAFE = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-.,:/=+@")

#: csh derivatives refuse words that are too long ("Word too long"); pieces stay far below.
_PIECE = 900

_DECODE = '/bin/sh -c \'eval "$(printf %b "$@")"\' sh'


@dataclass(frozen=True)
class Marker:
    """What the script prints before the command's own output, on both streams.

    Everything before it was printed by start-up files such as .bashrc. It carries the
    process id, by which the command can be ended from another channel.
    """

    nonce: str

    @property
    def pattern(self) -> re.Pattern[bytes]:
        return re.compile(rb"\x01jhpc-" + self.nonce.encode() + rb":(\d{1,10})\x02")

    def split(self, output: bytes) -> tuple[bytes, bytes | None, int | None]:
        """(noise, the command's own output or None if it never began, process id)."""
        match = self.pattern.search(output)
        if match is None:
            return output, None, None
        return output[: match.start()], output[match.end() :], int(match.group(1))

    def after_last(self, output: bytes) -> bytes:
        """What follows the last marker, or all of it where there is none."""
        return self.pattern.split(output)[-1]

    @property
    def script(self) -> str:
        """The commands that print it."""
        mark = rf"printf '\001jhpc-{self.nonce}:%s\002' $$"
        return f"{mark}; {mark} >&2"


def command_line(script: str) -> str:
    """The POSIX sh script as one line for any login shell."""
    pieces = _pieces(script.encode("utf-8", "surrogateescape"))
    return " ".join([_DECODE, *(f"'{piece}'" for piece in pieces)])


def script_for(argv: Sequence[str], marker: Marker) -> str:
    """A script that becomes the command.

    Where the program is missing, the environment of a login shell is tried: some
    sites put Slurm on the PATH only there. Exit code 127 means that it is nowhere.
    """
    words = [shlex.quote(word) for word in argv]
    mark = f"{marker.script}; "
    found = f"command -v {words[0]} >/dev/null 2>&1"
    inner = shlex.quote(f'{mark}command -v "$1" >/dev/null 2>&1 || exit 127; exec "$@"')
    return (
        f"if {found}; then {mark}exec {' '.join(words)}; fi; "
        f"exec bash -lc {inner} bash {' '.join(words)}"
    )


def _pieces(data: bytes) -> list[str]:
    pieces, current = [], ""
    for byte in data:
        current += chr(byte) if byte in _SAFE else f"\\0{byte:03o}"
        if len(current) >= _PIECE:
            pieces.append(current)
            current = ""
    return [*pieces, current] if current or not pieces else pieces
