"""The flags of `pdqat train`: a file, a preset or a run to start from, and one for every field of TrainConfig."""

import argparse
from typing import Any

from pdqat.config import words
from pdqat.flags.arguments import count, path
from pdqat.flags.completion import suggest
from pdqat.flags.config_flags import HELP, add_config_flag

PRESET = f"start from a set of options: {', '.join(words.PRESETS)}"
FROM = "go on from a finished run: its options unless given here, its best weights, its multipliers"

OTHERS: dict[str, dict[str, Any]] = {
    "preset": {"metavar": "NAME", "help": PRESET},
    "config": {"type": path, "metavar": "FILE", "help": "TOML file with any of the options, with underscores"},
    "plan": {"type": path, "dest": "plan_file", "metavar": "FILE", "help": HELP["plan"]},
    "from": {"type": path, "dest": "source", "metavar": "RUN", "help": FROM},
    "out": {"type": path, "metavar": "DIR", "help": "run folder to make; by default a new one below runs/"},
    "resume": {"type": path, "metavar": "RUN", "help": "continue the run in this folder"},
    "executor": {"choices": ("local", "ray"), "help": "where: in this process, or on a Ray cluster (default: local)"},
    "workers": {"type": count, "metavar": "N", "help": "with --executor ray, the processes that share every batch"},
}
"""Flags that are no fields of TrainConfig."""

HEADINGS: dict[str, tuple[str, ...]] = {
    "what matters most": (
        *("preset", "data", "model", "bits", "epochs"),
        *("budget", "plan", "from", "out", "resume"),
    ),
    "method": ("method", "objective", "gradient", "quantizer", "tied_norms", "integer_sums"),
    "data": ("data_path", "image_size", "train_images", "validation", "augment", "normalize", "batch_size"),
    "model": ("width", "init", "take_over"),
    "bits of single layers": ("layers", "ends", "budget_bits", "replan"),
    "constraints": (
        *(
            "output_distance",
            "output_tolerance",
            "loss_tolerance",
            "teacher",
            "level",
            "blocks",
            "layer_distance",
            "layer_tolerance",
        ),
        *("tolerances", "tolerance_price", "layer_sample", "view_sample"),
    ),
    "multipliers": (
        *("dual_rule", "dual_rate", "dual_damping", "dual_nu", "dual_restart"),
        *("dual_every", "dual_slack", "dual_samples"),
    ),
    "steps": (
        "optimizer",
        "lr",
        "schedule",
        "milestones",
        "decay",
        "warm_up",
        "progressive",
        "flip_rate",
        "norm_batches",
        "accumulate",
        "clip_norm",
        "patience",
    ),
    "the run": (
        *("config", "log", "seed", "device", "threads", "amp", "compile", "compile_fallback", "sync_norms"),
        *("executor", "workers"),
    ),
}


def add_command(commands: Any) -> None:
    """Add it to the command line."""
    parser = commands.add_parser(
        "train",
        help="train a network under precision constraints",
        description="Train a network to do its task while staying close to its own low-precision version. Every "
        "option but --out, --resume, --from, --plan, --executor and --workers is also a key of the file given with "
        "--config.",
        usage="%(prog)s [OPTION ...]",
        argument_default=argparse.SUPPRESS,
        add_help=False,  # it comes last here
    )
    others = dict.fromkeys(("resume", "config", "preset", "out", "plan_file", "source", "workers"))
    parser.set_defaults(command="pdqat.commands.train:run", executor="local", **others)
    for heading, names in HEADINGS.items():
        group = parser.add_argument_group(heading)
        for name in names:
            if name in OTHERS:
                group.add_argument(f"--{name}", **OTHERS[name])
            else:
                add_config_flag(group, name)
    of_words = {"preset": words.PRESETS, "data": words.DATA, "model": words.MODELS, "log": words.TRACKERS}
    for name, known in of_words.items():
        suggest(parser, f"--{name}", known)
    group.add_argument("-h", "--help", action="help", help="show this message and exit")
