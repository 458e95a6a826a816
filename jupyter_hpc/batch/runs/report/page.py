"""A report as one page of HTML that needs nothing else: no network, no script."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any

from jupyter_hpc.batch.runs.report.chart import Line, chart, number
from jupyter_hpc.batch.runs.report.gathering import Report, ReportedRun, best_of
from jupyter_hpc.metrics import less_is_better
from jupyter_hpc.redaction import Redactor
from jupyter_hpc.slurm.efficiency import Ratio, gpus_word
from jupyter_hpc.slurm.models import FinishedJob
from jupyter_hpc.text import data_size, duration, memory_size, printable, printable_lines

#: By this a report is known as one, and may be replaced by a newer one.
MARK = '<meta name="generator" content="jupyter-hpc report">'
#: More runs are not drawn over each other, and of a sweep so many figures of each run are shown.
_MAX_LINES, _MAX_FIGURES_OF_EACH = 24, 4
#: So many of the last lines of a log are shown.
_MAX_LOG_LINES = 60

_MIB = 1024 * 1024


def page(report: Report) -> str:
    """The page."""
    title = f"{_name(report)}, job {report.job_id}"
    style = resources.files(__package__).joinpath("report.css").read_text("utf-8")
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    parts = [
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>",
        f'{MARK}<meta http-equiv="Content-Security-Policy" content="{policy}">',
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main>",
        f"<h1>{escape(_name(report))} <small>job {escape(report.job_id)}</small></h1>",
        _states(report),
        _ending(report),
        _section("In short", _facts(report)),
        _section("What to ask for next time", _advice(report)),
        _section("Runs, the best first" if report.decided_by else "Runs", _runs(report)),
        _section("Curves", _curves(report)),
        _section("GPUs", _gpus(report)),
        _section("Figures", _figures(report)),
        _section("Parameters", _parameters(report)),
        _section("Environment", _environment(report)),
        _section("Script", _folded("The batch script as it was submitted", report.script)),
        _section("Log", "".join(_log(each) for each in report.runs)),
        f"<footer>jupyter-hpc {escape(report.version)}, {_clock(report.made)}. Secrets are taken "
        "out of script and log as far as they can be known.</footer></main></body></html>\n",
    ]
    return "".join(parts)


def _name(report: Report) -> str:
    if report.submit is not None:
        return printable(report.submit.notebook, 200) or "A run"
    return printable(report.record.name, 200) if report.record else "A job"


def _section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>" if content else ""


def _states(report: Report) -> str:
    states = [each.run.state for each in report.runs]
    if not states and report.record is not None:
        states = [report.record.state.lower()]
    counts = {state: states.count(state) for state in states}
    words = (f"{count} {state}" if len(states) > 1 else state for state, count in counts.items())
    badges = "".join(
        f"<span class='state {escape(state).replace(' ', '-')}'>{escape(word)}</span>"
        for state, word in zip(counts, words, strict=True)
    )
    return f"<p class='states'>{badges}</p>"


def _ending(report: Report) -> str:
    if not report.ending:
        return ""
    of_one = len(report.runs) > 1 and any(each.run.state == "failed" for each in report.runs)
    words = "Of the first run that failed: " * of_one + report.ending
    return f"<p>{escape(printable(words))}</p>"


def _facts(report: Report) -> str:
    facts = dict(_times(report))
    if (record := report.record) is not None:
        facts |= _place(record)
    for name, ratio in _ratios(report):
        if ratio is not None:
            facts[name] = f"{ratio.used} of {ratio.requested} ({number(ratio.percent)} %)"
    if report.measured_by:
        facts["Measured by"] = report.measured_by
    used = [each.use for each in report.runs if each.use is not None]
    if used and (energy := sum(each.energy_wh or 0 for each in used)):
        facts["Energy of the GPUs"] = f"{energy / 1000:.2f} kWh"
    if memory := [(each.memory_mib, each.memory_total_mib) for each in used if each.memory_mib]:
        most, total = max(memory)
        facts["GPU memory, at most"] = f"{memory_size(most)} of {memory_size(total or 0)}"
    if len(report.runs) == 1 and report.runs[0].run.cost:
        facts["Cost"] = report.runs[0].run.cost
    if report.submit is not None:
        facts |= _code(report.submit.code)
        facts["Run folder"] = report.submit.run_dir
    rows = (
        f"<dt>{escape(name)}</dt><dd>{escape(printable(value))}</dd>"
        for name, value in facts.items()
    )
    return f"<dl>{''.join(rows)}</dl>"


def _times(report: Report) -> Iterable[tuple[str, str]]:
    record = report.record
    if record is not None and record.submitted and record.started:
        yield "Waited", duration(max(0, record.started - record.submitted))
    seconds = [each.run.seconds for each in report.runs if each.run.seconds]
    if not seconds and record is not None and record.elapsed:
        seconds = [record.elapsed]
    if seconds:
        yield "Ran", duration(sum(seconds)) + (" together" if len(seconds) > 1 else "")
    for each in report.runs:
        if each.run.epochs and each.run.seconds and len(report.runs) == 1:
            yield "Each epoch", f"{each.run.seconds / each.run.epochs:.3g} s"
    for name, when in (("Started", "started"), ("Ended", "ended")):
        if record is not None and (value := getattr(record, when)):
            yield name, _clock(value)


def _place(record: FinishedJob) -> dict[str, str]:
    gpus = (
        f", {record.gpus} {gpus_word(record.gpus)} {record.gpu_type}".rstrip()
        if record.gpus
        else ""
    )
    memory = f", {memory_size(record.memory_mb)}" if record.memory_mb else ""
    return {
        "Where": f"{record.nodes or 'no node'}, partition {record.partition}",
        "Asked for": f"{record.cpus} CPUs{memory}{gpus}",
    }


def _code(code: Mapping[str, Any]) -> dict[str, str]:
    if not code.get("commit"):
        return {}
    changed = code.get("changed")
    words = ", with changes that were not committed" if changed else ""
    unknown = ", perhaps with changes: git did not tell in time" if changed is None else ""
    return {"Git commit": f"{code['commit']}{words}{unknown}"}


def _ratios(report: Report) -> Iterable[tuple[str, Ratio | None]]:
    found = report.efficiency
    if found is not None:
        yield from (
            ("CPUs used", found.cpu),
            ("Memory used", found.memory),
            ("GPU load", found.gpu),
            ("Time used", found.time),
        )


def _advice(report: Report) -> str:
    items = "".join(
        f"<li>{escape(each.message)}"
        + (f" <code>{escape(each.line)}</code>" if each.line else "")
        + "</li>"
        for each in report.advice
    )
    of = ""
    if len(report.runs) > 1 and report.record is not None:
        of = f"<p>Of run {escape(report.record.id)}, the longest:</p>"
    return f"{of}<ul>{items}</ul>" if items else ""


def _runs(report: Report) -> str:
    if len(report.runs) < 2 or report.submit is None:
        return ""
    swept = report.submit.swept
    metrics = list(dict.fromkeys(name for each in report.runs for name in each.run.metrics))[:6]
    metrics.sort(key=lambda name: name != report.decided_by)
    way = "least" if less_is_better(report.decided_by) else "most"
    heads = [
        *("run", *swept, "state"),
        *(f"{name} ({way})" if name == report.decided_by else name for name in metrics),
        *("time", "GPU", "cost"),
    ]
    rows = []
    for each in report.runs:
        run = each.run
        values = [
            best_of(each, name) if name == report.decided_by else run.metrics.get(name)
            for name in metrics
        ]
        rows.append(
            [
                run.task,
                *(_value(run.parameters.get(name)) for name in swept),
                run.state,
                *("" if value is None else number(value) for value in values),
                duration(run.seconds) if run.seconds else "",
                "" if run.gpu_load is None else f"{run.gpu_load:.0f} %",
                run.cost,
            ]
        )
    return _table(heads, rows)


def _curves(report: Report) -> str:
    names = list(dict.fromkeys(name for each in report.runs for name in each.curves))
    names.sort(key=lambda name: name != report.decided_by)
    many = len(report.runs) > 1
    charts = []
    for name in names:
        drawn = [each for each in report.runs if name in each.curves][:_MAX_LINES]
        lines = [
            Line(_label(each, report) if many else "", _pairs(each.curves[name])) for each in drawn
        ]
        charts.append(
            chart(name, drawn[0].x if drawn[0].x != "line" else "lines of the log", lines)
        )
    return "".join(charts)


def _pairs(points: Iterable[Sequence[float]]) -> list[tuple[float, float | None]]:
    return [(x, y) for x, y in points]


def _label(each: ReportedRun, report: Report) -> str:
    swept = report.submit.swept if report.submit is not None else ()
    told = ", ".join(f"{name} {_value(each.run.parameters.get(name))}" for name in swept)
    return printable(f"{each.run.task}: {told}" if told else each.run.task, 80)


def _gpus(report: Report) -> str:
    if len(report.runs) != 1 or (view := report.runs[0].gpus) is None or not view.times:
        return ""
    began = view.times[0]
    minutes = [(time - began) / 60 for time in view.times]

    def lines(quantity: str, scale: float = 1.0) -> list[Line]:
        return [
            Line(
                printable(f"{gpu.id} {gpu.name}", 80),
                [
                    (x, None if y is None else y / scale)
                    for x, y in zip(minutes, getattr(gpu, quantity), strict=True)
                ],
            )
            for gpu in view.gpus
        ]

    return "".join(
        (
            chart("Load, %", "min", lines("load"), floor=0, top=100),
            chart("Memory, GB", "min", lines("memory_used", 1024 * _MIB), floor=0),
            chart("Power, W", "min", lines("power"), floor=0),
        )
    )


def _figures(report: Report) -> str:
    many = len(report.runs) > 1
    shown = []
    for each in report.runs:
        pictures = each.pictures[:_MAX_FIGURES_OF_EACH] if many else each.pictures
        for picture in pictures:
            label = f"{_label(each, report)} · {picture.name}" if many else picture.name
            name = escape(printable(label, 120))
            if picture.data is None:
                size = data_size(picture.size)
                shown.append(
                    f"<figure class='figure'><figcaption>{name}: {size}, not in this page, "
                    "in the run folder</figcaption></figure>"
                )
                continue
            kind, data = escape(picture.kind), escape(picture.data)
            image = f"<img alt='{name}' src='data:{kind};base64,{data}'>"
            shown.append(f"<figure class='figure'>{image}<figcaption>{name}</figcaption></figure>")
    return f"<div class='figures'>{''.join(shown)}</div>" if shown else ""


def _parameters(report: Report) -> str:
    if len(report.runs) != 1 or not report.runs[0].run.parameters:
        return ""
    rows = [[name, _value(value)] for name, value in report.runs[0].run.parameters.items()]
    return _table(["name", "value"], rows)


def _environment(report: Report) -> str:
    found = report.submit.environment if report.submit is not None else {}
    packages = found.get("packages")
    rows = [["Python", str(found["python"])]] if found.get("python") else []
    rows += [[name, str(version)] for name, version in dict(packages or {}).items()]
    rows += [["module", str(name)] for name in found.get("modules") or ()]
    table = _table(["as it was at the submit", ""], rows) if rows else ""
    return table + "".join(_installed(each, report) for each in report.environments)


def _installed(found: Mapping[str, Any], report: Report) -> str:
    """What a job found installed, as `pip freeze` lists it."""
    packages, modules = found.get("packages"), found.get("modules")
    lines = [f"# Python {found.get('python', '')}, {found.get('executable', '')}"]
    if isinstance(packages, Mapping):
        lines += [f"{name}=={version}" for name, version in packages.items()]
    if isinstance(modules, list):
        lines += [f"# module {name}" for name in modules]
    runs = ", ".join(str(task) for task in found.get("runs") or ())
    of = f" of run {runs}" if len(report.environments) > 1 else ""
    return _folded(f"All that was installed when the job began{of}", "\n".join(lines))


def _log(each: ReportedRun) -> str:
    lines = each.log.splitlines()[-_MAX_LOG_LINES:]
    title = "The last lines" + (f" of run {each.run.task}" if each.run.task else "")
    return _folded(title, "\n".join(lines))


def _folded(title: str, text: str) -> str:
    if not text.strip():
        return ""
    shown = escape(printable_lines(Redactor()(text), 300_000))
    return f"<details><summary>{escape(title)}</summary><pre>{shown}</pre></details>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th scope='col'>{escape(printable(name, 80))}</th>" for name in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(printable(cell, 200))}</td>' for cell in row)}</tr>"
        for row in rows
    )
    return f"<div class='wide'><table><tr>{head}</tr>{body}</table></div>"


def _value(value: Any) -> str:
    if isinstance(value, (list, Mapping)):
        return str(value)
    return "" if value is None else str(value)


def _clock(value: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(value))
