"""The manager as a process of its own: `python -m jupyter_hpc.cli.manage`.

Started by connect; its options come as the first line on stdin. It goes on after the
terminal has gone only if it was told to.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time

from jupyter_hpc.cli.conversation import Line, LinePrompter
from jupyter_hpc.connect.events import Event
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.connect.sentences import as_json
from jupyter_hpc.connect.session.commands import SessionCommand
from jupyter_hpc.connect.session.manager import Manager
from jupyter_hpc.connect.session.store import Records
from jupyter_hpc.errors import HpcError

#: How long the page offers to start again after a job has ended.
_KEEP_PAGE_SECONDS = 3600.0


async def _manage(options: ConnectOptions) -> int:
    manager: Manager | None = None

    def on_command(command: SessionCommand) -> None:
        if manager is not None:
            manager.ask(command)

    line = Line(on_command)

    def sink(event: Event) -> None:
        if manager is not None:
            line.send({"event": as_json(event, manager.name, time.time())})

    try:
        manager = Manager(
            options, LinePrompter(line), sink, Records(), keep_page=_KEEP_PAGE_SECONDS
        )
        loop = asyncio.get_running_loop()
        leave = SessionCommand.LEAVE
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(on_command, leave))
        ended = await manager.run()
        return 0 if ended.cause == "requested" else 1
    except HpcError as error:
        line.send(
            {
                "error": {
                    "message": error.message,
                    "hint": error.hint,
                    "exit_code": error.exit_code,
                }
            }
        )
        return error.exit_code


def main() -> None:
    options = ConnectOptions.from_json(json.loads(sys.stdin.readline())["options"])
    code = asyncio.run(_manage(options))
    try:
        sys.stdout.write(json.dumps({"code": code}) + "\n")
        sys.stdout.flush()
    except OSError:
        pass
    sys.exit(code)


if __name__ == "__main__":
    main()
