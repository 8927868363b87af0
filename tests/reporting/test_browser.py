"""The page in a real browser: charts draw, tables sort and filter, layers are chosen, and names stay text."""

import csv
import io
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from pdqat.reporting.own import say_nothing, write_page
from pdqat.reporting.subject import Subject
from pdqat.training.history import History
from reported import CLASSES, LAYER, SCRIPT, subject, trained

PHONE = {"width": 390, "height": 844}
WAIT_MILLISECONDS = 50
WAITS = 1200  # a minute, for a machine that does much else
Open = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = os.environ.get("PDQAT_CHROMIUM") or shutil.which("chromium")
    if os.environ.get("PDQAT_WITHOUT_BROWSER"):
        pytest.skip("PDQAT_WITHOUT_BROWSER asks for it")
    if chromium is None:
        pytest.fail(
            "the report is tested in Chromium, which is not installed: `apt-get install chromium` installs it on "
            "Debian; elsewhere name yours in PDQAT_CHROMIUM, or go without by PDQAT_WITHOUT_BROWSER=1",
            pytrace=False,
        )
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=["--disable-gpu"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def file(reported: Subject, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_page(path, [reported], say_nothing)
    return path


@pytest.fixture(scope="module")
def two_runs(history: History, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "two.html"
    bare: dict[str, Any] = {"known_problem": None, "no_problem_because": "it is gone", "exports": {}, "frontier": None}
    runs = [subject(history, name="two bits"), subject(trained("4"), name="four bits")]
    write_page(path, [*runs, subject(history, name="files alone", epochs=(), **bare)], say_nothing)
    return path


@pytest.fixture(scope="module")
def wrong() -> list[str]:
    """What pages complained about."""
    return []


@pytest.fixture(autouse=True)
def nothing_goes_wrong(wrong: list[str]) -> Iterator[None]:
    yield
    assert not wrong
    wrong.clear()


@pytest.fixture(scope="module")
def open_page(browser: Browser, wrong: list[str]) -> Iterator[Open]:
    """Opens files, and notes whatever goes wrong in them."""
    contexts = []

    def open_file(path: Path, **options: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: wrong.append(f"request: {request.url}") if is_outside(request.url) else None)
        page.goto(path.as_uri())
        wait_until(page, "drawn.length > 0 && drawn.every((chart) => chart.canvas)")
        return page

    def is_outside(address: str) -> bool:
        return not address.startswith(("file:", "data:", "blob:"))

    yield open_file
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def page(file: Path, open_page: Open) -> Page:
    """One for all tests that leave the page as they found it, or change a section that no other looks at."""
    return open_page(file)


def wait_until(page: Page, condition: str, argument: Any = None) -> None:
    """Asks from outside the page, since the page's own policy forbids what `wait_for_function` polls with."""
    for _ in range(WAITS):
        if page.evaluate(condition, argument):
            return
        page.wait_for_timeout(WAIT_MILLISECONDS)
    pytest.fail(f"the page never came to {condition}")


def column(page: Page, section: str, heading: str) -> list[str]:
    """The texts of a table's column."""
    script = """([section, heading]) => {
        const table = document.querySelector(`#${section} table`);
        const at = [...table.querySelectorAll("thead th")].findIndex((th) => th.textContent.trim() === heading);
        return [...table.querySelectorAll("tbody tr")].map((row) => row.children[at].textContent);
    }"""
    texts: list[str] = page.evaluate(script, [section, heading])
    return texts


def labels_of_chart(page: Page, inside: str) -> list[str]:
    script = (
        "(inside) => Chart.getChart(document.querySelector(`${inside} canvas`)).data.datasets.map((it) => it.label)"
    )
    wait_until(page, "(inside) => !!Chart.getChart(document.querySelector(`${inside} canvas`))", inside)
    labels: list[str] = page.evaluate(script, inside)
    return labels


def ink(page: Page) -> list[int]:
    """For every chart, the number of its pixels that are painted."""
    counts: list[int] = page.evaluate("""() => [...document.querySelectorAll("canvas")].map((canvas) => {
        const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        return pixels.filter((value, index) => index % 4 === 3 && value > 0).length;
    })""")
    return counts


def test_every_chart_draws_and_has_its_numbers_in_a_table(page: Page) -> None:
    charts = ink(page)
    assert len(charts) >= 7, "scores, two of epochs, bounds, two histograms, frontier, signal-to-noise"
    assert min(charts) > 500
    unnamed = page.locator("canvas:not([aria-label])").count() + page.locator("canvas:not([role=img])").count()
    assert unnamed == 0
    behind = page.locator("#noise details")
    behind.locator("summary").click()
    expect(behind.locator("tbody tr"), "a row for each quantised layer").to_have_count(2)


def test_all_sections_are_there_and_listed(page: Page) -> None:
    listed = page.locator("nav a").evaluate_all("(links) => links.map((link) => link.getAttribute('href').slice(1))")
    assert listed == page.locator("main section").evaluate_all("(sections) => sections.map((section) => section.id)")
    assert listed == [
        *("overview", "scores", "history", "constraints", "plan", "ranking", "frontier", "noise", "size", "choices"),
        *("verification", "provenance"),
    ]


def test_tables_sort_by_a_heading_and_back(page: Page) -> None:
    heading = page.locator("#constraints th", has_text="multiplier")
    for direction, backwards in (("descending", True), ("ascending", False)):
        heading.get_by_role("button").click()
        numbers = [float(text) for text in column(page, "constraints", "multiplier")]
        assert numbers == sorted(numbers, reverse=backwards)
        assert heading.get_attribute("aria-sort") == direction


def test_constraints_are_filtered_by_words_and_by_state(page: Page) -> None:
    everything = column(page, "constraints", "constraint")
    page.locator("#constraints input[type=search]").fill("second")
    assert column(page, "constraints", "constraint") == ["second"]
    page.locator("#constraints input[type=search]").fill("")
    state = column(page, "constraints", "state")[0]
    page.locator("#constraints select").first.select_option(state)
    assert set(column(page, "constraints", "state")) == {state}
    page.locator("#constraints select").first.select_option("")
    assert column(page, "constraints", "constraint") == everything


def test_bounds_over_epochs_are_chosen_by_box_and_by_quantity(page: Page) -> None:
    assert len(labels_of_chart(page, "#bounds")) == 3
    page.locator("#bounds").get_by_role("button", name="None").click()
    expect(page.locator("#bounds canvas")).to_have_count(0)
    page.locator("#bounds").get_by_label("layer/second").check()
    assert labels_of_chart(page, "#bounds") == ["layer/second"]
    page.locator("#bounds select").select_option("slack")
    wait_until(page, "!!Chart.getChart(document.querySelector('#bounds canvas'))")
    document = json.loads(page.locator("#document").text_content() or "")
    slacks = next(it["slack"] for it in document["runs"][0]["history"]["bounds"] if it["name"].endswith("second"))
    assert page.evaluate("Chart.getChart(document.querySelector('#bounds canvas')).data.datasets[0].data") == slacks


def test_a_layer_is_chosen_by_click_and_by_keyboard(page: Page) -> None:
    assert page.locator("#layer h3").text_content() == LAYER
    page.locator(".tower button", has_text="second").click()
    assert page.locator("#layer h3").text_content() == "second"
    assert "Weights: 3 levels in use" in (page.locator("#layer figcaption").first.text_content() or "")
    expect(page.locator(".tower [aria-pressed=true]")).to_have_count(1)
    page.locator(".tower button", has_text="stem").focus()
    page.keyboard.press("Enter")
    assert page.locator("#layer h3").text_content() == "stem"
    assert "first layer" in (page.locator("#layer").text_content() or "")


def test_names_with_html_stay_text(page: Page) -> None:
    assert page.locator("main img:not([src^='data:image/png'])").count() == 0
    assert page.locator("main i:has-text('circle'), main b:has-text('bold')").count() == 0
    assert SCRIPT in page.title()
    assert LAYER in column(page, "constraints", "constraint")
    assert [page.locator("#choices thead th").nth(at + 1).text_content() for at in range(3)] == list(CLASSES)
    assert f"no code differs {SCRIPT}" in column(page, "verification", "what differs")
    assert SCRIPT in (page.locator("#provenance pre").first.text_content() or "")


def test_it_follows_the_system_into_the_dark_and_has_a_switch(file: Path, open_page: Open) -> None:
    page = open_page(file, color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    page.get_by_role("button", name="Dark colours").click()
    assert page.evaluate(background) != dark
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    wait_until(page, "drawn.length > 6")
    assert min(ink(page)) > 500, "charts are drawn again in the other colours"


def test_nothing_is_wider_than_a_phone(file: Path, two_runs: Path, open_page: Open) -> None:
    for path in (file, two_runs):
        page = open_page(path, viewport=PHONE)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_controls_have_names_and_a_keyboard_reaches_the_content(page: Page) -> None:
    unnamed = """() => [...document.querySelectorAll("button, select, input, summary")].filter((control) =>
        ![control.getAttribute("aria-label"), control.textContent, control.closest("label")?.textContent]
            .some((name) => name?.trim()))
        .map((control) => control.outerHTML)"""
    assert page.evaluate(unnamed) == []
    page.locator("body").evaluate("() => document.activeElement.blur()")
    page.locator(".skip").focus()
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"


def test_numbers_are_downloaded_as_json_and_csv(page: Page) -> None:
    with page.expect_download() as waiting:
        page.locator("#json").click()
    assert waiting.value.suggested_filename == "report.json"
    assert json.loads(waiting.value.path().read_text()) == json.loads(page.locator("#document").text_content() or "")
    with page.expect_download() as waiting:
        page.locator("#constraints").get_by_role("button", name="CSV").click()
    rows = list(csv.DictReader(io.StringIO(waiting.value.path().read_text(), newline="")))
    assert sorted(row["constraint"] for row in rows) == sorted(["output", LAYER, "second"])
    for row in rows:
        assert float(row["distance"]) - float(row["tolerance"]) == pytest.approx(float(row["slack"]), abs=1e-5)


def test_runs_stand_side_by_side_with_their_difference(two_runs: Path, open_page: Open) -> None:
    page = open_page(two_runs)
    rows = column(page, "compare", "what").index("average weight bits")
    assert column(page, "compare", "two bits")[rows] == "2"
    assert column(page, "compare", "four bits")[rows] == "4"
    assert column(page, "compare", "four bits, difference")[rows] == "+2"
    assert not any(re.match(r"[+-]0( |$)", cell) for cell in column(page, "compare", "four bits, difference"))
    assert page.locator("#overview h2").text_content() == "two bits"
    page.locator("header select").select_option("four bits")
    assert page.locator("#overview h2").text_content() == "four bits"
    assert set(column(page, "constraints", "bits")) == {"", "4"}


def test_a_run_of_which_little_is_known_says_what_is_missing_and_why(two_runs: Path, open_page: Open) -> None:
    page = open_page(two_runs)
    page.locator("header select").select_option("files alone")
    shown = page.locator("main section").evaluate_all("(sections) => sections.map((section) => section.id)")
    assert shown == ["compare", "overview", "scores", "constraints", "plan", "provenance"]
    assert "signal-to-noise: it is gone" in page.locator("#provenance li").all_text_contents()
