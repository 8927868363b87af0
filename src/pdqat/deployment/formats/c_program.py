"""A graph as a C program: every operation becomes a step, on tensors that are stored as their readers want them."""

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from torch import Tensor, fx
from torch.nn.modules.batchnorm import _BatchNorm

from pdqat.deployment.formats import c_real
from pdqat.deployment.formats.c_rounding import sums_rounding
from pdqat.deployment.formats.c_rows import RowOperation
from pdqat.deployment.formats.c_steps import EACH_PIXEL, SUM_PIXELS, Product, Step, pair
from pdqat.deployment.formats.c_tensors import BYTES, INT32, PLANES, REAL, Stored, bits_of, kind_of
from pdqat.deployment.formats.c_text import plain_name
from pdqat.deployment.integer.folding import folded_norm
from pdqat.deployment.integer.functions import function_name, in_functions, reached
from pdqat.deployment.integer.graph import function_of_numbers, is_without_effect
from pdqat.deployment.integer.made import Made
from pdqat.deployment.integer.names import OWN_NAME
from pdqat.deployment.integer.operations import (
    Clip,
    IntegerProduct,
    ProductSums,
    RequantizedProduct,
    ScaleShift,
    ToCodes,
    ToReal,
)
from pdqat.deployment.integer.sum_operations import PooledSums, RequantizedSum, SumsToCodes
from pdqat.errors import InputError

NAMES = {
    "by_thresholds": "codes {made.low} to {made.high}, by thresholds",
    "by_search": "codes {made.low} to {made.high}, by thresholds",
    "by_line": "codes {made.low} to {made.high}, by lines",
    "by_short_line": "codes {made.low} to {made.high}, by lines that 32 bits hold",
    "by_float32": "codes {made.low} to {made.high}, rounded to 24 bits on the way",
    "as_scores": "scores",
    "as_real": "real numbers",
    "multiply_row": "sums",
}
"""What roundings make, for comments."""
CODE_MAKERS = (RequantizedProduct, RequantizedSum, SumsToCodes, ToCodes)


@dataclass(frozen=True)
class Layer:
    """What makes codes."""

    operation: str
    """Of the integer reference."""
    name: str
    """A plain one."""
    shape: tuple[int, ...]
    """Of a sample's codes."""
    low: int
    """The lowest code."""

    @property
    def size(self) -> int:
        """How many codes a sample has."""
        return prod(self.shape)


