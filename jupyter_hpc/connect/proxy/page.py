"""The page that is shown while JupyterLab is not there: what happens, and why.

`view` turns the session's status into the few texts that the page shows; the page asks for
them again every second and, once JupyterLab answers, loads its own address anew: in the same
tab, the same URL is JupyterLab then. No resource comes from elsewhere. All values are put in
as text, by html.escape here and by textContent there.
"""

from __future__ import annotations

import html
import json
import secrets
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_hpc.text import printable

_STATES = {
    "starting": "Starting",
    "authenticating": "Logging in",
    "pending": "Waiting in the queue",
    "running": "Starting JupyterLab",
    "ready": "Ready",
    "reconnecting": "Reconnecting",
    "ended": "The session has ended",
    "failed": "The session could not be opened",
}

#: What is said before the time since the last change of state.
_SINCE = {
    "pending": "Waiting for",
    "reconnecting": "Interrupted for",
    "ended": "Ended",
    "failed": "Failed",
}


@dataclass(frozen=True)
class Button:
    """Something that the page offers: in some states, or while a question is open."""

    label: str
    states: tuple[str, ...] = ()
    question: str = ""  # the kind of question that it answers
    confirm: tuple[str, ...] = ()  # what is asked before it is done, yes, no
    near_limit: str = ""  # offered before the time limit; the part of the status that says its cost


#: action -> its button
_BUTTONS = {
    "start": Button("Start again", question="again"),
    "login": Button("Log in again", question="login"),
    "try": Button("Try now", states=("paused",)),
    "stop": Button(
        "Cancel the job",
        states=("pending",),
        confirm=("It loses its place in the queue.", "Yes, cancel it", "Keep it"),
    ),
    "renew": Button("Renew", near_limit="renewal", confirm=("Yes, renew", "Not now")),
}

#: So long before the time limit the page offers what can be done about it.
_NEAR_SECONDS = 1800.0

#: All that the page itself ever asks for.
ACTIONS = (*_BUTTONS, "enter")


def view(status: Mapping[str, Any], actions: Collection[str], now: float) -> dict[str, Any]:
    """What the page shows: title, headline, text, facts, warnings, buttons; all cleaned text."""
    state = _text(status.get("state"))
    needs_person = _text(status.get("needs_person"))
    name = _text(status.get("title")) or _text(status.get("cluster"))
    headline = _STATES.get(state, state or "Starting")
    open_questions = status.get("questions")
    next_try = _number(status.get("next_try"))
    offers = "paused" if next_try is not None and next_try > now else state
    buttons = [
        {
            "action": action,
            "label": button.label,
            "confirm": [*_cost(button, status), *button.confirm],
            "parameters": parameters,
        }
        for action, button in _BUTTONS.items()
        if action in actions
        and (
            parameters := _offered_near_limit(button, status, now)
            if button.near_limit
            else _offered(button, offers, open_questions)
        )
    ]
    return {
        "title": f"{headline} · {name}" if name else headline,
        "name": name,
        "headline": headline,
        "text": _text(status.get("text")),
        "advice": _text(status.get("advice")),
        "facts": _facts(status, state, now),
        "warnings": [_text(warning) for warning in _list(status.get("warnings"))],
        "needs_person": needs_person,
        "busy": state not in ("ended", "failed") and not needs_person,
        "buttons": buttons,
    }


def _offered(button: Button, state: str, questions: object) -> dict[str, str] | None:
    """What the button's action is told, so that it does nothing if it comes too late."""
    if button.question:
        asked = questions.get(button.question) if isinstance(questions, Mapping) else None
        return {"question": _text(asked), "where": "page"} if asked else None
    return {"while": state, "where": "page"} if state in button.states else None


def _offered_near_limit(
    button: Button, status: Mapping[str, Any], now: float
) -> dict[str, str] | None:
    ends = _number(status.get("ends_at"))
    near = ends is not None and ends - now <= _NEAR_SECONDS
    return {"where": "page"} if near and _cost(button, status) else None


def _cost(button: Button, status: Mapping[str, Any]) -> list[str]:
    said = _text(status.get(button.near_limit)) if button.near_limit else ""
    return [said] if said else []


def _facts(status: Mapping[str, Any], state: str, now: float) -> list[list[str]]:
    facts = []
    since = _number(status.get("since"))
    if since is not None and state in _SINCE:
        passed = duration(now - since)
        facts.append([_SINCE[state], f"{passed} ago" if state in ("ended", "failed") else passed])
    next_try = _number(status.get("next_try"))
    if next_try is not None and next_try > now:
        facts.append(["Next try", clock(next_try, now)])
    start = _number(status.get("estimated_start"))
    if start is not None and state == "pending":
        facts.append(["Estimated start", clock(start, now)])
    if _text(status.get("job_id")):
        facts.append(["Job", _text(status.get("job_id"))])
    if _text(status.get("node")):
        facts.append(["Node", _text(status.get("node"))])
    ends = _number(status.get("ends_at"))
    if ends is not None and state not in ("ended", "failed"):
        facts.append(["Time limit", clock(ends, now)])
    return facts


