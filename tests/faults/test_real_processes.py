"""Faults from outside, in processes as a person starts them: the system refuses calls, or the disk is full."""

import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from faults.forking import Ended
from faults.injecting import SIGNALS
from faults.outcomes import Span, assert_in_order, faults
from faults.small_training import OWN_CODE, TRAIN
from pdqat.runs.folder import Run
from same_run import assert_same_run, heed_interrupts

PDQAT = [sys.executable, "-m", "pdqat"]
CALLS = "fsync,fdatasync,ftruncate,rename,renameat,renameat2,mkdir"
"""Of the system, that only writing makes."""
IN_A_NAMESPACE = ["unshare", "--map-root-user", "--mount"]


def environment() -> dict[str, str]:
    settings = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    return {**os.environ, **settings}


def ended(command: Sequence[str]) -> Ended:
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    return Ended(done.returncode, done.stdout, done.stderr, 0, 0.0)


def has_begun(process: subprocess.Popen[str]) -> bool:
    """Whether the command heeds SIGTERM, which is the first thing that it does."""
    caught = re.search(r"^SigCgt:\s*(\w+)", Path(f"/proc/{process.pid}/status").read_text(), re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)


def continue_and_compare(run: Run, undisturbed: Run) -> None:
    if not run.summary_file.exists():
        command = ["train", *OWN_CODE, "--resume"] if run.config_file.exists() else [*TRAIN, "--out"]
        again = ended([*PDQAT, *command, str(run.path)])
        assert (again.code, again.errors) == (0, "")
    assert_same_run(undisturbed, run)


@faults(fast=0, slow=12)
def test_a_signal_at_any_moment(choice: random.Random, trained: tuple[Run, Span], tmp_path: Path) -> None:
    """Once the command has begun: what ends an interpreter that starts is not ours to say."""
    run = Run(tmp_path / "run")
    process = subprocess.Popen(
        [*PDQAT, *TRAIN, "--out", str(run.path)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    is_early, seconds, number = choice.random() < 0.5, choice.uniform(0, 4), choice.choice(SIGNALS)
    while not (has_begun(process) and (is_early or run.config_file.exists())) and process.poll() is None:
        time.sleep(0.01)
    time.sleep(seconds)
    process.send_signal(number)
    output, errors = process.communicate()
    print(number.name, process.returncode)
    assert_in_order(Ended(process.returncode, output, errors, 0, 0.0))
    continue_and_compare(run, trained[0])


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace lets the system refuse calls")
def test_every_call_of_the_system_is_refused_in_turn(trained: tuple[Run, Span], tmp_path: Path) -> None:
    log = tmp_path / "log"
    watched = ["strace", "-f", "--seccomp-bpf", "-o", str(log), "-e", f"trace={CALLS}"]
    assert ended([*watched, *PDQAT, *TRAIN, "--out", str(tmp_path / "counted" / "run")]).code == 0
    calls = len(re.findall(r"\) += 0", log.read_text()))
    assert calls > 20
    for number in range(1, calls + 1):
        run = Run(tmp_path / str(number) / "run")
        refusing = ["-e", f"inject={CALLS}:error=ENOSPC:when={number}"]
        end = ended([*watched, *refusing, *PDQAT, *TRAIN, "--out", str(run.path)])
        print(number, end.code)
        assert_in_order(end)
        continue_and_compare(run, trained[0])


@faults(fast=0, slow=6)
def test_a_disk_that_fills_up(choice: random.Random, trained: tuple[Run, Span], tmp_path: Path) -> None:
    """A small file system that grows before the training is continued."""
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    disk.mkdir()
    if subprocess.run([*IN_A_NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", str(disk)], check=False).returncode:
        pytest.skip("no file system can be mounted here")
    pages = choice.randint(1, 20)
    run = disk / "run"
    print(pages, "pages")
    training, continuing = (
        [*PDQAT, *command, str(run)] for command in ([*TRAIN, "--out"], ["train", *OWN_CODE, "--resume"])
    )
    script = f"""
    mount -t tmpfs -o size={4 * pages}k tmpfs {shlex.quote(str(disk))}
    {shlex.join(training)} 2> {shlex.quote(str(tmp_path / "errors"))}
    code=$?
    mount -o remount,size=10m {shlex.quote(str(disk))}
    if [ $code != 0 ]; then
        if [ -e {shlex.quote(str(run / "config.toml"))} ]; then {shlex.join(continuing)}; else
            rm -rf {shlex.quote(str(run))}; {shlex.join(training)}; fi
    fi
    cp -r {shlex.quote(str(run))} {shlex.quote(str(kept))}
    exit $code
    """
    end = ended([*IN_A_NAMESPACE, "sh", "-c", script])
    assert end.errors == ""
    assert_in_order(Ended(end.code, "", (tmp_path / "errors").read_text(), 0, 0.0))
    assert end.code in (0, 2)
    assert_same_run(trained[0], Run.open(kept))
