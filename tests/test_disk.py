from pathlib import Path

import pytest

from pdqat.disk import write_atomically
from pdqat.errors import InputError


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_writing_replaces_the_file_and_leaves_no_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"old", b"new and longer"):
        write_atomically(path, content)
        assert path.read_bytes() == content
    assert names_in(tmp_path) == ["file"]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write_atomically(path, b"old")
    (tmp_path / ".metrics.jsonl.tmp").symlink_to("/dev/full")
    with pytest.raises(InputError, match=r"can't write .*metrics.jsonl: No space left on device"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert names_in(tmp_path) == ["metrics.jsonl"]


def test_a_temporary_name_that_is_taken_by_a_folder_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    (tmp_path / ".file.tmp").mkdir()
    with pytest.raises(InputError, match=r"can't write .*file: Is a directory"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"


def test_half_a_file_of_a_killed_writer_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "file"
    (tmp_path / ".file.tmp").write_bytes(b"half of someth")
    write_atomically(path, b"whole")
    assert path.read_bytes() == b"whole"
    assert names_in(tmp_path) == ["file"]


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't write"):
        write_atomically(tmp_path / "nowhere" / "file", b"x")
