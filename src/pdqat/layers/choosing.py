"""Which layers a plan quantises, and for what reason the others stay as they are."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from torch import nn
from torch.nn.utils.parametrize import ParametrizationList
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from pdqat.errors import InputError
from pdqat.layers.kinds import LAYERS, kind_of
from pdqat.layers.layer import PrecisionLayer
from pdqat.layers.norm import NORMS
from pdqat.layers.own_forward import own_forward_kind
from pdqat.layers.projection import SplitAttention, why_not_split
from pdqat.layers.trace import Trace
from pdqat.precision import DROPPED, FULL, BitPlan, Precision
from pdqat.rules import check_all_match, resolve

PlanLike = str | int | Precision | BitPlan
RECURRENT = (nn.RNNBase, nn.RNNCellBase)
LIKE_LAYERS = (nn.EmbeddingBag, nn.Bilinear)
UNKNOWN = "is not a kind of layer that pdqat quantises"
SHOWN = 4
"""So many names stand for a group of layers in a message."""


@dataclass
class Candidates:
    """The modules of a model that may become precision-aware, and those that can't."""

    kinds: dict[str, type[PrecisionLayer]] = field(default_factory=dict)
    """Layer to the class that it would get."""
    modules: dict[str, nn.Module] = field(default_factory=dict)
    own_forward: set[str] = field(default_factory=set)
    """Layers whose forward is their own: only a trace shows whether it ends in their operation."""
    left_alone: dict[str, str] = field(default_factory=dict)
    """What can't, with the reason."""
    others: dict[str, nn.Module] = field(default_factory=dict)
    """Those of them that do a layer's work all the same: layers around them are not first or last."""

    @classmethod
    def of(cls, model: nn.Module) -> "Candidates":
        """All modules of a model."""
        result = cls()
        packed: tuple[str, ...] = ()
        for name, module in model.named_modules():
            if name.startswith(packed):
                continue
            if isinstance(module, nn.MultiheadAttention) and (reason := why_not_split(module)) is not None:
                result.left_alone[name] = f"{reason}; use separate nn.Linear layers to have them quantised"
                packed += (f"{name}." if name else "",)
            else:
                result._sort(name, module)
        return result

    def _sort(self, name: str, module: nn.Module) -> None:
        self._sort_by_kind(name, module)
        if name in self.left_alone and isinstance(module, (*LAYERS, *RECURRENT, *LIKE_LAYERS)):
            self.others[name] = module

    def _sort_by_kind(self, name: str, module: nn.Module) -> None:
        plain = type(module)
        kind = kind_of(plain)
        if isinstance(module, nn.Embedding) and module.max_norm is not None:
            self.left_alone[name] = "Embedding with max_norm changes its weights in every forward"
        elif any(isinstance(hook, WeightNorm | SpectralNorm) for hook in module._forward_pre_hooks.values()):
            self.left_alone[name] = (
                "torch.nn.utils' old norms of weights can't be copied; use torch.nn.utils.parametrizations"
            )
        elif kind is not None:
            self.kinds[name], self.modules[name] = kind, module
        elif isinstance(module, tuple(LAYERS)):
            own = own_forward_kind(plain)
            if own is None:
                self.left_alone[name] = f"{plain.__name__} is a subclass with a forward of its own"
            else:
                self.kinds[name], self.modules[name] = own, module
                self.own_forward.add(name)
        elif isinstance(module, tuple(NORMS)) and plain not in NORMS:
            self.left_alone[name] = f"{plain.__name__} is a subclass of a batch norm, shared by all views"
        elif isinstance(module, RECURRENT):
            self.left_alone[name] = (
                f"{plain.__name__} is recurrent: torch computes its steps in one function; write them out with "
                "nn.Linear to have them quantised"
            )
        elif isinstance(module, SplitAttention | ParametrizationList):
            return  # its projections are layers, and what it computes is a layer's weight
        elif plain not in NORMS and any(parameter.dim() > 1 for parameter in module.parameters(recurse=False)):
            self.left_alone[name] = f"{plain.__name__} {UNKNOWN}"

    def drop(self, name: str, reason: str) -> None:
        """Leave a layer alone after all."""
        del self.kinds[name], self.modules[name]
        self.own_forward.discard(name)
        self.left_alone[name] = reason

    def settle(self, seen: Trace) -> None:
        """Leave alone what the trace showed to be out of reach."""
        for name in list(self.kinds):
            if name in self.own_forward and name in seen.called and not _ends_in_one(seen, name):
                plain = type(self.modules[name]).__name__
                self.drop(
                    name,
                    f"{plain} is a subclass whose forward is not one call of torch's function on its weight and bias; "
                    "compute a changed weight by torch.nn.utils.parametrize to have it quantised",
                )
            elif name not in seen.calls:
                self.drop(name, "not called with the example input")
        for name, functions in seen.strays.items():
            if name not in self.kinds and self.left_alone.get(name, UNKNOWN).endswith(UNKNOWN):
                listed = ", ".join(sorted(functions))
                self.left_alone[name or "(the model itself)"] = (
                    f"{listed} on its own parameters is not a layer; make it nn.Linear or nn.Conv to have it quantised"
                )


def _ends_in_one(seen: Trace, name: str) -> bool:
    """Whether every forward of a layer calls the same function on its weight and bias, and no other one."""
    return len(seen.operations.get(name, ())) == 1 and name not in seen.strays


