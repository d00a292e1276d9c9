"""Video-DPRP's tables: rows for all mechanisms, true epsilons, computed sentences."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from experiments import video_dprp
from experiments import video_dprp_page as pages
from experiments import video_dprp_rows as rows_of
from experiments.claims import format_percent
from experiments.engine import Journal, Run
from experiments.video_dprp import EXPERIMENT, KeptFilms, VideoDprpSettings, crop_film
from experiments.video_dprp_rows import Spec
from few_films import Few
from masquerade import catalog
from masquerade.accounting.compose import compute_epsilon
from masquerade.collection import Labels
from masquerade.errors import BadInput, MissingExtra
from masquerade.guarantee import Unit, UnitName
from masquerade.mechanism import FrameByFrame, Heuristic
from masquerade.mechanisms.filters import Mosaic
from masquerade.recordings import Video
from masquerade.training.plan import TrainingPlan
from video_dprp_rows import CHOICES, find

torch = pytest.importorskip("torch")
torch.set_num_threads(1)
SHAPE = (16, 24, 24, 3)


@dataclass(frozen=True, kw_only=True)
class Films(Few):
    """Six small films to learn from and three for the test."""

    split: Literal["train", "test", "all"] | None = None
    root: Path | None = None

    def _find(self) -> list[Labels]:
        number = {"train": 6, "test": 3}.get(self.part_name, 9)
        return [Labels(name=f"{self.part_name} {place}") for place in range(number)]

    def _load(self, index: int) -> Video:
        rng = np.random.default_rng([index, len(self.part_name)])
        frames = rng.integers(0, 256, SHAPE, np.uint8)
        return Video(frames=frames, rate_hz=10, activity=self.activities[index % 2])


@pytest.fixture(autouse=True, scope="module")
def _reckoned_once() -> Iterator[None]:
    """What a plan costs depends on its fields alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingPlan, "compute_epsilon", cache(TrainingPlan.compute_epsilon))
        yield


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one quick run, with a page of the docs."""
    out = tmp_path_factory.mktemp("video_dprp")
    (out / "page.md").write_text("# Results\n\nOlder things.\n")
    plan = VideoDprpSettings(
        out=out, page=out / "page.md", quick=True, epochs=1.0, batch=4, jobs=1, seeds=2
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(video_dprp, "FRAMES", 2)
        patch.setattr(video_dprp, "SIZE", (24, 32))
        EXPERIMENT.run(plan, Films())
    return out


@pytest.fixture(scope="module")
def rows(ran: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((ran / "results.json").read_text())["rows"]
    return found


def printed(ran: Path) -> list[list[str]]:
    """The cells of every line of the tables."""
    lines = (ran / "table.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:2] == "| "]
    return [line for line in cells if line[0] not in ("row", "k", "b", "release")]


def of_table(ran: Path, table: int) -> dict[str, list[str]]:
    """The lines of one table by their first cell."""
    text = (ran / "table.md").read_text().partition(f"### Table {table}")[2].partition("###")[0]
    lines = [line.split("|")[1:-1] for line in text.splitlines() if line[:2] == "| "]
    return {line[0].strip(): [cell.strip() for cell in line] for line in lines}


@pytest.mark.parametrize("is_quick", [True, False])
def test_every_mechanism_that_can_treat_a_video_has_a_row(is_quick: bool) -> None:
    named = {spec.mechanism for spec in rows_of.list_rows(SHAPE, CHOICES, is_quick=is_quick)}
    assert "learned_filter" not in named, "whose network is the user's"
    assert "avatar" not in named, "which has a benchmark of its own"
    for name in set(catalog.list_entries("mechanisms")) - {"learned_filter", "avatar"}:
        assert name in named or not isinstance(
            catalog.make_example("mechanisms", name), FrameByFrame
        )
    assert {"video_dprp", "cosine_gaussian", "face_blur"} <= named


def test_a_mechanism_that_nobody_named_gets_its_examples_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(catalog, "list_entries", lambda room: ("blur", "brand_new"))
    found = [
        s for s in rows_of.list_rows(SHAPE, CHOICES, is_quick=True) if s.mechanism == "brand_new"
    ]
    assert len(found) == 1 and found[0].fields is None and found[0].table == 1
    monkeypatch.undo()
    assert replace(found[0], mechanism="mosaic").build_mechanism() == catalog.make_example(
        "mechanisms", "mosaic"
    )


def test_baselines_have_rows_as_soon_as_they_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    known = catalog.list_entries("mechanisms")
    more = ("alf", "selective_privacy", "spact")
    for names, wanted in ((known, ()), ((*known, *more), more)):
        own = tuple(name for name in names if name not in more or wanted)
        monkeypatch.setattr(catalog, "list_entries", lambda room, own=own: own)
        found = [s for s in rows_of.list_rows(SHAPE, CHOICES, is_quick=True) if s.mechanism in more]
        assert {spec.mechanism for spec in found} == set(wanted)
        regions = [s.fields for s in found if s.mechanism == "selective_privacy"]
        assert regions == ([{}, {"region": "given"}] if wanted else [])


def test_what_is_not_installed_says_so_in_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(spec: Spec) -> None:
        raise MissingExtra("cv2 is needed here")

    monkeypatch.setattr(Spec, "build_mechanism", absent)
    specs = [Spec(table=1, name="blur", mechanism="blur")]
    row = video_dprp.plan_groups(specs, Films()[0])[1][specs[0]]
    assert pages.fill_cells(row)[1:] == ("-", "-", "-", "none", "none")
    text = pages.write_text(find(row))
    assert "- blur: not available: cv2 is needed here" in text


def test_the_published_form_carries_no_epsilon_but_its_claim_and_what_holds(
    rows: list[dict[str, Any]], ran: Path
) -> None:
    published = [row for row in rows if (row["fields"] or {}).get("form") == "as_published"]
    assert {row["table"] for row in published} == {1, 2, 3, 4}
    for row in published:
        assert row["epsilon"] is row["frame"] is row["video"] is None and row["nominal"] == 8
        assert row["claim"].startswith("CLAIMED, NOT VALID: epsilon 8")
        really = float(re.findall(r"at most epsilon (\S+) for one frame", row["said"])[0])
        assert really == pytest.approx(row["really"], rel=1e-3) and really > 1000
    first = of_table(ran, 1)["video_dprp as published, epsilon 8"]
    assert first[4:] == ["8, CLAIMED, NOT VALID", "none"]
    second = of_table(ran, 2)["video_dprp as published, 3 segments"]
    assert second[1] == "frame, CLAIMED, NOT VALID" and second[2:4] == ["-", "-"]
    assert "As published: what is proved" in (ran / "table.md").read_text()


def test_frame_rows_say_that_they_are_no_video_level_numbers(rows: list[dict[str, Any]]) -> None:
    frames = [row for row in rows if row["unit"] == "frame"]
    assert len(frames) > 8
    for row in frames:
        mechanism = Spec(
            table=1, name="", mechanism=row["mechanism"], fields=row["fields"]
        ).build_mechanism()
        assert mechanism is not None
        event = mechanism.event_for(SHAPE, Unit(name=UnitName.VIDEO))
        assert event is not None
        whole = compute_epsilon(event, delta=1e-4, relation="replace_one")
        assert row["epsilon"] <= row["nominal"] < row["video"] == pytest.approx(whole, abs=2e-4)
        assert "one frame of a recording of 16 frames; not a video-level number" in row["said"]
        assert row["relation"] == "replace_one" and row["frame"] == row["epsilon"]


def test_heuristics_have_no_epsilon(rows: list[dict[str, Any]]) -> None:
    seen = 0
    for row in rows:
        name = row["mechanism"]
        if name and row["missing"] is None and catalog.is_a("mechanisms", name, "Heuristic"):
            assert isinstance(catalog.make_example("mechanisms", name), Heuristic)
            assert row["epsilon"] is row["nominal"] is row["frame"] is row["video"] is None
            assert "nothing is proved" in row["said"]
            seen += 1
    assert seen >= 4


def test_training_prints_both_relations_and_protects_whole_recordings(
    rows: list[dict[str, Any]], ran: Path
) -> None:
    trained = [row for row in rows if row["mechanism"] is None and row["nominal"]]
    assert len(trained) == 9 and {row["nominal"] for row in trained} == {2, 5, 8}
    for row in trained:
        assert row["zero_out"] < row["epsilon"] == row["frame"] == row["video"] <= row["nominal"]
        assert row["unit"] == "video" and not row["top_1_released"]
    assert of_table(ran, 2)["DP-SGD"][1] == "recording"
    assert "Papers on DP-SGD mean zero_out: 2.0 is " in (ran / "table.md").read_text()


def test_both_splits_are_released_and_each_recording_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    real = Mosaic.apply

    def counted(self: Mosaic, value: Any, noise: Any) -> Any:
        if isinstance(value, Video) and len(value.frames) > 2:  # a try on two frames is none
            seen.append(value.frames.tobytes())
        return real(self, value, noise)

    monkeypatch.setattr(Mosaic, "apply", counted)
    train, test = (
        KeptFilms(origin=Films(split=split), numbers=tuple(range(count)))
        for split, count in (("train", 6), ("test", 3))
    )
    plan = VideoDprpSettings(batch=4, epochs=1.0, seeds=1, jobs=1).settle()
    told: list[int] = []
    specs = [
        Spec(table=1, name="mosaic", mechanism="mosaic"),
        Spec(table=2, name="again, 3 segments", mechanism="mosaic", segments=3, tested=3),
    ]
    run = Run(settings=plan, progress=lambda what, done, total: told.append(done))
    found = video_dprp.measure_rows(run, (train, test), specs)
    films = [film.frames.tobytes() for split in (train, test) for film in split]
    assert sorted(seen) == sorted(films) and len(set(films)) == 9
    assert told == [6, 3, 3, 6, 3], "read both, raw tests, released training, released tests"
    one, three = found
    assert one.raw is not None and three.raw is not None and one.released is not None
    assert one.raw.tested == one.released.tested == 3 and three.released is None  # Table 2 has none
    assert 0.9 < (one.changed or 0) <= 1


def test_every_run_has_a_release_of_its_own_unless_it_would_be_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[tuple[str, tuple[int, ...]]] = []
    real = video_dprp.show_films

    def counted(run: Run, films: KeptFilms, view: video_dprp.View) -> video_dprp.Shown:
        looked.append((view.mechanism.name if view.mechanism else "raw", films.numbers))
        return real(run, films, view)

    monkeypatch.setattr(video_dprp, "show_films", counted)
    train, test = (
        KeptFilms(origin=Films(split=split), numbers=tuple(range(count)))
        for split, count in (("train", 6), ("test", 3))
    )
    plan = VideoDprpSettings(batch=4, epochs=1.0, seeds=3, jobs=1).settle()
    fields = {"epsilon": 8.0, "delta": 1e-4, "unit": "frame"}
    specs = [
        Spec(table=1, name="mosaic", mechanism="mosaic"),
        Spec(table=1, name="noise", mechanism="gaussian_noise", fields=fields),
        Spec(table=1, name="raw"),
    ]
    found = video_dprp.measure_rows(Run(settings=plan), (train, test), specs)
    learned, parts = tuple(range(6)), [(0,), (1,), (2,)]
    assert [numbers for name, numbers in looked if name == "mosaic"] == [learned, *parts]
    noisy = [numbers for name, numbers in looked if name == "gaussian_noise"]
    assert noisy == [learned, parts[0], learned, parts[1], learned, parts[2]]
    assert [numbers for name, numbers in looked if name == "raw"] == [(0, 1, 2), learned]
    assert all(row.raw is not None and len(row.raw.shares) == 3 for row in found)


def test_a_random_stretch_is_cut_where_no_noise_is_in_the_training() -> None:
    film = Films(split="train")[0]
    rng = np.random.default_rng(1)
    parts = crop_film(film, count=30, span=5, rng=rng)
    starts = {
        next(n for n in range(12) if np.array_equal(part.frames, film.frames[n : n + 5]))
        for part in parts
    }
    assert len(starts) > 6 and max(starts) <= 11
    assert len(crop_film(film, count=1, span=99, rng=rng)[0].frames) == 16
    plan = VideoDprpSettings(crop="random").settle()
    for is_noisy, seed in ((False, 4), (True, None)):
        group = video_dprp.Group(mechanism=None, is_noisy=is_noisy, specs=[Spec(table=1, name="")])
        trial: Any = video_dprp.Trial(
            run=Run(settings=plan),
            group=group,
            splits=(),
            raw=None,
        )
        assert trial.choose_view(4).crop_seed == seed
    seen = [
        video_dprp.run_trunk(
            plan, [film], film_classes(), video_dprp.View(segments=3, crop_seed=seed), 0
        )
        for seed in (None, 1, 1, 2)
    ]
    assert all(rows.slots.shape == (1, 3) for rows in seen)


def film_classes() -> tuple[str, ...]:
    return Films().activities


def test_a_stopped_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = VideoDprpSettings(out=tmp_path, batch=4, epochs=1.0, seeds=1, jobs=1, tables=(1,))
    specs = [
        Spec(table=1, name=name, line=name, mechanism=mechanism)
        for name, mechanism in (("raw", None), ("mosaic", "mosaic"), ("blur", "blur"))
    ]
    monkeypatch.setattr("experiments.video_dprp.list_rows", lambda shape, choices, is_quick: specs)
    real, groups = video_dprp.Trial.train_rows, []

    def stopped(trial: Any, *rest: Any) -> Any:
        groups.append(trial.group.specs[0].name)
        if len(groups) == 3:
            raise KeyboardInterrupt
        return real(trial, *rest)

    monkeypatch.setattr(video_dprp.Trial, "train_rows", stopped)
    with pytest.raises(KeyboardInterrupt):
        EXPERIMENT.run(plan, Films())
    kept = Journal.open(plan.settle(), Films())
    assert (
        len(kept.held) == 2 and not Journal.open(replace(plan, part="all").settle(), Films()).held
    )
    found = EXPERIMENT.run(plan, Films()).data["rows"]
    assert groups == ["raw", "mosaic", "blur", "blur"], "what was finished is not done again"
    assert [row["name"] for row in found] == ["raw", "mosaic", "blur"]
    raw, mosaic = kept.held.values()
    assert [found[0]["top_1_raw"], found[1]["top_1_raw"]] == [
        [raw["rows"][0]["raw"]],
        [mosaic["rows"][0]["raw"]],
    ]
    assert found[1]["changed"] > 0.9
    assert not (tmp_path / "cells.json").exists()


def test_json_and_markdown_agree(rows: list[dict[str, Any]], ran: Path) -> None:
    first = of_table(ran, 1)
    for row in rows:
        if row["table"] == 1:
            cells = first[row["name"]]
            assert len(cells) == len(pages.HEADING)
            for cell, kind in zip(cells[1:3], ("raw", "released"), strict=True):
                assert cell == format_percent(row[f"top_1_{kind}"])
            assert cells[5] == (
                "none" if row["video"] is None else pages.format_number(row["video"])
            )
        else:
            assert not row["top_1_released"]
    second = of_table(ran, 2)
    assert second["row"][2:] == ["epsilon 2", "epsilon 5", "epsilon 8"]
    for row in rows:
        if row["table"] == 2:
            column = (2.0, 5.0, 8.0).index(row["at"])
            assert second[row["name"]][2 + column] == format_percent(row["top_1_raw"])
    found = json.loads((ran / "results.json").read_text())
    text = (ran / "table.md").read_text()
    assert all(f"- {sentence}" in text for sentence in found["findings"])
    assert found["setting"]["train"] == 6 and found["setting"]["test"] == 3
    assert "1 epochs, batches of 4" in text and "learning rate" in text and "n = 2 runs" in text
    assert "Each epsilon is that of one release or one run alone" in text.replace("\n", " ")
    assert max(len(line) for line in text.splitlines() if line[:2] == "| ") < 170
    assert {row["name"] for row in found["seconds"]} >= {
        "appearance_free",
        "video_dprp, sound form",
    }


def test_a_page_gets_a_section_with_its_date_and_plots(ran: Path) -> None:
    text = (ran / "page.md").read_text()
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    assert text.startswith("# Results\n\nOlder things.\n\n## Video-DPRP") and today in text
    assert (
        "`python -m experiments video_dprp --data few_films" not in text
    )  # a test's, not a room's
    plots = re.findall(r"\((page/\w+\.svg)\)", text)
    assert {"page/video_dprp_1.svg", "page/video_dprp_2.svg"} <= set(plots)
    assert all((ran / plot).read_text().startswith("<svg") for plot in plots)


def test_recordings_as_short_as_the_network_sees_make_segments_alike(ran: Path) -> None:
    findings = json.loads((ran / "results.json").read_text())["findings"]
    assert any("segments are one and the same" in sentence for sentence in findings)


def test_a_release_is_as_good_as_its_worst_recording() -> None:
    mechanism = Spec(
        table=1,
        name="",
        mechanism="gaussian_noise",
        fields={"epsilon": 8.0, "delta": 1e-4, "unit": "frame"},
    ).build_mechanism()
    assert mechanism is not None
    short, long, both = (
        rows_of.state_release(mechanism, shapes)
        for shapes in ([SHAPE], [(32, *SHAPE[1:])], [SHAPE, (32, *SHAPE[1:])])
    )
    assert short.video is not None and long.video is not None
    assert short.video < long.video == both.video and "of 32 frames" in both.said


def test_one_part_of_a_data_set_is_not_learned_and_tested_alike() -> None:
    with pytest.raises(BadInput, match="train and a test split"):
        EXPERIMENT.run(VideoDprpSettings(), Films(split="train"))
