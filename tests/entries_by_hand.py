"""Entries of cells, by hand."""

from typing import Any


def entry(method: str, variant: str, seed: int, low: float | None) -> dict[str, Any]:
    accuracies = {f"{part}_accuracy_{view}": low for part in ("validation", "test") for view in ("low", "full")}
    return {"method": method, "variant": variant, "seed": seed, "epochs": 10, **accuracies}


def cell(method: str, seed: int, low: float, tolerance: float | None = None, **more: Any) -> dict[str, Any]:
    return entry(method, "", seed, low) | {"bits": 2, "tolerance": tolerance, "kept": None} | more