def plans_for(
    requested: Sequence[PlanLike],
    seen: Trace,
    rules: Mapping[str, Precision],
    at_ends: Precision,
    candidates: Candidates,
) -> list[BitPlan]:
    """Resolve each requested plan to a precision per quantised layer; all plans name the same layers.

    First and last layers have the precision `at_ends` where no rule names them. Why layers are not quantised goes into
    `candidates.left_alone`.
    """
    layers = [name for name in seen.layers if name in candidates.kinds]
    if not requested:
        raise InputError("at least one precision is needed, for example bits=2")
    check_all_match(rules, layers, "the layer rule")
    if rules and all(isinstance(request, BitPlan) for request in requested):
        raise InputError("layer rules are given beside plans that name each layer's precision; give one or the other")
    ends, known_to_nobody = _ends(seen, layers), seen.hidden | seen.without_effect
    resolved: list[tuple[str, dict[str, Precision]]] = []
    for request in requested:
        if isinstance(request, BitPlan):
            unknown = [name for name in request.precisions if name not in layers]
            if unknown:
                raise InputError(f"plan {request.name!r} names the layer {unknown[0]!r}, which the model does not have")
            precisions = {name: request[name] for name in layers}
            resolved.append((request.name, precisions))
        else:
            uniform = BitPlan.uniform(request, layers)
            defaults = {name: uniform[name] for name in layers} | dict.fromkeys(ends, FULL)
            defaults |= dict.fromkeys((seen.first | seen.last).intersection(layers) - known_to_nobody, at_ends)
            resolved.append((uniform.name, {name: resolve(rules, name, defaults[name]) for name in layers}))
    resolved = [
        (plan, {name: candidates.kinds[name].allowed(precision) for name, precision in precisions.items()})
        for plan, precisions in resolved
    ]
    named = {name for plan in requested if isinstance(plan, BitPlan) for name in plan.precisions}
    resolved = [(plan, _with_branches(plan, precisions, named, seen)) for plan, precisions in resolved]
    quantized = [name for name in layers if name in named or any(plan[name] != FULL for _, plan in resolved)]
    for name in layers:
        if name not in quantized:
            candidates.left_alone[name] = _reason(name, ends, rules)
    if not any(plan[name] not in (FULL, DROPPED) for _, plan in resolved for name in quantized):
        raise InputError(_nothing(candidates))
    plans = [BitPlan(name, {layer: precisions[layer] for layer in quantized}) for name, precisions in resolved]
    names = [plan.name for plan in plans]
    for name in names:
        if hasattr(nn.ModuleDict(), name):
            raise InputError(f"a plan can't be called {name!r}: torch's modules use that name themselves")
    if len(set(names)) < len(names):
        raise InputError(f"each plan needs a name of its own, not {', '.join(names)}")
    return plans


def _with_branches(
    plan: str, precisions: Mapping[str, Precision], named: Collection[str], seen: Trace
) -> dict[str, Precision]:
    """A plan whose dropped layers the network can do without, and without the layers that only feed them."""
    dropped = [name for name, precision in precisions.items() if precision.is_dropped]
    feeding = {name for layer in dropped if layer in seen.branches for name in seen.branches[layer].feeding}
    needed = next((name for name in dropped if name not in feeding and name not in seen.branches), None)
    if needed is not None:
        raise InputError(why_not_dropped(needed, f"plan {plan!r}", seen.branches))
    idle = {name for name in feeding if name in named or precisions.get(name, FULL) != FULL}
    return {name: DROPPED if name in idle else precision for name, precision in precisions.items()}


def why_not_dropped(layer: str, where: str, branches: Collection[str]) -> str:
    """What to say of 0 bits for a layer that is needed."""
    can = f"those are {', '.join(branches)}" if branches else "this network has none"
    return f"{where} gives {layer!r} 0 bits, which only the last layer of a residual branch can have; {can}"


def _ends(seen: Trace, layers: Sequence[str]) -> dict[str, str]:
    """The layers that stay in full precision by default, with what they are."""
    ends = dict.fromkeys(seen.without_effect, "without an effect on the output that is compared")
    ends |= dict.fromkeys(seen.last, "last layer")
    ends |= dict.fromkeys(seen.first, "first layer")
    ends |= dict.fromkeys(seen.hidden, "computed under torch.no_grad, which hides what it reads and what reads it")
    return {name: ends[name] for name in layers if name in ends}


def _reason(name: str, ends: Mapping[str, str], rules: Mapping[str, Precision]) -> str:
    if resolve(rules, name, None) is not None:
        return "full precision by rule"
    if name in ends:
        return f"{ends[name]}: full precision unless a rule names it"
    return "not named by the plan"


def _nothing(candidates: Candidates) -> str:
    """Why there is nothing to quantise, by reason and count."""
    groups: dict[str, list[str]] = {}
    for name, reason in candidates.left_alone.items():
        groups.setdefault(reason, []).append(name)
    if not groups:
        return "the model has nothing to quantise: it has no layer with weights"
    counts = Counter({reason: len(names) for reason, names in groups.items()})
    told = [f"{_some(groups[reason])}: {reason}" for reason, _ in counts.most_common(SHOWN)]
    more = len(groups) - len(told)
    ending = f"; and {more} more reasons" if more > 0 else ""
    return f"the model has nothing to quantise: no layer is left in low precision ({'; '.join(told)}{ending})"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(name or "(the model itself)" for name in names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{len(names)} layers ({shown}, ...)"
