"""The vocabulary of functions on real numbers, in families that are written to one file each."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from graphs_of_functions import Functions

ACTIVATIONS: Functions = {
    **{
        name: getattr(torch, name)
        for name in ("exp", "erf", "tanh", "sigmoid", "relu", "neg", "abs", "square", "selu", "sin", "cos", "floor")
    },
    **{
        name: getattr(F, name)
        for name in ("leaky_relu", "elu", "celu", "gelu", "silu", "hardswish", "hardsigmoid", "hardtanh", "relu6")
    },
    "mish": F.mish,
    "softplus": F.softplus,
    "ceil": torch.ceil,
    "steep_softplus": lambda x: F.softplus(x, beta=2.0),
    "gelu_by_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "log": lambda x: (x.abs() + 0.1).log(),
    "sqrt": lambda x: x.abs().sqrt(),
    "rsqrt": lambda x: (x * x + 0.1).rsqrt(),
    "reciprocal": lambda x: (x.abs() + 0.5).reciprocal(),
    "pow2": lambda x: x**2,
    "pow3": lambda x: x**3,
    "pow4": lambda x: x**4,
    "pow_half": lambda x: (x.abs() + 1) ** -0.5,
    "pow_other": lambda x: (x.abs() + 1).pow(1.7),
    "elu_of": lambda x: F.elu(x, 0.5),
    "clamp": lambda x: x.clamp(-0.5, 0.7),
    "clamp_min": lambda x: x.clamp_min(0.1),
    "clamp_max": lambda x: x.clamp_max(0.1),
    "leaky": lambda x: F.leaky_relu(x, 0.3),
}
ARITHMETIC: Functions = {
    "add": lambda x, y: x + y,
    "add_number": lambda x, _: x + 2,
    "add_alpha": lambda x, y: torch.add(x, y, alpha=0.3),
    "sub": lambda x, y: x - y,
    "sub_alpha": lambda x, y: torch.sub(x, y, alpha=3),
    "rsub": lambda x, _: 1.5 - x,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / (y.abs() + 1),
    "div_number": lambda x, _: x / 3,
    "reciprocal_of": lambda _, y: 2.0 / (y.abs() + 1),
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "clamp_tensors": lambda x, y: torch.clamp(x, min=y, max=y + 0.5),
    "where": lambda x, y: torch.where(x > 0.1, y, -x),
    "where_number": lambda x, y: torch.where(x <= y, x, 0.0),
    "masked_fill": lambda x, y: x.masked_fill((x < 0) & (y >= 0), -2.0),
    "masks": lambda x, y: ((x < 0).logical_or(y > 0).logical_not() | (x != y)).float(),
    "equal": lambda x, y: (x == x).to(torch.float32) + (~(x == y)).float(),
    "like": lambda x, y: x + torch.ones_like(y) - torch.full_like(x, 0.25) + x.new_zeros(x.shape),
}
WHOLE: Functions = {
    "counts": lambda x, _: ((x > 0).long().cumsum(1) * 2).float(),
    "counted": lambda x, _: (x > 0).sum(1).float() / 2,
    "place": lambda x, _: ((x > 0).long() * torch.arange(6)).argmax(1).float(),
    "last": lambda x, _: (x > 0).int().argmin(-1, keepdim=True).float(),
    "whole": lambda x, y: ((x > 0).int() + 1).float() * y,
}
"""Of whole numbers, which nothing may change."""
SUMS: Functions = {
    "mean": lambda x: x.mean(2),
    "mean_kept": lambda x: x.mean((2, 3), keepdim=True),
    "mean_first": lambda x: x.mean(dim=(1, -1)),
    "sum": lambda x: x.sum(dim=1),
    "amax": lambda x: x.amax((2, 3)),
    "amin": lambda x: x.amin(1, keepdim=True),
    "max": lambda x: x.max(2)[0],
    "min": lambda x: x.min(dim=3, keepdim=True)[0],
    "cumsum": lambda x: x.cumsum(3),
    "var": lambda x: x.var((2, 3)),
    "var_of_all": lambda x: x.var(1, unbiased=False, keepdim=True),
    "std": lambda x: x.std(1),
    "softmax": lambda x: x.softmax(1),
    "softmax_steep": lambda x: F.softmax(30 * x, dim=-1),
    "log_softmax": lambda x: F.log_softmax(x, dim=1),
    "normalize": lambda x: F.normalize(x, dim=1),
    "norm1": lambda x: torch.linalg.vector_norm(x, 1, dim=-1),
    "norm2": lambda x: x.norm(dim=1),
    "layer_norm": lambda x: F.layer_norm(x, (4, 6)),
    "rms_norm": lambda x: F.rms_norm(x, (6,)),
    "group_norm": lambda x: F.group_norm(x, 2),
    "instance_norm": F.instance_norm,
}
NORMS = {
    "ln": nn.LayerNorm([6]),
    "ln_plain": nn.LayerNorm([4, 6], elementwise_affine=False),
    "ln_scale": nn.LayerNorm(6, bias=False),
    "gn": nn.GroupNorm(2, 4),
    "gn_all": nn.GroupNorm(1, 4),
    "inst": nn.InstanceNorm2d(4, affine=True),
    "inst_kept": nn.InstanceNorm2d(4, track_running_stats=True),
    "bn": nn.BatchNorm2d(4),
    "bn_plain": nn.BatchNorm2d(4, affine=False),
    "rms": nn.RMSNorm(6),
    "prelu": nn.PReLU(4),
    "prelu_one": nn.PReLU(),
    "gelu_tanh": nn.GELU("tanh"),
    "soft": nn.Softmax(1),
    "drop": nn.Dropout(0.5),
    "act": nn.Sequential(nn.ReLU(), nn.SiLU(), nn.Hardswish(), nn.Sigmoid(), nn.Tanh(), nn.Mish(), nn.LeakyReLU()),
}
PRODUCTS: Functions = {
    "matmul": lambda x, y: x @ y.transpose(1, 2),
    "bmm": lambda x, y: torch.bmm(x, y.mT),
    "baddbmm": lambda x, y: torch.baddbmm(x[:, :, :1], x, y.mT, beta=0.5, alpha=2),
    "addmm": lambda x, y: torch.addmm(x[:, 0, :4], x[:, 0], y[0].mT),
    "mm": lambda x, y: torch.mm(x[:, 1], y[0].mT),
    "linear": lambda x, y: F.linear(x, y[0, :2]),
    "einsum": lambda x, y: torch.einsum("bij,bkj->bik", x, y),
    "attention": lambda x, y: F.scaled_dot_product_attention(x, y, y),
    "causal": lambda x, _: F.scaled_dot_product_attention(x, x, x, is_causal=True, scale=0.3),
    "masked": lambda x, _: F.scaled_dot_product_attention(
        x, x, x, attn_mask=torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril(1)
    ),
    "added_mask": lambda x, y: F.scaled_dot_product_attention(x, y, y, attn_mask=x[:, :, :4] > -9),
    "real_mask": lambda x, y: F.scaled_dot_product_attention(x, y, y, attn_mask=x[:, :, :4]),
    "by_weights": lambda x, y: F.conv1d(x, y[0, :, :3].reshape(1, 4, 3)),
}
LAYERS = {
    "conv": nn.Conv2d(4, 6, 3, stride=2, padding=1),
    "conv_groups": nn.Conv2d(4, 4, (3, 1), padding=(2, 0), dilation=2, groups=4, bias=False),
    "conv_same": nn.Conv2d(4, 2, (3, 5), padding="same"),
    "conv_valid": nn.Conv2d(4, 2, 2, padding="valid"),
    "conv_reflect": nn.Conv2d(4, 2, 3, padding=1, padding_mode="reflect"),
    "up": nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1),
    "up_groups": nn.ConvTranspose2d(4, 6, 2, stride=2, groups=2, bias=False),
    "linear": nn.Linear(6, 3),
    "linear_plain": nn.Linear(6, 3, bias=False),
}
LINES = {"conv": nn.Conv1d(4, 6, 3, padding=1), "up": nn.ConvTranspose1d(4, 2, 4, stride=2, padding=1)}
VOLUMES = {"conv": nn.Conv3d(2, 3, 2), "up": nn.ConvTranspose3d(2, 3, 2, stride=2)}
SHAPES: Functions = {
    "view": lambda x: x.view(x.shape[0], -1),
    "reshape": lambda x: x.reshape(-1, 4, 2, 3, 2).transpose(1, 2).reshape(x.size(0) * 2, -1),
    "flatten": lambda x: x.flatten(2),
    "flatten_samples": lambda x: x.flatten(0, 1),
    "back": lambda x: (x.flatten(0, 1) * 2).view(x.shape),
    "unflatten": lambda x: x.unflatten(1, (2, 2)),
    "permute": lambda x: x.permute(0, 2, 3, 1),
    "transpose": lambda x: x.transpose(-1, 1),
    "turned": lambda x: x[:, 0, 0].t().t(),
    "reversed": lambda x: x[:, 0, 0].T.T + x[:, 0, 0, :1].mT.mT,
    "squeeze": lambda x: x[:, :, :1].squeeze(2),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "expand": lambda x: x[:, :, :, :1].expand(-1, -1, -1, 3),
    "expand_as": lambda x: x[:, :1].expand_as(x),
    "repeat": lambda x: x.repeat(1, 2, 1, 1),
    "cat": lambda x: torch.cat([x, x + 1], 1),
    "stack": lambda x: torch.stack([x, x * 2], dim=-1),
    "split": lambda x: torch.split(x, 3, dim=1)[1],
    "split_sizes": lambda x: x.split([1, 3], 1)[0],
    "chunk": lambda x: x.chunk(2, dim=3)[1],
    "unbind": lambda x: x.unbind(1)[2],
    "select": lambda x: x.select(1, -1),
    "slice": lambda x: x[:, 1:-1, ::2],
    "narrow": lambda x: x.narrow(3, 1, 2),
    "getitem": lambda x: x[..., None, 1],
    "index": lambda x: x[:, [2, 0, 1]],
    "index_samples": lambda x: x[torch.arange(x.shape[0]), torch.ones(x.shape[0], dtype=torch.long)],
    "index_select": lambda x: x.index_select(2, torch.tensor([1, 0])),
    "gather": lambda x: x.gather(1, torch.zeros(x.shape, dtype=torch.long)),
    "flip": lambda x: x.flip(2, 3),
    "roll": lambda x: torch.roll(x, (1, -1), (2, 3)),
    "pad": lambda x: F.pad(x, (1, 2, 0, 1), value=0.5),
    "pad_reflect": lambda x: (
        F.pad(x, (1, 2), mode="reflect") if x.dim() == 3 else F.pad(x, (1, 2, 1, 0), mode="reflect")
    ),
    "pad_edge": lambda x: F.pad(x, (2, 1, 1, 0), mode="replicate"),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "places": lambda x: x[:, :, 0] + torch.arange(x.shape[3], dtype=torch.float32),
    "numbers": lambda x: x[:, 0, 0, 0] * torch.arange(x.shape[0]),
    "filled": lambda x: x + torch.full((x.shape[0], 1, 1, 1), 0.5) + torch.zeros(x.shape[0], *x.shape[1:]),
    "scaled": lambda x: x * x.shape[1] ** -0.5 + x.shape[0],
    "plain": lambda x: x.contiguous().clone().detach() * 1,
}
POOLS: Functions = {
    "max": lambda x: F.max_pool2d(x, 2),
    "max_padded": lambda x: F.max_pool2d(x, 3, stride=2, padding=1),
    "max_ceil": lambda x: F.max_pool2d(x, 3, stride=2, padding=1, ceil_mode=True),
    "max_dilated": lambda x: F.max_pool2d(x, (2, 3), stride=1, dilation=(2, 1)),
    "average": lambda x: F.avg_pool2d(x, 2),
    "average_padded": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "average_ceil": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
    "average_uncounted": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
    "average_plain_ceil": lambda x: F.avg_pool2d(x, 2, ceil_mode=True),
    "to_one": lambda x: F.adaptive_avg_pool2d(x, 1),
    "to_divisor": lambda x: F.adaptive_avg_pool2d(x, (1, 4)),
    "to_any": lambda x: F.adaptive_avg_pool2d(x, (3, 5)),
    "max_to_one": lambda x: F.adaptive_max_pool2d(x, 1),
    "max_to_any": lambda x: F.adaptive_max_pool2d(x, (2, 3)),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "nearest_to": lambda x: F.interpolate(x, size=(9, 5)),
    "nearest_by": lambda x: F.interpolate(x, scale_factor=1.7),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "bilinear_corners": lambda x: F.interpolate(x, size=(10, 11), mode="bilinear", align_corners=True),
    "bilinear_to": lambda x: F.interpolate(x, size=(5, 12), mode="bilinear", align_corners=False),
    "bilinear_by": lambda x: F.interpolate(x, scale_factor=1.3, mode="bilinear"),
}
OTHER_POOLS: Functions = {
    "line_max": lambda x: F.max_pool1d(x.flatten(2), 3, 2, 1),
    "line_average": lambda x: F.avg_pool1d(x.flatten(2), 3, 2, 1, ceil_mode=True),
    "line_to": lambda x: F.adaptive_avg_pool1d(x.flatten(2), 4),
    "line_linear": lambda x: F.interpolate(x.flatten(2), size=9, mode="linear"),
    "line_nearest": lambda x: F.interpolate(x.flatten(2), scale_factor=2.0),
    "volume_max": lambda x: F.max_pool3d(x, 2),
    "volume_average": lambda x: F.avg_pool3d(x, 2, 1),
    "volume_to": lambda x: F.adaptive_avg_pool3d(x, 1),
    "volume_nearest": lambda x: F.interpolate(x, scale_factor=2),
    "volume_linear": lambda x: F.interpolate(x, size=(3, 5, 4), mode="trilinear"),
}
FAMILIES: dict[str, tuple[Functions, list[tuple[int, ...]], bool, dict[str, Any]]] = {
    "activations": (ACTIVATIONS, [(4, 33)], True, {}),
    "arithmetic": (ARITHMETIC, [(4, 6), (4, 6)], False, {}),
    "whole": (WHOLE, [(4, 6), (4, 6)], False, {}),
    "sums": (SUMS, [(4, 4, 6)], True, {}),
    "norms": ({}, [(4, 4, 6)], True, NORMS),
    "products": (PRODUCTS, [(4, 5), (4, 5)], False, {}),
    "layers": ({}, [(4, 7, 6)], True, LAYERS),
    "lines": ({}, [(4, 7)], True, LINES),
    "volumes": ({}, [(2, 3, 4, 3)], True, VOLUMES),
    "shapes": (SHAPES, [(4, 4, 6)], False, {}),
    "pools": (POOLS, [(2, 7, 8)], True, {}),
    "other_pools": (OTHER_POOLS, [(2, 3, 4, 2)], True, {}),
}
"""Functions, shapes of a sample of each input, whether symbolic tracing can follow them, and modules."""
