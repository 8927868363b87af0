"""The data loader alone: images a second, beside what a training step takes.

    python benchmarks/loader.py

CIFAR-10's training images from memory, shuffled, flipped, cropped and normalised in batches of 128, as training gets
them; random pixels stand in for the real ones, which take the same time. Beside it, in the same rounds, a compiled
plain training step on the width-1 network, faster than any that the package trains with. Numbers go to
results/loader.json.
"""

from collections.abc import Iterator

import torch
from measure import Step, interleaved, network, plain, ratios, rounds_from, training_step, write
from torch import Tensor

from pdqat.data import Batches
from pdqat.data.augmentation import Augmentation
from pdqat.deployment.bench import Spread
from pdqat.process import check_compiler, keep_freed_memory
from pdqat.terminal import PlainConsole

ROUNDS = 25


def endless() -> Iterator[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (45_000, 3, 32, 32), dtype=torch.uint8, generator=generator)
    labels = torch.randint(10, (45_000,), generator=generator)
    augmentation = Augmentation(flip=True, padding=4)
    while True:
        yield from Batches(images, labels, (0.5,) * 3, (0.25,) * 3, 128, augmentation, generator, drop_last=True)


def main() -> None:
    rounds = rounds_from(__doc__, ROUNDS)
    check_compiler()
    keep_freed_memory()
    batches = endless()
    steps: dict[str, Step] = {
        "plain step": training_step(plain(network()), compiled=True, amp=False),
        "loader": lambda: next(batches),
    }
    seconds = interleaved(steps, rounds)
    speeds = {name: Spread.of([128 / taken for taken in values]) for name, values in seconds.items()}
    share = ratios(seconds, "loader", "plain step")
    path = write(
        "loader",
        {
            "images_per_second": {name: vars(speed) for name, speed in speeds.items()},
            "share_of_a_plain_step": vars(share),
            "seconds": seconds,
        },
    )
    console = PlainConsole()
    for name, speed in speeds.items():
        console.print(f"{name}: {speed.median:,.0f} images/s [{speed.low:,.0f}, {speed.high:,.0f}], n = {speed.n}")
    console.print(f"loading a batch takes {100 * share.median:.1f} % of the time of a compiled plain step; {path.name}")


if __name__ == "__main__":
    main()
