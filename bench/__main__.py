"""Run the measurements: all of them, or those whose names are given.

Every other module of this package is one measurement with a function `main()`.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys

import bench


def main(wanted: list[str]) -> int:
    names = [module.name for module in pkgutil.iter_modules(bench.__path__)]
    names = [name for name in names if not name.startswith("_")]
    unknown = set(wanted) - set(names)
    if unknown:
        print(f"There is no measurement {', '.join(sorted(unknown))}; there are: {' '.join(names)}")
        return 2
    for name in wanted or names:
        print(f"== {name}")
        importlib.import_module(f"bench.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
