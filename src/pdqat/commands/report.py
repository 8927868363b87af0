"""`pdqat report`, and the report at the end of a training."""

import argparse
from pathlib import Path

from pdqat.config.new_run import Ready
from pdqat.errors import InputError
from pdqat.reporting.of_run import of_folders, of_training
from pdqat.reporting.own import check_place, write_page
from pdqat.runs.folder import Run
from pdqat.terminal import PlainConsole
from pdqat.training.history import History


def run(options: argparse.Namespace) -> None:
    """Gather what there is of every run, and write the page."""
    alone = options.runs[0] if len(options.runs) == 1 else Path()
    path = options.out or Run(alone).report_file
    check_place(path)
    console = PlainConsole()
    with console.status("opening the runs") as status:
        subjects = of_folders(options.runs, options.model, options.data)
        write_page(path, subjects, status.update)
    for subject in subjects:
        if subject.known_problem is None:
            text = f"{subject.name}: from its files alone, since {subject.no_problem_because}"
            console.print(text, soft_wrap=True)
    say_where(console, path)


def report_training(ready: Ready, history: History, console: PlainConsole) -> bool:
    """The page of a training that has just ended, of what is at hand; without one, the training is as good.

    Returns whether it was written.
    """
    path = ready.run.report_file
    try:
        with console.status("writing the report") as status:
            write_page(path, [of_training(ready, history)], status.update)
    except InputError as error:
        console.print(f"no report: {error}", soft_wrap=True)
        return False
    say_where(console, path)
    return True


def say_where(console: PlainConsole, path: Path) -> None:
    """The page's path, in one piece."""
    console.print(f"report: {path}", soft_wrap=True)
