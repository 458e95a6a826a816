"""Charts of a report: plain SVG that needs no script, with its numbers as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

#: So many lines of one chart have a colour of their own.
COLOURS = 8

_WIDTH, _HEIGHT = 640, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 10, 30


@dataclass(frozen=True)
class Line:
    """The points of one line; a value that is None leaves a gap."""

    label: str
    points: Sequence[tuple[float, float | None]]

    @property
    def known(self) -> list[tuple[float, float]]:
        return [(x, y) for x, y in self.points if y is not None and math.isfinite(y)]


def chart(
    title: str,
    x: str,
    lines: Sequence[Line],
    *,
    floor: float | None = None,
    top: float | None = None,
) -> str:
    """A chart, and below it what it shows in numbers; empty without points.

    `x` says what is counted to the right; the values begin at `floor` and end at `top` at
    least, where these are given.
    """
    drawn = [line for line in lines if line.known]
    if not drawn:
        return ""
    xs = [x for line in drawn for x, _ in line.known]
    ys = [y for line in drawn for _, y in line.known]
    left, right = min(xs), max(xs)
    low = min([*ys, *([] if floor is None else [floor])])
    high = max([*ys, *([] if top is None else [top])])
    across = right - left or 1.0
    up = high - low or abs(high) or 1.0

    def place(point_x: float, point_y: float) -> str:
        h = _LEFT + (point_x - left) / across * (_WIDTH - _LEFT - _RIGHT)
        v = _HEIGHT - _BOTTOM - (point_y - low) / up * (_HEIGHT - _TOP - _BOTTOM)
        return f"{h:.1f},{v:.1f}"

    parts = [
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'role="img" aria-label="{escape(_in_words(title, drawn))}">'
    ]
    for share in (0.0, 0.5, 1.0):
        value = low + share * up
        v = _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{v}" y2="{v}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{v + 4}" class="y">{number(value)}</text>')
    parts += [
        f'<text x="{_LEFT}" y="{_HEIGHT - 8}">{number(left)}</text>',
        f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 8}" class="y">{escape(x)} {number(right)}'
        "</text>",
    ]
    for order, line in enumerate(drawn):
        for piece in _pieces(line):
            points = " ".join(place(*point) for point in piece)
            colour = order % COLOURS
            dashed = " dashed" if order >= COLOURS else ""
            if len(piece) == 1:
                cx, cy = points.split(",")
                parts.append(f'<circle class="c{colour} dot" cx="{cx}" cy="{cy}" r="3"/>')
            else:
                parts.append(f'<polyline class="c{colour}{dashed}" points="{points}"/>')
    parts.append("</svg>")
    parts.append(_table(drawn))
    return "".join([*parts, "</figure>"])


def number(value: float) -> str:
    """As few digits as tell it apart."""
    return f"{value:.4g}" if abs(value) < 1e5 else f"{value:.3g}"


def _pieces(line: Line) -> list[list[tuple[float, float]]]:
    """The stretches without a gap."""
    pieces: list[list[tuple[float, float]]] = [[]]
    for x, y in line.points:
        if y is not None and math.isfinite(y):
            pieces[-1].append((x, y))
        elif pieces[-1]:
            pieces.append([])
    return [piece for piece in pieces if piece]


def _in_words(title: str, lines: Sequence[Line]) -> str:
    told = (
        f"{line.label or title} from {number(line.known[0][1])} to {number(line.known[-1][1])}"
        for line in lines[:COLOURS]
    )
    return f"{title}: {'; '.join(told)}"


def _table(lines: Sequence[Line]) -> str:
    rows = []
    for place, line in enumerate(lines):
        ys = [y for _, y in line.known]
        cells = (ys[0], min(ys), sum(ys) / len(ys), max(ys), ys[-1])
        mark = f'<span class="mark c{place % COLOURS}" aria-hidden="true"></span>'
        numbers = "".join(f"<td>{number(value)}</td>" for value in cells)
        rows.append(f"<tr><th scope='row'>{mark}{escape(line.label)}</th>{numbers}</tr>")
    heads = "".join(
        f"<th scope='col'>{name}</th>" for name in ("first", "least", "mean", "most", "last")
    )
    return f"<table class='numbers'><tr><td></td>{heads}</tr>{''.join(rows)}</table>"
