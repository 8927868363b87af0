"""Layer distances at precisions that were not trained: one pass under the run's plan, every layer tried at each.

A layer reads what it reads under the plan. At a candidate precision its input and its weights are quantised with those
bits, and the output is compared with that of full-precision weights on the unrounded input, by the run's own distance.
Unlike a layer constraint, which sees the same rounded input on both sides, this counts what bits do to the input too:
inputs that all round to 0 would otherwise look perfect.
"""

from collections.abc import Sequence

import torch

from pdqat.layers.recorder import Recorder, Request, candidate_name
from pdqat.precision import FULL, Precision
from pdqat.sensitivity.subject import Subject


@torch.no_grad()
def distances(subject: Subject, candidates: Sequence[Precision]) -> dict[str, dict[Precision, float]]:
    """Per layer and candidate the mean distance on the held-out images; 0 in full precision."""
    chosen = subject.setup.config.layer_distance
    tried = [each for each in candidates if each != FULL]
    names = frozenset(candidate_name(layer, each) for layer in subject.layers for each in tried)
    sums = dict.fromkeys(names, 0.0)
    count = 0
    for inputs, target in subject.batches():
        recorder = Recorder([Request(names, chosen)], candidates=tried)
        with subject.net.under(subject.plan, recorder=recorder):
            subject.net(inputs)
        for name in names:
            sums[name] += float(recorder.distance(chosen, name).mean()) * len(target)
        count += len(target)
    return {
        layer: {each: 0.0 if each == FULL else sums[candidate_name(layer, each)] / count for each in candidates}
        for layer in subject.layers
    }
