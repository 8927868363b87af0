"""Run tests with the oldest versions that pyproject.toml allows.

    python tests/lower_bounds.py FOLDER [arguments of pytest]

Makes a virtual environment in FOLDER, installs every dependency of the package and of its extras at its lower bound,
and runs the tests in it: all fast ones, if no others are named. torch alone is the one of constraints.txt: its oldest
build for processors is not on the package index.
"""

import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXTRAS = ("data", "plan", "paper", "ray", "export", "openvino", "completion")
"""What the package itself needs; tools of its development are taken as they are."""
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "cooper-optim")
NOT_AT_ITS_BOUND = "torch"


def lowest(requirement: str) -> str:
    """The oldest version that a requirement allows.

    >>> lowest("onnx>=1.19,<2")
    'onnx==1.19'
    """
    named = re.fullmatch(r"([A-Za-z0-9-]+(?:\[[a-z,]+\])?)>=([0-9.]+)(,.*)?", requirement)
    if named is None:
        raise ValueError(f"{requirement!r} has no lower bound such as onnx>=1.19")
    return f"{named[1]}=={named[2]}"


def bounds() -> list[str]:
    """Of every dependency of the package and its extras, and the torch that is not at its bound."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = (requirement for extra in EXTRAS for requirement in project["optional-dependencies"][extra])
    given = dict.fromkeys([*project["dependencies"], *extras])
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = [line for line in constraints if line.startswith(f"{NOT_AT_ITS_BOUND}==")]
    return pinned + [lowest(name) for name in given if not name.startswith(f"{NOT_AT_ITS_BOUND}>")]


def main(folder: Path, arguments: list[str]) -> int:
    """Install and test; returns pytest's exit code."""
    venv.create(folder, with_pip=True, clear=True)
    python = str(folder / "bin" / "python")
    installed = [*bounds(), *TOOLS, "-e", str(ROOT)]
    subprocess.run([python, "-m", "pip", "install", "--quiet", *installed], check=True)
    warned = ["-W", "default::DeprecationWarning"]  # old versions use what newer ones below them give up
    return subprocess.run([python, "-m", "pytest", *warned, *arguments], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), sys.argv[2:]))
