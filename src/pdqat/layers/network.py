"""Network: one set of weights, seen in full precision or under a plan. `prepare` makes it from any module."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from pdqat.errors import InputError
from pdqat.layers.block import BlockTwin
from pdqat.layers.layer import PrecisionLayer
from pdqat.layers.norm import PrecisionNorm
from pdqat.layers.recorder import Recorder
from pdqat.layers.state import Gradient, ViewState
from pdqat.precision import BitPlan


class Network(nn.Module):
    """A precision-aware model.

    Called as it is, it computes in full precision; `with net.under("2-bit"): net(x)` computes under that plan. Its
    state_dict has the plain model's keys, and what the plans add to them.
    """

    def __init__(self, model: nn.Module, state: ViewState, plans: Sequence[BitPlan], left_alone: Mapping[str, str]):
        super().__init__()
        self.model = model
        self.state = state
        self.plans = {plan.name: plan for plan in plans}
        self.left_alone = dict(left_alone)
        """What `prepare` did not quantise, with the reason."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model under the current view."""
        return self.model(*args, **kwargs)

    @contextmanager
    def under(
        self, plan: str | BitPlan | None, gradient: Gradient = Gradient.EXACT, recorder: Recorder | None = None
    ) -> Iterator["Network"]:
        """Compute under a plan, given by name or as one of `plans`; None is full precision."""
        name = plan.name if isinstance(plan, BitPlan) else plan
        if name is not None and name not in self.plans:
            raise InputError(f"the network has no plan {name!r}; it was prepared with {', '.join(self.plans)}")
        known = None if name is None else self.plans[name]
        if isinstance(plan, BitPlan) and plan is not known and plan != known:
            raise InputError(f"the plan {name!r} that was given is not the one of that name that the network has")
        with self.state.under(known, gradient, recorder):
            yield self

    @property
    def layers(self) -> dict[str, PrecisionLayer]:
        """The quantised layers by name, in the order in which the model calls them."""
        found = {each.name: each for each in self.model.modules() if isinstance(each, PrecisionLayer)}
        names = next(iter(self.plans.values())).precisions if self.plans else ()
        return {name: found[name] for name in names}

    def watch_block(self, name: str) -> None:
        """Let the submodule of that name be compared with its full-precision twin."""
        modules = dict(self.model.named_modules())
        inside = [
            each for key, each in modules.items() if key.startswith(f"{name}.") and isinstance(each, PrecisionLayer)
        ]
        if not inside or not name:
            raise InputError(f"block {name!r} is not a submodule with layers in it")
        hooks = modules[name]._forward_hooks.values()
        if not any(isinstance(hook, BlockTwin) for hook in hooks):
            twin = BlockTwin(name, inside[-1].channel_dim, self.state)
            modules[name].register_forward_hook(twin, with_kwargs=True)

    def restore(self, bake: bool = False) -> nn.Module:
        """Give the plain module back, with the same Parameters and the full-precision view's norms.

        With `bake` the full-precision weights (`quantizer.full`) are written into the Parameters first, so that the
        plain module computes what this network computes in full precision.
        """
        if bake:
            self._bake()
        for module in list(self.model.modules()):
            for key, hook in list(module._forward_hooks.items()):
                if isinstance(hook, BlockTwin):
                    del module._forward_hooks[key]
                    module._forward_hooks_with_kwargs.pop(key, None)
            for key, pre_hook in list(module._forward_pre_hooks.items()):
                if pre_hook is call_every_layer:
                    del module._forward_pre_hooks[key]
            if isinstance(module, PrecisionLayer | PrecisionNorm):
                module.restore_()
        return self.model

    @torch.no_grad()
    def _bake(self) -> None:
        """Write the full-precision weights, each Parameter's once however many layers share it."""
        quantized = [each for each in self.model.modules() if isinstance(each, PrecisionLayer) and each.quantizer]
        full_weights = {layer.weight: layer.full_weight() for layer in quantized}
        for name, module in self.model.named_modules():
            if module not in quantized and any(each in full_weights for each in module.parameters(recurse=False)):
                raise InputError(f"{name!r} shares the weight of a quantised layer, which can't be baked for both")
        for weight, full in full_weights.items():
            weight.copy_(full)

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """The model's state, without a prefix of the network's own."""
        return self.model.state_dict(*args, destination=destination, prefix=prefix, keep_vars=keep_vars)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        for key in [key for key in state_dict if key.startswith(prefix)]:
            state_dict[f"{prefix}model.{key[len(prefix) :]}"] = state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, *rest)


def call_every_layer(module: nn.Module, args: tuple[Any, ...]) -> None:
    """A hook that does nothing, so that torch's encoder layer does not read its layers' weights past them."""
