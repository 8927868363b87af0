"""How far the output moves when one layer alone is in low precision, or alone is not."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdqat.precision import FULL, BitPlan
from pdqat.quantizers import Quantizer
from pdqat.sensitivity.subject import Subject


@torch.no_grad()
def only_low(subject: Subject) -> dict[str, float]:
    """KL of the full-precision output to that of the same network with this layer alone in low precision."""
    scores = {}
    model = subject.plain
    for name in subject.layers:
        layer, quantizers, precision = model.get_submodule(name), subject.quantizers(name), subject.plan[name]
        weight = subject.plain_weight(name)
        before = weight.clone()
        total, count = 0.0, 0
        for inputs, _ in subject.batches():
            full = model(inputs)
            hook = _quantize_input(layer, quantizers.activation, precision.activation)
            try:
                if precision.weight is not None:
                    weight.copy_(quantizers.weight.quantize(subject.net.layers[name].weight, precision.weight))
                total += _divergence(full, model(inputs)) * len(inputs)
            finally:
                weight.copy_(before)
                if hook is not None:
                    hook.remove()
            count += len(inputs)
        scores[name] = total / count
    return scores


@torch.no_grad()
def only_high(subject: Subject) -> dict[str, float]:
    """By how much the KL to full precision falls when this layer alone is put into full precision."""
    subject.need_full_view()
    plans = {name: BitPlan(subject.plan.name, {**subject.plan.precisions, name: FULL}) for name in subject.layers}
    sums = dict.fromkeys(plans, 0.0)
    count = 0
    for inputs, _ in subject.batches():
        full = subject.net(inputs)
        with subject.net.under(subject.plan):
            all_low = _divergence(full, subject.net(inputs))
        for name, plan in plans.items():
            with subject.net.state.under(plan):
                sums[name] += (all_low - _divergence(full, subject.net(inputs))) * len(inputs)
        count += len(inputs)
    return {name: value / count for name, value in sums.items()}


def _quantize_input(
    layer: nn.Module, quantizer: Quantizer, bits: int | None
) -> "torch.utils.hooks.RemovableHandle | None":
    if bits is None:
        return None
    return layer.register_forward_pre_hook(lambda _, args: (quantizer.quantize(args[0], bits), *args[1:]))


def _divergence(full: Tensor, other: Tensor) -> float:
    logs = [F.log_softmax(each.float(), dim=1) for each in (other, full)]
    return float(F.kl_div(logs[0], logs[1], reduction="batchmean", log_target=True))
