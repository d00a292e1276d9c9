"""README, demo and page: what a stranger runs first."""

from __future__ import annotations

import contextlib
import io
import math
import re
import runpy
import shlex
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade import catalog
from masquerade.demo.steps import SYSTEM_HEADING
from masquerade.io.video import read
from masquerade.report import page, plots

REPO = Path(__file__).parents[2]
_DATA = (["data", "sample"], ["data", "list"], ["data", "write"])
_QUICK = ("release", "receipt", "ledger", "account", "preview", "completion", "report")


class Well(HTMLParser):
    """Fails on tags that do not match, and remembers what is fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "br", "link", "input", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_readmes_python_runs_as_it_stands() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (REPO / "README.md").read_text(), re.S)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, "README.md", "exec"), {})
    assert "epsilon 8 and delta 1e-05" in said.getvalue()


def readme() -> list[list[str]]:
    """The words of every command of ours in the README's shell blocks, in order."""
    blocks = re.findall(r"```sh\n(.*?)```", (REPO / "README.md").read_text(), re.S)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    ours = [line for line in lines if line.startswith(".venv/bin/masquerade ")]
    return [shlex.split(line, comments=True)[1:] for line in ours]


def test_the_readmes_quick_commands_run_in_order_as_they_stand(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = []
    for words in readme():
        if words[0] in _QUICK or words[:2] in _DATA or "manifest" in words:
            assert command(*words).code == 0, words
            done.append(words[0])
    assert Path("ward-preview.PRIVATE.svg").is_file() and Path("ward.html").is_file()
    assert done.count("release") >= 5 and {"receipt", "ledger", "account"} <= set(done)
    assert len(done) >= 15 and not Path("ward-person.mp4").exists()
    again = command("data", "sample")
    assert again.code == 4 and "move it away" in again.err, "nothing is replaced"


def test_the_readmes_table_is_the_demos() -> None:
    text = (REPO / "README.md").read_text()
    rows = text[text.index("| " + " | ".join(SYSTEM_HEADING) + " |") :].splitlines()[2:8]
    assert [row.split(":")[0] for row in rows] == [
        *("| Video-DPRP's task", "| PPEDCRF", "| Avatars", "| MaskDP", "| Private pose"),
        "| TEMPDIFF",
    ]
    assert (REPO / "docs" / "strip.png").stat().st_size < 300_000


@pytest.mark.slow
def test_the_readmes_audits_end_as_it_says(command: Any) -> None:
    found = {words[1]: command(*words).code for words in readme() if words[0] == "audit"}
    assert found == {"gaussian_noise": 0, "video_dprp_value": 5}


def test_the_readme_says_beside_the_command_that_a_person_is_not_protected() -> None:
    text = (REPO / "README.md").read_text()
    before = text[: text.index("--unit pixels")]
    assert "**not a person**" in before[before.index("## Release a video") :]


@pytest.mark.slow
def test_the_readmes_training_can_be_planned(command: Any, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    shown = [words for words in readme() if words[0] == "train"]
    assert len(shown) >= 3
    for words in shown:
        words = [tmp_path / word if word.endswith(".safetensors") else word for word in words]
        done = command(*words, *["--dry-run"] * ("--dry-run" not in words))
        assert done.code == 0 and "at most 100 %" not in done.out, done.err


@pytest.fixture
def few_people(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo's training, in small; what no folder changes is worked out once for both runs."""
    pytest.importorskip("torch")
    from masquerade.demo import claims, films, pose, sensors, video_model

    monkeypatch.setattr(video_model, "WORLD", replace(video_model.WORLD, subjects=12, videos=72))
    common = video_model.COMMON | {"epochs": 3.0, "warmup": 0.5, "batch": 8}
    monkeypatch.setattr(video_model, "COMMON", common)
    monkeypatch.setattr(video_model, "NUM_SHADOWS", 6)
    few_places = replace(films.PLACES_KNOWN, subjects=24, videos=144)
    few_avatars = replace(films.PEOPLE_KNOWN, subjects=12, videos=36, frames=4)
    monkeypatch.setattr(films, "KNOWN", replace(films.KNOWN, subjects=12, videos=72))
    monkeypatch.setattr(films, "PLACES_KNOWN", few_places)
    monkeypatch.setattr(films, "PEOPLE_KNOWN", few_avatars)
    monkeypatch.setattr(sensors, "STAGE", replace(sensors.STAGE, wearers=60))
    soon: dict[str, Any] = {"student_steps": 60, "student_epochs": 2}
    monkeypatch.setattr(sensors, "PEOPLE", replace(sensors.PEOPLE, shards=10, **soon))
    monkeypatch.setattr(sensors, "REAL", replace(sensors.REAL, **soon))
    monkeypatch.setattr(pose, "WORLD", replace(pose.WORLD, subjects=12, photos=72))
    few_photos: dict[str, Any] = {"epochs": 2.0, "batch": 8}
    own = {"public_batch": 8, "public_records": 8, "directions": 8}
    monkeypatch.setattr(pose, "OPEN_METHOD", replace(pose.OPEN_METHOD, **few_photos))
    monkeypatch.setattr(pose, "PRIVATE_METHOD", replace(pose.PRIVATE_METHOD, **few_photos, **own))
    once = [(claims, f"make_{name}_chapter") for name in ("paper", "audit", "noise")]
    once += [(films, "make_avatar_chapter")]
    for module, name in [*once, *((each, "make_chapter") for each in (pose, video_model, sensors))]:
        monkeypatch.setattr(module, name, remembered(getattr(module, name)))


def remembered(chapter: Callable[..., Any]) -> Callable[..., Any]:
    """The same chapter again, whoever is told about it."""
    found: list[Any] = []

    def again(*asked: Any) -> Any:
        if not found:
            found.append(chapter(*asked))
        return found[0]

    return again


@pytest.mark.slow  # as long as the demo itself; `make demo` runs it too
def test_the_demo_tells_the_whole_story(command: Any, tmp_path: Path, few_people: None) -> None:
    done = command("demo", "--out", tmp_path)
    assert done.code == 0
    assert len(done.out.splitlines()) <= 60 and "\\n" not in done.out, "a person reads it all"
    text = (tmp_path / "report.html").read_text()
    for word in ("video_dprp", "mask_dp", "ppedcrf", "tempdiff", "feature_projective"):
        assert word in text
    assert "Differentially private with epsilon 8" in text
    asked = ("<video", "What is protected", "Can people be recognised?", "could have been chosen")
    asked += ("The budget", "Claim and evidence", "receipts</h2>", "Five papers")
    assert [text.index(word) for word in asked] == sorted(text.index(word) for word in asked)
    checker = Well()
    checker.feed(text)
    inside = [source for source in checker.fetched if source.startswith("data:video/mp4;base64,")]
    assert checker.open == []
    assert all(source.startswith(("data:", "#")) for source in checker.fetched), "no network"
    has_avatars = "avatar" in catalog.list_entries("mechanisms")
    assert (
        len(inside) == 10 + 2 * has_avatars and "CLAIMED, NOT VALID" in text and "heuristic" in text
    )
    for name in ("as-published", "orthonormal", "pooled", "cosine-16-sites", "cosine-frame"):
        assert name in text
        assert command("receipt", "check", tmp_path / f"clip-{name}.mp4").code == 0
    assert text.count("<svg") >= 12 and text.count('class="bar"') == 36, "twelve classes, 3 ways"
    assert "PRIVATE" in text and "<script src" not in text
    assert command("receipt", "check", tmp_path / "steps.csv").code == 0
    assert command("receipt", "check", tmp_path / "pose-private.safetensors").code == 0
    strip = read.read_segment(tmp_path / "strip.png", 0, 1)[0]
    assert strip.shape[1] == (3 + has_avatars) * 324 - 4, "each way beside the others"
    assert "was refused" in done.out and "was killed" in done.out and "REFUTED" in done.out
    verified = command(
        "ledger", "verify", "--receipts", tmp_path, "--ledger", tmp_path / "budget.db", "--json"
    )
    assert verified.json["ok"] is True and verified.json["charged"] == 4
    again = command("demo", "--out", tmp_path, "--json")
    assert again.json["papers"]["video_dprp"] is False
    _check_training(again.json["training"], text)
    _check_systems(again.json["systems"], (tmp_path / "systems.md").read_text())


def _check_systems(systems: list[dict[str, str]], table: str) -> None:
    """Every line has what is protected, an epsilon that was proved or none, and both figures."""
    names = " ".join(line["name"] for line in systems)
    for word in ("Video-DPRP", "PPEDCRF", "MaskDP", "TEMPDIFF", "pose"):
        assert word in names
    for line in systems:
        assert all(line.values()) and all(word in table for word in line.values() if len(word) > 3)
        assert "then" in line["attack"] and re.search(r"\d", line["good_for"])


def _check_training(data: dict[str, Any], text: str) -> None:
    """The table names both relations, and what the shared batch would really have cost."""
    true = data["shared_batch"]["true_epsilon"]
    assert data["shared_batch"]["claimed"] == 1 and true["replace_one"] > true["zero_out"] > 1
    for word in ("zero_out", "replace_one", "no privacy", "DP", "MaskDP", "public part only"):
        assert word in text
    for value in true.values():
        printed = math.ceil(value * 1000 - 1e-9) / 1000  # four digits, never less than it is
        assert f"{printed:.4g}" in text
    assert "CLAIMED, NOT VALID: 1" in text and "of one run alone" in text
    noised = [cell for cell in data["cells"] if cell["proved"]]
    assert {cell["method"] for cell in noised} == {"DP", "MaskDP"}
    assert all(0.99 < cell["proved"]["replace_one"] <= 1 for cell in noised)
    assert all(len(cell["top_1"]) == 3 for cell in data["cells"])


def test_a_page_is_private_as_soon_as_one_section_shows_originals() -> None:
    plain = page.Section(title="a", body=page.format_paragraphs(["<b>&"]))
    shown = page.render_page("t", [plain])
    assert "PUBLIC" in shown and "&lt;b&gt;&amp;" in shown
    mixed = page.render_page("t", [plain, page.Section(title="o", body="", has_originals=True)])
    assert "PRIVATE" in mixed and "PUBLIC" not in mixed


@pytest.mark.parametrize("is_log", [True, False])
def test_plots_stay_inside_their_frame(is_log: bool) -> None:
    x = np.array([0.0, 0.5, 3.0, 40.0])
    axes = plots.PlotAxes(title="a < b", x_label="x", y_label="y", is_log=is_log)
    drawn = plots.draw_lines(
        [plots.PlotLine(name="one", x=x, y=x**2), plots.PlotLine(name="two", x=x, y=x)], axes
    )
    points = re.findall(r"([\d.]+),([\d.]+)", " ".join(re.findall(r'points="([^"]*)"', drawn)))
    assert len(points) == (6 if is_log else 8)
    assert all(64 <= float(a) <= 504 and 34 <= float(b) <= 332 for a, b in points)
    assert "a &lt; b" in drawn
    flat = plots.draw_lines([plots.PlotLine(name="flat", x=x, y=np.ones(4))], axes)
    assert "polyline" in flat


@pytest.mark.parametrize("path", sorted(REPO.glob("examples/*.py")), ids=lambda path: path.stem)
def test_the_examples_run_as_they_stand(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(path.read_text().splitlines()) <= 80
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.strip()
