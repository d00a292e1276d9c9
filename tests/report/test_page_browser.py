"""The page in a real browser, from disk: widths, both palettes, keyboard, films, axe-core."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from masquerade import _json
from masquerade.publish.pages import ReportContext, write_report
from masquerade.scores import AttackResult, MeasuredRate

pytestmark = pytest.mark.slow  # make test-browser
CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("no chromium here; make test-browser installs it", allow_module_level=True)
sync_api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")

BEFORE = Path(__file__).parents[1] / "fixtures" / "before"
AXE = "4.14.0"
AXE_SHA256 = "2277b0a3ef47af9b52497faa3e71598e86e0a0e5e6eb295207a5657ede4709af"
_FLAGS = (
    "--no-sandbox --headless --disable-gpu --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as play:
        opened = play.chromium.launch(executable_path=CHROMIUM, args=_FLAGS.split())
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("page")
    measured = {"measure": "rank-1", "count": 9, "of": "people", "chance": 0.1}
    figures = {
        name: (MeasuredRate(value=value, low=value / 2, high=min(1.0, 2 * value), **measured),)
        for name, value in (("published", 0.25), ("ceiling", 1.0), ("floor", 0.05))
    }
    one = AttackResult(attack="reidentify", attacker="holds one film of each", **figures)
    said = {"attack": "reidentify", "attackers": [_json.encode_noun(one)]}
    (folder / "found.json").write_text(json.dumps(said))
    beside = ReportContext(
        original=BEFORE / "private" / "film.mp4", attacks=(folder / "found.json",), plays=True
    )
    film = BEFORE / "public" / "film.mp4"
    return write_report([film], folder / "film.html", beside=beside).as_uri()


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> str:
    target = tmp_path_factory.mktemp("page") / "all.html"
    return write_report([BEFORE / "public"], target).as_uri()


@pytest.mark.parametrize("width", [360, 800, 1400])
@pytest.mark.parametrize("which", ["film", "everything"])
def test_nothing_overflows_and_no_picture_is_broken(
    browser: Any, request: pytest.FixtureRequest, which: str, width: int
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(request.getfixturevalue(which))
    for folded in page.query_selector_all("summary"):
        folded.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    broken = "[...document.images].filter(i => !i.complete || !i.naturalWidth).length"
    assert page.evaluate(broken) == 0
    page.close()


def test_films_wait_then_play_and_the_slider_moves_by_keyboard(browser: Any, film: str) -> None:
    page = browser.new_page()
    page.goto(film)
    ready = "[...document.querySelectorAll('video')].every(v => v.readyState >= 3)"
    page.wait_for_function(ready)
    assert page.evaluate("[...document.querySelectorAll('video')].every(v => v.paused)")
    page.focus("input[type=range]")
    for _ in range(400):
        page.keyboard.press("ArrowRight")
    assert page.input_value("input[type=range]") == "400"
    times = page.evaluate("[...document.querySelectorAll('video')].map(v => v.currentTime)")
    assert len(times) == 2 and all(time > 0 for time in times)
    heard = page.get_attribute("input[type=range]", "aria-valuetext")
    assert heard is not None and heard.endswith("seconds") and not heard.startswith("0.0")
    page.get_by_role("button", name="Play").click()
    page.wait_for_function(f"document.querySelector('video').currentTime != {times[0]}")
    page.close()


def test_the_first_screen_has_both_pictures_and_begins_to_answer(browser: Any, film: str) -> None:
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(film)
    ends = "[...document.querySelectorAll('video')].map(v => v.getBoundingClientRect().bottom)"
    assert all(0 < end < 900 for end in page.evaluate(ends))
    top = "document.querySelector('.cards').getBoundingClientRect().top"
    assert page.evaluate(top) < 800
    page.close()


def test_paper_is_light_and_what_is_folded_stands_open(browser: Any, film: str) -> None:
    page = browser.new_page(color_scheme="dark")
    page.goto(film)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.querySelector('.controls')).display") == "none"
    folds = "[...document.querySelectorAll('section:not(.folded) details')].every(one => one.open)"
    assert page.evaluate(folds)
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("which", ["film", "everything"])
def test_axe_finds_no_fault_in_either_palette(
    browser: Any, request: pytest.FixtureRequest, which: str, scheme: str
) -> None:
    axe = _axe(request.config.cache.mkdir("axe"))  # type: ignore[union-attr]
    page = browser.new_page(color_scheme=scheme)
    page.goto(request.getfixturevalue(which))
    ink, paper = page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    assert (paper == "rgb(20, 24, 31)") == (scheme == "dark") and ink != paper
    for folded in page.query_selector_all("summary"):
        folded.click()
    page.evaluate(axe)
    found = page.evaluate("axe.run()")["violations"]
    assert not [(fault["id"], [node["html"][:200] for node in fault["nodes"]]) for fault in found]
    page.close()


def _axe(folder: Path) -> str:
    """axe-core of one version from the npm registry, kept; its checksum is ours."""
    npm, packed = shutil.which("npm"), folder / f"axe-core-{AXE}.tgz"
    if npm is None:
        pytest.skip("no npm here, which fetches axe-core")
    if not packed.is_file():
        wanted = [npm, "pack", f"axe-core@{AXE}", "--silent"]
        if subprocess.run(wanted, cwd=folder, capture_output=True).returncode:
            pytest.skip("npm could not fetch axe-core here")
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()
    assert digest == AXE_SHA256, "axe-core is not the file that was pinned"
    with tarfile.open(packed) as tar:
        inside = tar.extractfile("package/axe.min.js")
        assert inside is not None
        return inside.read().decode()
