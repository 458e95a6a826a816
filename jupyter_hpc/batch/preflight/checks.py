"""What the code needs, held against what was found: the findings in words."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Sequence

from jupyter_hpc.batch.job.model import BatchJob, Environment
from jupyter_hpc.batch.paths.written import WrittenPath
from jupyter_hpc.batch.preflight.findings import Finding, error, warning
from jupyter_hpc.batch.preflight.frameworks import TrainerCall
from jupyter_hpc.batch.preflight.imports import Needed
from jupyter_hpc.batch.preflight.inputs import Input
from jupyter_hpc.batch.preflight.probe import Answer, FailedLine
from jupyter_hpc.batch.preflight.variables import Variable
from jupyter_hpc.batch.runtime.job.patterns import lies_below
from jupyter_hpc.slurm.cost import Cost
from jupyter_hpc.text import printable

#: Modules that are installed under another name.
_DISTRIBUTIONS = {
    "cv2": "opencv-python",
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "yaml": "pyyaml",
    "bs4": "beautifulsoup4",
    "pytorch_lightning": "pytorch-lightning",
    "dateutil": "python-dateutil",
}
#: Modules that are there without a requirement of that name.
_WITHOUT_NAME = frozenset({"pip", "setuptools", "pkg_resources", "mpl_toolkits"})


def environment_findings(environment: Environment, answer: Answer) -> list[Finding]:
    """Lines, modules and conda environments that do not work, and a Python that is not there."""
    found = [_failed_line(environment, failed, answer) for failed in answer.failed]
    if answer.ended:
        found.append(
            error(
                "setup",
                "A line of the environment ends the shell, and with it the job.",
                "Take `exit` and `exec` out of [environment] setup.",
            )
        )
    if answer.conda == "none":
        found.append(
            error(
                "conda",
                f"There is no conda for the environment {environment.conda!r} on the cluster.",
                "Name its module with --module, or put it on the PATH there.",
            )
        )
    elif answer.conda == "unknown":
        names = ", ".join(printable(name, 60) for name in answer.conda_names)
        found.append(
            error(
                "conda",
                f"There is no conda environment {environment.conda!r} on the cluster.",
                f"There are: {names}." if names else "`conda env list` there names them.",
            )
        )
    if not answer.seen and not found:
        found.append(
            warning(
                "environment",
                f"The job's Python was not looked at: {printable(answer.unseen_because, 200)}.",
                "Its imports were not checked.",
            )
        )
    return found


def _failed_line(environment: Environment, failed: FailedLine, answer: Answer) -> Finding:
    line, code, said = failed.line, failed.code, failed.said
    because = f": {said}" if said else ""
    module = re.fullmatch(r"module load (.+)", line)
    name = module[1].strip("'") if module else ""
    if name in environment.modules:
        if re.search(r"\bmodule: (?:command )?not found", said):
            return error(
                "modules",
                f"{name!r} cannot be loaded: the cluster has no command module.",
                "Leave --module out, or write the line that makes it known into the profile: "
                "[environment] setup.",
            )
        near = ", ".join(printable(name, 60) for name in answer.near_modules)
        return error(
            "modules",
            f"There is no module {name!r} on the cluster{because}.",
            f"There are: {near}." if near else "`module avail` there lists them.",
        )
    return error(
        "setup",
        f"This line of the cluster's profile fails with code {code}: {line}{because}.",
        "Correct it under [environment] setup; it would end the job.",
    )


def import_findings(
    environment: Environment, needed: Iterable[Needed], answer: Answer
) -> list[Finding]:
    """Modules that the job's Python does not have, or that no requirement names."""
    if environment.build_from is not None:
        return _build_findings(needed, answer)
    missing = {each.module: each for each in needed if each.module in answer.missing}
    return [
        Finding(
            "error" if each.certain else "warning",
            "imports",
            f"{each.module} is not in the job's Python ({printable(answer.python, 200)}).",
            f"Install {distribution(each.module)} there, or choose another environment.",
            each.where,
        )
        for each in missing.values()
    ]


def _build_findings(needed: Iterable[Needed], answer: Answer) -> list[Finding]:
    found = [
        error(
            "wheels",
            f"There is no wheel of {name} on the cluster, so the environment cannot be built.",
            "Take another version or package, or put the wheel into a folder of PIP_FIND_LINKS.",
        )
        for name in answer.no_wheel
    ]
    if answer.requirements and not answer.wheels_known:
        found.append(
            warning(
                "wheels",
                "No folder with wheels was found on the cluster, so none was looked for.",
                "Name one in PIP_FIND_LINKS or pip.conf there; nodes have no Internet.",
            )
        )
    known = {*answer.requirements}
    for each in needed:
        # What the bare Python has besides is its standard library.
        if each.module not in answer.missing or each.module in _WITHOUT_NAME:
            continue
        if distribution(each.module) not in known and _plain(each.module) not in known:
            found.append(
                warning(
                    "imports",
                    f"{each.module} is imported, and the requirements do not name it.",
                    f"Add {distribution(each.module)}, unless another one brings it.",
                    each.where,
                )
            )
    return found


