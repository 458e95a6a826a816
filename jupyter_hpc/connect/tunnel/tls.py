"""The laptop's end of TLS with the relay, for the transport "direct".

The one certificate that is accepted was made for this session and lies beside its secret; whoever
else has the relay's port, or passes on what goes there, is found out before a byte is sent.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import ssl
from collections.abc import Callable

from jupyter_hpc.connect.ssh.interfaces import BytePipe
from jupyter_hpc.errors import PipeRefused
from jupyter_hpc.relay.tls import Tls
from jupyter_hpc.waiting import within

_log = logging.getLogger(__name__)


async def open_tls(pipe: BytePipe, certificate: str, where: str, timeout: float) -> BytePipe:
    """The relay's pipe inside `pipe`, which leads to `where`. PipeRefused, and the pipe is closed,
    if what answers there does not show `certificate` (base64)."""
    sealed = _TlsPipe(pipe)
    try:
        wanted = base64.b64decode(certificate, validate=True)
        await within(sealed.shake_hands(wanted), timeout)
    except ssl.SSLError as error:
        pipe.close()
        _log.warning("what answers on %s is not the relay: %s", where, error)
        raise _not_the_relay(where) from error
    except (binascii.Error, ValueError) as error:
        pipe.close()
        raise PipeRefused(
            "The certificate of the relay on the node cannot be read.",
            "Stop the session and start a new one, or use another transport (--via).",
        ) from error
    except (asyncio.TimeoutError, TimeoutError) as error:
        pipe.close()
        raise PipeRefused(
            f"What answers on {where} did not say within {timeout:g} s that it is the relay.",
            "Another program may have the relay's port; use another transport (--via).",
        ) from error
    except BaseException:
        pipe.close()
        raise
    return sealed


def _not_the_relay(where: str) -> PipeRefused:
    return PipeRefused(
        f"What answers on {where} is not the relay of this session: it cannot show its "
        "certificate. Another program has taken the relay's port, or listens in on the way; "
        "it was told nothing.",
        "Use another transport (--via), and tell the site.",
    )


class _TlsPipe:
    """A BytePipe whose bytes go through TLS."""

    def __init__(self, pipe: BytePipe) -> None:
        self._pipe = pipe
        self._tls: Tls | None = None
        self._shaken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._early = b""
        self._closed: tuple[Exception | None] | None = None
        self._on_data: Callable[[bytes], None] | None = None
        self._on_closed: Callable[[Exception | None], None] = lambda error: None
        self._on_drained: Callable[[], None] | None = None

    async def shake_hands(self, certificate: bytes) -> None:
        """ssl.SSLError if the other end is not who has that certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = False  # this certificate and no other, whatever the node's name
        context.load_verify_locations(cadata=certificate)
        self._tls = Tls(context, False, self._pipe.write)
        self._pipe.set_receiver(self._received, self._lost, self._drained)
        self._tls.begin()
        await self._shaken
        if self._tls.peer_certificate() != certificate:
            raise ssl.SSLError("another certificate")

    def set_receiver(
        self,
        on_data: Callable[[bytes], None],
        on_closed: Callable[[Exception | None], None],
        on_drained: Callable[[], None] | None = None,
    ) -> None:
        self._on_data, self._on_closed, self._on_drained = on_data, on_closed, on_drained
        early, self._early = self._early, b""
        if early:
            on_data(early)
        if self._closed is not None:
            on_closed(*self._closed)

    def write(self, data: bytes) -> None:
        if self._tls is not None:
            self._tls.write(data)

    def queued(self) -> int:
        return self._pipe.queued()

    def pause_reading(self) -> None:
        self._pipe.pause_reading()

    def resume_reading(self) -> None:
        self._pipe.resume_reading()

    def close(self) -> None:
        self._pipe.close()

    def _received(self, records: bytes) -> None:
        if self._tls is None:
            return
        try:
            data = self._tls.receive(records)
        except ssl.SSLError as error:
            self._pipe.close()
            self._lost(error)
            return
        if self._tls.established and not self._shaken.done():
            self._shaken.set_result(None)
        if data and self._on_data is not None:
            self._on_data(data)
        else:
            self._early += data

    def _lost(self, error: Exception | None) -> None:
        """The carrier is gone, or brought what is no TLS of this session."""
        if not self._shaken.done():
            self._shaken.set_exception(
                error if isinstance(error, ssl.SSLError) else ssl.SSLEOFError("it hung up")
            )
        self._closed = (error,)
        self._on_closed(error)

    def _drained(self) -> None:
        if self._on_drained is not None:
            self._on_drained()
