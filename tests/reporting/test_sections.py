"""The numbers of every section, against what defines them."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import pdqat
from pdqat.allocation.measure import measure_under
from pdqat.errors import InputError
from pdqat.layers.histograms import BINS, histogram
from pdqat.layers.layer_quantizers import LayerQuantizers
from pdqat.precision import Precision
from pdqat.reporting.choices import SHOWN, choices_of
from pdqat.reporting.constraints import constraints_of
from pdqat.reporting.frontier import frontier_of
from pdqat.reporting.histograms import histograms_of
from pdqat.reporting.history import history_of
from pdqat.reporting.noise import noise_of
from pdqat.reporting.plan import plan_of
from pdqat.reporting.provenance import checksum_of_batches, provenance_of
from pdqat.reporting.ranking import rank_correlation, rankings_of
from pdqat.reporting.scores import scores_of
from pdqat.reporting.size import sizes_of
from pdqat.reporting.subject import Sampled, Subject
from pdqat.reporting.verification import verification_of
from pdqat.training.history import History
from reported import CLASSES, EPOCHS, LAYER, batches
from small_problems import small, task_problem


def own(problem: pdqat.Lagrangian | pdqat.TaskProblem, given: object) -> Subject:
    """A problem with no history."""
    measured = pdqat.evaluate(problem, given)  # type: ignore[arg-type]
    scores = {view: {"validation": score} for view, score in measured.scores.items()}
    summary = {
        "metric": measured.metric.name,
        measured.metric.name: scores,
        "constraints": measured.constraints,
        "plans": measured.plans,
    }
    samples = Sampled.of(given)  # type: ignore[arg-type]
    return Subject("own", summary, known_problem=problem, validation=samples, training=samples, thorough=False)


def test_scores_are_the_summarys_and_halves_round_only_their_half(reported: Subject, history: History) -> None:
    scores = scores_of(reported)
    by_kind = {row.kind: row.by_part["validation"] for row in scores.rows}
    assert by_kind["full"] == history.scores["full"]["validation"]
    assert by_kind["low"] == history.scores["2-bit"]["validation"]
    for kind, half in (("weights", Precision(2, None)), ("activations", Precision(None, 2))):
        plan = pdqat.BitPlan("one-half", dict.fromkeys((LAYER, "second"), half))
        task = pdqat.TaskProblem(history.problem.net, history.problem.loss)
        expected = measure_under(task, plan, batches(), batches())
        assert by_kind[kind] == expected.scores["one-half"]


def test_scores_without_training_samples_say_why_there_are_no_halves(reported: Subject) -> None:
    scores = scores_of(replace(reported, training=Sampled()))
    assert [row.kind for row in scores.rows] == ["full", "low"]
    assert "training samples" in scores.note


def test_the_history_has_every_epochs_numbers(reported: Subject, history: History) -> None:
    made = history_of(reported)
    assert made.epochs == list(range(1, EPOCHS + 1))
    assert made.chosen == history.summary["chosen_epoch"]
    assert made.scores["2-bit"] == [entry["accuracy"]["2-bit"] for entry in history.epochs]
    for at, bound in enumerate(made.bounds):
        entries = [entry["constraints"][at] for entry in history.epochs]
        assert bound.name == entries[0]["name"]
        assert bound.multiplier == [entry["multiplier"] for entry in entries]
        assert bound.slack == [entry["slack"] for entry in entries]
        assert bound.distance == [entry["distance"] for entry in entries]


@pytest.mark.parametrize(
    ("distance", "state"), [(0.11, "violated"), (0.1, "active"), (0.095, "active"), (0.05, "satisfied")]
)
def test_a_constraint_is_violated_active_or_satisfied(reported: Subject, distance: float, state: str) -> None:
    entry = {**reported.summary["constraints"][1], "tolerance": 0.1, "distance": distance, "slack": distance - 0.1}
    (row,) = constraints_of(replace(reported, summary={**reported.summary, "constraints": [entry]}))
    assert (row.state, row.where, row.bits) == (state, LAYER, "2")


def test_of_a_bound_per_channel_the_worst_one_is_shown(reported: Subject) -> None:
    of_channels = {"distance": [0.1, 0.9, 0.2], "slack": [-0.4, 0.4, -0.3], "multiplier": [1.0, 2.0, 3.0]}
    entry = {**reported.summary["constraints"][1], "kind": "channel", "tolerance": 0.5, **of_channels}
    (row,) = constraints_of(replace(reported, summary={**reported.summary, "constraints": [entry]}))
    assert (row.distance, row.slack, row.multiplier, row.channels) == (0.9, 0.4, 2.0, 3)


def test_rankings_stand_side_by_side(reported: Subject, history: History) -> None:
    made = rankings_of(replace(reported, thorough=True))
    assert list(made.scores) == ["dual", "hessian", "gradient", "only-low", "only-high", "distance"]
    assert made.scores["dual"] == pdqat.rank(history.problem, batches()).scores
    assert made.layers == [LAYER, "second"]
    assert list(rankings_of(reported).scores) == ["dual", "distance"], "what one pass tells"


def test_rank_correlation_is_spearmans() -> None:
    generator = np.random.default_rng(0)
    for _ in range(5):
        left, right = generator.integers(0, 6, 9), generator.integers(0, 6, 9)
        names = [str(at) for at in range(9)]
        ours = rank_correlation(dict(zip(names, left, strict=True)), dict(zip(names, right, strict=True)))
        assert ours == pytest.approx(spearmanr(left, right).statistic)


def test_the_plan_lists_layers_from_input_to_output_with_bits_and_cost(reported: Subject) -> None:
    (plan,) = plan_of(reported)
    assert [layer.layer for layer in plan.layers] == ["stem", LAYER, "second", "head"]
    assert [layer.weight_bits for layer in plan.layers] == [32, 2, 2, 32]
    assert [layer.parameters for layer in plan.layers] == [36, 216, 216, 432]
    assert "first layer" in plan.layers[0].reason
    assert plan.average_bits == 2
    rows = [row for row in constraints_of(reported) if row.kind == "layer"]
    assert plan.cost == pytest.approx(sum(row.multiplier * row.distance for row in rows))


def test_the_frontier_names_the_best_plan_the_thrifty_one_and_the_trained_one(reported: Subject) -> None:
    made = frontier_of(reported)
    assert [point.name for point in made.points] == ["", "smallest close to the best", "best score", ""]
    assert made.trained is not None
    assert made.trained.average_bits == 2
    assert made.trained.kilobytes == pytest.approx(432 * 2 / 8 / 1000)


def test_a_quick_report_computes_no_frontier(reported: Subject) -> None:
    with pytest.raises(InputError, match="`pdqat report RUN` does that"):
        frontier_of(replace(reported, frontier=None))


def test_histograms_count_every_weight_and_every_level(reported: Subject, history: History) -> None:
    net = history.problem.net
    for made in histograms_of(reported):
        layer = net.layers[made.layer]
        low = layer.low_weight(net.plans["2-bit"])
        assert (len(made.weights.counts), sum(made.weights.counts)) == (BINS, low.numel())
        assert sum(made.weights.at_levels) == low.numel()
        if not made.weights.in_steps:
            assert made.weights.levels == pytest.approx(torch.unique(low).tolist(), abs=1e-6)
        assert made.activations is not None
        assert len(made.activations.levels) <= 4


def test_activations_are_those_that_the_layer_reads_under_its_plan(reported: Subject, history: History) -> None:
    net, read = history.problem.net, []
    images = torch.cat([images for images, _ in batches()])[:32]
    hook = net.layers["second"].register_forward_pre_hook(lambda _, args: read.append(args[0]))
    with torch.no_grad(), net.under("2-bit"):
        net.eval()(images)
    hook.remove()
    made = next(made.activations for made in histograms_of(reported) if made.layer == "second")
    quantizers = net.layers["second"].views["2-bit"]
    assert made is not None
    assert isinstance(quantizers, LayerQuantizers)
    values, counts = torch.unique(quantizers.activation.quantize(read[0], 2), return_counts=True)
    assert made.levels == pytest.approx(values.tolist(), abs=1e-6)
    assert made.at_levels == counts.tolist()


def test_a_histogram_of_values_that_are_all_equal_has_one_bin_in_use() -> None:
    made = histogram(torch.full((7,), 3.0), None)
    assert sum(made.counts) == max(made.counts) == 7
    assert made.low < 3 < made.high


def test_signal_to_noise_is_the_inverse_of_the_relative_distance(reported: Subject) -> None:
    made = {row.layer: row for row in noise_of(reported)}
    assert made[LAYER].training == made[LAYER].validation, "the same samples here"
    given = small(constraints=[pdqat.LayerConstraint(distance="relative")])
    rows = {row.layer: row.validation for row in noise_of(own(given.problem, given.batches))}
    for entry in pdqat.evaluate(given.problem, given.batches).constraints:
        assert rows[entry["where"]] == pytest.approx(-10 * math.log10(entry["distance"]), abs=1e-3)


def test_sizes_count_bits_and_show_what_was_measured(reported: Subject) -> None:
    rows = {(row.what, row.unit): row for row in sizes_of(reported).rows}
    parameters = rows["2-bit: parameters", "bytes"]
    assert parameters.float32 is not None
    assert parameters.float32 - parameters.low == 432 * (32 - 2) / 8
    operations = rows["2-bit: bit operations of one sample", "BOPs"]
    quantized, rest = 36 * 432, 36 * 36 + 432
    assert operations.low == quantized * 2 * 2 + rest * 32 * 32
    assert operations.float32 == (quantized + rest) * 32 * 32
    timed = rows["model.onnx: batch of 64", "ms"]
    assert (timed.low, timed.float32) == (1, 2)


def test_flash_and_memory_of_a_folder_of_c_stand_beside_float32(reported: Subject) -> None:
    own = {"weights": 3000, "code": 1000, "arena": 800, "stack": 100, "macs": 5, "instructions": 70}
    full = {"weights": 12000, "code": 2000, "arena": 3200, "stack": 100, "macs": 5, "instructions": 90}
    exports = {"c": {"bytes": 99999, "sha256": "", "on_core": {"c": own, "8 bits": own, "float32": full}}}
    rows: dict[str, Any] = {
        row.what: (row.low, row.float32) for row in sizes_of(replace(reported, exports=exports)).rows
    }
    assert rows["c: flash"] == (4000, 14000)
    assert rows["c: RAM"] == (900, 3300)
    assert rows["c: instructions"] == (70, 90)
    alone = {"c": {**exports["c"], "on_core": {"c": own}}}
    rows = {row.what: (row.low, row.float32) for row in sizes_of(replace(reported, exports=alone)).rows}
    assert rows["c: flash"] == (4000, None)


def test_confusions_and_disagreements_are_those_of_the_views(reported: Subject, history: History) -> None:
    made = choices_of(reported)
    problem = history.problem.eval()
    images, labels = (torch.cat(parts) for parts in zip(*batches(), strict=True))
    with torch.no_grad():
        chosen = {view: output.argmax(1) for view, output in problem.terms(images, labels).outputs.items()}
    for view, of_view in made.views.items():
        assert sum(count for *_, count in of_view.confusion) == len(labels)
        right = sum(count for target, choice, count in of_view.confusion if target == choice)
        assert right == int((chosen[view] == labels).sum())
    differing = torch.nonzero(chosen["full"] != chosen["2-bit"])[:, 0].tolist()
    low = made.views["2-bit"]
    assert low.differing == len(differing)
    assert [sample.sample for sample in low.disagreements] == differing[:SHOWN]
    assert made.classes == list(CLASSES)


def test_targets_that_are_no_classes_have_no_choices() -> None:
    for kind in ("regression", "signal"):
        given = small(kind)
        with pytest.raises(InputError, match="not one class for each sample"):
            choices_of(own(given.problem, given.batches))


def test_a_file_is_verified_failed_or_unverified(reported: Subject) -> None:
    (file,) = verification_of(reported)
    assert file.state == "verified"
    entry = reported.exports["model.onnx"]
    failing = {**entry, "verified": [{**entry["verified"][0], "passes": False}]}
    assert verification_of(replace(reported, exports={"a": failing}))[0].state == "failed"
    assert verification_of(replace(reported, exports={"a": {**entry, "verified": []}}))[0].state == "unverified"


def test_the_checksum_changes_with_the_data(reported: Subject) -> None:
    assert provenance_of(reported).checksum == checksum_of_batches(batches())
    images, labels = batches()[0]
    changed = images.clone()
    changed[3, 0, 2, 2] += 1e-3
    assert checksum_of_batches([(changed, labels)]) != checksum_of_batches([(images, labels)])


def test_straight_through_training_alone_has_no_disagreements_and_full_precision_no_plan() -> None:
    given = small()
    low = own(task_problem().eval(), given.batches)
    assert choices_of(low).views["2-bit"].differing is None
    full = own(task_problem(low=False).eval(), given.batches)
    for section in (plan_of, histograms_of, noise_of, sizes_of):
        with pytest.raises(InputError, match="full precision alone"):
            section(full)


def test_samples_are_no_more_than_asked_for() -> None:
    assert (len(Sampled.of(batches(), 40)), Sampled.of(batches(), 40).is_all) == (40, False)
    assert (len(Sampled.of(batches(), 48)), Sampled.of(batches(), 48).is_all) == (48, True)