def distribution(module: str) -> str:
    """What to install for a module, as far as it is known."""
    return _DISTRIBUTIONS.get(module, _plain(module))


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def variable_findings(variables: Iterable[Variable], answer: Answer) -> list[Finding]:
    """Variables that are not set where the job is submitted from."""
    return [
        Finding(
            "error" if each.certain and each.secret else "warning",
            "secrets" if each.secret else "variables",
            f"The variable {each.name} is read, and it is not set on the cluster.",
            "Set it where you submit from, or in a file of your own that the environment reads."
            if each.secret
            else "Set it where you submit from, if the cluster does not set it in jobs.",
            each.where,
        )
        for each in variables
        if each.name in answer.unset
    ]


def input_findings(absent: Iterable[Input], unsent: Iterable[tuple[Input, str]]) -> list[Finding]:
    """Files that are read and not there, or here and not sent along."""
    found = [
        Finding(
            "error" if each.certain else "warning",
            "inputs",
            f"{printable(each.path, 200)} is read, and there is no such file.",
            "Correct the path, or bring the file there first.",
            each.where,
        )
        for each in absent
    ]
    return found + [
        Finding(
            "error" if each.certain else "warning",
            "inputs",
            f"{printable(each.path, 200)} is read, and is not sent to the cluster: {why}.",
            f"Send it with --stage-in {printable(each.path, 200)}, or name its path there.",
            each.where,
        )
        for each, why in unsent
    ]


def output_findings(
    job: BatchJob,
    runs: Iterable[Iterable[WrittenPath]],
    written: Iterable[WrittenPath],
    unknown: Iterable[WrittenPath],
) -> list[Finding]:
    """What is not kept with the run.

    `runs` have what each run of a sweep writes, `written` what all of them do; `unknown` are the
    places where the code changes to a folder that nobody knows before.
    """
    shared = _shared(runs, job.folder.levels if job.folder is not None else 0)
    found = [
        _output_warning(
            each,
            f"Several of the {job.runs} runs write {printable(each.path, 200)}; what the "
            "last one writes stays.",
        )
        for each in shared.values()
    ]
    if job.folder is None:
        return found
    source = os.path.realpath(job.folder.source)
    found += [
        _output_warning(
            each,
            f"{printable(each.path, 200)} is written by its full path, so it lands in the "
            "notebook's folder and not in that of the run.",
        )
        for each in written
        if each.path.startswith(("/", "~"))
        and each.path not in shared
        and each.effect != "folder"
        and lies_below(os.path.realpath(os.path.expanduser(each.path)), source)
    ]
    return found + [
        _output_warning(
            each,
            f"{each.by} leads to a folder that is not known before the run; what is written "
            "there is not kept with the run.",
        )
        for each in unknown
    ]


def _shared(runs: Iterable[Iterable[WrittenPath]], levels: int) -> dict[str, WrittenPath]:
    """Files that several runs of a sweep would overwrite: none that the folder of a run keeps.

    So many `levels` around the notebook's folder are in that of the run as well.
    """
    found: dict[str, WrittenPath] = {}
    seen: set[str] = set()
    for written in runs:
        outside = [each for each in written if _leads_out(each.path, levels)]
        for each in outside:
            if each.path in seen and each.exact and each.effect != "folder":
                found[each.path] = each
        seen.update(each.path for each in outside)
    return found


def _leads_out(path: str, levels: int) -> bool:
    up = posixpath.normpath(path).split("/").count("..")
    return path.startswith(("/", "~")) or up > levels


def _output_warning(written: WrittenPath, message: str) -> Finding:
    hint = "Write it relative to the working folder, which each run has for itself."
    return warning("outputs", message, hint, f"cell {written.cell}" if written.cell else "")


def trainer_findings(job: BatchJob, calls: Sequence[TrainerCall]) -> list[Finding]:
    """Numbers of Lightning's Trainer that are not those of the job: it refuses, or waits."""
    per_node, nodes = job.request.tasks_per_node or job.tasks, job.nodes
    found: list[Finding] = []
    for call in calls:
        if call.devices not in (None, -1, per_node):
            found.append(
                error(
                    "tasks",
                    f"Trainer(devices={call.devices}), and the job has {per_node} "
                    f"task{'' if per_node == 1 else 's'} on each node.",
                    f"Ask for --tasks-per-node {call.devices}, or leave devices out.",
                )
            )
        if (call.nodes or 1) != nodes:
            found.append(
                error(
                    "tasks",
                    f"Trainer(num_nodes={call.nodes or 1}), and the job has {nodes} nodes.",
                    f"Give it num_nodes={nodes}, or ask for --nodes {call.nodes or 1}.",
                )
            )
    return found


def budget_findings(
    cost: Cost | None, remaining: float | None, unit: str, warn_below: float | None
) -> list[Finding]:
    """A budget that this job may use up, or that is low anyway."""
    if remaining is None:
        return []
    left = str(Cost(remaining, unit))
    if cost is not None and cost.amount > remaining:
        return [
            warning(
                "budget",
                f"The job may cost {cost}, and {left} are left.",
                "Ask for less time or fewer GPUs, or the site may hold or end it.",
            )
        ]
    if warn_below is not None and remaining < warn_below:
        limit = str(Cost(warn_below, unit))
        return [warning("budget", f"The budget has {left} left, less than {limit}.")]
    return []
