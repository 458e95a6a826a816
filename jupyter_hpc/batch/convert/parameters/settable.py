"""Values of a notebook that can be set from outside: found by tag or by reading the code."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from jupyter_hpc.batch.convert.context import API
from jupyter_hpc.batch.convert.edits import Edit, Positions, apply
from jupyter_hpc.batch.convert.parameters.concepts import Concept, concept
from jupyter_hpc.batch.convert.parameters.constants import Assigned, CodeCell, assigned, constant
from jupyter_hpc.batch.convert.parameters.loops import training_functions
from jupyter_hpc.batch.convert.parameters.naming import Found, named
from jupyter_hpc.batch.convert.parameters.places import Finder, Occurrence
from jupyter_hpc.batch.convert.parameters.reading import LiveAssignments
from jupyter_hpc.batch.convert.parameters.reserved import reserved
from jupyter_hpc.batch.convert.parameters.signatures import Signatures
from jupyter_hpc.batch.convert.report import Parameter


def with_parameters(
    cells: list[CodeCell], environment: Iterable[str], taken: Iterable[str]
) -> tuple[dict[int, str], list[Parameter]]:
    """The cells with their parameters made settable, by number, and the parameters.

    With a cell tagged `parameters` those are the parameters; without one, all constants
    that are assigned exactly once and read later, and the numbers of a training wherever
    they stand. What people change most comes first.
    """
    names = set(environment)
    taken = set(taken)
    chosen = _chosen(cells, taken)
    tagged = any(cell.tagged for cell in cells)
    places = {} if tagged else _places(cells, chosen, taken)
    codes: dict[int, str] = {}
    ranked: list[tuple[Concept, Parameter]] = []
    for cell in cells:
        positions = Positions(cell.code)
        edits: list[Edit] = []
        for item in chosen.get(cell.number, ()):
            text = positions.text(item.value)
            if isinstance(item.value, ast.Tuple) and not text.startswith("("):
                text = f"({text})"
            edits.append(positions.replace(item.value, f"{API}.parameter({item.name!r}, {text})"))
            parameter = Parameter(
                name=item.name,
                kind="tagged" if cell.tagged else "constant",
                cell=cell.number,
                line=item.line,
                default=_default(item.name, item.value),
                not_from_environment=reserved(item.name, names),
            )
            rank = Concept.RATE if tagged else concept(item.name, constant(item.value))
            ranked.append((rank, parameter))
        for name, place in places.get(cell.number, ()):
            text = positions.text(place.value)
            edits.append(positions.replace(place.value, _call(name, place, text)))
            ranked.append((place.concept, _parameter(name, place, cell, positions, names)))
        codes[cell.number] = apply(cell.code, edits)
    ranked.sort(key=lambda pair: pair[0])
    return codes, [parameter for _, parameter in ranked]


def _default(name: str, value: ast.expr) -> str:
    """The default as Python source; a rate of 1 may become 0.1, and so is no whole number."""
    number = constant(value)
    if type(number) is int and concept(name, number) is Concept.RATE:
        return repr(float(number))
    return ast.unparse(value)


def _call(name: str, place: Occurrence, text: str) -> str:
    if not place.offset:
        return f"{API}.parameter({name!r}, {text})"
    sign = "+" if place.offset > 0 else "-"
    return f"{API}.parameter({name!r}, {place.default}) {sign} {abs(place.offset)}"


def _parameter(
    name: str, place: Occurrence, cell: CodeCell, positions: Positions, environment: set[str]
) -> Parameter:
    line, column, length = _in_the_notebook(cell, place, positions)
    return Parameter(
        name=name,
        kind=place.kind,
        cell=cell.number,
        line=line,
        default=_default(place.name, place.value) if not place.offset else str(place.default),
        not_from_environment=reserved(name, environment),
        where=place.where,
        column=column,
        length=length,
        offset=place.offset,
    )


def _in_the_notebook(
    cell: CodeCell, place: Occurrence, positions: Positions
) -> tuple[int, int, int]:
    """Line, column and length of a literal in the notebook's own text; no length: not found.

    The line of the script is one of the notebook's, or has come from a magic and is not.
    """
    text = positions.text(place.value)
    start = positions.span(place.value)[0]
    first = positions.source.rfind("\n", 0, start) + 1
    line = positions.source[first:].partition("\n")[0]
    lines = cell.source.split("\n")
    same = [number for number, other in enumerate(lines, 1) if other == line]
    number = place.value.lineno
    if number not in same:
        if len(same) != 1:
            return min(number, max(len(lines), 1)), 0, 0
        number = same[0]
    return number, start - first, len(text) if "\n" not in text else 0


def _chosen(cells: list[CodeCell], taken: set[str]) -> Mapping[int, list[Assigned]]:
    tagged = [cell for cell in cells if cell.tagged]
    if tagged:
        return {cell.number: _last_of_each(assigned(cell.tree, tagged=True)) for cell in tagged}
    counts: dict[str, int] = {}
    read: dict[str, int] = {}
    for cell in cells:
        for name, count in cell.usage.counts.items():
            counts[name] = counts.get(name, 0) + count
        for name in (*cell.usage.reads, *cell.usage.later_reads, *cell.usage.own_reads):
            read[name] = cell.number
    chosen: dict[int, list[Assigned]] = {}
    for cell in cells:
        for item in assigned(cell.tree):
            once = counts.get(item.name) == 1 and item.name not in taken
            if once and read.get(item.name, 0) >= cell.number:
                chosen.setdefault(cell.number, []).append(item)
    return chosen


def _last_of_each(items: list[Assigned]) -> list[Assigned]:
    return list({item.name: item for item in items}.values())


def _places(
    cells: list[CodeCell], chosen: Mapping[int, list[Assigned]], taken: set[str]
) -> dict[int, list[tuple[str, Occurrence]]]:
    """The numbers of a training that are no parameters yet, by cell, each with its name."""
    signatures = Signatures()
    for cell in cells:
        signatures.add(cell.tree)
    trees = [cell.tree for cell in cells]
    finder = Finder(signatures, training_functions(trees))
    live = LiveAssignments({cell.number: cell.tree for cell in cells})
    done = {id(item.value) for items in chosen.values() for item in items}
    found: list[Found] = []
    for cell in cells:
        seen: set[int] = set()
        for place in finder.places(cell.tree):
            if id(place.value) in done or id(place.value) in seen:
                continue
            if place.kind == "assigned" and not live.is_read(place.name, place.value):
                continue
            seen.add(id(place.value))
            found.append(Found(cell.number, place))
    variables = [
        (concept(item.name, constant(item.value)), item.name)
        for items in chosen.values()
        for item in items
    ]
    variables += [(Concept.WORD, name) for name in taken]
    result: dict[int, list[tuple[str, Occurrence]]] = {}
    for name, item in named(found, variables):
        result.setdefault(item.cell, []).append((name, item.place))
    return result
