"""The site of the documentation is built without a warning, and needs no network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from documentation import PAGES, ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built with warnings as errors: dead links, pages outside the navigation, names that don't exist."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder


def pages(site: Path) -> dict[str, str]:
    return {str(path.relative_to(site)): path.read_text(encoding="utf-8") for path in site.rglob("*.html")}


def test_every_page_is_there_and_loads_nothing_from_a_network(site: Path) -> None:
    documents = [page.removeprefix("docs/").replace(".md", ".html") for page in PAGES if page.startswith("docs/")]
    built = pages(site)
    assert set(documents) <= built.keys()
    for name, page in built.items():
        loaded = re.findall(r"<(?:script|img|iframe|source)[^>]*\ssrc=\"([^\"]*)|<link[^>]*\shref=\"([^\"]*)", page)
        assert [address for pair in loaded for address in pair if "//" in address] == [], name


def test_links_to_raw_numbers_lead_to_files_of_the_site(site: Path) -> None:
    page = (site / "results" / "paper-trials.html").read_text()
    linked = re.findall(r"(?:href|src)=\"(\.\./repository/[^\"]+)", page)
    assert len(linked) > 5
    assert [link for link in linked if not (site / "results" / link).is_file()] == []


def test_equations_are_drawn_and_leave_no_tex_behind(site: Path) -> None:
    page = (site / "method.html").read_text()
    equations = re.findall(r"<math.*?</math>", page, re.DOTALL)
    assert len(equations) > 30
    assert [equation for equation in equations if re.search(r"\\|<mi>&(amp;)?</mi>", equation)] == []
    assert "$" not in re.sub(r"<(script|code|pre).*?</\1>", "", page, flags=re.DOTALL)


def test_the_reference_shows_arguments_and_examples_as_such(site: Path) -> None:
    reference = {name: page for name, page in pages(site).items() if name.startswith("api/")}
    assert "any module; its layers change their class" in reference["api/network.html"]
    for name, page in reference.items():
        assert "<blockquote>" not in page, f"{name} has an example outside a section `Examples:`"
        assert 'class="example"' not in page, f"{name} has a section `Example:` instead of `Examples:`"
