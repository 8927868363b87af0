"""Precision-aware batch norms: each view has statistics of its own and, unless tied, affine parameters of its own.

The full-precision view's are the module's own, under the plain model's state_dict keys; a plan's stand under `views`.
"""

from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from pdqat.errors import InputError
from pdqat.layers.distances import precise
from pdqat.layers.moments import shared_moments
from pdqat.layers.normalize import by_all_shares, normalize
from pdqat.layers.state import ViewState
from pdqat.layers.summand import Summand
from pdqat.precision import BitPlan


class PrecisionNorm(_BatchNorm, Summand):
    """A batch norm that computes what the network's view asks for."""

    name: str
    views: nn.ModuleDict
    ends_branch_of: str | None
    """The layer without which this norm, which follows it at the end of a residual branch, makes zeros."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """The norm under the network's current view."""
        if self.state.stand_in is not None:
            return self.state.stand_in(self, input)
        if self.training and not self._shared and input.numel() == input.shape[1]:
            raise InputError(
                f"the norm {self.name} has one value of each channel to normalise by: a batch to train on needs at "
                "least 2 samples here; leave out a last batch of one, as drop_last=True of a DataLoader does"
            )
        plan = self.state.plan
        if plan is None:
            return self.in_full(input)
        if self._is_dropped(plan):
            return torch.zeros_like(input)
        view = self.views[plan.name]
        assert isinstance(view, _BatchNorm)
        recorder = self.state.recorder
        awaited = recorder is not None and recorder.awaits(self.name)
        slope = _slope(view, input, self._shared) if awaited else None
        output = normalize(view, input, self._shared)  # past view's hooks: the user's on this norm run once
        if recorder is not None and slope is not None:
            recorder.through_norm(self.name, output.detach(), slope, channel_dim=1)
        return self.as_summand(output)

    def in_full(self, input: Tensor) -> Tensor:  # noqa: A002
        """The norm in full precision."""
        if not self.training or self.state.track_statistics:
            return normalize(self, input, self._shared)
        if self._shared:
            return by_all_shares(self, input, track=False)
        return F.batch_norm(input, None, None, self.weight, self.bias, training=True, eps=self.eps)

    def _is_dropped(self, plan: BitPlan) -> bool:
        return self.ends_branch_of is not None and plan[self.ends_branch_of].is_dropped

    @property
    def _shared(self) -> bool:
        return self.state.is_shared and self.state.sync_norms

    def add_view(self, name: str, tied: bool) -> None:
        """Give a plan its own norm, started as a copy of the full-precision one; tied, with the same affine part."""
        view: _BatchNorm = _plain_class(self)(
            self.num_features, self.eps, self.momentum, self.affine, self.track_running_stats
        )
        own = {key: value.clone() for key, value in self.state_dict().items() if "." not in key}
        view.load_state_dict(own, assign=True)
        view.requires_grad_(any(each.requires_grad for each in self.parameters(recurse=False)))
        view.train(self.training)
        if tied:
            view.weight, view.bias = self.weight, self.bias
        self.views[name] = view

    def start_views(self) -> None:
        """Let every plan's norm be a copy of the full-precision one; a tied affine part is the same Parameter."""
        own = {key: value for key, value in self.state_dict().items() if "." not in key}
        for view in self.views.values():
            view.load_state_dict(own)

    @torch.no_grad()
    def take_view_(self, plan: BitPlan) -> None:
        """Become the norm that a plan has, in place."""
        view = self.views[plan.name]
        for key, value in view.state_dict().items():
            own = getattr(self, key)
            if own is not value:
                own.copy_(value)
        if self._is_dropped(plan):
            for offset in (self.running_mean, self.bias):
                if offset is not None:
                    offset.zero_()
            return
        self.attach_sum_quantizer_(plan)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """A plain model's state has one norm: every view starts from it.

        Where a view is tied, a state that has affine parameters of its own for it is refused.
        """
        complaints: list[str] = rest[-1]
        for view in self.views:
            for key in self.views[view].state_dict():
                own, of_view = prefix + key, f"{prefix}views.{view}.{key}"
                if own in state_dict:
                    state_dict.setdefault(of_view, state_dict[own].clone())
                tied = key in ("weight", "bias") and getattr(self.views[view], key) is getattr(self, key)
                if tied and own in state_dict and not torch.equal(state_dict[own], state_dict[of_view]):
                    complaints.append(f"{of_view} is not {own}: prepare the network with tied_norms=False")
        for key, value in self.sums.state_dict(prefix=f"{prefix}sums.").items():
            state_dict.setdefault(key, value)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    @classmethod
    def convert_(cls, norm: nn.Module, name: str, state: ViewState) -> Self:
        """Make a plain norm precision-aware, in place."""
        norm.__class__ = cls
        assert isinstance(norm, cls)
        norm.name, norm.state, norm.views, norm.sums = name, state, nn.ModuleDict(), nn.ModuleDict()
        norm.ends_branch_of = None
        return norm

    def restore_(self) -> None:
        """Make it a plain norm again, in place, as the full-precision view has it."""
        for attribute in ("name", "state", "views", "sums", "ends_branch_of"):
            delattr(self, attribute)
        self.__class__ = _plain_class(self)


class PrecisionBatchNorm1d(PrecisionNorm, nn.BatchNorm1d):
    """A BatchNorm1d that knows the view."""


class PrecisionBatchNorm2d(PrecisionNorm, nn.BatchNorm2d):
    """A BatchNorm2d that knows the view."""


class PrecisionBatchNorm3d(PrecisionNorm, nn.BatchNorm3d):
    """A BatchNorm3d that knows the view."""


NORMS: dict[type[nn.Module], type[PrecisionNorm]] = {
    nn.BatchNorm1d: PrecisionBatchNorm1d,
    nn.BatchNorm2d: PrecisionBatchNorm2d,
    nn.BatchNorm3d: PrecisionBatchNorm3d,
}


def _plain_class(norm: PrecisionNorm) -> Any:
    return next(plain for plain, aware in NORMS.items() if aware is type(norm))


@torch.no_grad()
def _slope(norm: _BatchNorm, input: Tensor, shared: bool) -> Tensor:  # noqa: A002
    """weight / sqrt(variance + eps) per channel, shaped to multiply the input: what the norm multiplies by now."""
    shape = [1, -1] + [1] * (input.dim() - 2)
    if norm.training or norm.running_var is None:
        real, others = precise(input), [dim for dim in range(input.dim()) if dim != 1]
        variance = shared_moments(real, others)[2] if shared else torch.var(real, others, correction=0)
    else:
        variance = norm.running_var
    slope = torch.rsqrt(variance + norm.eps)
    return (slope if norm.weight is None else slope * norm.weight).view(shape)
