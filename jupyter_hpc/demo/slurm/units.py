"""Slurm's spellings of time, memory and counts, read and written."""

from __future__ import annotations

import re
import time

UNLIMITED = 365 * 24 * 3600


def read_time(text: str) -> int | None:
    """Seconds of a time limit; None if it is none. Minutes, M:S, H:M:S, D-H[:M[:S]]."""
    if text.lower() in ("unlimited", "infinite", "-1"):
        return UNLIMITED
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text)
    if not match:
        return None
    days, first, second, third = (int(part) if part else 0 for part in match.groups())
    # Two numbers are minutes and seconds, unless days come first.
    with_hours = match[1] or match[4]
    total = first * 3600 + second * 60 + third if with_hours else first * 60 + second
    total += days * 86400
    # Slurm counts limits in whole minutes, rounded up.
    return -(-total // 60) * 60


def write_span(seconds: float, *, full: bool = False) -> str:
    """[D-]H:M:S as squeue writes it, M:SS when short; `full` always writes hours."""
    whole = max(0, int(seconds))
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{rest:02}"
    if full:
        return f"{hours:02}:{minutes:02}:{rest:02}"
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}"


def write_limit(seconds: int, *, full: bool = False) -> str:
    """A time limit as it is shown."""
    return "UNLIMITED" if seconds >= UNLIMITED else write_span(seconds, full=full)


def write_moment(moment: float, form: str | None, unknown: str = "Unknown") -> str:
    """A point in time as SLURM_TIME_FORMAT asks; ISO without zone by default."""
    if not moment:
        return unknown
    if form and form not in ("standard", "relative"):
        return time.strftime(form, time.localtime(moment))
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(moment))


def read_moment(text: str, now: float) -> float | None:
    """now, now+1hour, HH:MM[:SS], MM/DD, YYYY-MM-DD[THH:MM[:SS]], epoch; None if unreadable."""
    match = re.fullmatch(r"(now|today|tomorrow|midnight|noon)(?:([+-])(\d+)(\w*))?", text.lower())
    if match:
        day = time.localtime(now)
        midnight = time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 0, 0, 0, 0, 0, -1))
        named = {"midnight": midnight + 86400, "noon": midnight + 43200}
        base = {"now": now, "today": midnight, "tomorrow": midnight + 86400, **named}[match[1]]
        if not match[2]:
            return base
        units = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
        factor = units.get(match[4].rstrip("s")[:1] if match[4] != "s" else "s")
        if factor is None:
            return None
        return base + int(match[3]) * factor * (1 if match[2] == "+" else -1)
    if re.fullmatch(r"\d{9,}", text):
        return float(text)
    for form in ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d"):
        try:
            return time.mktime(time.strptime(text, form))
        except ValueError:
            continue
    for form in ("%H:%M:%S", "%H:%M"):
        try:
            parsed = time.strptime(text, form)
        except ValueError:
            continue
        day = time.localtime(now)
        clock = (parsed.tm_hour, parsed.tm_min, parsed.tm_sec)
        moment = time.mktime((day.tm_year, day.tm_mon, day.tm_mday, *clock, 0, 0, -1))
        return moment if moment >= now else moment + 86400
    return None


def read_memory(text: str) -> int | None:
    """MiB of a memory size (M is the default unit); None if it is none."""
    match = re.fullmatch(r"(\d+)([KMGT]?)B?", text.upper())
    if not match:
        return None
    amount = int(match[1])
    return {"K": -(-amount // 1024), "": amount, "M": amount, "G": amount << 10, "T": amount << 20}[
        match[2]
    ]


def write_memory(mib: int) -> str:
    """M, or G and T when exact, as TRES strings have it."""
    for unit, size in (("T", 1 << 20), ("G", 1 << 10)):
        if mib >= size and mib % size == 0:
            return f"{mib // size}{unit}"
    return f"{mib}M"


def write_hostlist(names: tuple[str, ...]) -> str:
    """Names as Slurm folds them: those that share letters and differ in digits in brackets."""
    groups: dict[str, list[str]] = {}
    for name in names:
        match = re.fullmatch(r"(.*?)(\d+)", name)
        prefix, digits = (match[1], match[2]) if match else (name, "")
        groups.setdefault(prefix, []).append(digits)
    parts = []
    for prefix, digits in groups.items():
        if len(digits) == 1:
            parts.append(prefix + digits[0])
        else:
            parts.append(f"{prefix}[{fold_numbers([int(d) for d in digits])}]")
    return ",".join(parts)


def fold_numbers(numbers: list[int]) -> str:
    """1,2,3,7 as "1-3,7"."""
    parts: list[str] = []
    run: list[int] = []
    for number in [*sorted(numbers), None]:
        if run and (number is None or number != run[-1] + 1):
            parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
            run = []
        if number is not None:
            run.append(number)
    return ",".join(parts)


def read_numbers(text: str) -> list[int] | None:
    """ "1-3,7" or "0-8:2" as numbers in order; None if unreadable."""
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part)
        if not match:
            return None
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last < first or step < 1:
            return None
        found.update(range(first, last + 1, step))
    return sorted(found)
