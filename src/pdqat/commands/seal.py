"""`pdqat seal`."""

import argparse

from pdqat.config.presets import config_of
from pdqat.printing import say
from pdqat.runs.folder import Run


def run(options: argparse.Namespace) -> None:
    """Seal the files as they are, unless what they say is nothing that a run can be."""
    sealed = Run.open(options.run)

    def check() -> None:
        if sealed.config_file.exists():
            config_of(sealed)
        else:
            sealed.problem()
        sealed.metrics()
        if sealed.summary_file.exists():
            sealed.summary()
        if sealed.measured_file.exists():
            sealed.measured()

    say(f"sealed as they are: {', '.join(sealed.seal.accept(check))}")
