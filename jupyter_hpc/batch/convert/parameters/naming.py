"""What places are called: `lr`, or `optimizer.lr` where a notebook has several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jupyter_hpc.batch.convert.parameters.concepts import SINGLE, Concept
from jupyter_hpc.batch.convert.parameters.places import Occurrence


@dataclass(frozen=True)
class Found:
    """A place and the cell it stands in."""

    cell: int
    place: Occurrence

    @property
    def group(self) -> tuple[Concept, str]:
        """Places of one group need more than their name to be told apart."""
        return group(self.place.concept, self.place.name)

    def names(self) -> Sequence[str]:
        """The names that it can have, from the shortest to one that hardly another has."""
        place = self.place
        short = place.name if not place.owner else f"{place.owner}.{place.name}"
        cell = f"{short}.cell{self.cell}"
        line = f"{cell}.line{place.value.lineno}"
        return place.name, short, cell, line


def group(concept: Concept, name: str) -> tuple[Concept, str]:
    """A notebook has one learning rate, whatever it is called, but widths of many names."""
    return concept, "" if concept in SINGLE else name.lower()


def named(
    found: Sequence[Found], variables: Iterable[tuple[Concept, str]]
) -> list[tuple[str, Found]]:
    """Each place with a name of its own, in upper and lower case; `variables` keep theirs."""
    known = list(variables)
    sizes = Counter([group(*variable) for variable in known])
    sizes.update(item.group for item in found)
    taken = {name.lower() for _, name in known}
    level = {id(item): 0 if sizes[item.group] == 1 else 1 for item in found}
    for _ in range(3):
        names = {id(item): item.names()[level[id(item)]] for item in found}
        counts = Counter(name.lower() for name in names.values())
        for item in found:
            name = names[id(item)].lower()
            alone = level[id(item)] == 1 and name == item.place.name.lower()
            if (counts[name] > 1 or name in taken or alone) and level[id(item)] < 3:
                level[id(item)] += 1
    result: list[tuple[str, Found]] = []
    for item in found:
        name = item.names()[level[id(item)]]
        while name.lower() in taken:  # several in one line
            stem, _, last = name.rpartition(".")
            name = f"{stem}.{int(last) + 1}" if last.isdigit() else f"{name}.2"
        taken.add(name.lower())
        result.append((name, item))
    return result
