"""The distributions hold the whole package, install into a clean environment, and run there on the core alone."""

import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import pdqat

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "pdqat"

WHOLE_ROAD = """
import sys, torch, pdqat

x, y = torch.rand(32, 4), torch.arange(32) % 2
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 2))
problem = pdqat.Lagrangian(pdqat.prepare(model, x, bits=4), torch.nn.functional.cross_entropy)
pdqat.fit(problem, [(x, y)], validation=[(x, y)], epochs=1, progress=False)
assert len(pdqat.rank(problem, [(x, y)]).layers) == 1
for name in pdqat.__all__:
    getattr(pdqat, name)
print(pdqat.__file__)
"""


@dataclass
class Distributions:
    wheel: Path
    source: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """The source distribution, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return Distributions(next(folder.glob("*.whl")), next(folder.glob("*.tar.gz")))


@pytest.fixture(scope="module")
def clean(built: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of a new environment that holds the wheel and the core's dependencies, and no extra."""
    folder = tmp_path_factory.mktemp("clean")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    scripts = folder / "bin"
    install = [*("-m", "pip", "--python", str(scripts / "python"), "install", "--quiet"), "--no-compile"]
    install += ["--no-deps", "--no-index"]
    subprocess.run([sys.executable, *install, str(built.wheel)], check=True)
    site = folder / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    for path in paths_of(needed_by("pdqat")):
        (site / path.name).symlink_to(path)  # downloading torch again would take minutes
    return scripts


def needed_by(distribution: str, known: frozenset[str] = frozenset()) -> frozenset[str]:
    """What a distribution needs without extras, and what that needs, as far as it is installed."""
    for line in metadata.requires(distribution) or ():
        requirement = Requirement(line)
        if "extra" not in str(requirement.marker) and requirement.name not in known:
            try:
                known = needed_by(requirement.name, known | {requirement.name})
            except metadata.PackageNotFoundError:
                known -= {requirement.name}  # for another platform
    return known


def paths_of(distributions: Iterable[str]) -> set[Path]:
    """The files and folders that they put into the environment."""
    site = Path(sysconfig.get_path("purelib"))
    files = [file for name in distributions for file in metadata.files(name) or ()]
    return {site / file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}


def files_of_the_package() -> set[str]:
    return {
        str(file.relative_to(PACKAGE.parent))
        for file in PACKAGE.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(built: Distributions) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == files_of_the_package()
    assert "pdqat/py.typed" in names


def test_the_source_distribution_can_be_worked_with(built: Distributions) -> None:
    with tarfile.open(built.source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in files_of_the_package()} < names
    assert {"LICENSE", "README.md", "Makefile", "constraints.txt", "mkdocs.yml", "tests/test_package.py"} < names


def test_the_installed_command_runs(clean: Path, tmp_path: Path) -> None:
    said = subprocess.run([clean / "pdqat", "--version"], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert said.stdout == f"pdqat {pdqat.__version__}\n"


def test_the_core_needs_no_extra(clean: Path, tmp_path: Path) -> None:
    command = [str(clean / "python"), "-I", "-c", WHOLE_ROAD]
    said = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert said.stderr == ""
    assert Path(said.stdout.strip()).is_relative_to(clean.parent)
