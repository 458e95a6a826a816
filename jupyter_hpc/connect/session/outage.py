"""What people are told while the connection is away, be it the login or the pipe."""

from __future__ import annotations

import logging
import time

from jupyter_hpc.connect.events import PersonNeeded, Reconnected, Reconnecting, Sink, Warned
from jupyter_hpc.connect.tunnel.link_events import (
    LinkAlive,
    LinkDown,
    LinkEvent,
    LinkLost,
    LinkSuspect,
    LinkUp,
)
from jupyter_hpc.errors import HpcError, LoginsPaused

_log = logging.getLogger(__name__)

#: Most outages are over by then; who still waits is told why.
BECAUSE_AFTER_SECONDS = 30.0

#: A pause that is worth a word, and a way to end it.
_LONG_PAUSE_SECONDS = 4.0

_INTERRUPTED = "The connection is interrupted; reconnecting."


class Outage:
    """Tells of each outage once when it begins, why it lasts, and once when it is over.

    Every failed attempt to come back goes to the log; a person hears of the reason after
    `because_after` seconds, and again when it is another one.
    """

    def __init__(self, sink: Sink, because_after: float = BECAUSE_AFTER_SECONDS) -> None:
        self._sink = sink
        self._because_after = because_after
        self._since: float | None = None
        self._text = ""
        self._because = ""
        self._probed = ""
        self._relay_lost = False

    def began(self, text: str = _INTERRUPTED, silence: float = 0.0) -> None:
        """The connection is away, for `silence` seconds already."""
        if self._since is None:
            self._since = time.monotonic() - silence
            self._text, self._because, self._probed = text, "", ""
            self._sink(Reconnecting(text))

    def attempt_failed(self, error: BaseException, pause: float) -> None:
        """An attempt to come back failed; the next one comes after `pause` seconds."""
        because = _reason(error)
        _log.info("an attempt to reconnect failed, the next in %.1f s: %s", pause, because)
        if pause < _LONG_PAUSE_SECONDS:
            self._tell(because)
        else:
            self._tell_pause(because, pause)

    def logins_paused(self, error: LoginsPaused) -> None:
        """The next login waits, because of a limit of our own."""
        _log.info("%s", error)
        if error.seconds >= _LONG_PAUSE_SECONDS:
            self._tell_pause(error.message, error.seconds)

    def probe_failed(self, error: BaseException) -> None:
        """The host does not answer; there are many of these, and they say the same."""
        because = _reason(error)
        level = logging.DEBUG if because == self._probed else logging.INFO
        _log.log(level, "the login host does not answer: %s", because)
        self._probed = because
        self._tell(because)

    def _tell(self, because: str) -> None:
        if self._since is None or because == self._because:
            return
        if time.monotonic() - self._since >= self._because_after:
            self._because = because
            self._sink(Reconnecting(self._text, because))

    def _tell_pause(self, because: str, pause: float) -> None:
        """Said at once: who would rather not wait can say so."""
        if self._since is not None:
            self._because = because
            next_try = round(time.time() + pause, 1)
            self._sink(Reconnecting(self._text, because, next_try=next_try))

    def person_needed(self, error: HpcError) -> None:
        """Nothing more is tried until somebody answers."""
        _log.info("reconnecting waits for a person: %s", error)
        self._sink(PersonNeeded(str(error)))

    def renewed(self) -> None:
        """There is a new certificate or ticket, so it goes on without an answer."""
        _log.info("a new certificate or ticket was found; logging in with it")
        self._sink(Reconnecting("Your new certificate or ticket was found; logging in with it."))

    def over(self) -> None:
        """The connection is back."""
        if self._since is not None:
            seconds = time.monotonic() - self._since
            self._since = None
            self._sink(Reconnected(round(seconds, 2)))

    def on_link(self, event: LinkEvent) -> None:
        """What the link reports about its pipe, as one outage after the other."""
        _log.debug("link: %s", event)
        if isinstance(event, LinkSuspect):
            self.began(silence=event.silence)
        elif isinstance(event, LinkDown):
            self.began()
        elif isinstance(event, (LinkUp, LinkAlive)):
            self.over()
        elif isinstance(event, LinkLost):
            # Told when it is back: a relay that goes with its job is not restarted.
            self._relay_lost = True
        if isinstance(event, LinkUp) and self._relay_lost:
            self._relay_lost = False
            self._sink(Warned("The relay on the node was restarted; the page reconnects."))


def _reason(error: BaseException) -> str:
    """The error's own sentence; what has none is named by its kind."""
    if isinstance(error, HpcError):
        return error.message
    return str(error) or type(error).__name__
