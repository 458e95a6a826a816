"""How much may be on its way; pure, Python 3.9.

A pipe over a slow line takes megabytes that then wait in buffers of kernels and SSH servers; a
keystroke sent after them, and every sign of life, waits too. So only as much is on its way as
the line carries in its round trip and a quarter of a second, or, where that is much, in twice
its round trip. What it carries is learnt from the acknowledgements (inbox.py says how often
they come).
"""

from __future__ import annotations

from collections import deque

#: Seconds of waiting in buffers that are allowed, so that the line is never idle.
QUEUE_SECONDS = 0.25

#: Where so much is on its way, a large frame takes no time. More than this waits in buffers only
#: where as much is under way.
QUICK_BYTES = 1 << 20

#: A rate is measured over at least so many seconds.
_MIN_RATE_SECONDS = 0.1


class Congestion:
    """Congestion control of one pipe at a time: the most bytes that may be on their way (`limit`),
    learnt from what is acknowledged and when."""

    def __init__(self, least: int, first: int, most: int) -> None:
        self._least = least
        self._first = first
        self._most = most
        self.new_pipe(0.0)

    def new_pipe(self, now: float) -> None:
        """Nothing is known about the new line."""
        self.limit = self._first
        self._handed = 0
        self._delivered = 0
        self._marks: deque[tuple[int, float]] = deque()
        self._round_trip = 0.0
        self._latest = 0.0
        self._rate = 0.0
        self._since = now
        self._delivered_then = 0

    def sent(self, count: int, now: float) -> None:
        """So many bytes were handed to the pipe."""
        self._handed += count
        if not self._marks or now - self._marks[-1][1] > 0.02:
            self._marks.append((self._handed, now))

    def acknowledged(self, count: int, now: float, limited: bool) -> None:
        """So many bytes have arrived; `limited` if more was waiting to be sent."""
        self._delivered += count
        while self._marks and self._marks[0][0] <= self._delivered:
            self._latest = now - self._marks.popleft()[1]
            self._round_trip = min(self._latest, self._round_trip or self._latest)
        # Where windows hold the sender back, only the delay tells that too much is on its way.
        limited = limited or self._latest > self._round_trip + QUEUE_SECONDS
        passed = now - self._since
        if passed < max(_MIN_RATE_SECONDS, self._round_trip):
            return
        rate = (self._delivered - self._delivered_then) / passed
        self._since, self._delivered_then = now, self._delivered
        growing = rate > 1.25 * self._rate
        if rate > self._rate:
            self._rate = rate
        elif limited:
            # A sender that had nothing to send says nothing about the line.
            self._rate += 0.3 * (rate - self._rate)
        under_way = self._rate * self._round_trip
        wanted = int(under_way + min(self._rate * QUEUE_SECONDS, max(QUICK_BYTES, under_way)))
        if growing and limited:
            # The end is not found yet: where the way is long, this finds it sooner.
            wanted = max(wanted, 2 * self.limit)
        if limited or wanted > self.limit:
            self.limit = max(self._least, min(self._most, wanted))
