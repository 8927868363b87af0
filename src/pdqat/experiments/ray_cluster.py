"""A Ray cluster whose machines share the folders of runs."""

import importlib
import logging
from typing import Any

from pdqat import telemetry
from pdqat.errors import InputError


def connected() -> Any:
    """The package `ray`, once this process is connected to the cluster that runs, or that RAY_ADDRESS names.

    Raises InputError without the package or a cluster.
    """
    telemetry.turn_off()
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError:
        raise InputError("--executor ray needs Ray: pip install 'pdqat[ray]'") from None
    try:
        ray.init(address="auto", ignore_reinit_error=True, log_to_driver=False, logging_level=logging.ERROR)
    except ConnectionError:
        raise InputError(
            "no Ray cluster was found: start one with 'ray start --head', or set RAY_ADDRESS to its address"
        ) from None
    return ray
