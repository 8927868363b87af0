import errno
import os
import socket
import stat
import threading
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


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "metrics.jsonl"
    write_atomically(path, b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
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


def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "file", tmp_path / "link"
    link.symlink_to("elsewhere/file")
    for content in (b"new", b"old"):  # a link to nothing yet, then one to a file
        write_atomically(link, content)
        assert link.is_symlink()
        assert target.read_bytes() == content
    assert sorted(names_in(tmp_path)) == ["elsewhere", "link"]


def test_links_in_a_circle_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("other")
    (tmp_path / "other").symlink_to("one")
    with pytest.raises(InputError, match=r"can't write .*one: Too many levels of symbolic links"):
        write_atomically(tmp_path / "one", b"x")
    assert (tmp_path / "one").is_symlink()


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe, heard = tmp_path / "pipe", []
    os.mkfifo(pipe)
    listener = threading.Thread(target=lambda: heard.append(pipe.read_bytes()))
    listener.start()
    write_atomically(pipe, b"content")
    listener.join()
    assert heard == [b"content"]
    assert pipe.is_fifo()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_written_to(tmp_path: Path) -> None:
    null = tmp_path / "null"
    try:
        os.mknod(null, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("no devices can be made here")
    write_atomically(null, b"content")
    assert null.is_char_device()
    assert names_in(tmp_path) == ["null"]


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=r"can't write .*folder: it is a folder"):
        write_atomically(tmp_path / "folder", b"x")
    with socket.socket(socket.AF_UNIX) as ear:
        ear.bind(str(tmp_path / "socket"))
        with pytest.raises(InputError, match=r"can't write .*socket: it is neither a file nor a stream"):
            write_atomically(tmp_path / "socket", b"x")
    assert sorted(names_in(tmp_path)) == ["folder", "socket"]


def test_many_writers_of_one_file_leave_one_of_their_contents(tmp_path: Path) -> None:
    path, contents = tmp_path / "file", [bytes([number]) * 100_000 for number in range(8)]
    writers = [threading.Thread(target=write_atomically, args=(path, content)) for content in contents]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert path.read_bytes() in contents
    assert names_in(tmp_path) == ["file"]
