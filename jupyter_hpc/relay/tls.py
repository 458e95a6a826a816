"""TLS inside a pipe, for the transport that is a TCP connection; stdlib only, Python 3.9.

Everybody on the cluster can take a port of the node, or stand between the login host and it. So
what goes over such a connection is TLS: the relay shows the certificate that the laptop has made
for this session and sent along with the secret, and the laptop accepts that one alone
(tunnel/tls.py). Both ends prove inside that they know the secret, as on every pipe (frames.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

try:
    import ssl
except ImportError:  # a Python that was built without OpenSSL; the relay has its other pipes
    ssl = None  # type: ignore[assignment]

#: The most plain bytes in one record of TLS.
_RECORD_BYTES = 1 << 14


class Pipe(Protocol):
    """A byte pipe as the relay uses it."""

    def start(
        self,
        on_data: Callable[[bytes], None],
        on_closed: Callable[[], None],
        on_drained: Callable[[], None],
    ) -> None:
        """Begin to read; on_closed comes at most once."""

    def write(self, data: bytes) -> None:
        """Send all of it, in order; never blocks."""

    def queued(self) -> int:
        """Bytes that were written and have not left this process yet."""
        ...

    def close(self) -> None:
        """End it at once; on_closed is not called."""


class Tls:
    """One end of TLS between plain bytes and records, without a socket; `send` takes records.

    What is written before the handshake is done waits for it.
    """

    def __init__(
        self, context: ssl.SSLContext, server_side: bool, send: Callable[[bytes], None]
    ) -> None:
        self.established = False
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side)
        self._send = send
        self._waiting: list[bytes] = []

    def peer_certificate(self) -> bytes | None:
        """What the other end has shown, once the handshake is done."""
        return self._tls.getpeercert(binary_form=True)

    def begin(self) -> None:
        """The client's first words."""
        self.receive(b"")

    def receive(self, records: bytes) -> bytes:
        """Take what came, and return what it says; ssl.SSLError if it is not what it must be."""
        self._incoming.write(records)
        try:
            if not self.established:
                self._tls.do_handshake()
                self.established = True
                waiting, self._waiting = self._waiting, []
                for data in waiting:
                    self.write(data)
            return self._read()
        except ssl.SSLWantReadError:
            return b""
        finally:
            self._flush()  # also what says why the handshake has failed

    def _read(self) -> bytes:
        pieces = []
        try:
            while piece := self._tls.read(_RECORD_BYTES):
                pieces.append(piece)
        except ssl.SSLWantReadError:
            pass
        return b"".join(pieces)

    def write(self, data: bytes) -> None:
        """Send it as records."""
        if not self.established:
            self._waiting.append(data)
            return
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]
        self._flush()

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._send(self._outgoing.read())


class TlsPipe:
    """The relay's end of a TCP connection: a pipe like a DescriptorPipe, inside TLS."""

    def __init__(self, carrier: Pipe, context: ssl.SSLContext) -> None:
        self._carrier = carrier
        self._tls = Tls(context, True, carrier.write)
        self._on_data: Callable[[bytes], None] = lambda data: None
        self._on_closed: Callable[[], None] = lambda: None

    def start(
        self,
        on_data: Callable[[bytes], None],
        on_closed: Callable[[], None],
        on_drained: Callable[[], None],
    ) -> None:
        self._on_data, self._on_closed = on_data, on_closed
        self._carrier.start(self._received, on_closed, on_drained)

    def write(self, data: bytes) -> None:
        try:
            self._tls.write(data)
        except ssl.SSLError:
            self._carrier.close()

    def queued(self) -> int:
        return self._carrier.queued()

    def close(self) -> None:
        self._carrier.close()

    def _received(self, records: bytes) -> None:
        try:
            data = self._tls.receive(records)
        except ssl.SSLError:
            # Somebody who does not speak TLS, or does not believe our certificate.
            self._carrier.close()
            self._on_closed()
            return
        if data:
            self._on_data(data)


class TlsServer:
    """What the relay shows of itself on its TCP port."""

    def __init__(self, key_file: str) -> None:
        """The file has the key and the certificate. OSError if they cannot be used, or if this
        Python has no TLS."""
        if ssl is None or not ssl.HAS_TLSv1_2:
            raise OSError("this Python was built without TLS 1.2")
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._context.load_cert_chain(key_file)

    def pipe(self, carrier: Pipe) -> TlsPipe:
        """The relay's end of a connection that was accepted."""
        return TlsPipe(carrier, self._context)
