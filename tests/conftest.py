import os

import torch
from hypothesis import settings

# Two processes share two cores, and tests compare results of sums bit for bit, with those of subprocesses too.
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"

settings.register_profile("pdqat", deadline=None, derandomize=True, max_examples=12)
settings.load_profile("pdqat")
