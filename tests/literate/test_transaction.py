"""All files or none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from readtorch.literate.transaction import Transaction


def everything(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_writes_and_deletions_are_done_together(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "gone").write_text("gone")
    with Transaction() as transaction:
        transaction.write(tmp_path / "old", "new\r\n")
        transaction.write(tmp_path / "deep" / "er" / "file", b"\x00")
        transaction.delete(tmp_path / "gone")
        assert everything(tmp_path) == {"old": b"old", "gone": b"gone"}
    assert everything(tmp_path) == {"old": b"new\r\n", "deep/er/file": b"\x00"}


def test_an_exception_inside_the_block_writes_nothing(tmp_path: Path) -> None:
    def interrupted() -> None:
        with Transaction() as transaction:
            transaction.write(tmp_path / "a", "x")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        interrupted()
    assert everything(tmp_path) == {}


@pytest.mark.parametrize("fail_at", [0, 1, 2])
def test_a_failing_move_puts_everything_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fail_at: int) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    before = everything(tmp_path)
    moves, replace = [], os.replace

    def failing(source: Path, target: Path) -> None:
        if str(source).endswith(".new"):
            if len(moves) == fail_at:
                raise OSError("disk full")
            moves.append(target)
        replace(source, target)

    monkeypatch.setattr(os, "replace", failing)
    transaction = Transaction()
    transaction.write(tmp_path / "a", "A")
    transaction.write(tmp_path / "new" / "c", "C")
    transaction.write(tmp_path / "b", "B")
    with pytest.raises(OSError, match="disk full"):
        transaction.commit()
    assert len(moves) == fail_at
    assert everything(tmp_path) == before
    assert not (tmp_path / "new").exists()


def test_a_failing_deletion_puts_everything_back(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inner").write_text("x")
    before = everything(tmp_path)
    transaction = Transaction()
    transaction.write(tmp_path / "a", "A")
    transaction.delete(tmp_path / "folder")
    with pytest.raises(OSError):
        transaction.commit()
    assert everything(tmp_path) == before


def test_the_mode_of_a_file_is_kept(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("a")
    script.chmod(0o755)
    with Transaction() as transaction:
        transaction.write(script, "b")
        transaction.write(tmp_path / "fresh", "c")
    assert script.stat().st_mode & 0o777 == 0o755
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "fresh").stat().st_mode & 0o777 == 0o666 & ~mask


def test_file_systems_without_hard_links_work_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_link(*_: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", no_link)
    (tmp_path / "a").write_text("a")
    with Transaction() as transaction:
        transaction.write(tmp_path / "a", "A")
    assert everything(tmp_path) == {"a": b"A"}
