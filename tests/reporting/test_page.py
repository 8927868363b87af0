"""The file: self-contained, safe whatever names say, and small."""

import hashlib
import io
import json
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset

import pdqat
from pdqat import models
from pdqat.description import describe
from pdqat.errors import InputError
from pdqat.reporting.gather import SECTIONS, document
from pdqat.reporting.own import say_nothing
from pdqat.reporting.page import embedded, render
from pdqat.reporting.png import png
from pdqat.reporting.subject import Sampled, Subject
from pdqat.training.history import History
from pdqat.training.summary import summarize
from reported import SCRIPT, batches, problem

DATA = re.compile(r'<script type="application/json" id="document">(.*?)</script>', re.DOTALL)
MEGABYTE = 10**6


def document_in(page: str) -> object:
    match = DATA.search(page)
    assert match is not None
    return json.loads(match.group(1))


def test_the_document_survives_its_embedding_whatever_it_says(reported: Subject) -> None:
    made = document([reported], say_nothing)
    assert SCRIPT in made["runs"][0]["name"]
    assert document_in(render(made)) == json.loads(json.dumps(made))


@pytest.mark.parametrize("text", [SCRIPT, "<!--", "\u2028 & \u2029", "]]>", "{{SCRIPT}}"])
def test_no_text_ends_the_script_that_holds_it(text: str) -> None:
    written = embedded({text: [text]})
    assert not set("<>&\u2028\u2029") & set(written)
    assert json.loads(written) == {text: [text]}
    assert document_in(render({text: text})) == {text: text}


def test_the_page_refers_to_nothing_outside(reported: Subject) -> None:
    page = DATA.sub("", render(document([reported], say_nothing)))
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", page)
    assert "@import" not in page
    assert "default-src 'none'" in page
    assert page.count("</script>") == 2, "beside that of the document"


def test_the_chart_library_is_the_file_of_its_package() -> None:
    vendor = files("pdqat.reporting") / "page" / "vendor"
    library = (vendor / "chart.umd.min.js").read_bytes()
    assert hashlib.sha256(library).hexdigest() == CHART_JS
    assert "MIT" in (vendor / "chart.LICENSE.md").read_text()


CHART_JS = "87364cc2b2a76a6684929e7d6b80b18a897794db38400caff1fcf1791c6925d2"
"""Of dist/chart.umd.min.js in chart.js 4.6.1 on npm."""


def test_sections_that_do_not_apply_say_why(reported: Subject) -> None:
    alone = replace(reported, known_problem=None, no_problem_because="there is no checkpoint", epochs=(), exports={})
    (run,) = document([alone], say_nothing)["runs"]
    assert set(run["missing"]) | set(run) >= set(SECTIONS)
    assert run["missing"]["noise"] == "there is no checkpoint"
    assert "history" in run["missing"]["history"]
    assert len(run["constraints"]) == 3, "which the summary has"


def test_report_writes_a_page_of_an_own_problem(tmp_path: Path, history: History) -> None:
    told: list[str] = []
    path = pdqat.report(
        history.problem,
        batches(),
        tmp_path / "mine.html",
        training=batches(),
        history=history,
        thorough=False,
        name="mine",
        tell=told.append,
    )
    (run,) = document_in(path.read_text(encoding="utf-8"))["runs"]  # type: ignore[index]
    assert run["name"] == "mine"
    assert len(run["history"]["epochs"]) == len(history.epochs)
    assert set(run["missing"]) == {"frontier", "verification"}
    assert "`exports=[...]`" in run["missing"]["verification"], "a command would be of no use"
    assert run["about"]["model"] == type(history.problem.net.model).__name__
    assert run["about"]["samples"] == "48 to train on, 48 to validate on, 1 x 6 x 6"
    assert run["about"]["loss"] == "cross_entropy"
    assert json.loads(run["provenance"]["configuration"]) == describe(history.problem)
    assert [text.partition(": ")[2] for text in told] == list(SECTIONS)


@pytest.mark.parametrize("samples", [3, 5, 6, 1234])
def test_samples_are_counted_without_going_through_a_loader(samples: int) -> None:
    images = torch.zeros(samples, 1)
    loader = DataLoader(TensorDataset(images, images), batch_size=2)
    assert Sampled.of(loader, 5).size == f"{samples:,}"
    assert Sampled.of(list(loader), 5).size == (f"{samples:,}" if samples <= 5 else "more than 5")
    part = DataLoader(loader.dataset, batch_size=2, sampler=SubsetRandomSampler(range(samples - 1)))
    assert Sampled.of(part, 5).size == f"{samples - 1:,}", "of what it draws, not of the data set"


