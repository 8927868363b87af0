"""exports.json: what is known of the files that were exported from a run, by name, or by path outside of its folder.

An entry belongs to one content of the file, told by its SHA-256: of a file that has changed since, nothing is known.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pdqat.deployment.bench import Timed
from pdqat.deployment.microcontroller.measurement import CoreMeasurement
from pdqat.deployment.report import ExportReport, verified_entry
from pdqat.deployment.verify import Verified
from pdqat.disk import read_file, write_atomically
from pdqat.runs.folder import Run
from pdqat.runs.forms import ExportForm, read_json

Entry = dict[str, Any]
FILE = "exports.json"


def export_entry(path: Path, report: ExportReport) -> Entry:
    """Of a file that was just written."""
    sizes = {"bytes": report.bytes, "float32_bytes": report.float32_bytes}
    return {**sizes, "sha256": _sha256(path), "verified": [verified_entry(result) for result in report.verified]}


def note_exported(run: Run, path: Path, report: ExportReport) -> None:
    """After `pdqat export`; a stream that it was written to is gone."""
    if path.is_fifo() or path.is_char_device():
        return
    _write(run, path, export_entry(path, report))


def note_verified(run: Run, path: Path, verified: Sequence[Verified]) -> None:
    """After `pdqat verify`; what passes on fewer images than were looked at before says nothing new."""
    known, entries = _known(run, path), [verified_entry(result) for result in verified]
    passes = all(result.passes for result in verified)
    if not passes or _images_of(entries) >= _images_of(known.get("verified", [])):
        _write(run, path, {**known, "verified": entries})


def note_timed(run: Run, path: Path, timed: Sequence[Timed]) -> None:
    """After `pdqat bench`."""
    _write(run, path, {**_known(run, path), "timed": [asdict(row) for row in timed]})


def note_on_core(run: Run, path: Path, measured: Mapping[str, CoreMeasurement]) -> None:
    """After a folder of C, and others of the same network beside it, ran on the emulated core."""
    known = _known(run, path)
    on_core = {**known.get("on_core", {}), **{name: asdict(each) for name, each in measured.items()}}
    _write(run, path, {**known, "on_core": on_core})


def read_exports(run: Run) -> dict[str, Entry]:
    """By file name; without the files in the run folder that have changed since."""
    noted = _read(run)
    here = {name: run.path / name for name in noted}
    return {
        name: entry
        for name, entry in noted.items()
        if not here[name].exists() or _sha256(here[name]) == entry["sha256"]
    }


def _images_of(verified: Sequence[Entry]) -> int:
    """Of so many images codes and outputs were compared, in every runtime."""
    return min((entry.get("outputs", {"count": 0})["count"] for entry in verified), default=0)


def _known(run: Run, path: Path) -> Entry:
    """What was noted of this very content."""
    sha256, entry = _sha256(path), _read(run).get(_name(run, path), {})
    size = sum(file.stat().st_size for file in _files(path))
    return entry if entry.get("sha256") == sha256 else {"bytes": size, "sha256": sha256}


def _read(run: Run) -> dict[str, Entry]:
    file = run.path / FILE
    if not file.is_file():
        return {}
    entries: dict[str, Entry] = read_json(read_file(file), dict[str, ExportForm], file)
    return entries


def _write(run: Run, path: Path, entry: Entry) -> None:
    content = {**_read(run), _name(run, path): entry}
    write_atomically(run.path / FILE, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())


def _name(run: Run, path: Path) -> str:
    """Of a file in the run folder its name, of any other its whole path."""
    return path.name if path.resolve().parent == run.path.resolve() else str(path.resolve())


def _sha256(path: Path) -> str:
    """Of all that was written; what a compiler puts into a folder of C does not count."""
    digest = hashlib.sha256()
    for file in _files(path):
        digest.update(read_file(file))
    return digest.hexdigest()


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(path.glob("*.[ch]"))
    return [path, path.with_suffix(".bin")] if path.suffix == ".xml" else [path]
