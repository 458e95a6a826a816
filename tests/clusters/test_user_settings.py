"""The user's own settings: every mistake is named with its file, key and what is allowed."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from jupyter_hpc.clusters.user_settings import (
    USER_KEYS,
    NotifySettings,
    notify_settings,
    settings_file,
)
from jupyter_hpc.errors import ProfileError
from tests.clusters.test_schema import shown_default

PAGE = Path(__file__).parents[2] / "docs" / "users" / "notifications.md"


def write(text: str, mode: int = 0o600) -> Path:
    path = settings_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def test_without_a_file_the_desktop_is_told() -> None:
    assert notify_settings() == NotifySettings()
    assert NotifySettings().desktop and NotifySettings().gpu_idle_seconds == 900


def test_the_settings_are_read(jupyter_home: Path) -> None:
    write(
        '[notify]\ndesktop = false\ncommand = ["ntfy", "publish"]\n'
        'webhook = "https://hooks.example.org/T0/B0?x=1"\ngpu_idle = "1h30m"\n'
    )
    found = notify_settings()
    assert found == NotifySettings(
        False, ("ntfy", "publish"), "https://hooks.example.org/T0/B0?x=1", "1h30m"
    )
    assert found.gpu_idle_seconds == 5400
    assert settings_file() == jupyter_home / "config" / "hpc" / "config.toml"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[notfy]\n", ["notfy", "Did you mean notify?"]),
        ("notify = 3\n", ["notify must be a table"]),
        ("[notify]\ndesk = true\n", ["notify.desk", "notify.desktop"]),
        ('[notify]\ndesktop = "yes"\n', ["notify.desktop", "true or false"]),
        ('[notify]\ncommand = "ntfy publish"\n', ["notify.command", "a list of words"]),
        ('[notify]\nwebhook = "ftp://a.b/s3cret"\n', ["notify.webhook", "https://HOST/PATH"]),
        ('[notify]\nwebhook = "https://me:s3cret@a.b/"\n', ["notify.webhook", "password"]),
        ('[notify]\nwebhook = "https://a.b/s3c ret"\n', ["notify.webhook"]),
        ('[notify]\ngpu_idle = "soon"\n', ["notify.gpu_idle", "90m"]),
        ("[notify\n", ["not valid TOML"]),
    ],
)
def test_mistakes_are_named(text: str, words: list[str]) -> None:
    path = write(text)
    with pytest.raises(ProfileError) as caught:
        notify_settings()
    assert str(path) in str(caught.value)
    assert all(word in str(caught.value) for word in words), caught.value
    assert "s3c" not in str(caught.value)


def test_a_webhook_that_others_can_read_is_refused() -> None:
    path = write('[notify]\nwebhook = "https://a.b/s3cret"\n', 0o644)
    with pytest.raises(ProfileError, match="others on this computer can read it") as caught:
        notify_settings()
    assert "chmod 600" in caught.value.hint and "s3cret" not in str(caught.value)
    path.chmod(0o600)
    assert notify_settings().webhook == "https://a.b/s3cret"


def test_a_command_that_others_can_change_is_refused() -> None:
    path = write('[notify]\ncommand = ["tell"]\n', 0o646)
    with pytest.raises(ProfileError, match="everybody on this computer can change it") as caught:
        notify_settings()
    assert "chmod o-w" in caught.value.hint
    path.chmod(0o664)
    assert notify_settings().command == ("tell",)
    write("[notify]\ndesktop = true\n", 0o644)
    assert notify_settings().desktop


def test_values_and_documentation_follow_the_table() -> None:
    fields = dataclasses.fields(NotifySettings)
    assert [(f.name, f.default) for f in fields] == [(k.name, k.default) for k in USER_KEYS]
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{key.name}` | {key.kind} | {shown_default(key.default)} | {key.doc} |"
        for key in USER_KEYS
    ]
