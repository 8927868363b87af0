"""Network: one set of weights, seen in full precision or under a plan. `prepare` makes it from any module."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pdqat.batches import each_tensor, on_device
from pdqat.errors import InputError
from pdqat.layers.block import BlockTwin
from pdqat.layers.branches import Branch
from pdqat.layers.coverage import Coverage
from pdqat.layers.interface import Interface
from pdqat.layers.layer import PrecisionLayer
from pdqat.layers.modes import evaluating
from pdqat.layers.norm import PrecisionNorm
from pdqat.layers.projection import join_
from pdqat.layers.recorder import Recorder
from pdqat.layers.sizes import layer_sizes
from pdqat.layers.state import Gradient, ViewState
from pdqat.layers.writing import new_weights, write
from pdqat.precision import BitPlan
from pdqat.quantizers import Scheme


@dataclass(frozen=True)
class Preparation:
    """What a network was prepared with, so that it can be prepared again for other bits."""

    example: Any
    dtype: torch.dtype
    """The parameters' at that time."""
    scheme: Scheme
    interface: Interface
    output_shape: tuple[int, ...]
    """Of the tensor that is compared, for the example."""
    tied_norms: bool
    integer_sums: bool
    branches: Mapping[str, Branch]
    """By layer that can be dropped, what goes with it."""

    def example_on(self, device: torch.device) -> Any:
        """The example on a device."""
        return on_device(self.example, device)

    def __deepcopy__(self, memo: dict[int, object]) -> "Preparation":
        return self


