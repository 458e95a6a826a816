"""What is left of a budget, read from what the site's own command prints."""

from __future__ import annotations

import re


def read_remaining(report: str, pattern: str, account: str | None = None) -> float | None:
    """The number that the profile's pattern finds first; None where there is none.

    `{account}` in the pattern stands for the account that is charged, any where none is named.
    """
    named = re.escape(account) if account else r"\S+"
    found = re.search(pattern.replace("{account}", named), report, re.MULTILINE)
    return _number(found[1] or "") if found else None


def _number(text: str) -> float | None:
    """A number as people write it: 12345.6, 12,345.6, 12.345,6, 12 345 or 12'345."""
    plain = re.sub(r"[\s'_\u00a0\u202f]", "", text)
    if "," in plain and "." in plain:
        thousands = "," if plain.rindex(",") < plain.rindex(".") else "."
        plain = plain.replace(thousands, "")
    elif re.fullmatch(r"-?\d{1,3}(,\d{3})+", plain):
        plain = plain.replace(",", "")
    try:
        return float(plain.replace(",", "."))
    except ValueError:
        return None
