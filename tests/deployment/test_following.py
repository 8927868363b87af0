"""Forwards of all kinds as graphs, and as files that both runtimes compute like the simulated network."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from deployed_networks import samples
from exported_files import check_file, check_float_file, prepared
from pdqat import InputError
from pdqat.batches import each_tensor
from pdqat.deployment.deployable import Deployable
from pdqat.deployment.export import export
from pdqat.deployment.following.follow import follow
from pdqat.deployment.runtimes import arrays, load


class Own(nn.Module):
    """Three layers, the middle one in low precision; `between` is what subclasses do around it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(F.relu(self.between(F.relu(self.first(x)))))
        return y

    def between(self, x: Tensor) -> Tensor:
        raise NotImplementedError


class ByShape(Own):
    def between(self, x: Tensor) -> Tensor:
        if x.shape[1] > 2 and x.dim() == 3:
            x = x + x.flip(1)
        return self.middle(x)  # type: ignore[no-any-return]


class Arithmetic(Own):
    def between(self, x: Tensor) -> Tensor:
        batch, time, features = x.shape
        x = self.middle(x.view(batch * time, features))
        return x.view(batch, int(time), -1)


class Slices(Own):
    def between(self, x: Tensor) -> Tensor:
        left, right = x[:, : x.shape[1] // 2], x[:, x.shape[1] // 2 :]
        return torch.cat([self.middle(right), left], 1)


class Attention(Own):
    def between(self, x: Tensor) -> Tensor:
        q = self.middle(x)
        scores = q @ x.transpose(-2, -1) / x.shape[-1] ** 0.5
        return torch.softmax(scores, -1) @ x


class InPlace(Own):
    def between(self, x: Tensor) -> Tensor:
        kept = x = x * 1.0
        x += 1.0
        return self.middle(x * 0.5 + kept)  # type: ignore[no-any-return]


class TimeFirst(Own):
    def between(self, x: Tensor) -> Tensor:
        x = x.transpose(0, 1)
        return (x + F.gelu(self.middle(x))).transpose(0, 1)


class WithoutGradients(Own):
    def between(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            x, other = x * torch.exp(-x), x + 1
        with torch.enable_grad():
            x = x + other
        return self.middle(x)  # type: ignore[no-any-return]


class DroppedInPlace(Own):
    def between(self, x: Tensor) -> Tensor:
        y: Tensor = self.middle(F.dropout(x[:, :], 0.5, self.training, inplace=True).relu_())
        return F.dropout(y.flip(-1), 0.5, self.training, inplace=True)


class Interpolated(Own):
    def between(self, x: Tensor) -> Tensor:
        y: Tensor = self.middle(x).transpose(1, 2)
        for _ in range(2):
            y = F.interpolate(y, scale_factor=2.0)
        return y.transpose(1, 2)


FORWARDS: list[type[Own]] = [
    *(ByShape, Arithmetic, Slices, Attention, InPlace, DroppedInPlace, TimeFirst, WithoutGradients, Interpolated)
]


@pytest.mark.usefixtures("sound_runtimes")
@pytest.mark.parametrize("kind", FORWARDS)
def test_forwards_of_all_kinds_are_exported(kind: type[Own], tmp_path: Path) -> None:
    x = samples(6, 4, 6)
    check_file(prepared(kind(), x), x, tmp_path)


@pytest.mark.parametrize("kind", FORWARDS)
def test_a_graph_computes_what_the_model_does_for_any_number_of_samples(kind: type[Own]) -> None:
    x = samples(6, 4, 6)
    net = prepared(kind(), x)
    graph = follow(net, x[:1]).module
    with torch.no_grad(), net.under("4-bit"):
        for count in (1, 2, 6):
            torch.testing.assert_close(graph(x[:count]), net(x[:count]))


class TwoInputs(Own):
    """One of them may be left out, another is not read."""

    def forward(self, x: Tensor, y: Tensor, unread: Tensor | None = None, mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        x = F.relu(self.first(x)) + y
        if mask is not None:
            x = x.masked_fill(mask[:, None], 0.0)
        z: Tensor = self.last(F.relu(self.middle(x)))
        return z


def test_inputs_may_be_a_tuple(tmp_path: Path) -> None:
    inputs = samples(5, 6), samples(5, 8)
    net = prepared(TwoInputs(), inputs)
    assert list(follow(net, inputs).reads) == ["x", "y"]
    check_file(net, inputs, tmp_path, torch.zeros(5, dtype=torch.long))


def test_inputs_may_have_names(tmp_path: Path) -> None:
    inputs = {"mask": torch.arange(5) % 2 == 0, "y": samples(5, 8), "unread": samples(5, 2), "x": samples(5, 6)}
    net = prepared(TwoInputs(), inputs)
    assert sorted(follow(net, inputs).reads) == ["mask", "x", "y"]
    check_file(net, dict(reversed(inputs.items())), tmp_path)
    with pytest.raises(InputError, match="a batch has the inputs x, y; the file also reads mask"):
        export(net, tmp_path / "model.onnx", inputs, check=[({"x": inputs["x"], "y": inputs["y"]}, None)])


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ((torch.rand(4, 6), torch.rand(3, 8)), "must have as many samples each, not 4, 3"),
        ((torch.rand(4, 6), 1.0), "a file reads tensors of samples, not a float"),
        ((torch.rand(4, 6), torch.tensor(1.0)), "a file reads tensors of samples, not a single number"),
        (None, "a file reads tensors of samples, not a NoneType"),
        ((), "a file reads tensors of samples, not a tuple"),
        ((torch.rand(0, 6), torch.rand(0, 8)), "a file reads tensors of samples, not an empty tensor"),
        ({"x": torch.rand(4, 6)}, "the network was prepared with inputs without names; it can't read a dict"),
    ],
)
def test_other_inputs_are_refused(inputs: Any, reason: str) -> None:
    net = prepared(TwoInputs(), (samples(4, 6), samples(4, 8)))
    with pytest.raises(InputError, match=reason):
        Deployable.of(net, None, inputs)


class TwoOutputs(Own):
    def forward(self, x: Tensor) -> dict[str, Any]:  # type: ignore[override]
        hidden = F.relu(self.middle(F.relu(self.first(x))))
        return {"hidden": hidden, "logits": self.last(hidden), "cache": [hidden]}


def test_all_tensors_that_a_model_returns_are_outputs(tmp_path: Path) -> None:
    x = samples(6, 4, 6)
    net = prepared(TwoOutputs(), x)
    with net.under("4-bit"), torch.no_grad():
        check_file(net, x, tmp_path, net(x).argmax(-1))
        wanted = net.model(x)
    made = load("onnxruntime", tmp_path / "model.onnx").run(arrays({"input": x}))
    assert set(made) == {"output", "hidden"}
    torch.testing.assert_close(torch.from_numpy(made["output"]), wanted["logits"], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(torch.from_numpy(made["hidden"]), wanted["hidden"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["model.xml", "model.pt2"])
def test_several_inputs_and_outputs_in_other_formats(tmp_path: Path, name: str) -> None:
    class Both(TwoInputs):
        def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
            return super().forward(x, y), x + 1

    inputs = samples(5, 6), samples(5, 8)
    report = export(prepared(Both(), inputs, output=0), tmp_path / name, inputs, check=[(inputs, None)])
    assert all(result.passes for result in report.verified)


def test_classes_may_stand_last(tmp_path: Path) -> None:
    x = samples(6, 4, 6)
    net = prepared(ByShape(), x)
    with net.under("4-bit"), torch.no_grad():
        labels = net(x).argmax(-1)
    for result in export(net, tmp_path / "model.onnx", x, check=[(x, labels)]).verified:
        assert result.choices is not None
        assert (result.choices.count, result.accuracy) == (24, 1)


def test_the_float32_file_of_an_own_forward(tmp_path: Path) -> None:
    check_float_file(Attention(), samples(6, 4, 6), tmp_path)


class Branches(Own):
    def between(self, x: Tensor) -> Tensor:
        return self.middle(x if x.sum() > 0 else -x)  # type: ignore[no-any-return]


class Unknown(Own):
    def between(self, x: Tensor) -> Tensor:
        y: Tensor = torch.special.i0(self.middle(x))
        return y


class Autocast(Own):
    def between(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu"):
            x = x @ x.transpose(1, 2)
        return self.middle(F.pad(x.float(), (0, 4)))  # type: ignore[no-any-return]


class Mixing(Own):
    """Samples that are added up: the number of samples is part of what it computes."""

    def between(self, x: Tensor) -> Tensor:
        y: Tensor = self.middle(x)
        return y * [1.0, 2.0, 3.0][int(x.shape[0]) - 4]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Branches, r"can't follow the model's graph: .* at File .*, line \d+, in between"),
        (Autocast, "autocast can't be exported"),
        (Mixing, "can't follow the model's graph: "),
        (Unknown, "the function (special_)?i0 "),
    ],
)
def test_what_can_not_be_followed_or_written_is_named(
    kind: type[Own], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = samples(6, 4, 6)
    net = prepared(kind(), x)
    with pytest.raises(InputError, match=reason) as error:
        export(net, tmp_path / "model.onnx", x, check=[(x, None)])
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())
    assert capsys.readouterr() == ("", ""), "nor does torch say anything"


def test_a_network_is_followed_once() -> None:
    x = samples(6, 4, 6)
    model = Deployable.of(prepared(Attention(), x), None, x)
    assert model.followed is model.followed
    assert isinstance(model.followed.module, fx.GraphModule)
    assert model.net.state.stand_in is None


def bert() -> tuple[nn.Module, Any]:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=20, max_position_embeddings=8, **sizes)
    indices = torch.arange(24).view(4, 6) % 20
    mask = (torch.arange(6) < torch.tensor([[6], [3], [1], [5]])).long()
    return transformers.BertForSequenceClassification(config), {"input_ids": indices, "attention_mask": mask}


def resnet() -> tuple[nn.Module, Any]:
    transformers = pytest.importorskip("transformers")
    config = transformers.ResNetConfig(embedding_size=4, hidden_sizes=[4], depths=[1], layer_type="basic")
    return transformers.ResNetForImageClassification(config), {"pixel_values": samples(4, 3, 16, 16)}


@pytest.mark.usefixtures("sound_runtimes")
@pytest.mark.parametrize("make", [bert, resnet])
@pytest.mark.filterwarnings("ignore")  # of that library's own
def test_models_of_transformers_are_exported(make: Callable[[], tuple[nn.Module, Any]], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, inputs = make()
    net = prepared(model, inputs)
    with net.under("4-bit"), torch.no_grad():
        labels = net.call(inputs).argmax(1)
    check_file(net, inputs, tmp_path, labels)
    check_file(net, each_tensor(inputs, lambda tensor: tensor[:1]), tmp_path)
