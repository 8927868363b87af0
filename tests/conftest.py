import os

import torch
from hypothesis import settings

from pdqat import telemetry

telemetry.turn_off()  # some tests import the runtimes themselves

# One thread: two processes share two cores, and tests compare results of sums with those of subprocesses too.
THREADS = os.environ.get("PDQAT_TEST_THREADS", "1")
torch.set_num_threads(int(THREADS))
os.environ["OMP_NUM_THREADS"] = THREADS

settings.register_profile("pdqat", deadline=None, derandomize=True, max_examples=12)
settings.load_profile("pdqat")

os.environ.pop("COLUMNS", None)  # tables are as wide as they are, unless a test says otherwise
