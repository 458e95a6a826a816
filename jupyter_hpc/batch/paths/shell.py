"""Files that a shell line of a notebook is seen to write."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator

from jupyter_hpc.batch.paths.calls import Effect

_WORD = r"""(?P<word>"[^"\n]+"|'[^'\n]+'|[^\s;|&<>()"']+)"""
_REDIRECTED = re.compile(r"(?<![<>&\d=-])[12&]?>{1,2}\|?\s*(?!&)" + _WORD)
#: `tar xzf`, `tar -xf`, `tar --extract`, but not `tar -cf`.
_UNPACKS = r"\btar\s+(?:-?[a-bd-wyzA-Z]*x|[^\n;|&]*?(?<=\s)(?:-[a-bd-wyzA-Z]*x|--extract|--get))"
_COMMANDS: tuple[tuple[re.Pattern[str], Effect], ...] = (
    (re.compile(r"\btee\s+(?:-a\s+)?" + _WORD), "file"),
    (re.compile(r"\b(?:wget\b[^\n;|&]*?\s-O|curl\b[^\n;|&]*?\s-o)\s*" + _WORD), "file"),
    (
        re.compile(r"\b(?:unzip\b[^\n;|&]*?\s-d|" + _UNPACKS + r"[^\n;|&]*?\s-C)\s*" + _WORD),
        "below",
    ),
    (re.compile(r"\brm\s+-\w*r\w*\s+" + _WORD), "below"),
    (re.compile(r"\bmkdir\s+(?:-p\s+)?" + _WORD), "folder"),
    (re.compile(r"\bsed\s[^\n;|&]*-i[^\n;|&]*\s" + _WORD + r"\s*(?=$|[\n;|&])"), "file"),
    (re.compile(r"\bgunzip\s+(?P<word>[^\s;|&]+)(?=\.gz\b)"), "file"),
    (re.compile(r"\btouch\s+" + _WORD), "file"),
)
#: The last word is where the others go.
_COPIES = re.compile(r"\b(?:cp|mv|rsync|install|ln)\s(?P<words>[^\n;|&<>]*)")
#: What a shell does not read; a quote may hold the sign.
_COMMENT = re.compile(r"""("[^"\n]*"|'[^'\n]*')|(?<!\S)#[^\n]*""")
#: `>> log.txt`, `tee -a log.txt`, `touch log.txt`
_ADDS = re.compile(r"[12&]?>>|tee\s+-a\b|touch\b")
_EXPANDED = re.compile(r"\{(\w+)\}|\$\{?(\w+)\}?|\{[^{}\n]*\}")


def shell_paths(
    line: str, value_of: Callable[[str], list[str]]
) -> Iterator[tuple[str, Effect, bool]]:
    """Each path with what happens to it, and whether what it holds stays.

    `value_of` knows the notebook's variables.
    """
    line = _COMMENT.sub(lambda found: found[1] or "", line)
    for path in _copied(line):
        yield _expanded(path, value_of), "file", False
    for pattern, effect in ((_REDIRECTED, "file"), *_COMMANDS):
        for found in pattern.finditer(line):
            word = found["word"].strip("\"'")
            if word.startswith(("-", "/dev/")):
                continue
            adds = _ADDS.match(found[0]) is not None
            yield _expanded(word, value_of), effect, adds


def _copied(line: str) -> Iterator[str]:
    """The file that is written, and what it is called if the last word is a folder."""
    for found in _COPIES.finditer(line):
        words = [each["word"].strip("\"'") for each in re.finditer(_WORD, found["words"])]
        *sources, target = [word for word in words if not word.startswith("-")] or [""]
        if sources:
            yield target
            yield from (posixpath.join(target, posixpath.basename(each)) for each in sources)


def _expanded(word: str, value_of: Callable[[str], list[str]]) -> str:
    def text(found: re.Match[str]) -> str:
        values = value_of(found[1] or found[2]) if found[1] or found[2] else ["*"]
        return values[0] if len(values) == 1 else "*"

    return _EXPANDED.sub(text, word)
