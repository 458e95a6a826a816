"""Command lines read as glibc's getopt_long reads them, with its words for mistakes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


class BadCommand(Exception):
    """The command line is refused; `lines` go to stderr, then the command ends with `code`."""

    def __init__(self, *lines: str, code: int = 1) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.code = code


@dataclass(frozen=True)
class Option:
    """One option: takes a value "no", "yes" or "maybe" (only as --name=value)."""

    value: str = "yes"
    short: str = ""


#: name -> Option; written compactly as {"format": "o:", "me": "", "start": "", "exclusive": "?"}
Table = Mapping[str, Option]


def table(compact: Mapping[str, str]) -> Table:
    """A table from short notation: letter, then ":" for a value, "?" for an optional one."""
    made = {}
    for name, text in compact.items():
        kind = {":": "yes", "?": "maybe"}.get(text[-1:], "no")
        made[name] = Option(kind, text.rstrip(":?"))
    return made


def parse(
    program: str,
    arguments: Sequence[str],
    known: Table,
    *,
    permute: bool = True,
    code: int = 1,
    help_line: bool = True,
) -> tuple[list[tuple[str, str]], list[str]]:
    """(option, value) pairs in their order, and the words that are no options.

    Without `permute` the first such word ends the options, as it begins a command.
    """
    shorts = {option.short: name for name, option in known.items() if option.short}

    def refuse(text: str) -> BadCommand:
        tail = (f'Try "{program} --help" for more information',) if help_line else ()
        return BadCommand(f"{program}: {text}", *tail, code=code)

    found: list[tuple[str, str]] = []
    rest: list[str] = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word == "--":
            rest += words
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            option = known.get(name)
            if option is None:
                raise refuse(f"unrecognized option '{word if not equals else '--' + name}'")
            if option.value == "no" and equals:
                raise refuse(f"option '--{name}' doesn't allow an argument")
            if option.value == "yes" and not equals:
                if not words:
                    raise refuse(f"option '--{name}' requires an argument")
                value = words.pop(0)
            found.append((name, value))
        elif word.startswith("-") and len(word) > 1:
            letters = word[1:]
            while letters:
                letter, letters = letters[0], letters[1:]
                if letter not in shorts:
                    raise refuse(f"invalid option -- '{letter}'")
                name = shorts[letter]
                value = ""
                if known[name].value == "yes":
                    if not letters and not words:
                        raise refuse(f"option requires an argument -- '{letter}'")
                    value, letters = (letters or words.pop(0)), ""
                elif known[name].value == "maybe":
                    value, letters = letters, ""
                found.append((name, value))
        else:
            rest.append(word)
            if not permute:
                rest += words
                break
    return found, rest
