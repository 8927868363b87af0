"""The place of a C folder: which folders may be replaced by a new one, and how."""

import shutil
from pathlib import Path

from pdqat.disk import sync_folder
from pdqat.errors import InputError

FILES = ("model.h", "model.c", "golden.h", "selftest.c", "Makefile", "README.md")
BUILT = ("selftest",)
"""What its Makefile adds."""


def check_replaceable(path: Path) -> None:
    """Refuse a path at which there is anything but a folder of this kind, or an empty one."""
    if not path.exists():
        return
    if not path.is_dir():
        raise InputError(f"{path} can't be written: the format c is a folder, and there is a file of that name")
    names = {file.name for file in path.iterdir()}
    others = sorted(names - {*FILES, *BUILT})
    if others or (names and not {"model.h", "model.c"} <= names):
        stranger = (others or sorted(names))[0]
        raise InputError(f"{path} can't be replaced: it was not exported as c, or holds more than that: {stranger}")


def replace_folder(new: Path, path: Path) -> None:
    """Give a folder its name; an old one of that name is removed only when the new one is there.

    Cut short between the two renames, the old one is left as `.replaced-NAME`, and the next export puts it back first.
    """
    old = path.with_name(f".replaced-{path.name}")
    try:
        if old.exists() and not path.exists():
            old.rename(path)
        check_replaceable(path)
        shutil.rmtree(old, ignore_errors=True)
        if path.exists():
            path.rename(old)
        try:
            new.rename(path)
        except OSError:
            if old.exists():
                old.rename(path)
            raise
    except OSError as error:
        raise InputError(f"can't write {path}: {error.strerror or error}") from error
    sync_folder(path.parent)
    shutil.rmtree(old, ignore_errors=True)
