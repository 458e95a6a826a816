from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from jupyter_hpc.connect.ssh.hostkeys import (
    KnownHosts,
    entry_name,
    fingerprint,
    remember,
    short_kind,
)
from jupyter_hpc.connect.ssh.prompts import HostKeyQuestion


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str]:
    """(kind, blob, fingerprint as ssh-keygen says it)."""
    path = tmp_path_factory.mktemp("key") / "k"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    shown = subprocess.run(
        ["ssh-keygen", "-l", "-f", f"{path}.pub"], capture_output=True, text=True, check=True
    )
    kind, blob = Path(f"{path}.pub").read_text().split()[:2]
    return kind, blob, shown.stdout.split()[1]


def known(text: str) -> KnownHosts:
    hosts = KnownHosts()
    hosts.add_text(text, "file")
    return hosts


def test_fingerprints_are_ssh_keygens(key: tuple[str, str, str]) -> None:
    assert fingerprint(key[1]) == key[2]
    assert short_kind("ssh-ed25519") == "ED25519"
    assert short_kind("ecdsa-sha2-nistp256") == "ECDSA"
    assert short_kind("ssh-rsa") == "RSA"


@pytest.mark.parametrize(
    ("patterns", "name", "matches"),
    [
        ("host", "host", True),
        ("HOST,other", "host", True),
        ("other", "host", False),
        ("host", "hosts", False),
        ("*.cluster", "gpu01.cluster", True),
        ("gpu??", "gpu01", True),
        ("*.cluster,!bad.cluster", "bad.cluster", False),
        ("!bad.cluster,*.cluster", "bad.cluster", False),
        ("[host]:2222", "[host]:2222", True),
        ("[host]:2222", "host", False),
        ("h*t", "[host]:22", False),
    ],
)
def test_patterns(patterns: str, name: str, matches: bool, key: tuple[str, str, str]) -> None:
    found = known(f"{patterns} {key[0]} {key[1]} comment\n").find(name)
    assert bool(found) is matches


def test_markers_lines_and_noise(key: tuple[str, str, str]) -> None:
    kind, blob, _ = key
    text = (
        f"# a comment\n\nbroken\nhost {kind} not-base64!\n"
        f"host {kind} {blob}\n@revoked host {kind} {blob}\n"
        f"@cert-authority *.cluster {kind} {blob}\n@unknown host {kind} {blob}\n"
        f"# host {kind} {blob}\n"
    )
    hosts = known(text)
    assert [(k.line, k.role) for k in hosts.find("host")] == [(5, "host"), (6, "revoked")]
    assert [k.role for k in hosts.find("gpu.cluster")] == ["ca"]
    assert hosts.find("host")[0].place == "file:5"


def test_hashed_names_as_ssh_keygen_makes_them(key: tuple[str, str, str], tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"host,[host]:2222 {key[0]} {key[1]}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(file)], check=True, capture_output=True)
    assert "host" not in file.read_text()
    hosts = KnownHosts.read([str(file), str(tmp_path / "missing")])
    assert hosts.find("host") and hosts.find("[host]:2222")
    assert not hosts.find("other")
    assert not known(f"|1|x|y {key[0]} {key[1]}").find("host")


@pytest.mark.parametrize("hashed", [False, True])
def test_remembered_keys_are_found_by_ssh_keygen(
    hashed: bool, key: tuple[str, str, str], tmp_path: Path
) -> None:
    file = tmp_path / "new" / "known_hosts"
    remember(str(file), "[host]:2222", key[0], key[1], hashed=hashed)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    shown = subprocess.run(
        ["ssh-keygen", "-F", "[host]:2222", "-f", str(file)], capture_output=True, text=True
    )
    assert key[1] in shown.stdout
    assert ("[host]" in file.read_text()) is not hashed


def test_remembering_keeps_a_last_line_without_end(
    key: tuple[str, str, str], tmp_path: Path
) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"first {key[0]} {key[1]}")
    remember(str(file), "second", key[0], key[1])
    hosts = KnownHosts.read([str(file)])
    assert hosts.find("first") and hosts.find("second")


def test_names_of_entries() -> None:
    assert entry_name("Host", 22) == "host"
    assert entry_name("host", 2222) == "[host]:2222"
    assert entry_name("10.0.0.1", 2222, "Alias") == "alias"


def test_the_question_reads_like_ssh() -> None:
    text = str(HostKeyQuestion("login1", "10.0.0.1", "ED25519", "SHA256:abc"))
    assert text == (
        "The authenticity of host 'login1 (10.0.0.1)' can't be established.\n"
        "ED25519 key fingerprint is SHA256:abc."
    )