def test_report_needs_no_history(tmp_path: Path) -> None:
    path = pdqat.report(problem().eval(), batches(), tmp_path / "mine.html", thorough=False)
    (run,) = document_in(path.read_text(encoding="utf-8"))["runs"]  # type: ignore[index]
    assert "history" in run["missing"]
    assert {row["kind"] for row in run["scores"]["rows"]} == {"full", "low"}


def test_a_metric_of_ones_own_judges_all_views(tmp_path: Path) -> None:
    error = pdqat.Metric("error_rate", lambda output, target: (output.argmax(1) != target).double(), False)
    path = pdqat.report(
        problem().eval(), batches(), tmp_path / "mine.html", training=batches(), metric=error, thorough=False
    )
    (run,) = document_in(path.read_text(encoding="utf-8"))["runs"]  # type: ignore[index]
    assert run["scores"]["metric"] == "error_rate"
    assert [row["kind"] for row in run["scores"]["rows"]] == ["full", "low", "weights", "activations"]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"problem": torch.nn.Linear(2, 2)}, "Lagrangian or a TaskProblem"),
        ({"batches": []}, "batches are empty"),
        ({"batches": iter(batches())}, "ends after one pass"),
        ({"history": [1]}, "what pdqat.fit returned, not a list"),
        ({"path": 3}, "named by text or a path"),
        ({"path": Path("no/such/folder/mine.html")}, "there is no folder no/such/folder to write mine.html into"),
    ],
)
def test_report_refuses_what_it_cannot_report_on(
    tmp_path: Path, history: History, changes: dict[str, object], complaint: str
) -> None:
    given = {"problem": history.problem, "batches": batches(), "path": tmp_path / "mine.html", **changes}
    with pytest.raises(InputError, match=complaint):
        pdqat.report(**given)  # type: ignore[arg-type]
    assert not (tmp_path / "mine.html").exists()


def test_a_report_is_written_over_no_file_of_a_run(tmp_path: Path, history: History) -> None:
    (tmp_path / "config.toml").write_text("epochs = 1\n")
    with pytest.raises(InputError, match=r"config\.toml is a file of a run"):
        pdqat.report(history.problem, batches(), tmp_path / "config.toml")
    assert (tmp_path / "config.toml").read_text() == "epochs = 1\n"


def test_a_report_leaves_the_problem_as_it_was(tmp_path: Path) -> None:
    made = problem()
    before = {key: value.clone() for key, value in made.net.state_dict().items()}
    modes = [module.training for module in made.modules()]
    pdqat.report(made, batches(), tmp_path / "mine.html", training=batches(), thorough=False)
    assert all(torch.equal(value, before[key]) for key, value in made.net.state_dict().items())
    assert [module.training for module in made.modules()] == modes
    assert not any(module._forward_pre_hooks for module in made.net.layers.values())


def test_the_page_of_a_resnet_20_is_below_three_megabytes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    images, labels = torch.rand(32, 3, 8, 8), torch.arange(32) % 10  # small ones: numbers of layers are what counts
    net = pdqat.prepare(models.build("preresnet20", 1, 10, (3, 8, 8)), images[:8], bits=8)
    resnet = pdqat.Lagrangian(net, torch.nn.functional.cross_entropy).eval()
    bounds = pdqat.evaluate(resnet, [(images[:8], labels[:8])])
    summary = summarize(resnet, bounds.metric, [(images[:8], labels[:8])], None, {})
    epochs = [
        {"epoch": at, "loss": 1 / 3, "metric": "accuracy", "accuracy": bounds.scores, "constraints": bounds.constraints}
        for at in range(1, 201)
    ]
    path = pdqat.report(
        resnet,
        [(images, labels)],
        tmp_path / "r.html",
        training=[(images, labels)],
        thorough=False,
        history=History(resnet, epochs, summary),
    )
    assert path.stat().st_size < 3 * MEGABYTE


@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_are_the_bytes_that_were_given(channels: int) -> None:
    image = torch.randint(0, 256, (channels, 5, 7), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    opened = Image.open(io.BytesIO(png(image)))
    pixels = torch.tensor(list(opened.tobytes()), dtype=torch.uint8).reshape(5, 7, channels)
    assert torch.equal(pixels.permute(2, 0, 1), image)