def duration(seconds: float) -> str:
    """So long, in the two largest units: '2 h 5 min', '3 min 12 s'."""
    left = max(0, int(seconds))
    days, left = divmod(left, 86400)
    hours, left = divmod(left, 3600)
    minutes, rest = divmod(left, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")]
    while len(parts) > 1 and not parts[0][0]:
        parts.pop(0)
    return " ".join(f"{value} {unit}" for value, unit in parts[:2])


def clock(epoch: float, now: float) -> str:
    """A moment in this laptop's time, with the day if it is not today, and how far it is."""
    moment, today = time.localtime(epoch), time.localtime(now)
    same_day = moment[:3] == today[:3]
    text = time.strftime("%H:%M" if same_day else "%a %d %b %H:%M", moment)
    return f"{text}, in {duration(epoch - now)}" if epoch > now else f"{text}, any moment"


def _text(value: object) -> str:
    return printable(str(value)) if value not in (None, "") else ""


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _number(value: object) -> float | None:
    # Beyond the year 9999 no clock shows anything.
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 2.5e11:
        return float(value)
    return None


def render(shown: Mapping[str, Any], secret: str) -> tuple[bytes, dict[str, str]]:
    """The page and the headers that go with it. `secret` lets it ask for actions."""
    nonce = secrets.token_urlsafe(16)
    facts = "".join(
        f"<dt>{html.escape(label)}</dt><dd>{html.escape(value)}</dd>"
        for label, value in shown["facts"]
    )
    warnings = "".join(f"<li>{html.escape(warning)}</li>" for warning in shown["warnings"])
    # Inside a script element only "<" could end it; JSON may write it as an escape.
    settings = json.dumps({"secret": secret, "view": shown}).replace("<", "\\u003c")
    body = _HTML.format(
        nonce=nonce,
        style=_STYLE,
        script=_SCRIPT,
        settings=settings,
        title=html.escape(shown["title"]),
        name=html.escape(shown["name"]),
        headline=html.escape(shown["headline"]),
        text=html.escape(shown["text"]),
        advice=html.escape(shown["advice"]),
        needs_person=html.escape(shown["needs_person"]),
        facts=facts,
        warnings=warnings,
        busy="true" if shown["busy"] else "false",
    )
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    headers = {"Content-Security-Policy": policy, "X-Frame-Options": "DENY"}
    return body.encode("utf-8"), headers


_HTML = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{title}</title>
<noscript><meta http-equiv="refresh" content="5"></noscript>
<style nonce="{nonce}">{style}</style>
</head>
<body>
<main aria-busy="{busy}">
<p id="name">{name}</p>
<div role="status" aria-live="polite">
<h1><span id="spinner" aria-hidden="true"></span><span id="headline">{headline}</span></h1>
<p id="text">{text}</p>
</div>
<p id="advice">{advice}</p>
<p id="person" role="alert">{needs_person}</p>
<dl id="facts">{facts}</dl>
<div role="alert"><ul id="warnings" aria-label="Warnings">{warnings}</ul></div>
<p id="buttons"></p>
<p id="problem" role="alert"></p>
<p id="note">This page becomes JupyterLab by itself; it can stay open.</p>
</main>
<script nonce="{nonce}" type="application/json" id="settings">{settings}</script>
<script nonce="{nonce}">{script}</script>
</body>
</html>
"""

_STYLE = """
:root { --ink: #1b1f24; --soft: #57606a; --paper: #ffffff; --line: #d0d7de; --accent: #b3490a;
  --warn: #7a3e00; --warn-paper: #fff4e5; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #9aa4af; --paper: #14181d; --line: #30363d; --accent: #f0883e;
    --warn: #f5c282; --warn-paper: #33240f; }
}
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; background: var(--paper);
  color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
main { width: min(38rem, 100%); padding: 2rem 1.5rem; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem; }
#name, #note, dt { color: var(--soft); }
#name { margin: 0 0 .25rem; }
p:empty, dl:empty, ul:empty { display: none; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; margin: 1.25rem 0;
  padding: 1rem 0; border: solid var(--line); border-width: 1px 0; }
dd { margin: 0; font-variant-numeric: tabular-nums; }
#warnings, #person { background: var(--warn-paper); color: var(--warn); padding: .75rem 1rem;
  border-radius: .4rem; }
