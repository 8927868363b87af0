"""Trackers: where people watch their trainings. `log_to` makes a callback of one, for `fit` and `pdqat train --log`."""

from pdqat.trackers.log import TRACKERS, Log, log_to
from pdqat.trackers.tracker import Bars, Tracker

__all__ = ["TRACKERS", "Bars", "Log", "Tracker", "log_to"]
