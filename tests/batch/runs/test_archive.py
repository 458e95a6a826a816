"""Results as a zip file that is made while it is sent."""

from __future__ import annotations

import io
import os
import stat
import zipfile
from pathlib import Path

from jupyter_hpc.batch.runs.archive import LEFT_OUT, PIECE_BYTES, zipped
from jupyter_hpc.batch.submit.results import ResultFile, Results


def result(path: Path, name: str = "", size: int | None = None) -> ResultFile:
    return ResultFile(name or path.name, path.stat().st_size if size is None else size, str(path))


def unzipped(*files: ResultFile) -> zipfile.ZipFile:
    pieces = list(zipped(Results("7", "/run", files), "train-7"))
    assert max(map(len, pieces)) < 2 * PIECE_BYTES, "no piece is larger than the memory is"
    archive = zipfile.ZipFile(io.BytesIO(b"".join(pieces)))
    assert archive.testzip() is None
    return archive


def test_files_links_and_empty_folders_are_in_it(tmp_path: Path) -> None:
    large = tmp_path / "model.pt"
    large.write_bytes(os.urandom(3 * PIECE_BYTES + 5))
    link = ResultFile("last.pt", 0, "", "model.pt")
    archive = unzipped(
        result(large, "checkpoints/ä.pt"), link, ResultFile("empty", 0, "", is_folder=True)
    )
    assert archive.read("train-7/checkpoints/ä.pt") == large.read_bytes()
    entry = archive.getinfo("train-7/last.pt")
    assert stat.S_ISLNK(entry.external_attr >> 16) and archive.read(entry) == b"model.pt"
    assert archive.getinfo("train-7/empty/").is_dir()


def test_a_time_that_zip_files_do_not_have_is_no_obstacle(tmp_path: Path) -> None:
    for name, seconds in (("early", 0), ("late", 2**40)):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, (seconds, seconds))
    archive = unzipped(result(tmp_path / "early"), result(tmp_path / "late"))
    assert [entry.date_time[0] for entry in archive.infolist()] == [1980, 2107]


def test_a_file_that_grows_is_as_long_as_it_was(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("one\ntwo\n")
    assert unzipped(result(log, size=4)).read("train-7/log.txt") == b"one\n"


def test_what_is_gone_or_leads_elsewhere_is_named(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    (tmp_path / "swapped").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe")
    gone = ResultFile("gone.csv", 5, str(tmp_path / "gone.csv"))
    pipe = ResultFile("pipe", 5, str(tmp_path / "pipe"))
    archive = unzipped(gone, ResultFile("swapped", 1, str(tmp_path / "swapped")), pipe)
    assert archive.namelist() == [f"train-7/{LEFT_OUT}"]
    said = archive.read(f"train-7/{LEFT_OUT}").decode()
    assert [line.split(":")[0] for line in said.splitlines()] == ["gone.csv", "swapped", "pipe"]
