"""A log that grows, shrinks, is replaced, and holds what programs write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jupyter_hpc.node.services.log_files import NotALog, read_piece


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "job.out"
    path.write_text("one\ntwo\n")
    return path


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_all_of_a_short_file(log: Path) -> None:
    piece = read_piece(str(log))
    assert (piece.text, piece.offset, piece.next_offset, piece.size) == ("one\ntwo\n", 0, 8, 8)
    assert piece.eof and not piece.restarted


def test_only_what_is_new(log: Path) -> None:
    first = read_piece(str(log))
    append(log, b"three\n")
    more = read_piece(str(log), first.next_offset, file=first.file)
    assert (more.text, more.offset, more.restarted) == ("three\n", 8, False)
    nothing = read_piece(str(log), more.next_offset, file=more.file)
    assert (nothing.text, nothing.eof, nothing.next_offset) == ("", True, 14)


def test_the_end_first_from_a_whole_line(log: Path) -> None:
    log.write_text("".join(f"line {number}\n" for number in range(1000)))
    piece = read_piece(str(log), limit=100)
    assert piece.text.startswith("line 98") or piece.text.startswith("line 99")
    assert piece.text.endswith("line 999\n")
    assert 80 <= len(piece.text) <= 100
    before = read_piece(str(log), offset=piece.offset - 50, limit=50)
    assert before.next_offset == piece.offset and not before.eof


def test_a_long_file_in_pieces_is_the_whole_file(log: Path) -> None:
    text = "".join(f"zeile {number} ☃ ü\n" for number in range(500))
    log.write_text(text)
    offset, collected, file = 0, "", None
    while True:
        piece = read_piece(str(log), offset, limit=37, file=file)
        collected += piece.text
        offset, file = piece.next_offset, piece.file
        if piece.eof:
            break
    assert collected == text


def test_a_character_that_is_written_in_two_parts(log: Path) -> None:
    snowman = "☃".encode()
    append(log, snowman[:2])
    piece = read_piece(str(log))
    assert (piece.text, piece.next_offset) == ("one\ntwo\n", 8)
    append(log, snowman[2:])
    assert read_piece(str(log), 8, file=piece.file).text == "☃"


def test_bytes_that_are_no_text_are_replaced(log: Path) -> None:
    append(log, b"\xff\xfe ok\n")
    assert read_piece(str(log), 8).text == "\ufffd\ufffd ok\n"


def test_carriage_returns_and_colours_are_kept(log: Path) -> None:
    append(log, b"\r 50%\r100%\x1b[32mdone\x1b[0m\n")
    assert read_piece(str(log), 8).text == "\r 50%\r100%\x1b[32mdone\x1b[0m\n"


def test_a_file_that_was_emptied(log: Path) -> None:
    first = read_piece(str(log))
    log.write_text("new")
    piece = read_piece(str(log), first.next_offset, file=first.file)
    assert (piece.restarted, piece.text) == (True, "new")


def test_a_file_that_was_emptied_and_filled_beyond_the_offset(log: Path) -> None:
    first = read_piece(str(log))
    log.write_text("another beginning and much more text than before\n")
    piece = read_piece(str(log), first.next_offset, file=first.file)
    assert piece.restarted and piece.text.startswith("another")


def test_a_file_that_was_replaced(log: Path) -> None:
    first = read_piece(str(log))
    log.rename(log.with_suffix(".1"))
    log.write_text("one\ntwo\nthree\n")
    piece = read_piece(str(log), first.next_offset, file=first.file)
    assert piece.restarted and piece.text == "one\ntwo\nthree\n"


@pytest.mark.parametrize("token", ["", "x", "1-2-3-4", "--", "a-b-999-0"])
def test_a_token_that_is_none_of_ours_starts_anew(log: Path, token: str) -> None:
    piece = read_piece(str(log), 4, file=token)
    assert piece.text == "one\ntwo\n" and piece.restarted


def test_pipes_devices_and_folders_are_no_logs(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/null"), tmp_path):
        with pytest.raises(NotALog):
            read_piece(str(path))


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_piece(str(tmp_path / "no"))