class Network(nn.Module):
    """A precision-aware model.

    Called as it is, it computes in full precision; `with net.under("2-bit"): net(x)` computes under that plan. Its
    state_dict has the plain model's keys, and what the plans add to them.
    """

    def __init__(
        self,
        model: nn.Module,
        state: ViewState,
        plans: Sequence[BitPlan],
        left_alone: Mapping[str, str],
        preparation: Preparation,
    ) -> None:
        super().__init__()
        self.model = model
        self.state = state
        self.preparation = preparation
        self.plans = {plan.name: plan for plan in plans}
        self.left_alone = dict(left_alone)
        """What `prepare` did not quantise, with the reason."""

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """The model under the current view: of what it returns, the tensor that is compared."""
        return self.preparation.interface.compared(self.model(*args, **kwargs))

    def call(self, inputs: Any) -> Tensor:
        """The network on the inputs of a batch, given to the model as the example was."""
        args, kwargs = self.preparation.interface.arguments(inputs)
        output: Tensor = self(*args, **kwargs)
        return output

    @contextmanager
    def under(
        self, plan: str | BitPlan | None, gradient: Gradient = Gradient.EXACT, recorder: Recorder | None = None
    ) -> Iterator["Network"]:
        """Compute under a plan, given by name or as one of `plans`; None is full precision."""
        known = None if plan is None else self._known(plan)
        with self.state.under(known, gradient, recorder):
            yield self

    def _known(self, plan: str | BitPlan) -> BitPlan:
        name = plan.name if isinstance(plan, BitPlan) else plan
        if name not in self.plans:
            raise InputError(f"the network has no plan {name!r}; it was prepared with {', '.join(self.plans)}")
        known = self.plans[name]
        if isinstance(plan, BitPlan) and plan is not known and plan != known:
            raise InputError(f"the plan {name!r} that was given is not the one of that name that the network has")
        return known

    def only_plan(self, purpose: str) -> BitPlan:
        """The network's plan; raises InputError if it has several, since then `purpose` is unclear."""
        if len(self.plans) != 1:
            raise InputError(
                f"the network has {len(self.plans)} plans, {', '.join(self.plans)}; to {purpose} it must have one"
            )
        return next(iter(self.plans.values()))

    @property
    def example(self) -> Any:
        """What the network was prepared with, on its device and, if its type was changed since, of that type."""
        like = next(self.parameters())
        example = self.preparation.example_on(like.device)
        if like.dtype is self.preparation.dtype:
            return example
        return each_tensor(example, lambda tensor: tensor.to(like.dtype) if tensor.is_floating_point() else tensor)

    @property
    def every_layer(self) -> dict[str, PrecisionLayer]:
        """All layers that could be quantised, by name, in the model's order."""
        return {module.name: module for module in self.model.modules() if isinstance(module, PrecisionLayer)}

    @property
    def layers(self) -> dict[str, PrecisionLayer]:
        """The quantised layers by name, in the order in which the model calls them."""
        by_name = self.every_layer
        names = next(iter(self.plans.values())).precisions if self.plans else ()
        return {name: by_name[name] for name in names}

    @property
    def coverage(self) -> Coverage:
        """The share of the model's weights and operations that is quantised, and why the rest is not; print it."""
        sizes = layer_sizes(self, every=True)
        added = {part for module in self._aware() for part in (*module.views.modules(), *module.sums.modules())}
        plain = (module for module in self.model.modules() if module not in added)
        own = {parameter: parameter.numel() for module in plain for parameter in module.parameters(recurse=False)}
        with evaluating(self):
            once = {layer.weight: name for name, layer in self.layers.items()}  # layers may share a weight
        quantized = sum(sizes[name].parameters for name in once.values())
        operations = sum(size.operations for size in sizes.values())
        layers = {name: sizes[name] for name in self.layers}
        return Coverage(layers, quantized, sum(own.values()), operations, self.left_alone)

    def _aware(self) -> Iterator[PrecisionLayer | PrecisionNorm]:
        return (module for module in self.model.modules() if isinstance(module, PrecisionLayer | PrecisionNorm))

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
            modules[name].register_forward_pre_hook(twin.before)
            modules[name].register_forward_hook(twin, with_kwargs=True)

    def restore(self, bake: bool = False, plan: str | BitPlan | None = None) -> nn.Module:
        """Give the plain module back, in place, with the same Parameters.

        Args:
            bake: write the full-precision weights (`quantizer.full`) into the Parameters first, so that the plain
                module computes what this network computes in full precision.
            plan: give the low-precision model of this plan back instead: quantised weights in the Parameters, the
                plan's own norms, and an explicit `Rounding` as `input_quantizer` in front of every layer that reads
                quantised activations (`sum_quantizer` behind one whose output is rounded for a sum).
        """
        if plan is not None and bake:
            raise InputError("restore either bakes full precision or gives a plan's low precision, not both")
        weights: dict[nn.Module, Tensor] = {}
        if bake:
            weights = new_weights(self.model, PrecisionLayer.full_weight, "baked")
        if plan is not None:
            known = self._known(plan)
            weights = new_weights(self.model, lambda layer: layer.low_weight(known), "quantised")
            self._attach_quantizers(known)
        for module in list(self.model.modules()):
            for key, hook in list(module._forward_hooks.items()):
                if isinstance(hook, BlockTwin):
                    del module._forward_hooks[key]
                    module._forward_hooks_with_kwargs.pop(key, None)
            for key, pre_hook in list(module._forward_pre_hooks.items()):
                of_a_twin = isinstance(getattr(pre_hook, "__self__", None), BlockTwin)
                if of_a_twin or (pre_hook is call_every_layer and plan is None):
                    del module._forward_pre_hooks[key]
            if isinstance(module, PrecisionLayer | PrecisionNorm):
                module.restore_()
        write(weights)
        if plan is None:
            join_(self.model)
        return self.model

    def _attach_quantizers(self, plan: BitPlan) -> None:
        """Put a plan's quantisers in front of the layers, and its norms in the place of the full-precision ones."""
        for module in list(self.model.modules()):
            if isinstance(module, PrecisionLayer):
                module.attach_quantizers_(plan)
            elif isinstance(module, PrecisionNorm):
                module.take_view_(plan)

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """The model's state, without a prefix of the network's own."""
        return self.model.state_dict(*args, destination=destination, prefix=prefix, keep_vars=keep_vars)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """A plain model's state is taken without steps of sums; a plan's that lacks them is refused."""
        complaints: list[str] = rest[-1]
        aware = list(self._aware())
        steps = {f"{prefix}{module.name}.sums.{key}" for module in aware for key in module.sums.state_dict()}
        missing = min(steps - state_dict.keys(), default=None)
        of_plans = tuple(f"{prefix}{module.name}.views." for module in aware)
        if missing is not None and any(key.startswith(of_plans) for key in state_dict):
            complaints.append(
                f"{missing} is not in the state, which was trained without rounding all that sums and means add up "
                "(integer_sums): train again, from its weights if you like"
            )
        for key in [key for key in state_dict if key.startswith(prefix)]:
            state_dict[f"{prefix}model.{key[len(prefix) :]}"] = state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, *rest)


def call_every_layer(module: nn.Module, args: tuple[Any, ...]) -> None:
    """A hook that does nothing, so that torch's encoder layer does not read its layers' weights past them."""
