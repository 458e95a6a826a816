#!/usr/bin/env python3
"""Runs a notebook in a batch job and keeps what it has shown so far.

Usage: jupyter_hpc_notebook.py NOTEBOOK RESULT [--parameters FILE] [--report FILE]

Needs nbclient and a kernel for the notebook in the job's environment. RESULT is
written after every cell, once a minute, and on USR1 and TERM, always as a whole file.
What the cells print also goes to the log, and their images to figures/cell03_1.png.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import base64
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

#: Between two writes while a long cell runs.
SAVE_INTERVAL_SECONDS = 60.0


def log(message: str) -> None:
    print("[jupyter-hpc] " + message, file=sys.stderr, flush=True)


def read(path: str) -> Any:
    return json.loads(Path(path).read_text(encoding="utf-8"))


class Result:
    """The notebook on disk; each write replaces the whole file."""

    def __init__(self, notebook: Any, path: Path) -> None:
        self.notebook = notebook
        self.path = path
        self.saved_at = time.monotonic()

    def save(self) -> None:
        # The name of a file has 255 bytes, and a character up to four.
        draft = self.path.with_name(f".{self.path.name[:50]}.draft")
        try:
            draft.write_text(json.dumps(self.notebook, indent=1, default=str), encoding="utf-8")
            draft.replace(self.path)
        except OSError as error:
            log(f"the notebook was not saved: {error}")
        self.saved_at = time.monotonic()

    def save_figures(self, number: int) -> None:
        """The images of one cell as files."""
        count = 0
        folder = Path(os.environ.get("JUPYTER_HPC_OUTPUT") or self.path.parent) / "figures"
        for output in self.notebook["cells"][number - 1].get("outputs", []):
            data = output.get("data", {})
            for kind, suffix in (("image/png", "png"), ("image/jpeg", "jpg")):
                if kind in data:
                    count += 1
                    folder.mkdir(parents=True, exist_ok=True)
                    name = f"cell{number:02d}_{count}.{suffix}"
                    (folder / name).write_bytes(base64.b64decode(data[kind]))


def literal(value: Any, language: str) -> str:
    """A value in the words of the notebook's language."""
    if language.lower() in ("r", "julia"):
        words = {"r": ("TRUE", "FALSE", "NULL"), "julia": ("true", "false", "nothing")}
        yes, no, none = words[language.lower()]
        if value is None or isinstance(value, bool):
            return none if value is None else yes if value else no
        return json.dumps(value)
    return repr(value)


def default_is(kinds: Any, parameter: dict[str, Any]) -> bool:
    """Whether the notebook writes out a default of that kind; others are computed as it runs."""
    try:
        return isinstance(ast.literal_eval(parameter.get("default", "")), kinds)
    except (ValueError, SyntaxError):
        return False


