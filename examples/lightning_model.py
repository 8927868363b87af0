"""An own Lightning module, trained under precision constraints: its training step returns the Lagrangian.

    python examples/lightning_model.py

The data are the handwritten digits that come with scikit-learn. Needs `pip install 'pdqat[data,lightning]'`; takes
about ten seconds on one core.
"""

import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from own_model import convolutional, digits
from torch import Tensor

import pdqat
from pdqat.integrations.lightning import PrimalDual


class Digits(pl.LightningModule):  # type: ignore[misc]
    """A classifier, with the accuracy of every view on validation images."""

    def __init__(self, example: Tensor) -> None:
        super().__init__()
        net = pdqat.prepare(convolutional(), example, bits=4)
        self.problem = pdqat.Lagrangian(net, F.cross_entropy)

    def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
        value: Tensor = self.problem(*batch)
        return value

    def validation_step(self, batch: tuple[Tensor, Tensor], _: int) -> None:
        outputs = self.problem.terms(*batch).outputs
        for view, output in outputs.items():
            self.log(f"accuracy/{view}", (output.argmax(1) == batch[1]).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.problem.net.parameters(), 3e-3)


def main(epochs: int = 5) -> None:
    pl.seed_everything(0)
    train_loader, validation_loader = digits()
    example, _ = next(iter(validation_loader))
    module = Digits(example)
    trainer = pl.Trainer(max_epochs=epochs, accelerator="cpu", logger=False, callbacks=[PrimalDual()])
    trainer.fit(module, train_loader, validation_loader)
    for name, value in trainer.callback_metrics.items():
        print(f"{name:32} {float(value):+.4f}")
    print(pdqat.evaluate(module.problem, validation_loader))  # from here on as with any other problem
    print(pdqat.rank(module.problem, validation_loader))


if __name__ == "__main__":
    main()
