"""The manager as a process of its own: `python -m jupyter_hpc.cli.manage`.

Started by connect; its options come as the first line on stdin. It goes on after the
terminal has gone only if it was told to. It alone writes the session's log.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from typing import Any

from jupyter_hpc.cli.conversation import Line, LinePrompter
from jupyter_hpc.cli.process import more_files, soon
from jupyter_hpc.cli.render import name_doctor
from jupyter_hpc.cli.verbose import HidingPrompter
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.connect.session.commands import SessionCommand
from jupyter_hpc.connect.session.manager import Manager
from jupyter_hpc.connect.session.store import Records
from jupyter_hpc.errors import ConnectError, HpcError
from jupyter_hpc.logs import Log

_log = logging.getLogger(__name__)

#: How long the page offers to start again after a job has ended.
_KEEP_PAGE_SECONDS = 3600.0


async def _manage(options: ConnectOptions, log: Log, verbose: int, *, detach: bool) -> int:
    manager: Manager | None = None

    def on_command(command: SessionCommand, question: str = "") -> None:
        if manager is not None:
            try:
                manager.ask(command, question, "terminal")
            except ConnectError as late:
                line.send({"tell": late.message})

    line = Line(on_command, detach=detach)
    log.show(verbose, lambda text: line.send({"log": text}))

    def show(fields: dict[str, Any]) -> None:
        if fields["cluster"] != log.session:
            log.rename(fields["cluster"], records.log_file(fields["cluster"]))
        line.send({"event": fields})

    records = Records()
    prompter = HidingPrompter(LinePrompter(line), log.redact)
    try:
        manager = Manager(options, prompter, show, records, keep_page=_KEEP_PAGE_SECONDS)
        log.keep(
            manager.name, records.log_file(manager.name), lambda text: line.send({"tell": text})
        )
        loop = asyncio.get_running_loop()
        leave = SessionCommand.LEAVE
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: soon(loop, on_command, leave))
        more_files()
        ended = await manager.run()
        return 0 if ended.cause == "requested" else 1
    except HpcError as error:
        name_doctor(error, options.name)
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
    asked = json.loads(sys.stdin.readline())
    options = ConnectOptions.from_json(asked["options"])
    log = Log()
    try:
        verbose, detach = int(asked.get("verbose", 0)), bool(asked.get("detach"))
        code = asyncio.run(_manage(options, log, verbose, detach=detach))
    except BaseException:
        _log.exception("the manager ends, and should not")
        raise
    finally:
        log.close()
    try:
        sys.stdout.write(json.dumps({"code": code}) + "\n")
        sys.stdout.flush()
    except OSError:
        pass
    sys.exit(code)


if __name__ == "__main__":
    main()