#warnings { list-style: none; margin: 1rem 0; }
#problem { color: var(--warn); }
button { font: inherit; padding: .5rem 1rem; margin-right: .5rem; border-radius: .4rem;
  border: 1px solid var(--accent); background: none; color: var(--ink); cursor: pointer; }
button:hover { background: var(--accent); color: var(--paper); }
button:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
button:disabled { opacity: .5; cursor: default; }
#spinner { display: none; width: .8em; height: .8em; margin-right: .5em; border-radius: 50%;
  border: .14em solid var(--line); border-top-color: var(--accent); }
main[aria-busy="true"] #spinner { display: inline-block; animation: turn 1s linear infinite; }
@keyframes turn { to { transform: rotate(1turn); } }
@media (prefers-reduced-motion: reduce) { main[aria-busy="true"] #spinner { animation: none; } }
"""

_SCRIPT = """
"use strict";
const settings = JSON.parse(document.getElementById("settings").textContent);
const own = "/_jupyter-hpc/";
const at = id => document.getElementById(id);
const put = (id, text) => { if (at(id).textContent !== text) at(id).textContent = text; };
const make = (tag, text) => {
  const element = document.createElement(tag);
  element.textContent = text;
  return element;
};
const shownParts = {};
// A refusal stays a while: what is shown of the session changes every second.
let saidUntil = 0;
function say(text) {
  saidUntil = text ? Date.now() + 10000 : 0;
  put("problem", text);
}
function rebuild(id, value, elements) {
  const key = JSON.stringify(value);
  if (shownParts[id] === key) return;
  shownParts[id] = key;
  at(id).replaceChildren(...elements());
}
function show(view) {
  document.title = view.title;
  put("name", view.name);
  put("headline", view.headline);
  put("text", view.text);
  put("advice", view.advice);
  put("person", view.needs_person);
  at("note").hidden = !view.busy;
  document.querySelector("main").setAttribute("aria-busy", String(view.busy));
  rebuild("facts", view.facts, () =>
    view.facts.flatMap(([label, value]) => [make("dt", label), make("dd", value)]));
  rebuild("warnings", view.warnings, () => view.warnings.map(text => make("li", text)));
  rebuild("buttons", view.buttons, () => view.buttons.map(button));
}
function act(name, parameters) {
  return fetch(own + "actions/" + name, {
    method: "POST",
    headers: { "X-Jupyter-Hpc-Secret": settings.secret, "Content-Type": "application/json" },
    body: JSON.stringify(parameters || {}),
  });
}
async function enter() {
  // Jupyter answers a request with the token by a cookie, so that the address stays as it is.
  try {
    const answer = settings.secret ? await act("enter") : null;
    const token = answer && answer.ok ? (await answer.json()).token : "";
    if (token) {
      await fetch("/api/status", {
        cache: "no-store",
        headers: { Authorization: "token " + token, Accept: "application/json" },
      });
    }
  } catch (error) {
    // The browser may have a cookie from before; else Jupyter asks.
  }
  if (location.pathname.startsWith(own)) location.replace("/lab");
  else location.reload();
}
function clickable(label, onClick) {
  const element = make("button", label);
  element.type = "button";
  element.addEventListener("click", () => onClick(element));
  return element;
}
function button({ action, label, confirm, parameters }) {
  const doIt = async element => {
    element.disabled = true;
    say("");
    try {
      const answer = await act(action, parameters);
      if (!answer.ok) say((await answer.json()).message || "It did not work.");
    } catch (error) {
      say("jupyter-hpc on this computer did not answer.");
    }
    element.disabled = false;
  };
  if (!confirm.length) return clickable(label, doIt);
  // Not a dialog of the browser: that would stay when there is nothing more to answer.
  const whole = make("span", "");
  const [question, yes, no] = confirm;
  const offer = clickable(label, () => {
    const keep = clickable(no, () => { whole.replaceChildren(offer); offer.focus(); });
    whole.replaceChildren(make("span", question + " "), clickable(yes, doIt), keep);
    keep.focus();
  });
  whole.append(offer);
  return whole;
}
const tab = Math.random().toString(36).slice(2);
async function look() {
  try {
    const answer = await fetch(own + "status?tab=" + tab, { cache: "no-store" });
    const status = await answer.json();
    if (Date.now() > saidUntil) put("problem", "");
    if (status.open) {
      await enter();
      return;
    }
    show(status.view);
  } catch (error) {
    put("problem", "jupyter-hpc does not run on this computer any more. To come back: "
      + "jupyter-hpc connect, in a terminal.");
  }
  setTimeout(look, document.hidden ? 3000 : 1000);
}
show(settings.view);
look();
"""
