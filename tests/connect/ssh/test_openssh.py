"""A process of the system's ssh: its streams for a thread, and what it says of the login."""

from __future__ import annotations

import asyncio
import os
import threading

from jupyter_hpc.connect.ssh.openssh.process import start_ssh


async def test_detached_streams_carry_everything_past_the_event_loop() -> None:
    process = await start_ssh(["sh", "-c", "printf ready; exec cat"])
    assert await process.skip_past(b"ready")
    ends = process.detach()
    assert ends is not None and process.detach() is None, "there is one taker"
    data, back = os.urandom(5_000_000), bytearray()

    def talk() -> None:
        writing = threading.Thread(target=write)
        writing.start()
        while piece := os.read(ends.stdout, 1 << 20):
            back.extend(piece)
        writing.join()
        os.close(ends.stdout)

    def write() -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(ends.stdin, view) :]
        os.close(ends.stdin)

    await asyncio.to_thread(talk)
    await process.wait_ended()
    assert bytes(back) == data and process.returncode == 0


async def test_a_thread_that_waits_for_it_is_woken_when_it_is_closed() -> None:
    process = await start_ssh(["sh", "-c", "printf ready; exec cat"])
    assert await process.skip_past(b"ready")
    ends = process.detach()
    assert ends is not None
    reading = asyncio.ensure_future(asyncio.to_thread(os.read, ends.stdout, 1))
    await asyncio.sleep(0)
    process.close()
    assert await reading == b""
    await process.wait_ended()
    for end in ends:
        os.close(end)


async def test_what_it_says_of_the_login_is_waited_for_and_dropped() -> None:
    words = "printf 'a banner\\nAuthenticated' >&2; printf ' to host\\n' >&2; read x; echo no >&2"
    process = await start_ssh(["sh", "-c", words])
    assert await process.says(b"Authenticated to ")
    assert process.stderr in (b"", b"host\n")
    process.write(b"\n")
    await process.wait_ended()
    assert process.stderr.endswith(b"no\n")
    silent = await start_ssh(["sh", "-c", "echo 'Permission denied' >&2; exit 255"])
    assert not await silent.says(b"Authenticated to ")
    assert silent.returncode == 255 and silent.stderr == b"Permission denied\n"
