import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pdqat.data import Augmentation, Batches
from pdqat.errors import InputError

MEAN, STD = (0.25, 0.5), (0.5, 2.0)


def images(count: int) -> Tensor:
    return torch.randint(256, (count, 2, 3, 3), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@given(st.integers(1, 40), st.integers(1, 12), st.booleans())
def test_an_epoch_covers_every_index_once(count: int, batch_size: int, shuffled: bool) -> None:
    batches = Batches(
        images(count), torch.arange(count), MEAN, STD, batch_size, generator=generator() if shuffled else None
    )
    parts = [y for _, y in batches]
    assert len(parts) == len(batches)
    assert all(len(part) == batch_size for part in parts[:-1])
    seen = torch.cat(parts).tolist()
    assert sorted(seen) == list(range(count))
    assert shuffled or seen == list(range(count))


@given(st.integers(1, 40), st.integers(1, 12))
def test_drop_last_leaves_whole_batches(count: int, batch_size: int) -> None:
    batch_size = min(batch_size, count)
    batches = Batches(images(count), torch.arange(count), MEAN, STD, batch_size, generator=generator(), drop_last=True)
    sizes = [len(y) for _, y in batches]
    assert sizes == [batch_size] * (count // batch_size)
    assert len(batches) == len(sizes)


def test_images_are_normalised_and_keep_their_labels() -> None:
    raw = images(7)
    for x, y in Batches(raw, torch.arange(7), MEAN, STD, 3, generator=generator()):
        expected = (raw[y] / 255 - torch.tensor(MEAN).view(2, 1, 1)) / torch.tensor(STD).view(2, 1, 1)
        assert x.dtype == torch.float32
        torch.testing.assert_close(x, expected, rtol=1e-5, atol=1e-6)


def test_the_order_changes_with_every_epoch_and_repeats_with_the_seed() -> None:
    def orders(seed: int) -> list[list[int]]:
        batches = Batches(images(30), torch.arange(30), MEAN, STD, 7, generator=generator(seed))
        return [torch.cat([y for _, y in batches]).tolist() for _ in range(2)]

    first, second = orders(4)
    assert first != second
    assert orders(4) == [first, second]
    assert orders(5)[0] != first


def test_augmentation_sees_raw_pixels_so_that_the_border_is_black() -> None:
    white = torch.full((64, 2, 3, 3), 255, dtype=torch.uint8)
    batches = Batches(white, torch.arange(64), MEAN, STD, 64, Augmentation(flip=False, padding=1), generator())
    (batch,) = (x for x, _ in batches)
    values = {round(value, 4) for value in batch[:, 0].flatten().tolist()}
    assert values == {round((0 - 0.25) / 0.5, 4), round((1 - 0.25) / 0.5, 4)}


def test_a_saved_generator_state_continues_the_run() -> None:
    source = generator()
    batches = Batches(images(20), torch.arange(20), MEAN, STD, 6, Augmentation(flip=True, padding=1), source)
    for _ in batches:
        pass
    state = source.get_state()
    expected = [x for x, _ in batches]
    source.set_state(state)
    assert all(torch.equal(x, e) for (x, _), e in zip(batches, expected, strict=True))


def test_impossible_requests_are_refused() -> None:
    raw, labels = images(5), torch.arange(5)
    with pytest.raises(InputError, match="5 images but 4 labels"):
        Batches(raw, labels[:4], MEAN, STD, 2)
    with pytest.raises(InputError, match="batch_size=0"):
        Batches(raw, labels, MEAN, STD, 0)
    with pytest.raises(InputError, match="limit=0; it must be at least 1"):
        Batches(raw, labels, MEAN, STD, 2, limit=0)
    with pytest.raises(InputError, match="batch_size=6 for 5 images"):
        Batches(raw, labels, MEAN, STD, 6, drop_last=True)
    with pytest.raises(InputError, match="no generator"):
        Batches(raw, labels, MEAN, STD, 2, Augmentation(flip=True, padding=1))


def test_a_limit_ends_an_epoch_after_so_many_images() -> None:
    def sizes(limit: int | None, drop_last: bool = False) -> list[int]:
        batches = Batches(images(10), torch.arange(10), MEAN, STD, 4, limit=limit, drop_last=drop_last)
        counted = [len(y) for _, y in batches]
        assert len(batches) == len(counted)
        return counted

    assert sizes(None) == sizes(10) == sizes(99) == [4, 4, 2]
    assert sizes(7) == [4, 3]
    assert sizes(4) == [4]
    assert sizes(1) == [1]
    assert sizes(7, drop_last=True) == [4]


def test_what_a_limit_leaves_is_drawn_anew_with_every_epoch_and_in_order_without_a_generator() -> None:
    in_order = Batches(images(30), torch.arange(30), MEAN, STD, 4, limit=6)
    assert [torch.cat([y for _, y in in_order]).tolist() for _ in range(2)] == [list(range(6))] * 2
    drawn = Batches(images(30), torch.arange(30), MEAN, STD, 4, generator=generator(), limit=6)
    first, second = (torch.cat([y for _, y in drawn]).tolist() for _ in range(2))
    assert len(set(first)) == len(set(second)) == 6
    assert first != second
    every = Batches(images(30), torch.arange(30), MEAN, STD, 4, generator=generator())
    assert torch.cat([y for _, y in every]).tolist()[:6] == first, "the first of the images that a whole epoch has"