def read_as_written(text: str) -> Any:
    """A value as Python would read it; anything else is text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text


def own_name(name: str, parameters: dict[str, Any]) -> str:
    """The parameter that a name means, also in another case if only one is like it."""
    alike = [own for own in parameters if own.lower() == name.lower()]
    return alike[0] if name not in parameters and len(alike) == 1 else name


def tagged_line(name: str, value: Any, parameter: dict[str, Any], language: str) -> str:
    """The line that sets a parameter after its default was set."""
    if language.lower() == "r":
        return f"{name} <- {literal(value, language)}"
    line = f"{name} = {literal(value, language)}"
    if (
        isinstance(value, str)
        and not default_is(object, parameter)
        and read_as_written(value) != value
    ):
        # Given as text: only the default, which has been computed by then, tells the type.
        line += f" if isinstance({name}, str) else {read_as_written(value)!r}"
    return line


def set_parameters(notebook: Any, values: dict[str, Any], parameters: dict[str, Any]) -> None:
    """Put values into the notebook: a cell after the tagged one, or where the name is set."""
    language = notebook.get("metadata", {}).get("language_info", {}).get("name", "python")
    tagged = [
        number
        for number, cell in enumerate(notebook["cells"])
        if "parameters" in (cell.get("metadata", {}).get("tags") or [])
    ]
    for name, value in values.items():
        log(f"parameter {name} = {value!r}")
    if tagged:
        lines = [
            tagged_line(*item, parameters.get(item[0], {}), language) for item in values.items()
        ]
        cell = notebook["cells"][tagged[-1]]
        cell["source"] = "".join(cell["source"]) + "\n# set for this run\n" + "\n".join(lines)
        return
    for name in values:
        if name not in parameters:
            raise SystemExit(f"The notebook has no parameter {name}.")
    # From the end of each line to its beginning, so that the columns stay true.
    last_first = sorted(values, key=lambda name: -parameters[name].get("column", 0))
    for name in last_first:
        parameter, value = parameters[name], values[name]
        cell = notebook["cells"][parameter["cell"] - 1]
        source = "".join(cell["source"])
        if parameter.get("length"):
            cell["source"] = with_literal(source, parameter, value)
        else:
            cell["source"] = with_value(source, name, repr(value))


def with_literal(source: str, parameter: dict[str, Any], value: Any) -> str:
    """The source of a cell with another literal at the place of a parameter."""
    lines = source.split("\n")
    row, start = parameter["line"] - 1, parameter["column"]
    end = start + parameter["length"]
    if row >= len(lines) or not re.fullmatch(r"[\w.+*/() -]+", lines[row][start:end]):
        name = parameter["name"]
        raise SystemExit(f"The cell that has {name} is another one; convert the notebook again.")
    text = repr(value + parameter["offset"] if parameter.get("offset") else value)
    lines[row] = lines[row][:start] + text + lines[row][end:]
    return "\n".join(lines)


def with_value(source: str, name: str, text: str) -> str:
    """The source of a cell with another value for one constant."""
    # Lines that only a notebook knows are hidden from the parser, so that positions stay true.
    plain = "\n".join(
        "#" + line[1:] if line.startswith(("%", "!")) else line for line in source.split("\n")
    )
    for node in ast.parse(plain).body:
        value: Any = None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                names = [getattr(item, "id", "") for item in target.elts]
                value = value.elts[names.index(name)] if name in names else None
            elif getattr(target, "id", "") != name:
                value = None
        elif isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == name:
            value = node.value
        if value is not None:
            lines = source.split("\n")
            first, last = value.lineno - 1, value.end_lineno - 1
            head = lines[first].encode()[: value.col_offset].decode()
            tail = lines[last].encode()[value.end_col_offset :].decode()
            lines[first : last + 1] = [head + text + tail]
            return "\n".join(lines)
    raise SystemExit(f"The cell that sets {name} cannot be changed; set it in the notebook.")


def client_class() -> Any:
    from nbclient import NotebookClient

    class Client(NotebookClient):
        """Shows what the cells print in the log as well."""

        def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
            content = msg.get("content", {})
            if msg["msg_type"] == "stream":
                stream = sys.stderr if content.get("name") == "stderr" else sys.stdout
                stream.write(content.get("text", ""))
                stream.flush()
            elif msg["msg_type"] in ("execute_result", "display_data"):
                print(content.get("data", {}).get("text/plain", ""), flush=True)
            return super().process_message(msg, cell, cell_index)

    return Client


def language_of(notebook: Any) -> str:
    metadata = notebook.get("metadata", {})
    spec = metadata.get("kernelspec", {})
    name = metadata.get("language_info", {}).get("name") or spec.get("language") or "python"
    return str(name).lower()


def kernel_of(notebook: Any) -> str:
    """The notebook's kernel, or Python's own where a Python notebook names one that is not here.

    Kernels are often called after an environment of another machine.
    """
    from jupyter_client.kernelspec import KernelSpecManager

    name = str(notebook.get("metadata", {}).get("kernelspec", {}).get("name", ""))
    if not name or name in KernelSpecManager().find_kernel_specs():
        return name
    if not language_of(notebook).startswith(("python", "ipython")):
        return name
    log(f"there is no kernel {name!r} here; the job's own Python runs the notebook")
    return "python3"


def kernel_settings(notebook: Any) -> Any:
    """Other users of the node reach a TCP port, but no socket in a private folder.

    Kernels of other languages know only TCP; their messages are signed.
    """
    from traitlets.config import Config

    if not language_of(notebook).startswith(("python", "ipython")):
        return Config()
    return Config({"KernelManager": {"transport": "ipc"}})


async def run(result: Result) -> int:
    """Run all cells; the exit code says how it went."""
    client = client_class()(
        result.notebook,
        timeout=None,
        kernel_name=kernel_of(result.notebook),
        config=kernel_settings(result.notebook),
        resources={"metadata": {"path": os.getcwd()}},
        on_cell_executed=lambda cell, cell_index, execute_reply: cell_done(result, cell_index),
        # nbclient installs handlers of its own when it starts the kernel; ours come after.
        on_notebook_start=lambda notebook: watch_signals(),
    )
    work = asyncio.ensure_future(client.async_execute())
    loop = asyncio.get_running_loop()
    ended: list[str] = []

    def end() -> None:
        ended.append("early")
        result.save()
        work.cancel()

    def watch_signals() -> None:
        loop.add_signal_handler(signal.SIGUSR1, time_is_short, result, client)
        loop.add_signal_handler(signal.SIGTERM, end)

    watch_signals()
    if os.environ.get("JUPYTER_HPC_TIME_BOX"):
        loop.call_later(float(os.environ["JUPYTER_HPC_TIME_BOX"]), end)
    saver = asyncio.ensure_future(save_now_and_then(result))
    try:
        await work
    except (Exception, asyncio.CancelledError) as error:
        if ended:
            log("ended before the last cell; the outputs so far are kept")
            return 128 + signal.SIGTERM
        log(str(error).strip().splitlines()[-1] if str(error).strip() else repr(error))
        return 1
    finally:
        saver.cancel()
        for number in range(1, len(result.notebook["cells"]) + 1):
            result.save_figures(number)
        result.save()
    return 0


def cell_done(result: Result, index: int) -> None:
    result.save_figures(index + 1)
    result.save()


def time_is_short(result: Result, client: Any) -> None:
    """Save; and tell the kernel, if what runs in it has asked to be told."""
    log("the time of this job is nearly over")
    result.save()
    pid = getattr(getattr(client.km, "provisioner", None), "pid", None)
    if isinstance(pid, int) and catches_usr1(pid):
        os.kill(pid, signal.SIGUSR1)


def catches_usr1(pid: int) -> bool:
    """Whether a process has a handler for USR1, as Lightning installs one; else it would die."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    except (OSError, StopIteration):
        return False
    return bool(int(caught.split()[1], 16) >> (signal.SIGUSR1 - 1) & 1)


