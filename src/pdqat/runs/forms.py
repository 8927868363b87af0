"""The forms of a run's files: what each must hold, checked whenever one is read.

Files may hold more than is named here: what later versions add does no harm to this one.
"""

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from pdqat.errors import InputError

Numbers = float | list[float]
"""A number, or one for every channel."""


LARGEST_TOML = 2**20
"""In bytes, of a configuration or plan: thousands of layers."""
FORM_ERRORS = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)
"""What msgspec raises of content of another form; its own kinds are no ValueError in older versions."""


class BoundForm(Struct):
    """The evidence for one bound."""

    name: str
    kind: str
    where: str
    view: str
    tolerance: Numbers
    distance: Numbers
    slack: Numbers
    multiplier: Numbers
    satisfied: bool

    def __post_init__(self) -> None:
        lists = [numbers for numbers in (self.distance, self.slack, self.multiplier) if isinstance(numbers, list)]
        if isinstance(self.tolerance, list):
            lists.append(self.tolerance)
        if lists and (self.kind != "channel" or len(lists) < 3 or not lists[0] or len({*map(len, lists)}) > 1):
            raise ValueError(f"the bound {self.name!r} needs one number each, or one for every channel")


class EpochForm(Struct):
    """A line of metrics.jsonl, but for the scores."""

    epoch: int
    lr: float
    objective: float
    loss: float
    constraints: list[BoundForm]
    metric: str = "accuracy"
    plan: dict[str, str] | UnsetType = UNSET


class BudgetForm(Struct):
    """What a plan was allowed, and what it took."""

    limit: str
    used: str


class SummaryForm(Struct):
    """summary.json, but for the scores."""

    method: str
    epochs: int
    chosen_epoch: int
    constraints: list[BoundForm]
    plans: dict[str, dict[str, str]]
    left_alone: dict[str, str]
    parameters: int
    seconds: float
    compiled: bool
    versions: dict[str, str]
    metric: str = "accuracy"
    processor: str | UnsetType = UNSET
    budget: BudgetForm | UnsetType = UNSET

    def __post_init__(self) -> None:
        unplanned = next((bound.view for bound in self.constraints if bound.view not in self.plans), None)
        if unplanned is not None:
            raise ValueError(f"it has bounds of the view {unplanned!r}, but no plan of that name")


class MeasuredForm(Struct):
    """measured.json of a cell."""

    train_accuracy: dict[str, float]
    layer_distances: dict[str, dict[str, float]]
    processor: str | UnsetType = UNSET


class ProblemForm(Struct):
    """problem.json of a run of own code; what constraints and dual rules hold is up to their classes."""

    format: Literal[1]
    plans: dict[str, dict[str, str]]
    quantizer: str | dict[str, str]
    output: int | str | dict[str, str] | None
    tied_norms: bool
    integer_sums: bool
    loss: str
    training: dict[str, Any]
    low: bool | UnsetType = UNSET
    gradient: str | UnsetType = UNSET
    objective: str | UnsetType = UNSET
    teacher: str | UnsetType | None = UNSET
    layer_sample: float | UnsetType = UNSET
    view_sample: float | UnsetType = UNSET
    constraints: list[dict[str, Any]] | UnsetType = UNSET
    duals: dict[str, Any] | UnsetType = UNSET


class ComparedForm(Struct):
    """How many were compared."""

    count: int


class VerifiedForm(Struct):
    """What a runtime made of an exported file."""

    outputs: ComparedForm | UnsetType = UNSET


class ExportForm(Struct):
    """What exports.json says of one file."""

    bytes: int
    sha256: str
    verified: list[VerifiedForm] | UnsetType = UNSET
    timed: list[dict[str, Any]] | UnsetType = UNSET


class PointForm(Struct):
    """A plan of frontier.json, but for its score, which stands under the metric's name."""

    average_bits: float
    kilobytes: float
    predicted_cost: float
    layers: dict[str, str]


class PriceForm(Struct):
    """Of a layer's distance; held to nothing, a layer has one price."""

    within: float
    beyond: float
    held: float | None


class SizeForm(Struct, forbid_unknown_fields=True):
    """Of a layer."""

    parameters: int
    operations: int


class TrialForm(Struct, forbid_unknown_fields=True):
    """The loss of a plan, told by what it changes."""

    changed: dict[str, str]
    loss: float


class OfferForm(Struct):
    """offer.json: what `pdqat plan` measured, and what for."""

    asked: dict[str, Any]
    by: str
    prices: dict[str, PriceForm]
    costs: dict[str, dict[str, float]]
    sizes: dict[str, SizeForm]
    before: dict[str, str]
    excluded: list[str]
    branches: dict[str, list[str]] | UnsetType = UNSET
    alone: list[TrialForm] | UnsetType = UNSET
    proposed: list[TrialForm] | UnsetType = UNSET


class PlanForm(Struct, forbid_unknown_fields=True):
    """A file with a plan, which may say what network it is for."""

    layers: dict[str, str | Annotated[int, Meta(ge=0, le=99)]]
    model: str | UnsetType = UNSET
    width: int | UnsetType = UNSET


def read_entry(content: bytes, file: Path) -> dict[str, Any]:
    """An epoch's entry: a line of metrics.jsonl, with a score for every view under the metric's name."""
    entry: dict[str, Any] = read_json(content, EpochForm, file)
    _check_scores(entry, dict[str, float], file)
    return entry


def read_summary(content: bytes, file: Path) -> dict[str, Any]:
    """A summary, with scores on the same parts of the data for every view under the metric's name."""
    summary: dict[str, Any] = read_json(content, SummaryForm, file)
    scores = _check_scores(summary, dict[str, dict[str, float]], file)
    if len({tuple(parts) for parts in scores.values()}) != 1 or "validation" not in next(iter(scores.values())):
        raise InputError(f"{file} is damaged: not every view has scores on the same parts of the data")
    return summary


def _check_scores(content: dict[str, Any], form: Any, file: Path) -> dict[str, Any]:
    name = content.get("metric", "accuracy")
    try:
        return msgspec.convert(content[name], form)  # type: ignore[no-any-return]
    except (KeyError, *FORM_ERRORS) as error:
        raise InputError(f"{file} is damaged: it holds no scores under the name of its metric, {name!r}") from error


def read_json(content: bytes, form: Any, file: Path) -> Any:
    """JSON as plain values, once it is known to have a form."""
    try:
        msgspec.json.decode(content, type=form)
        return msgspec.json.decode(content)
    except FORM_ERRORS as error:
        raise InputError(f"{file} is damaged: {error}") from error


def read_toml(content: bytes, file: Path, what: str = "configuration") -> dict[str, Any]:
    """The keys of a TOML file."""
    if len(content) > LARGEST_TOML:
        raise InputError(f"can't read the {what} {file}: it is larger than any {what} is")
    try:
        return tomllib.loads(content.decode())
    except (ValueError, OverflowError, RecursionError) as error:
        raise InputError(f"can't read the {what} {file}: {error}") from error
