"""Certificates that end: what is found, said and warned of, without any host."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest

from jupyter_hpc.clusters import Login
from jupyter_hpc.connect.events import Event
from jupyter_hpc.connect.session.outage import Outage
from jupyter_hpc.connect.session.retry import Retry
from jupyter_hpc.connect.session.watch import CredentialWatch
from jupyter_hpc.connect.ssh.expiring.certificates import read_certificate, read_certificates
from jupyter_hpc.connect.ssh.expiring.credential import Credential
from jupyter_hpc.connect.ssh.expiring.renewal import refused, renew_words
from jupyter_hpc.connect.ssh.expiring.state import of_certificates
from jupyter_hpc.connect.ssh.prompts import YES, Question, TerminalPrompter
from jupyter_hpc.errors import AuthenticationFailed, CredentialExpired, PromptNeeded
from tests.connect.ssh.helpers import write_key

NOW = 1_800_000_000.0


@pytest.fixture
def certified(tmp_path: Path) -> Callable[..., bytes]:
    public = write_key(tmp_path / "key")
    authority = asyncssh.generate_private_key("ssh-ed25519")

    def make(begins: float, ends: float, *principals: str) -> bytes:
        made = authority.generate_user_certificate(
            public, "ada@example", principals=principals, valid_after=int(NOW + begins),
            valid_before=int(NOW + ends),
        )  # fmt: skip
        return made.public_data

    return make


@pytest.mark.parametrize("kind", ["ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa"])
def test_every_kind_of_key_is_read(kind: str) -> None:
    key = asyncssh.generate_private_key(kind)
    made = key.generate_user_certificate(key, "me", principals=["a", "b"], valid_before=2**31)
    found = read_certificate(made.public_data)
    assert found is not None
    assert (found.key_id, found.principals, found.expires) == ("me", ("a", "b"), 2.0**31)
    for_ever = read_certificate(key.generate_user_certificate(key, "me").public_data)
    assert for_ever is not None and for_ever.expires is None and for_ever.valid(NOW)
    assert read_certificate(key.public_data) is None
    host = key.generate_host_certificate(key, "host").public_data
    assert read_certificates([host, b"", b"\0\0\0", made.public_data[:60]]) == []


@pytest.mark.parametrize(
    ("begins", "ends", "who", "valid", "said"),
    [
        (-60, 7200, "ada", True, "Your SSH certificate ada@example is valid for 2 h 00 min."),
        (-9000, -7200, "ada", False, "Your SSH certificate ada@example expired 2 h 00 min ago."),
        (600, 7200, "ada", False, "becomes valid only in 10 min: compare the clocks."),
        (-60, 7200, "bob", True, "is made out to bob, not to ada."),
    ],
)
def test_what_is_said_of_it(
    certified: Callable[..., bytes], begins: int, ends: int, who: str, valid: bool, said: str
) -> None:
    found = of_certificates(read_certificates([certified(begins, ends, who)]), "ada", NOW)
    assert found.valid is valid
    assert found.text.endswith(said)


def test_the_one_that_fits_and_lasts_longest_counts(certified: Callable[..., bytes]) -> None:
    offered = [
        certified(-900, -60, "ada"), certified(-9, 60, "ada"),
        certified(-9, 600, "ada"), certified(-9, 6000, "bob"),
    ]  # fmt: skip
    assert of_certificates(read_certificates(offered), "ada", NOW).expires == NOW + 600
    assert "No SSH certificate was found" in of_certificates([], "ada", NOW).text


def test_a_refusal_names_the_credential_and_the_command_for_this_user() -> None:
    login = Login(credential=("kerberos", "key"), renew=("kinit", "{user}@TEST"), refused="Sorry.")
    assert renew_words(login, "ada") == ("kinit", "ada@TEST")
    found = Credential("kerberos", False, None, "There is no Kerberos ticket.")
    error = refused(login, "ada", found, AuthenticationFailed("Refused.", "Try ssh."))
    assert error.message == "Refused. There is no Kerberos ticket."
    assert error.hint.startswith("Sorry. For a new ticket: kinit ada@TEST.")
    assert error.hint.endswith("Try ssh.")
    valid = replace(found, valid=True, text="It is valid.")
    assert refused(login, "ada", valid, AuthenticationFailed("Refused.")).message == "Refused."


class _Source:
    async def credential(self) -> Credential | None:
        return None

    def renew_hint(self) -> str:
        return "Renew it: kinit."


def test_its_end_is_told_once_each_time() -> None:
    told: list[Event] = []
    watch = CredentialWatch(_Source(), told.append)
    first = Credential("certificate", True, NOW + 7200, "It lasts.", "one")
    assert watch.look(first, NOW) == 60
    assert watch.look(first, NOW + 5370) == 30 and told == []
    for at in (5400, 5401, 5500):
        watch.look(first, NOW + at)
    assert len(told) == 1 and "Renew it: kinit." in str(told[0])
    watch.look(first, NOW + 6950)
    watch.look(first, NOW + 7201)
    assert len(told) == 3
    watch.look(replace(first, expires=NOW + 20000, identity="two"), NOW + 7300)
    assert len(told) == 3
    watch.look(replace(first, expires=NOW + 20000, identity="two"), NOW + 18300)
    assert len(told) == 4
    assert watch.look(replace(first, expires=None), NOW) == 60


@pytest.mark.parametrize("error", [CredentialExpired("It ended."), AuthenticationFailed("No.")])
async def test_a_new_credential_is_tried_once_without_a_person(error: AuthenticationFailed) -> None:
    new = asyncio.Event()
    retry = Retry(Outage(lambda event: None), renewed=new.wait)  # type: ignore[arg-type]
    attempts: list[bool] = []

    async def attempt(ask: bool) -> str:
        attempts.append(ask)
        if len(attempts) == 1:
            raise error
        return "in"

    doing = asyncio.create_task(retry.until_done(attempt))
    await asyncio.sleep(0)  # sleep: one turn of the loop
    new.set()
    assert await asyncio.wait_for(doing, 10) == "in"
    assert attempts == [False, False]


async def test_a_needed_answer_waits_for_a_person_whatever_is_renewed() -> None:
    async def at_once() -> None: ...

    retry = Retry(Outage(lambda event: retry.allow()), renewed=at_once)
    attempts: list[bool] = []

    async def attempt(ask: bool) -> str:
        attempts.append(ask)
        if len(attempts) == 1:
            raise PromptNeeded("A code is asked for.")
        return "in"

    assert await asyncio.wait_for(retry.until_done(attempt), 10) == "in"
    assert attempts == [False, True]


async def test_a_command_runs_at_the_terminal_if_the_person_agrees(tmp_path: Path) -> None:
    done = tmp_path / "done"
    question = Question("site", (), run=("touch", str(done)))
    prompter = TerminalPrompter("/dev/null")
    began = time.monotonic()
    assert await prompter._run(question.run, "n") == "no" and not done.exists()
    assert await prompter._run(question.run, "") == YES and done.exists()
    assert await prompter._run(("no-such-program-here",), "y") == YES
    assert time.monotonic() - began < 30
