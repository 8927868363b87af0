"""Muon on spheres: steps of weight matrices whose directions all count the same, and Adam for all else.

    M <- m M + G        W' <- W - r |W| / |O| x O,  O = O(G + m M)        W <- |W| / |W'| x W'

G is the gradient of a weight with a row for every output channel, |W| its Frobenius norm. O(X) = U V^T for X = U S V^T
is the orthogonal matrix next to X, found by a few steps of Newton and Schulz (Jordan et al. 2024). A gradient is mostly
of low rank: plain steps move a weight along the few directions that errors point in, these along every one.

Weights keep their norms, so a step turns a weight by the angle r, which the learning rate alone decides. That is what
low precision needs: a code changes once its weight has moved by a part of the grid, and the grid is as large as the
weights are. Steps of a fixed length have a say in less and less as weights grow.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Embedding, Parameter

from pdqat.layers import Network
from pdqat.layers.layer import PrecisionLayer

MOMENTUM = 0.9
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the polynomial that Newton and Schulz's steps repeat, by Jordan: small singular values grow fastest with these."""
ITERATIONS = 5
SMALLEST = 1e-30
"""Of a norm that is divided by."""


class Muon(torch.optim.Adam):
    """Steps of Muon for matrices, of Adam for the other parameters, at one learning rate.

    Args:
        matrices: weights with an output channel, or a unit, in every row of their first dimension.
        others: all other parameters.
        lr: the learning rate.

    Examples:
        >>> weight, bias = Parameter(torch.zeros(2, 2)), Parameter(torch.zeros(2))
        >>> optimizer = Muon([weight], [bias], lr=0.1)
        >>> (weight @ torch.tensor([1.0, 2.0]) + bias).sum().backward()
        >>> optimizer.step()
        >>> bool((weight < 0).all())
        True
    """

    def __init__(self, matrices: Iterable[Parameter], others: Iterable[Parameter], lr: float) -> None:
        groups = [{"params": list(matrices), "orthogonal": True}, {"params": list(others), "orthogonal": False}]
        super().__init__([group for group in groups if group["params"]], lr)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of every parameter that has a gradient."""
        value = None
        if closure is not None:
            with torch.enable_grad():
                value = closure()
        gradients: dict[Parameter, Tensor] = {}
        for group in self.param_groups:
            for parameter in group["params"] if group["orthogonal"] else ():
                if parameter.grad is not None:
                    self._move(parameter, parameter.grad, group["lr"])
                    gradients[parameter], parameter.grad = parameter.grad, None
        super().step()  # of what still has a gradient
        for parameter, gradient in gradients.items():
            parameter.grad = gradient
        return value

    def _move(self, parameter: Parameter, gradient: Tensor, rate: float) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros(())  # torch's Adam looks for it in every state that is loaded
            state["momentum"] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
        state["step"] += 1
        momentum: Tensor = state["momentum"].mul_(MOMENTUM).add_(gradient)
        ahead = (gradient + MOMENTUM * momentum).flatten(1)
        direction = orthogonal(ahead).view(parameter.shape)
        size = parameter.norm().clamp_min(rate * len(parameter) ** 0.5)  # so that a weight of zeros can begin
        parameter.sub_(direction * (rate * size / direction.norm().clamp_min(SMALLEST)))
        parameter.mul_(size / parameter.norm().clamp_min(SMALLEST))


def orthogonal(matrix: Tensor) -> Tensor:
    """About the orthogonal matrix next to this one: singular values above a hundredth of its norm come near 1.

    >>> bool(torch.linalg.svdvals(orthogonal(torch.diag(torch.tensor([1.0, 0.1])))).sub(1).abs().max() < 0.4)
    True
    """
    is_tall = matrix.shape[0] > matrix.shape[1]
    near: Tensor = (matrix.T if is_tall else matrix).to(torch.float32)
    near = near / near.norm().clamp_min(SMALLEST)  # no singular value is then above 1, and a matrix of zeros stays one
    linear, cubic, quintic = COEFFICIENTS
    for _ in range(ITERATIONS):
        gram = near @ near.T
        near = linear * near + (cubic * gram + quintic * gram @ gram) @ near
    return (near.T if is_tall else near).to(matrix.dtype)


def muon_for(net: Network, lr: float) -> Muon:
    """For a prepared network: weights of layers that a batch norm follows are the matrices, whatever their bits.

    A batch norm takes a weight's scale out again, and learns one, so that nothing is lost with weights of fixed norms;
    but for the share of a branch in a residual sum, which is then that of the start.
    Embeddings are looked up row by row, and depthwise filters stand alone: their rows make no matrix.
    """
    layers = [module for module in net.modules() if isinstance(module, PrecisionLayer) and module.norm_after]
    weights = (layer.weight for layer in layers if not isinstance(layer, Embedding))
    matrices = dict.fromkeys(weight for weight in weights if isinstance(weight, Parameter) and _is_matrix(weight))
    others = [parameter for parameter in net.parameters() if parameter not in matrices]
    return Muon(matrices, others, lr)


def _is_matrix(weight: Parameter) -> bool:
    return weight.dim() > 1 and min(weight.shape[:2]) > 1
