"""More than one process: a training whose batches are shared by the processes of torch's default group.

Every process holds the whole problem and computes its share of each batch. What a batch says is then a mean over all
shares, weighed by their samples, and all processes take the same step. Without a group, or in a group of one, each of
these functions does nothing: one process is all there is.

A function that is *collective* has to be called by all processes, in the same order.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
import torch.distributed
from torch import Tensor
from torch.nn import Parameter
from torch.utils.data import DistributedSampler

from pdqat.batches import Batches, each_tensor, pairs, samples_in, tensors_in
from pdqat.errors import InputError, LostProcessError

T = TypeVar("T")

LAUNCHED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""What torchrun, or another launcher, tells a process of a group."""
LOST = ("gloo", "nccl", "connection closed by peer", "connection reset by peer", "connection refused", "broken pipe")
"""Words in what torch raises where another process does not answer."""


def processes() -> int:
    """How many there are."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_world_size()
    return 1


def rank() -> int:
    """The number of this process, from 0."""
    return torch.distributed.get_rank() if processes() > 1 else 0


def is_first() -> bool:
    """Whether this is the process that writes and shows."""
    return rank() == 0


def gathered(tensor: Tensor) -> Tensor:
    """The tensors of all processes in a new first dimension, with a gradient; collective, in backward too."""
    parts: Tensor = _Gathered.apply(tensor)  # type: ignore[no-untyped-call]
    return parts


class _Gathered(torch.autograd.Function):
    """What every process makes of a gathered tensor sends its gradient back to the process that it came from."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:  # noqa: ARG004
        parts = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for _ in range(processes())]
        torch.distributed.all_gather(parts, tensor.contiguous())
        return torch.stack(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:  # noqa: ARG004
        gradient = gradients[0].contiguous().clone()
        torch.distributed.all_reduce(gradient)
        return gradient[rank()]


def total(tensor: Tensor) -> Tensor:
    """The sum over all processes, without a gradient; collective."""
    if processes() == 1:
        return tensor
    summed = tensor.detach().clone()
    torch.distributed.all_reduce(summed)
    return summed


def least(tensor: Tensor) -> Tensor:
    """The smallest of all processes, without a gradient; collective."""
    smallest = tensor.detach().clone()
    torch.distributed.all_reduce(smallest, torch.distributed.ReduceOp.MIN)
    return smallest


def weighed(mean: Tensor, samples: int) -> Tensor:
    """A mean over this process's samples, so that the mean over processes is that over all samples; collective.

    That is what DistributedDataParallel makes of gradients: it divides their sum by the number of processes.
    """
    return mean * (samples * processes() / total(mean.new_tensor(samples)))


def reaching(value: Tensor, parameters: Iterable[Parameter]) -> Tensor:
    """The same value, with a gradient of 0 for parameters that it does not depend on.

    DistributedDataParallel waits for a gradient of every parameter, unless it was told to look for those that get none.
    """
    if processes() == 1 or not value.requires_grad:
        return value
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    reached: Tensor = _Reaching.apply(value, *trained)  # type: ignore[no-untyped-call]
    return reached


class _Reaching(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, *parameters: Tensor) -> Tensor:
        ctx.parameters = len(parameters)
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return (gradients[0], *(None for _ in range(ctx.parameters)))


def from_first(make: Callable[[], T]) -> T:
    """What the first process makes, in all of them; so is its InputError. Collective."""
    if processes() == 1:
        return make()
    made: list[Any] = [None, None]
    if is_first():
        try:
            made[0] = make()
        except InputError as error:
            made[1] = str(error)
    torch.distributed.broadcast_object_list(made, src=0)
    if made[1] is not None:
        raise InputError(made[1])
    result: T = made[0]
    return result


def union(parts: dict[int, T]) -> dict[int, T]:
    """The entries of all processes, in the order of their numbers; collective."""
    if processes() == 1:
        return parts
    on_cpu = {number: each_tensor(part, Tensor.cpu) for number, part in parts.items()}
    every: list[Any] = [None] * processes()
    torch.distributed.all_gather_object(every, on_cpu)
    return dict(sorted((number, part) for entries in every for number, part in entries.items()))


@torch.no_grad()
def take_from_first(tensors: Iterable[Tensor]) -> None:
    """Let tensors be what they are in the first process; collective."""
    if processes() > 1:
        for tensor in tensors:
            torch.distributed.broadcast(tensor, src=0)


def shares(batches: Batches) -> Iterator[tuple[Any, Any]]:
    """This process's share of every batch; collective.

    All processes go through the same batches. A loader with torch's DistributedSampler gives shares already.
    """
    if processes() == 1 or is_shared_out(batches):
        yield from pairs(batches)
        return
    for number, (inputs, target) in enumerate(pairs(batches)):
        if number == 0:
            _check_same(inputs, target)
        size = samples_in(inputs)
        if size < processes():
            raise InputError(
                f"a batch of {size} can't be shared by {processes()} processes: give larger batches, and leave out a "
                "last one that is smaller (drop_last=True)"
            )
        rows = slice(rank() * size // processes(), (rank() + 1) * size // processes())
        yield _rows(inputs, size, rows), _rows(target, size, rows)


def dealt(batches: Batches, shared: bool = True) -> Iterator[tuple[int, bool, Any, Any]]:
    """The batches with their number, and whether this process is the one that is to compute it; collective.

    Every batch of a loader with torch's DistributedSampler is its own process's; so are all if they are not `shared`.
    """
    alone = not shared or processes() == 1 or is_shared_out(batches)
    for number, (inputs, target) in enumerate(pairs(batches)):
        if number == 0 and not alone:
            _check_same(inputs, target)
        yield number, alone or number % processes() == rank(), inputs, target


def is_shared_out(batches: Batches) -> bool:
    """Whether a loader gives every process a share of its own."""
    return isinstance(getattr(batches, "sampler", None), DistributedSampler)


def check_whole(batches: Batches) -> None:
    """Raise InputError for a loader that would count some samples twice."""
    if is_shared_out(batches):
        raise InputError(
            "samples to measure on come from a loader with a DistributedSampler, which repeats some of them: give all "
            "processes the whole of them, and the batches are dealt out"
        )


def _rows(value: Any, size: int, rows: slice) -> Any:
    return each_tensor(value, lambda tensor: tensor[rows] if tensor.dim() and len(tensor) == size else tensor)


def _check_same(inputs: Any, target: Any) -> None:
    """Raise InputError, in all processes, where they are given different batches."""
    sums = [str(float(tensor.double().sum())) for tensor in tensors_in((inputs, target)) if not tensor.is_complex()]
    every: list[Any] = [None] * processes()
    torch.distributed.all_gather_object(every, sums)
    if any(other != sums for other in every):
        raise InputError(
            "the processes were given different batches: let all of them come from the same seed, by torch's own "
            "generator or the loader's, or give the training loader a DistributedSampler"
        )


@contextmanager
def own_draws(step: int) -> Iterator[None]:
    """Let what is random in a forward differ between processes, and loaders go on drawing the same in all of them."""
    if processes() == 1:
        yield
        return
    before = torch.get_rng_state()
    seed = (torch.initial_seed() * 1_000_003 + step) * processes() + rank()
    torch.manual_seed(seed % 2**63)
    try:
        yield
    finally:
        torch.set_rng_state(before)


def is_launched() -> bool:
    """Whether a launcher has started this process as one of several."""
    return all(name in os.environ for name in LAUNCHED) and int(os.environ["WORLD_SIZE"]) > 1


def is_restarted() -> bool:
    """Whether torchrun has started the processes again, after one of them died."""
    return is_launched() and int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def local_rank() -> int:
    """The number of this process on its machine."""
    return int(os.environ.get("LOCAL_RANK", "0"))


@contextmanager
def joined() -> Iterator[None]:
    """Be one of the processes that torchrun has started, if it has: gloo for the processor's memory, nccl for GPUs."""
    if not is_launched():
        yield
        return
    with noticing_losses():
        _join()
        yield
    torch.distributed.destroy_process_group()


def _join() -> None:
    """Meet the other processes, past what those have written that died since.

    Torchrun keeps one store for all restarts. Only on one machine is their number the same for all processes.
    """
    if os.environ.get("LOCAL_WORLD_SIZE") != os.environ["WORLD_SIZE"]:
        torch.distributed.init_process_group()
        return
    from torch._C._distributed_c10d import PrefixStore  # torch may be built without
    from torch.distributed.rendezvous import rendezvous

    store, own_rank, size = next(rendezvous("env://"))
    store = PrefixStore(f"start {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    torch.distributed.init_process_group(store=store, rank=own_rank, world_size=size)


@contextmanager
def noticing_losses() -> Iterator[None]:
    """Say in one sentence that another process is gone, where torch speaks of connections."""
    try:
        yield
    except RuntimeError as error:
        if not (is_launched() or processes() > 1) or not any(word in str(error).lower() for word in LOST):
            raise
        raise LostProcessError("another process of this training is gone or does not answer") from error
