"""Layer distances at precisions that were not trained: one pass under the plan, every layer tried at each.

A layer reads what it reads under the plan. At a candidate precision its input and its weights are quantised with those
bits, and the output is compared with that of full-precision weights on the unrounded input, by the problem's own layer
distance. Unlike a layer constraint, which sees the same rounded input on both sides, this counts what bits do to the
input too: inputs that all round to 0 would otherwise look perfect.

Squared and absolute distances contain, as in a layer constraint, the rounding of what the layer makes, by the layer
that reads it and with the bits that this one has under the plan. So they can be held against the same tolerances, and
a layer that is tried in full precision is as far away as that rounding takes it.
"""

from collections.abc import Sequence

import torch

from pdqat.batches import Batches, samples_in
from pdqat.layers.layer_quantizers import Candidates
from pdqat.layers.modes import evaluating
from pdqat.layers.recorder import Recorder, Request, candidate_name
from pdqat.precision import Precision
from pdqat.sensitivity.low_layers import layer_distance_of, low_layers, plan_of
from pdqat.task import Problem


@torch.no_grad()
def candidate_distances(
    problem: Problem, batches: Batches, precisions: Sequence[Precision]
) -> dict[str, dict[Precision, float]]:
    """Per layer and precision the mean distance over the batches."""
    net, plan, distance, layers = problem.net, plan_of(problem), layer_distance_of(problem), list(low_layers(problem))
    names = frozenset(candidate_name(layer, precision) for layer in layers for precision in precisions)
    candidates = Candidates(precisions, net.preparation.scheme)
    sums = dict.fromkeys(names, 0.0)
    samples = 0
    with evaluating(net):
        for inputs, _ in batches:
            recorder = Recorder([Request(names, distance)], candidates=candidates)
            with net.under(plan, recorder=recorder):
                net.call(inputs)
            for name in names:
                sums[name] += float(recorder.distance(distance, name).mean()) * samples_in(inputs)
            samples += samples_in(inputs)
    return {
        layer: {precision: sums[candidate_name(layer, precision)] / samples for precision in precisions}
        for layer in layers
    }
