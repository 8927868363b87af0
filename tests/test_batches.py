"""Any iterable of (inputs, target), with tensors in any structure."""

from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from pdqat.batches import check_repeatable, each_tensor, first_rows, limited, on_device, pairs, samples_in, tensors_in
from pdqat.errors import InputError

Pair = namedtuple("Pair", ["left", "right"])


def rows(count: int) -> Tensor:
    return torch.arange(float(count))


NESTED: dict[str, Any] = {"image": rows(4), "parts": [rows(4) + 10, (rows(4) + 20, "name")], "n": 3, "none": None}


def test_structures_keep_their_shape_and_all_that_is_no_tensor() -> None:
    doubled = each_tensor(NESTED, lambda tensor: 2 * tensor)
    assert doubled["image"].tolist() == [0, 2, 4, 6]
    assert isinstance(doubled["parts"], list)
    assert isinstance(doubled["parts"][1], tuple)
    assert doubled["parts"][1][0].tolist() == [40, 42, 44, 46]
    assert (doubled["parts"][1][1], doubled["n"], doubled["none"]) == ("name", 3, None)
    pair = each_tensor(Pair(rows(2), {"x": rows(3)}), len)
    assert pair == Pair(2, {"x": 3})
    assert type(pair) is Pair


def test_tensors_from_left_to_right() -> None:
    assert [tensor[0].item() for tensor in tensors_in(NESTED)] == [0, 10, 20]
    assert tensors_in("nothing") == []


def test_to_a_device() -> None:
    moved = on_device(NESTED, torch.device("meta"))
    assert {tensor.device.type for tensor in tensors_in(moved)} == {"meta"}
    assert moved["n"] == 3


def test_first_rows_of_every_tensor_but_numbers() -> None:
    cut = first_rows({**NESTED, "scale": torch.tensor(7.0)}, 2)
    assert [tensor.tolist() for tensor in tensors_in(cut)] == [[0, 1], [10, 11], [20, 21], 7.0]


def test_samples_are_counted_by_the_first_tensor_with_rows() -> None:
    assert samples_in((torch.tensor(7.0), rows(5), rows(2))) == 5
    nothings: list[Any] = ["text", {}, torch.tensor(1.0)]
    for nothing in nothings:
        with pytest.raises(InputError, match="a batch holds no tensor with a sample dimension, but"):
            samples_in(nothing)


@pytest.mark.parametrize(
    ("samples", "sizes"), [(0, []), (3, [3]), (4, [4]), (6, [4, 2]), (9, [4, 4, 1]), (99, [4, 4, 1])]
)
def test_limited_to_so_many_samples(samples: int, sizes: list[int]) -> None:
    loader = DataLoader(TensorDataset(rows(9), rows(9) + 100), batch_size=4)
    batches = list(limited(loader, samples))
    assert [len(inputs) for inputs, _ in batches] == sizes
    inputs = torch.cat([inputs for inputs, _ in batches]) if batches else rows(0)
    assert torch.equal(inputs, rows(min(samples, 9)))
    assert all(torch.equal(target, inputs + 100) for inputs, target in batches)


def test_limited_cuts_nested_inputs_and_targets_alike() -> None:
    ((inputs, target),) = limited([(NESTED, {"y": rows(4)})], 3)
    assert {len(tensor) for tensor in tensors_in((inputs, target))} == {3}


def test_limited_reads_no_batch_more_than_it_needs() -> None:
    def endless() -> Iterator[tuple[Tensor, Tensor]]:
        for number in range(100):
            assert number < 2, "a third batch was asked for"
            yield rows(4), rows(4)

    assert len(list(limited(endless(), 8))) == 2


@pytest.mark.parametrize(
    ("batch", "kind"),
    [
        (rows(4), "Tensor"),
        ({"x": rows(4), "y": rows(4)}, "dict"),
        ((rows(4),), "tuple of 1"),
        ([rows(4), rows(4), rows(4)], "list of 3"),
        ("xy", "str"),
    ],
)
def test_what_is_no_pair_is_refused(batch: Any, kind: str) -> None:
    with pytest.raises(InputError, match=f"a batch must be a pair of inputs and target, not a {kind}$"):
        list(pairs([batch]))


def test_lists_of_two_are_pairs_as_data_loaders_make_them() -> None:
    assert [(len(inputs), len(target)) for inputs, target in pairs([[rows(2), rows(2)], (rows(3), rows(3))])] == [
        (2, 2),
        (3, 3),
    ]


def test_what_ends_after_one_pass_is_refused() -> None:
    data = [(rows(2), rows(2))]
    for repeatable in (data, tuple(data), DataLoader(TensorDataset(rows(4), rows(4)))):
        check_repeatable(repeatable, "the training batches")
    for once, kind in ((iter(data), "list_iterator"), ((pair for pair in data), "generator"), (zip(data), "zip")):
        with pytest.raises(
            InputError, match=f"the training batches is a {kind}, which ends after one pass; give a list"
        ):
            check_repeatable(once, "the training batches")
    with pytest.raises(InputError, match=r"must be an iterable of \(inputs, target\), such as a DataLoader, not 7"):
        check_repeatable(7, "the training batches")  # type: ignore[arg-type]


def test_tensors_that_are_not_by_samples_stay_whole() -> None:
    table = rows(5)
    inputs, shared = first_rows((rows(4), table), 2)
    assert len(inputs) == 2
    assert shared is table
