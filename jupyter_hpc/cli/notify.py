"""A desktop notification where the platform has one; silent where it has not."""

from __future__ import annotations

import contextlib
import shutil
import sys

from jupyter_hpc.errors import CommandError
from jupyter_hpc.runner import LocalRunner
from jupyter_hpc.text import printable


def notification_argv(title: str, text: str) -> list[str] | None:
    """The command that shows a notification here, or None."""
    title, text = printable(title, 100), printable(text, 200)
    if sys.platform == "darwin":
        # The texts travel as arguments of the script, never inside it.
        show = "display notification (item 2 of argv) with title (item 1 of argv)"
        program = f"on run argv\n{show}\nend run"
        return ["osascript", "-e", program, title, text]
    if sys.platform == "win32":
        return None
    if shutil.which("notify-send"):
        return ["notify-send", "--app-name=jupyter-hpc", "--", title, text]
    return None


async def notify(title: str, text: str) -> None:
    """Show a notification; a desktop that cannot is no error."""
    argv = notification_argv(title, text)
    if argv:
        with contextlib.suppress(CommandError):
            await LocalRunner().run(argv, timeout=5)
