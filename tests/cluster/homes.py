"""Make a user's home folder full, read-only or small, on all hosts at once, and whole again."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.folders import Folders
from tests.cluster.layout import user_named

#: $1: the home folder, $2: an empty folder. A small file system takes the place of
#: the home, with its files in it and not a byte to spare.
_FILL = """\
set -eu
size=$(du --summarize --block-size=1024 --apparent-size "$1" | cut -f1)
pages=$(($(find "$1" | wc -l) * 4))    # a small file takes a whole page
mount -t tmpfs -o "size=$((size + pages + 1024))k,mode=700" tmpfs "$2"
cp -a "$1/." "$2/"
chown --reference="$1" "$2"
dd if=/dev/zero of="$2/.filler" bs=4096 2>/dev/null || :
chown --reference="$1" "$2/.filler"
mount --bind "$2" "$1"
umount "$2"
"""

#: The mount is made read-only first and put in place then: only so do the copies
#: that the hosts receive become read-only as well. It must not be shared before, or
#: what is mounted on the home would appear on it too.
_LOCK = """\
set -eu
mount --bind "$1" "$2"
mount --make-private "$2"
mount -o remount,bind,ro "$2"
mount --bind "$2" "$1"
umount "$2"
"""

_RESTORE = """\
while mountpoint --quiet "$1"; do umount --lazy "$1"; done
"""

#: $1: a folder, $2: the id of its user. A file system of 8 MB takes its place.
_SMALL = """\
set -eu
mount -t tmpfs -o "size=8m,mode=700,uid=$2" tmpfs "$1"
"""

#: The same with room, and a quota of 8 MB for what is in it. $3: a file for its blocks.
_LIMITED = """\
set -eu
truncate --size=256M "$3"
mkfs.btrfs --quiet "$3"
mount -o loop "$3" "$1"
cd "$1"
btrfs quota enable .
btrfs subvolume create own > /dev/null
btrfs qgroup limit 8M own
chown "$2" own
mount --bind own .
"""


class Homes:
    """The file server's view of /home."""

    def __init__(self, folders: Folders, room: int) -> None:
        self._folders = folders
        self._room = room
        self._changed: set[str] = set()

    def fill(self, user: str) -> None:
        """Leave no space in the user's home; what is written until `restore` is lost then."""
        self._run(_FILL, user)

    def lock(self, user: str) -> None:
        """Make the user's home read-only."""
        self._run(_LOCK, user)

    def restore(self, user: str) -> None:
        """Give the user's home back as it was."""
        self._run(_RESTORE, user)
        self._changed.discard(user)

    @contextmanager
    def small(self, user: str, folder: Path, *, quota: bool = False) -> Iterator[None]:
        """A folder of the user with room for 8 MB, by its file system or by a quota."""
        script = _LIMITED if quota else _SMALL
        image = self._folders.root / "limited.img"
        try:
            self._inside(script, str(folder), str(user_named(user).uid), str(image))
            yield
        finally:
            self._inside(_RESTORE, str(folder))
            image.unlink(missing_ok=True)

    def restore_all(self) -> None:
        """Undo every `fill` and `lock`."""
        for user in sorted(self._changed):
            self.restore(user)

    def _run(self, script: str, user: str) -> None:
        self._changed.add(user_named(user).name)
        stage = self._folders.root / "stage"
        stage.mkdir(exist_ok=True)
        self._inside(script, str(self._folders.home(user)), str(stage))

    def _inside(self, script: str, *words: str) -> None:
        subprocess.run(
            ["nsenter", f"--mount=/proc/{self._room}/ns/mnt", "--", "sh", "-c", script, "sh",
             *words],
            check=True, capture_output=True, timeout=30,
        )  # fmt: skip