class Program:
    """The steps of a frozen module, or of a plain one in real numbers, on one sample.

    What can't be written is an InputError that names the layer.
    """

    def __init__(self, module: fx.GraphModule, example: tuple[Tensor, ...]) -> None:
        self.module = in_functions(module)
        self._modules = dict(self.module.named_modules())
        self._graph = self.module.graph
        self._made = Made(self.module)
        with torch.no_grad():
            self._made.run(*(tensor.clone() for tensor in example))
        self._reached = reached(self._graph)
        self._values: dict[fx.Node, Any] = {}
        self._sources: dict[Stored, fx.Node] = {}
        """What makes a tensor."""
        self.steps: list[Step] = []
        self.observed: list[str] = []
        """The operations that make codes, as they are numbered."""
        self._named = 0
        self.input: Stored
        self.input_codes: tuple[str, ToCodes] | None = None
        """The operation that makes codes of the input, and its name, where the input is codes."""
        self.last_product: Product | None = None
        """What makes the scores, where these are whole numbers."""
        self._output = self._final_node()
        self._products = self._prepared_products()
        for node in self._graph.nodes:
            if node.op != "output":
                self._values[node] = made = self._visit(node)
                if isinstance(made, Stored):
                    self._sources.setdefault(made, node)
        self.output: Stored = self._values[self._output]
        if self.output.outside != "scores":
            raise InputError("a model that gives back its input can't be written to C")

    def refuse(self, node: fx.Node, what: str) -> InputError:
        """Says what can't be written, and where."""
        return InputError(f"{node.meta.get(OWN_NAME, node.name)}: {what} can't be written to C")

    def shape(self, node: fx.Node) -> tuple[int, int, int]:
        """Channels, height and width of what a node makes of a sample."""
        made = self._made.by_node[node]
        sizes = tuple(made.shape[1:]) if isinstance(made, Tensor) else ()
        if not 1 <= len(sizes) <= 3:
            raise self.refuse(node, f"a tensor of {len(sizes) + 1} dimensions, other than 2, 3 and 4,")
        channels, *image = sizes
        return (channels, *pair(image, len(image), 1))

    def new(self, node: fx.Node, kind: str, low: int = 0, high: int = 0) -> Stored:
        """What a node makes."""
        is_output = node is self._output
        self._named += 1
        name = "scores" if is_output else f"{'real' if kind == REAL else 'whole'}{self._named}"
        return Stored(name, *self.shape(node), kind, low, high, "scores" if is_output else "")

    def _final_node(self) -> fx.Node:
        """What makes the output, before what only passes it on."""
        given = self._graph.output_node().args[0]
        inputs = [node for node in self._graph.nodes if node.op == "placeholder"]
        if not isinstance(given, fx.Node) or len(inputs) != 1:
            raise InputError("a model of more than one input or output can't be written to C")
        while self._passes_on(given):
            given = given.all_input_nodes[0]
        return given

    def _passes_on(self, node: fx.Node) -> bool:
        if is_without_effect(node, self._modules):
            return True
        if node.op == "output":
            return False
        is_shaping = node.op in ("call_function", "call_method") and function_name(node) in c_real.SHAPINGS
        return is_shaping and self.shape(node.all_input_nodes[0])[1:] == (1, 1)

    def _prepared_products(self) -> dict[fx.Node, Product]:
        products = {}
        for node in self._graph.nodes:
            operation = self._operation(node)
            if isinstance(operation, IntegerProduct):
                maker = self._operation(node.all_input_nodes[0])
                assert isinstance(maker, CODE_MAKERS)
                if operation.weight.dim() == 2 and self._made.by_node[node].dim() > 2:
                    raise self.refuse(node, "a linear layer of more than one vector a sample")
                name = plain_name(str(node.meta.get(OWN_NAME, node.name)))
                products[node] = Product.of(name, operation, maker.low, maker.high, node is self._output)
        return products

    def _operation(self, node: fx.Node) -> Any:
        return self._modules[str(node.target)] if node.op == "call_module" else None

    def _visit(self, node: fx.Node) -> Any:
        if node.op == "placeholder":
            return self._placeholder(node)
        if node not in self._reached:
            return self._made.by_node[node]
        if self._passes_on(node):
            return self._values[node.all_input_nodes[0]]
        given = [self._values[source] for source in node.all_input_nodes]
        clip = function_of_numbers(node, self._modules)
        operation = clip or self._operation(node)
        if isinstance(operation, IntegerProduct):
            return self._product(node, given[0])
        for kind, method in self._METHODS.items():
            if isinstance(operation, kind):
                return method(self, node, operation, given[0])
        if operation is not None:
            raise self.refuse(node, type(operation).__name__)
        if node.target is operator.add and all(isinstance(x, Stored) and x.kind != REAL for x in given):
            return self._add(node, *self._terms(node))
        return c_real.written(self, node)

    def _terms(self, node: fx.Node) -> list[Stored]:
        return [self._values[term] for term in node.args]  # type: ignore[index]

    def made(self, node: fx.Node) -> Tensor:
        """What a node makes of the example."""
        made: Tensor = self._made.by_node[node]
        return made

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Of a sample's output."""
        given = self._graph.output_node().all_input_nodes[0]
        return tuple(self.made(given).shape[1:])

    def layers(self) -> list["Layer"]:
        """Those that make codes, as they are numbered."""
        nodes = {str(node.target): node for node in self._graph.nodes if node.op == "call_module"}
        return [
            Layer(
                operation,
                plain_name(str(nodes[operation].meta.get(OWN_NAME, operation))),
                tuple(self.made(nodes[operation]).shape[1:]),
                self._modules[operation].low,
            )
            for operation in self.observed
        ]

    def value(self, node: fx.Node) -> Any:
        """A tensor of the program, or a constant."""
        return self._values[node]

    def add(self, node: fx.Node, kernel: str, given: Stored, made: Stored, about: str = "", **more: Any) -> Stored:
        """One more step, which the model knows by its own name; it is followed by no operation on rows."""
        arguments = more.pop("arguments", [])
        self.steps.append(Step([self._about(node, about or kernel)], kernel, arguments, [given], made, **more))
        return made

    def add_rows(self, node: fx.Node, row: RowOperation, given: Stored, made: Stored, about: str) -> Stored:
        """An operation on rows: behind those of the step that makes them, if nobody else reads these, or by itself."""
        maker = next((step for step in self.steps if step.writes is given and step.makes_rows), None)
        if maker is None or self._readers(self._sources[given]) > 1 or not self._is_there_before(row.other, maker):
            maker = Step([], EACH_PIXEL, [], [given], made)
            self.steps.append(maker)
        maker.about.append(self._about(node, about))
        maker.rows.append(row)
        maker.reads += [] if row.other is None else [row.other]
        maker.writes = made
        return made

    def _readers(self, node: fx.Node) -> int:
        """How many read what a node makes, also behind what only passes it on."""
        return sum(self._readers(user) if self._passes_on(user) else 1 for user in node.users)

    def _is_there_before(self, other: Stored | None, maker: Step) -> bool:
        makers = [index for index, step in enumerate(self.steps) if step.writes is other]
        return not makers or makers[-1] < self.steps.index(maker)

    @staticmethod
    def _about(node: fx.Node, about: str) -> str:
        return f"{plain_name(str(node.meta.get(OWN_NAME, node.name)))}: {about.replace('_', ' ')}"

    def _placeholder(self, node: fx.Node) -> Stored:
        reader = next(iter(node.users)) if len(node.users) == 1 else None
        operation = None if reader is None else self._operation(reader)
        channels, height, width = self.shape(node)
        if isinstance(operation, ToCodes) and kind_of(operation.low, operation.high) == BYTES:
            assert reader is not None
            self.input_codes = str(reader.target), operation
            self.input = Stored("input", channels, height, width, BYTES, operation.low, operation.high, "input")
        else:
            self.input = Stored("input", channels, height, width, REAL, outside="input")
        return self.input

    def _codes(self, node: fx.Node, low: int, high: int) -> Stored:
        """Codes as bit planes, if every reader is better off with them, else as bytes."""
        bits = bits_of(low, high)
        products = [self._products.get(user) for user in node.users]
        in_planes = all(product is not None and product.suits_planes(bits) for product in products)
        return self.new(node, PLANES if in_planes else BYTES, low, high)

    def _product(self, node: fx.Node, given: Stored) -> Stored:
        product, operation = self._products[node], self._products[node].operation
        if isinstance(operation, RequantizedProduct):
            made = self._codes(node, operation.low, operation.high)
        elif isinstance(operation, ProductSums):
            reach = product.weights.largest_sum * max(-given.low, given.high) * product.weights.divisor
            made = self.new(node, kind_of(-reach, reach), -reach, reach)
        else:
            made = self.new(node, REAL if product.unit is None else INT32)
            self.last_product = None if product.unit is None else product
        step = product.step(f"layer{len(self.steps)}", given, made)
        step.rows.append(replace(product.rounding, observed=self._observed(node)))
        step.about.append(self._about(node, NAMES[product.rounding.kernel].format(made=made)))
        self.steps.append(step)
        return made

    def _observed(self, node: fx.Node) -> int:
        """The number of the layer whose codes a node makes, from 1 on; 0 if it makes none."""
        if isinstance(self._operation(node), CODE_MAKERS):
            self.observed.append(str(node.target))
            return len(self.observed)
        return 0

    def _round_sums(self, node: fx.Node, operation: SumsToCodes | RequantizedSum, given: Stored) -> Stored:
        made = self._codes(node, operation.low, operation.high)
        rounding = sums_rounding(operation, given.low, given.high)
        if len(operation.exact) not in (1, given.channels):
            raise self.refuse(node, f"a rounding of {len(operation.exact)} channels")
        if len(operation.exact) == 1:
            rounding = rounding.repeated(given.channels)
        rounding = replace(rounding, observed=self._observed(node))
        return self.add_rows(node, rounding, given, made, NAMES[rounding.kernel].format(made=made))

    def _to_codes(self, node: fx.Node, operation: ToCodes, given: Stored) -> Stored:
        if given is self.input and self.input_codes is not None:
            return given
        made = self._codes(node, operation.low, operation.high)
        limits = {"low": operation.low, "high": operation.high}
        reals = {"factor": operation.factor, "step": operation.step}
        row = RowOperation("row_to_codes", limits, reals=reals, observed=self._observed(node))
        return self.add_rows(node, row, given, made, f"codes {made.low} to {made.high} of real numbers")

    def _to_real(self, node: fx.Node, operation: ToReal, given: Stored) -> Stored:
        row = RowOperation("row_to_real", reals={"step": operation.step})
        return self.add_rows(node, row, given, self.new(node, REAL), "real numbers")

    def _clip(self, node: fx.Node, operation: Clip, given: Stored) -> Stored:
        if given.kind == REAL:
            return c_real.clip(self, node, operation, given)
        low = given.low if operation.low is None else max(int(operation.low), given.low)
        high = given.high if operation.high is None else min(int(operation.high), given.high)
        made = self.new(node, kind_of(low, high), low, high)
        return self.add_rows(
            node, RowOperation("clip_row", {"low": low, "high": high}), given, made, f"{low} to {high}"
        )

    def _scale_shift(self, node: fx.Node, operation: ScaleShift, given: Stored) -> Stored:
        return c_real.scale_shift(self, node, operation, given)

    def _norm(self, node: fx.Node, operation: _BatchNorm, given: Stored) -> Stored:
        if operation.running_mean is None:
            raise self.refuse(node, "a norm without statistics")
        return c_real.scale_shift(self, node, folded_norm(operation), given)  # type: ignore[arg-type]

    def add_terms(self, node: fx.Node, kernel: str, terms: list[Stored], made: Stored) -> Stored:
        """A sum, on the rows of the term that is made last."""
        makers = [max((i for i, step in enumerate(self.steps) if step.writes is term), default=-1) for term in terms]
        last = int(makers[1] > makers[0])
        row = RowOperation(kernel, other=terms[1 - last])
        return self.add_rows(node, row, terms[last], made, "sum")

    def _add(self, node: fx.Node, first: Stored, second: Stored) -> Stored:
        low, high = first.low + second.low, first.high + second.high
        return self.add_terms(node, "add_row", [first, second], self.new(node, kind_of(low, high), low, high))

    def _pooled_sums(self, node: fx.Node, operation: PooledSums, given: Stored) -> Stored:
        low, high = operation.count * given.low, operation.count * given.high
        made = self.new(node, kind_of(low, high), low, high)
        return self.add(node, SUM_PIXELS, given, made, f"sums {low} to {high} of all pixels", makes_rows=False)

    _METHODS: dict[type, Callable[..., Stored]] = {  # noqa: RUF012
        SumsToCodes: _round_sums,
        RequantizedSum: _round_sums,
        PooledSums: _pooled_sums,
        ToCodes: _to_codes,
        ToReal: _to_real,
        Clip: _clip,
        ScaleShift: _scale_shift,
        _BatchNorm: _norm,
    }
    """How each kind of operation is written."""
