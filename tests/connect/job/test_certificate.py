"""The certificate of a relay's TCP port: made here, sent along, and found again by others."""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest

from jupyter_hpc.connect.job import remote
from jupyter_hpc.connect.job.certificate import make_identity
from jupyter_hpc.connect.job.launch import Launcher, ServerAddress
from jupyter_hpc.runner import DEFAULT_TIMEOUT, Completed, LocalRunner
from tests.connect.job.world import ACCOUNT, STATE, World, profile

SESSION = f"{STATE}/jobs/7"
RECORD = "node=gpu01\nfolder=/tmp/jh-x\npython=/usr/bin/python3\nport=4321\njupyter_pid=17\n"


async def start(world: World, *, tcp: bool) -> tuple[ServerAddress, dict[bytes, bytes]]:
    """The address, and the files that were placed for it."""
    placed: list[bytes] = []
    run = world.run

    async def keeping(
        argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = DEFAULT_TIMEOUT
    ) -> Completed:
        placed.extend((stdin or b"").splitlines())
        return await run(argv, stdin=stdin, timeout=timeout)

    world.run = keeping  # type: ignore[method-assign]
    world.answers["place.sh"] = [f"folder={SESSION}\n"]
    world.answers["start_and_await.sh"] = [f"found=address\n{RECORD}"]
    launcher = Launcher(profile(), ACCOUNT, "7", ("gpu01",), on_node=world, starter=world)
    address = await launcher.start(home_writable=True, tcp=tcp)
    files = (line.partition(b" ") for line in placed)
    return address, {name: base64.b64decode(data) for name, _, data in files}


async def test_a_key_travels_only_where_a_port_is_asked_for(world: World) -> None:
    address, files = await start(world, tcp=False)
    assert b"relay.pem" not in files and address.certificate == ""


async def test_the_certificate_is_of_the_key_that_was_sent(world: World, tmp_path: Path) -> None:
    address, files = await start(world, tcp=True)
    key = tmp_path / "relay.pem"
    key.write_bytes(files[b"relay.pem"])
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(key)  # both parts fit each other
    shown = ssl.PEM_cert_to_DER_cert(key.read_text()[key.read_text().index("-----BEGIN CERT") :])
    assert base64.b64decode(address.certificate) == shown
    words = {word for argv in world.ran for word in argv}
    assert not any(line in word for word in words for line in key.read_text().splitlines()[1:5])


def test_no_two_servers_have_the_same() -> None:
    one, two = make_identity(), make_identity()
    assert one.certificate != two.certificate and one.pem != two.pem


@pytest.mark.parametrize("with_port", [True, False])
async def test_another_laptop_finds_it_but_not_the_key(tmp_path: Path, with_port: bool) -> None:
    identity = make_identity()
    files = {"address": RECORD.replace("=17", f"={os.getpid()}").encode(), "secret": b"s" * 32}
    files["token"] = b"t"
    if with_port:
        files["relay.pem"] = identity.pem
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    fields, _ = await remote.find_server(LocalRunner(), str(tmp_path), str(tmp_path / "none"))
    assert fields.get("certificate") == ([identity.certificate] if with_port else None)
    # The second half of a key is public, and part of the certificate.
    private = identity.pem.decode().splitlines()[1]
    assert len(private) == 64 and private not in str(fields)
