"""What must stand in no log and no report: secrets, known by their form or by their value."""

from __future__ import annotations

import re

HIDDEN = "<hidden>"

#: What a value looks like that stands behind its name.
_VALUE = r"""(?:"[^"\n]*"|'[^'\n]*'|[^\s"'&;,]+)"""

#: Names whose value nobody but its owner should read.
_PRIVATE_NAME = (
    r"(?<![\w.-])[\w.-]*(?:token|secret|passw(?:or)?d|passphrase|credential"
    r"|(?:api|access|private)[_-]?key)[\w.-]*"
)

#: Values that are no secret: a small number, or variables and paths of short names.
_HARMLESS = (
    r"""["']?(?:\d{1,6}|localhost|\$\(\([\w +*%()-]{1,40}\)\)|"""
    r"""(?:\$[A-Za-z_]\w*|\$\{[A-Za-z_]\w*(?::?-[\w./]{0,12})?\}"""
    r"""|/[\w.@+-]{0,32}|:|~)*)["']?(?![^\s])"""
)

#: In this order: the wider form first.
_FORMS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)",
            re.DOTALL,
        ),
        HIDDEN,
    ),
    (
        re.compile(
            r"""(\b(?:proxy-)?authorization["']?\s*[:=]\s*["']?)"""
            r"(?:(?:bearer|token|basic|digest|negotiate)\s+)?[^\s\"',]+",
            re.IGNORECASE,
        ),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"(\b(?:set-)?cookie[\"']?\s*:\s*)[^\r\n]+", re.IGNORECASE), rf"\1{HIDDEN}"),
    # Whatever an environment line sets; quotes may hold a `;`, so it ends with its line. Numbers,
    # paths and other variables are no secrets, and tell those who help what was set up.
    (
        re.compile(
            rf"(\bexport\s+(?!(?:\w+={_HARMLESS} *)*(?:#|$))(?:\w+={_HARMLESS} +)*\w+=)[^\r\n]+",
            re.MULTILINE,
        ),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"(\bsetenv\s+\w+\s+)[^\r\n]+"), rf"\1{HIDDEN}"),
    (re.compile(r"(://[^\s/:@]+:)[^\s/@]+@"), rf"\1{HIDDEN}@"),
    (re.compile(rf"({_PRIVATE_NAME}[\"']?\s*[=:]\s*){_VALUE}", re.IGNORECASE), rf"\1{HIDDEN}"),
    (
        re.compile(
            r"((?<![\w-])--[\w-]*(?:token|secret|passw(?:or)?d|passphrase|api-?key)[\w-]*\s+)"
            + _VALUE,
            re.IGNORECASE,
        ),
        rf"\1{HIDDEN}",
    ),
    # Keys of well-known services, by how they begin.
    (
        re.compile(
            r"(?<![A-Za-z0-9])(?:hf_|sk-|gh[pousr]_|github_pat_|glpat-|AKIA|xox[abpr]-)"
            r"(?=[\w-]*\d)[\w-]{12,}"
        ),
        HIDDEN,
    ),
    # A signed token (RFC 7519), by how its head begins.
    (re.compile(r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]+\.[\w-]+"), HIDDEN),
    # Whoever knows a webhook's address may write there.
    (
        re.compile(r"(https?://[^\s\"'<>]*hook[^\s/\"'<>]*/)[^\s\"'<>]+", re.IGNORECASE),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"((?<!\S)(?:-u|--user)[ =][^\s:]+:)\S+"), rf"\1{HIDDEN}"),
    # Our own secrets and Jupyter's token are 64 hexadecimal digits, or 43 characters of
    # base64 for addresses. The fingerprint of a host key looks alike, and may be read.
    (re.compile(r"(?<![0-9A-Za-z])[0-9a-fA-F]{32,}(?![0-9A-Za-z])"), HIDDEN),
    (
        re.compile(
            r"(?<![A-Za-z0-9_-])(?<!SHA256:)(?=[\w-]*[A-Z])(?=[\w-]*[a-z])[A-Za-z0-9_-]{40,}"
        ),
        HIDDEN,
    ),
)

#: A shorter value, "1" or "yes", would hide half of every text.
_MIN_CHARACTERS = 4


class Redactor:
    """Takes secrets out of texts: all that look like one, and those that it was told."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._names: list[tuple[re.Pattern[str], str]] = []

    def hide(self, value: str, placeholder: str = HIDDEN) -> None:
        """From now on, this value does not stand in any text."""
        if len(value) >= _MIN_CHARACTERS:
            self._values.setdefault(value, placeholder)

    def hide_name(self, name: str, placeholder: str) -> None:
        """The same for a word that may be short: not where it is a part of another one."""
        if len(name) > 1:
            word = rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])"
            self._names.append((re.compile(word, re.IGNORECASE), placeholder))

    def __call__(self, text: str) -> str:
        text = self.known(text)
        for form, replacement in _FORMS:
            text = form.sub(replacement, text)
        return text

    def known(self, text: str) -> str:
        """The text without what it was told; what merely looks like a secret stays."""
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, self._values[value])
        for word, placeholder in self._names:
            text = word.sub(placeholder, text)
        return text
