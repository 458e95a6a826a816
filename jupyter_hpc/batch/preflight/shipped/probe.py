"""Looks at the job's Python from inside of it: which modules it has, which files are there.

Standard library only, Python 3.7 or newer. The question is one JSON object in the first
argument, the answer another one on stdout.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from typing import Any

sys.path = [entry for entry in sys.path if entry not in ("", os.getcwd())]


def has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError, AttributeError):
        return module in sys.modules


def versions(distributions: list[str]) -> dict[str, str]:
    """The installed ones; none where Python is too old to tell."""
    found: dict[str, str] = {}
    for name in distributions:
        try:
            from importlib import metadata  # since 3.8

            version: str | None = metadata.version(name)
        except (ImportError, OSError, ValueError, KeyError, TypeError):
            continue  # not installed under that name, or its folder is damaged
        if version:
            found[name] = version
    return found


def state(path: str) -> bool | None:
    """Whether a path is there; None if it is of a disk that only the nodes have."""
    full = os.path.expandvars(os.path.expanduser(path))
    if os.path.exists(full):
        return True
    if not full.startswith("/") or "$" in full:
        return None
    return False if os.path.isdir("/" + full.split("/")[1]) else None


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def wheel_folders() -> list[str]:
    """Where pip looks for files: the variable, and the find-links of its settings."""
    import configparser

    folders = os.environ.get("PIP_FIND_LINKS", "").split()
    files = [os.environ.get("PIP_CONFIG_FILE", ""), "/etc/pip.conf"]
    files += [os.path.expanduser(name) for name in ("~/.pip/pip.conf", "~/.config/pip/pip.conf")]
    files.append(os.path.join(sys.prefix, "pip.conf"))
    for name in files:
        settings = configparser.RawConfigParser()
        try:
            settings.read([name] if name else [])
        except (configparser.Error, OSError, UnicodeDecodeError):
            continue
        for section in ("global", "install"):
            if settings.has_option(section, "find-links"):
                folders += settings.get(section, "find-links").split()
    return folders


def wheels(folders: list[str]) -> set[str] | None:
    """The names of all distributions in the folders; None where no folder can be read."""
    found: set[str] = set()
    read = False
    for folder in folders:
        try:
            names = os.listdir(os.path.expandvars(re.sub("^file://", "", folder)))
        except OSError:
            continue
        read = True
        found.update(plain(re.split(r"-\d", name)[0]) for name in names)
    return found if read else None


def site_wheels(names: list[str]) -> set[str] | None:
    """What `avail_wheels` lists of these, where the site has it; None elsewhere."""
    program = shutil.which("avail_wheels")
    if program is None or not names:
        return None
    asked = [program, *names]
    try:
        done = subprocess.run(asked, stdout=subprocess.PIPE, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return {plain(line.split()[0]) for line in done.stdout.splitlines() if line.split()}


def requirements(question: dict[str, Any]) -> list[str]:
    text = question.get("requirements")
    if text is None:
        try:
            with open(question["requirements_file"]) as file:
                text = file.read()
        except (OSError, UnicodeDecodeError):
            return []
    found = re.findall(r"^[ \t]*([A-Za-z0-9][\w.-]*)", text, re.M)
    return [plain(name) for name in found]


def main() -> None:
    question = json.loads(sys.argv[1])
    answer: dict[str, Any] = {
        "python": sys.executable,
        "version": ".".join(map(str, sys.version_info[:2])),
        "missing": [module for module in question["modules"] if not has(module)],
        "paths": {path: state(path) for path in question["paths"]},
        "versions": versions(question["distributions"]),
        "unset": [name for name in question["variables"] if not os.environ.get(name)],
    }
    if question["build"]:
        wanted = requirements(question)
        # pip in the job gets those of the site and those of all folders.
        known = (site_wheels(wanted), wheels(wheel_folders() + question["wheels"]))
        found = [each for each in known if each is not None]
        there = set().union(*found) if found else None
        answer["requirements"] = wanted
        answer["wheels_known"] = there is not None
        answer["no_wheel"] = [name for name in wanted if there is not None and name not in there]
    print(json.dumps(answer))


main()
