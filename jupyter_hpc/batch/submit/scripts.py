"""Python and shell scripts as the steps of one job: read, check, freeze."""

from __future__ import annotations

import ast
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from jupyter_hpc.batch.convert.imports import top_level_modules
from jupyter_hpc.batch.convert.reading import companion_bytes
from jupyter_hpc.batch.convert.report import Conversion, Parameter
from jupyter_hpc.batch.job.files import REPORT, encoded, stem
from jupyter_hpc.batch.job.layout import laid_out
from jupyter_hpc.batch.job.model import Flag, Step
from jupyter_hpc.batch.job.script import script_text
from jupyter_hpc.batch.job.steps import SCRIPTS, arguments_file
from jupyter_hpc.batch.job.sweep import there_are
from jupyter_hpc.batch.paths.shell import shell_paths
from jupyter_hpc.batch.paths.values import UNKNOWN
from jupyter_hpc.batch.paths.written import WrittenPath, written_paths
from jupyter_hpc.batch.preflight.code import Source, module_sources, script_source, trees
from jupyter_hpc.batch.preflight.frameworks import is_distributed
from jupyter_hpc.batch.preflight.preflight import Subject
from jupyter_hpc.batch.runtime import SIDECAR_FILE, shipped_source
from jupyter_hpc.batch.runtime.job.notify import NOTIFY_FILE
from jupyter_hpc.batch.submit.folders import CodeOfRun
from jupyter_hpc.batch.submit.looking import looked_over
from jupyter_hpc.batch.submit.modules import sibling_modules
from jupyter_hpc.batch.submit.snapshot import as_json, job_texts, notify_file
from jupyter_hpc.batch.submit.submit import (
    Prepared,
    SubmitOptions,
    batch_job,
    in_its_folder,
    prepared_job,
)
from jupyter_hpc.batch.submit.uploads import named_working_files, requirements_of
from jupyter_hpc.errors import UsageError
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.client import SlurmClient

_KINDS: dict[str, Literal["python", "shell"]] = {
    ".py": "python",
    ".sh": "shell",
    ".bash": "shell",
}

#: `"--learning-rate"` in Python, `--learning-rate)` in the cases of a shell script.
_FLAG = re.compile(r"""["']?(--[A-Za-z][\w-]*)(?:["']|=?\)|=\*\))""")


#: Code that has a handler for USR1, of its own or by its framework.
_HEARS = re.compile(r"USR1|\b(?:lightning|pytorch_lightning|submitit)\b")


@dataclass(frozen=True)
class Script:
    """One script as it was read."""

    file: Path
    step: Step
    text: str
    source: Source | None

    @property
    def imports(self) -> set[str]:
        return top_level_modules(self.source.tree) if self.source is not None else set()


def is_script(word: str) -> bool:
    """Whether a word of the command line is a script, perhaps with arguments of its own."""
    return _split(word)[0].suffix in _KINDS


@dataclass(frozen=True)
class ScriptsDraft:
    """Scripts as they were read, and the folder in which they run."""

    base: Path
    scripts: tuple[Script, ...]
    conversion: Conversion

    @property
    def text(self) -> str:
        """All of them in their order, for a person who reads."""
        return "\n".join(f"# ---- {each.step.path}\n{each.text}" for each in self.scripts)


def read_scripts(words: Sequence[str], base: Path | None = None) -> ScriptsDraft:
    """Read them; relative paths begin where we are, and so does the job unless `base` is given.

    Raises UsageError (exit 2).
    """
    files = [_split(word)[0] for word in words]
    base = _base(files) if base is None else _above(files, base)
    scripts = tuple(_read(word, base) for word in words)
    return ScriptsDraft(base, scripts, _conversion(scripts))


async def prepare_scripts(
    read: ScriptsDraft, options: SubmitOptions, runner: Runner, client: SlurmClient | None
) -> Prepared:
    """Check; nothing is written. Raises UsageError (exit 2) or SubmitRejected (exit 4)."""
    base, scripts, conversion = read.base, read.scripts, read.conversion
    settings = _named(scripts, options.settings)
    options = replace(options, mode="script", sweep=_named(scripts, options.sweep))
    modules = {
        str(script.file.parent.relative_to(base) / path): file
        for script in scripts
        for path, file in sibling_modules(script.file.parent, script.imports).items()
    }
    sources = tuple(script.source for script in scripts if script.source is not None)
    sources += module_sources(modules)
    request = laid_out(
        options.request,
        distributed=is_distributed(trees(sources)),
        node_cpus=options.node_cpus,
    )
    options = replace(options, request=request)
    first = base / scripts[0].file.name
    job, uploads, packings = await batch_job(first, conversion, settings, options, runner)
    job = replace(job, steps=tuple(script.step for script in scripts))
    if options.upload:
        uploads |= named_working_files([script.text for script in scripts], base)
    if options.notify is not None:
        uploads[NOTIFY_FILE] = notify_file(options.notify, first.name)
    code = _code(scripts, modules.values(), {**_lists(settings), **options.sweep})
    job, overwritten = in_its_folder(job, code, base, options)
    texts = {
        f"{stem(first.name)}.sbatch": script_text(job),
        SIDECAR_FILE: shipped_source(SIDECAR_FILE),
        REPORT: as_json(conversion.to_json()),
        **{f"{SCRIPTS}/{script.step.path}": script.text for script in scripts},
        **job_texts(job),
    }
    for number, values in enumerate(job.sweep, 1):
        given = {**job.parameters, **values}
        texts[f"parameters/{number}.sh"] = arguments_file(job.steps, given)
    files = {path: encoded(text) for path, text in texts.items()}
    files |= {f"{SCRIPTS}/{path}": companion_bytes(file) for path, file in modules.items()}
    prepared = prepared_job(conversion, job, {**files, **uploads}, packings, options, overwritten)
    own = {path.rpartition("/")[2].removesuffix(".py") for path in modules}
    own |= {part for path in modules for part in path.split("/")}
    own |= {script.file.stem for script in scripts}
    subject = Subject(
        job,
        sources,
        conversion.script,
        frozenset(own),
        base,
        prepared.files if options.upload else None,
        requirements_of(uploads),
    )
    return await looked_over(prepared, subject, options, runner, client)


