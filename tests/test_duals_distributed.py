"""Two processes that see different halves of the data get the multipliers of one process that sees all of it."""

from pathlib import Path

import torch
import torch.distributed
import torch.nn.functional as F
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

from pdqat import Ascent, Lagrangian, LayerConstraint, OutputConstraint, prepare

WORLD = 2
EPOCHS = 2
# Unequal halves and batches: a mean of the ranks' means would be wrong.
BATCHES = {0: [slice(0, 3), slice(3, 9)], 1: [slice(9, 10), slice(10, 12)]}


def lagrangian_and_data() -> tuple[Lagrangian, Tensor, Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 2)).double()
    x, y = torch.rand(12, 3, dtype=torch.float64) * 4, torch.arange(12) % 2
    constraints = [OutputConstraint("kl", 1e-5), LayerConstraint("squared", 1e-4)]
    net = prepare(model, x, 2, quantizer="dorefa")
    return Lagrangian(net, F.cross_entropy, constraints, duals=Ascent(50.0)), x, y


def rank_main(rank: int, folder: str) -> None:
    """One rank: the multipliers after each epoch, in a file; with and without DistributedDataParallel."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=WORLD)
    multipliers: dict[str, list[list[float]]] = {}
    for wrapped in (False, True):
        lagrangian, x, y = lagrangian_and_data()
        module = DistributedDataParallel(lagrangian) if wrapped else lagrangian
        epochs = multipliers.setdefault(f"wrapped {wrapped}", [])
        for _ in range(EPOCHS):
            for batch in BATCHES[rank]:
                module(x[batch], y[batch])
            lagrangian.dual_step()
            epochs.append(lagrangian.duals.multipliers.tolist())
    torch.distributed.destroy_process_group()
    torch.save(multipliers, f"{folder}/{rank}.pt")


def test_multipliers_of_two_processes(tmp_path: Path) -> None:
    spawn(rank_main, (str(tmp_path),), WORLD)  # type: ignore[no-untyped-call]
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(WORLD))
    assert first == second

    lagrangian, x, y = lagrangian_and_data()
    expected = []
    for _ in range(EPOCHS):
        lagrangian(x, y)
        lagrangian.dual_step()
        expected.append(lagrangian.duals.multipliers.tolist())
    assert expected[0] != [1, 0]
    for epochs in first.values():
        torch.testing.assert_close(torch.tensor(epochs), torch.tensor(expected), rtol=1e-6, atol=1e-9)
