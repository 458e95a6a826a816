"""Shell commands that need the Internet: they move to a step on the login node."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Any, Literal

from jupyter_hpc.batch.runtime.script.shell import expand

Kind = Literal["install", "download", "system", "other"]

_INSTALL_VERBS = {
    "pip": {"install", "uninstall", "download"},
    "conda": {"install", "create", "update", "upgrade", "env", "remove", "config"},
    "uv": {"pip", "add", "sync"},
    "poetry": {"add", "install"},
    "pipenv": {"install"},
    "npm": {"install", "i"},
    "jupyter": {"nbextension", "labextension", "serverextension"},
}
_SAME_AS = {"mamba": "conda", "micromamba": "conda", "yarn": "npm"}
_SYSTEM = frozenset({"apt", "apt-get", "aptitude", "yum", "dnf", "brew", "dpkg", "snap"})
_SYSTEM |= {"add-apt-repository", "apk", "update-alternatives"}
_DOWNLOADERS = frozenset(
    {"wget", "curl", "gdown", "axel", "aria2c", "youtube-dl", "yt-dlp", "azcopy", "scp", "sftp"}
)
_DOWNLOAD_VERBS = {
    "git": {"clone", "pull", "fetch", "submodule", "lfs"},
    "kaggle": {"datasets", "competitions", "kernels", "d", "c"},
    "aws": {"s3"},
    "gsutil": {"cp", "rsync", "-m"},
    "gcloud": {"storage"},
    "huggingface-cli": {"download", "login"},
    "hf": {"download", "auth"},
    "rclone": {"copy", "sync"},
    "dvc": {"pull", "get"},
    "wandb": {"login"},
}
_DOWNLOAD_MODULES = frozenset({"spacy", "nltk.downloader", "textblob.download_corpora", "gdown"})
_SKIPPED_WORDS = frozenset({"sudo", "time", "nohup", "yes", "|", "env", "nice", "-y"})

#: Options of pip that take the next word as their value.
_PIP_VALUES = frozenset(
    {"-i", "--index-url", "--extra-index-url", "-f", "--find-links", "-t", "--target", "-c"}
) | {"--constraint", "--prefix", "--root", "--src", "--cache-dir", "--proxy", "--timeout"}


@dataclass(frozen=True)
class Part:
    """One command of a shell line."""

    kind: Kind
    text: str
    #: What stands before it: `&&`, or `;` where it runs whatever became of the last one.
    joint: str = "&&"

    @property
    def sets_folder(self) -> bool:
        """Whether the commands after it run in another folder because of it."""
        return words(self.text)[:1] in (["cd"], ["mkdir"], ["pushd"])


def classify(command: str) -> list[Part]:
    """The commands of a shell line, split at `&&` and `;`, each with its kind."""
    return [Part(_kind(piece), piece, joint) for joint, piece in _pieces(command)]


def joined(parts: list[Part], left_out: list[Part]) -> str:
    """The commands as one line again, without those that run elsewhere."""
    text, joint = "", "&&"
    for part in parts:
        joint = ";" if part.joint == ";" else joint
        if part not in left_out:
            text += (("; " if joint == ";" else " && ") if text else "") + part.text
            joint = "&&"
    return text


def _pieces(command: str) -> list[tuple[str, str]]:
    if any(mark in command for mark in ("$(", "`", "<<", "(", "||", "for ", "if ", "while ")):
        return [("&&", command.strip())]
    pieces: list[tuple[str, str]] = []
    current, joint = "", "&&"
    quote = ""
    index = 0
    while index < len(command):
        char = command[index]
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == ";" or command.startswith("&&", index):
            pieces.append((joint, current))
            current, joint = "", ";" if char == ";" else "&&"
            index += len(joint)
            continue
        current += char
        index += 1
    return [(mark, text.strip()) for mark, text in (*pieces, (joint, current)) if text.strip()]


def words(command: str) -> list[str]:
    """The words of a command; what cannot be split stays one word."""
    try:
        return shlex.split(command, comments=True)
    except ValueError:
        return command.split()


def _kind(command: str) -> Kind:
    parts = words(command)
    while parts and (parts[0] in _SKIPPED_WORDS or re.match(r"[A-Za-z_]\w*=", parts[0])):
        parts = parts[1:]
    if not parts:
        return "other"
    program, rest = parts[0].rsplit("/", 1)[-1], parts[1:]
    if re.fullmatch(r"python[\d.]*|\{sys\.executable\}", program) or "sys.executable" in program:
        if rest[:1] == ["-m"] and len(rest) > 1:
            program, rest = rest[1], rest[2:]
            if program in _DOWNLOAD_MODULES:
                return "download"
        elif rest[:2] == ["setup.py", "install"] or rest[:2] == ["setup.py", "develop"]:
            return "install"
    program = re.sub(r"^pip[\d.]+$", "pip", program)
    program = _SAME_AS.get(program, program)
    verb = next((word for word in rest if not word.startswith("-")), "")
    if program in _INSTALL_VERBS and verb in _INSTALL_VERBS[program]:
        return "install"
    if program in _SYSTEM:
        return "system"
    if program in _DOWNLOADERS:
        return "download" if rest else "other"
    if program in _DOWNLOAD_VERBS and (verb in _DOWNLOAD_VERBS[program] or "-m" in rest[:1]):
        return "download"
    return "other"


def requirements(command: str) -> list[str]:
    """What a pip command installs, as requirement lines."""
    found: list[str] = []
    parts = iter(words(command))
    for word in parts:
        if word == "install":
            break
    for word in parts:
        if word in ("-r", "--requirement"):
            found.append(f"-r {next(parts, '')}".strip())
        elif word in ("-e", "--editable"):
            found.append(f"-e {next(parts, '')}".strip())
        elif word in _PIP_VALUES:
            next(parts, "")
        elif word in ("|", ">", ">>", "2>", "&>", "1>") or word.startswith(("2>", ">", "&>")):
            break
        elif not word.startswith("-") and "{" not in word and "$" not in word:
            found.append(word)
    return found


def resolved(command: str, constants: dict[str, Any], bound: frozenset[str]) -> str | None:
    """The command with the notebook's constants put in; None if a value is not known."""
    needed = {name.split(".")[0] for name in re.findall(r"(?<!\$)\$(\w+)", command)}
    braces = re.findall(r"\{([^{}]*)\}", command)
    if any("sys.executable" in expression for expression in braces):
        command = re.sub(r"\{\s*sys\.executable\s*\}", "python", command)
        braces = re.findall(r"\{([^{}]*)\}", command)
    if not braces and not needed & bound:
        return command.replace("$$", "$")
    done = expand(command, dict(constants))
    return done if done != command else None