def _split(word: str) -> tuple[Path, list[str]]:
    """`"train.py --epochs 3"` as the script and its arguments; a file may have blanks, too."""
    if Path(word).is_file():
        return Path(word), []
    try:
        first, *rest = shlex.split(word)
    except ValueError as error:
        if Path(word.split()[0]).suffix in _KINDS:
            raise UsageError(
                f"The arguments of {word!r} cannot be told apart: a quote in them is not closed.",
                "Quote the whole for your shell: \"train.py --name 'a b'\".",
            ) from error
        return Path(word), []
    return Path(first), rest


def _base(files: Sequence[Path]) -> Path:
    """The folder in which we are, if all scripts are below it; else that of the first."""
    here = Path.cwd()
    if all(file.resolve().is_relative_to(here.resolve()) for file in files):
        return here.resolve()
    return _above(files, files[0].resolve().parent)


def _above(files: Sequence[Path], folder: Path) -> Path:
    """The folder, if all files are below it."""
    outside = next((file for file in files if not file.resolve().is_relative_to(folder)), None)
    if outside is not None:
        raise UsageError(
            f"{str(outside)!r} is not in the folder of {files[0].name}.",
            "Submit scripts of one folder, from that folder.",
        )
    return folder


def _read(word: str, base: Path) -> Script:
    file, own = _split(word)
    kind = _KINDS.get(file.suffix)
    if kind is None:
        raise UsageError(
            f"{str(file)!r} is no script.",
            "The steps of a job are Python (.py) and shell scripts (.sh); a notebook runs alone.",
        )
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"There is no script {str(file)!r}.", "Check the path.") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise UsageError(
            f"The script {str(file)!r} cannot be read: {problem}.", "It has to be a text in UTF-8."
        ) from problem
    source = script_source(file.name, text) if kind == "python" else None
    if kind == "python" and source is None:
        _raise_mistake(file, text)
    path = os.path.relpath(file.resolve(), base)
    hears = bool(_HEARS.search(text))
    step = Step(path, kind, tuple(own), flags_of(text, source), hears)
    return Script(file.resolve(), step, text, source)


def _raise_mistake(file: Path, text: str) -> None:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError) as mistake:
        line = getattr(mistake, "lineno", None)
        where = f", line {line}" if line else ""
        raise UsageError(
            f"{file.name}{where} is not valid Python: {getattr(mistake, 'msg', mistake)}.",
            "Correct it first.",
        ) from mistake


def flags_of(text: str, source: Source | None) -> dict[str, Flag]:
    """The options that a script takes, by the name of the parameter."""
    switches: set[str] = set()
    for node in ast.walk(source.tree) if source is not None else ():
        if isinstance(node, ast.Call) and any(
            word.arg in ("action", "is_flag")
            and isinstance(word.value, ast.Constant)
            and word.value.value in ("store_true", True)
            for word in node.keywords
        ):
            switches |= {
                each.value
                for each in node.args
                if isinstance(each, ast.Constant) and isinstance(each.value, str)
            }
    return {
        word.lstrip("-").replace("-", "_"): Flag(word, word in switches)
        for word in dict.fromkeys(_FLAG.findall(text))
    }


def _named(scripts: Sequence[Script], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values by the names of the options; UsageError for one that no script takes."""
    known = {name: None for script in scripts for name in script.step.flags}
    found: dict[str, Any] = {}
    for name, value in values.items():
        plain = name.lstrip("-").replace("-", "_")
        if plain not in known:
            there = there_are([*known]) if known else "Write it behind the script, in quotes."
            raise UsageError(f"No script takes the option --{plain}.", there)
        found[plain] = value
    return found


def _conversion(scripts: Sequence[Script]) -> Conversion:
    """The report of a job whose code is left as it is."""
    python = [script for script in scripts if script.source is not None]
    names = dict.fromkeys(name for script in scripts for name in script.step.flags)
    return Conversion(
        scripts[0].file.name,
        "\n".join(script.text for script in python),
        parameters=tuple(Parameter(name, "constant", 0, 0) for name in names),
        imports=tuple(sorted({name for script in python for name in script.imports})),
    )


def _code(
    scripts: Sequence[Script], modules: Iterable[Path], values: Mapping[str, Sequence[Any]]
) -> CodeOfRun:
    """All code of the run, and what it is seen to write."""
    texts = [script.text for script in scripts if script.step.kind == "python"]
    for module in modules:
        if module.suffix == ".py":
            texts.append(module.read_text(encoding="utf-8", errors="replace"))
    written = [path for text in texts for path in written_paths(text, values)]
    for script in scripts:
        if script.step.kind == "shell":
            for number, line in enumerate(script.text.splitlines(), 1):
                written += [
                    WrittenPath(path, effect, "the shell", 0, number, adds)
                    for path, effect, adds in shell_paths(line, lambda word: [UNKNOWN])
                ]
    return CodeOfRun(tuple(texts), tuple(written))


def _lists(values: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {name: [value] for name, value in values.items()}
