"""Predictions of `plans` that take a training of their own, from the same weights and on the same short batches.

lsq steps   the step sizes that LSQ learns for weights and activations at every candidate precision, all trained at
            once by a straight-through gradient: cost_l(b) is the sum of layer l's two steps at b bits (LIMPQ)
settled     the multipliers after a training under the multiplicative rule in which every layer is held to the
            distance that it has, until no multiplier moves by more than a tenth in an epoch; priced as `dual` is
"""

import copy
from dataclasses import replace

import torch
from plan_networks import Subject

from pdqat import Lagrangian, LayerConstraint, Multiplicative, TaskProblem, evaluate, prepare
from pdqat.allocation.joint import Costs
from pdqat.allocation.offer import offer
from pdqat.layers.layer_quantizers import LayerQuantizers
from pdqat.precision import BitPlan, Precision
from pdqat.quantizers.lsq import LSQ
from pdqat.sensitivity.low_layers import low_layers

EPOCHS = 2
"""Of the short batches, for step sizes."""
MOST_EPOCHS = 20
"""For multipliers to settle in."""
HARDLY = 0.1


def by_steps(subject: Subject, candidates: list[Precision]) -> Costs:
    """Learned step sizes as costs."""
    net = subject.problem.net
    plans = [BitPlan(f"b{bits}", dict.fromkeys(low_layers(subject.problem), bits)) for bits in candidates]
    model, output = copy.deepcopy(net).restore(bake=True), net.preparation.interface.output
    learner = prepare(model, net.example, plans, quantizer="lsq", output=output)
    problem = TaskProblem(learner, subject.problem.loss)
    _descend(problem, subject, EPOCHS)
    return {
        layer: {bits: _steps(learner.layers[layer].views[f"b{bits}"]) for bits in candidates}
        for layer in low_layers(subject.problem)
    }


def by_settled_multipliers(subject: Subject, candidates: list[Precision]) -> Costs:
    """Distances priced by multipliers that hardly move any more."""
    held = copy.deepcopy(subject.problem)
    assert isinstance(held, Lagrangian)
    measured = evaluate(held, subject.short).constraints
    distances = {it["where"]: it["distance"] for it in measured if it["kind"] == "layer"}
    constraints = [
        replace(it, tolerance=distances) if isinstance(it, LayerConstraint) else it for it in held.constraints
    ]
    problem = Lagrangian(
        held.net,
        held.loss,
        constraints,
        gradient=held.gradient,
        duals=Multiplicative(),
        objective=held.objective,
        layer_sample=held.layer_sample,
        view_sample=held.view_sample,
    )
    for _ in range(MOST_EPOCHS):
        before = problem.duals.multipliers.clone()
        _descend(problem, subject, 1)
        problem.dual_step()
        now = problem.duals.multipliers
        if bool(((now - before).abs() <= HARDLY * torch.maximum(now, before)).all()):
            break
    problem.eval()
    samples = sum(len(target) for _, target in subject.judges)
    return offer(problem, subject.judges, bits=candidates, by="dual", samples=samples).costs


def _descend(problem: Lagrangian | TaskProblem, subject: Subject, epochs: int) -> None:
    optimizer = torch.optim.Adam(problem.net.parameters(), lr=subject.lr)
    problem.train()
    for _ in range(epochs):
        for inputs, target in subject.short:
            optimizer.zero_grad()
            problem(inputs, target).backward()
            optimizer.step()
    problem.eval()


def _steps(view: torch.nn.Module) -> float:
    assert isinstance(view, LayerQuantizers)
    both = (view.weight, view.activation)
    return sum(abs(float(quantizer.step.detach())) for quantizer in both if isinstance(quantizer, LSQ))
