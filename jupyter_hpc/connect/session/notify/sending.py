"""One message to the user, by every way that the settings name; no way that fails is an error.

No message holds a secret: its parts are names, numbers and our own sentences. The address
of a webhook may be one, and stands in no command and no log.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import sys
from dataclasses import dataclass

from jupyter_hpc.batch.runtime.job.notify import message_environment, post_json
from jupyter_hpc.clusters.user_settings import NotifySettings
from jupyter_hpc.errors import CommandError
from jupyter_hpc.runner import LocalRunner
from jupyter_hpc.text import printable

_log = logging.getLogger(__name__)

#: The longest that showing a message, or the user's own command, may take.
_COMMAND_SECONDS = 10.0

#: The texts come from the environment: nothing of them is ever read as a program.
_TOAST = """
$kind = 'Windows.UI.Notifications'
[void][Windows.UI.Notifications.ToastNotificationManager, $kind, ContentType = WindowsRuntime]
$layout = [Windows.UI.Notifications.ToastTemplateType]::ToastText02
$toast = [Windows.UI.Notifications.ToastNotificationManager]::GetTemplateContent($layout)
$lines = $toast.GetElementsByTagName('text')
[void]$lines.Item(0).AppendChild($toast.CreateTextNode($env:JUPYTER_HPC_TITLE))
[void]$lines.Item(1).AppendChild($toast.CreateTextNode($env:JUPYTER_HPC_TEXT))
$app = '{1AC14E77-02E7-4E5D-B744-2EB1AE5198B7}\\WindowsPowerShell\\v1.0\\powershell.exe'
$notifier = [Windows.UI.Notifications.ToastNotificationManager]::CreateToastNotifier($app)
$notifier.Show([Windows.UI.Notifications.ToastNotification]::new($toast))
"""


@dataclass(frozen=True)
class Message:
    """Something to tell; `event` is its kind in one word, for programs."""

    event: str
    title: str
    text: str
    job_id: str = ""

    @property
    def fields(self) -> dict[str, str]:
        """The parts of it, safe to show."""
        return {
            "event": self.event,
            "title": printable(self.title, 100),
            "text": printable(self.text, 200),
            "job_id": printable(self.job_id, 40),
        }


def desktop_argv(message: Message, platform: str = sys.platform) -> list[str] | None:
    """The command that shows a notification here, or None."""
    title, text = message.fields["title"], message.fields["text"]
    if platform == "darwin":
        # The texts travel as arguments of the script, never inside it.
        show = "display notification (item 2 of argv) with title (item 1 of argv)"
        return ["osascript", "-e", f"on run argv\n{show}\nend run", title, text]
    if platform == "win32":
        return ["powershell.exe", "-NoProfile", "-NonInteractive", "-Command", _TOAST]
    if shutil.which("notify-send"):
        return ["notify-send", "--app-name=jupyter-hpc", "--", title, text]
    return None


def can_tell(settings: NotifySettings) -> bool:
    """Whether any message would reach the user from here."""
    shown = settings.desktop and desktop_argv(Message("", "", "")) is not None
    return bool(shown or settings.command or settings.webhook)


async def send(settings: NotifySettings, message: Message) -> None:
    """Tell the user, by all ways side by side; what does not work is logged."""
    ways = []
    desktop = desktop_argv(message) if settings.desktop else None
    if desktop is not None:
        ways.append(_run("the desktop", desktop, message))
    if settings.command:
        said = f"{message.fields['title']}. {message.fields['text']}"
        ways.append(_run("the command of the settings", [*settings.command, said], message))
    if settings.webhook:
        ways.append(_post(settings.webhook, message))
    await asyncio.gather(*ways)


async def _run(what: str, argv: list[str], message: Message) -> None:
    try:
        runner = LocalRunner(message_environment(message.fields))
        done = await runner.run(argv, timeout=_COMMAND_SECONDS)
        problem = f"it ended with code {done.returncode}" if done.returncode else ""
    except CommandError as error:
        problem = error.message
    _note(what, message, problem)


async def _post(address: str, message: Message) -> None:
    _note("the webhook", message, await asyncio.to_thread(post_json, address, message.fields))


def _note(what: str, message: Message, problem: str) -> None:
    if problem:
        _log.warning("%s was not told of %r: %s", what, message.event, problem)
    else:
        _log.info("%s was told of %r", what, message.event)