async def save_now_and_then(result: Result) -> None:
    while True:
        await asyncio.sleep(SAVE_INTERVAL_SECONDS / 4)
        if time.monotonic() - result.saved_at > SAVE_INTERVAL_SECONDS:
            result.save()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("notebook")
    parser.add_argument("result")
    parser.add_argument("--parameters")
    parser.add_argument("--report")
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    try:
        import nbformat
    except ImportError:
        log("nbclient is missing here; install nbclient and ipykernel in the job's environment")
        return 1
    given = read(options.parameters) if options.parameters else {}
    known = read(options.report)["parameters"] if options.report else []
    parameters = {found["name"]: found for found in known}
    values = {own_name(name, parameters): value for name, value in given.items()}
    for setting in options.set:
        name, _, text = setting.partition("=")
        name = own_name(name, parameters)
        parameter = parameters.get(name, {})
        computed = parameter.get("kind") == "tagged" and not default_is(object, parameter)
        values[name] = text if computed or default_is(str, parameter) else read_as_written(text)
    for name, value in values.items():
        if isinstance(value, list) and default_is(tuple, parameters.get(name, {})):
            values[name] = tuple(value)  # JSON knows lists only
    notebook: Any = nbformat.read(options.notebook, as_version=4)  # type: ignore[no-untyped-call]
    for name in ("kernelspec", "language_info"):
        if not isinstance(notebook["metadata"].get(name, {}), dict):
            del notebook["metadata"][name]  # nbclient would stumble over it
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    set_parameters(notebook, values, parameters)
    result = Result(notebook, Path(options.result))
    result.save()
    # Short and on this node: a socket's path has 107 bytes, and a home may be on NFS.
    private = tempfile.mkdtemp(prefix="jh-", dir="/tmp")
    os.environ["JUPYTER_RUNTIME_DIR"] = private
    try:
        return asyncio.run(run(result))
    finally:
        shutil.rmtree(private, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
