"""`masquerade recipe video_dprp`: rows for all mechanisms, true epsilons, computed sentences."""

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

from few_films import Few
from masquerade import catalog
from masquerade.account.compose import epsilon
from masquerade.collection import Labels
from masquerade.data.stage import Stage
from masquerade.doors.models import make_method
from masquerade.errors import BadInput, MissingExtra
from masquerade.guarantee import Unit, UnitName
from masquerade.mechanism import Heuristic, Streams
from masquerade.recipes import bench
from masquerade.recipes.video_dprp import EXAMPLE, VideoDprpTables, promises
from masquerade.recipes.video_dprp import page as pages
from masquerade.recipes.video_dprp import rows as rows_of
from masquerade.recipes.video_dprp import run as runs
from masquerade.recipes.video_dprp.promises import RowPromise
from masquerade.recipes.video_dprp.rows import ResultRow, Score, Setting, Spec
from masquerade.recipes.video_dprp.run import Kept
from masquerade.recordings import Video
from masquerade.release.mosaic import Mosaic
from masquerade.train.plan import Plan

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

SHAPE = (16, 24, 24, 3)
SETTING = Setting(
    shape=(20, 64, 64, 3),
    seen=16,
    train=400,
    test=200,
    classes=12,
    seeds=1,
    part="head",
    course="sgd",
)


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
        patch.setattr(Plan, "epsilon", cache(Plan.epsilon))
        yield


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one quick run, with a page of the docs."""
    out = tmp_path_factory.mktemp("video_dprp")
    (out / "page.md").write_text("# Results\n\nOlder things.\n")
    plan = VideoDprpTables(
        out=out, page=out / "page.md", quick=True, epochs=1.0, batch=4, jobs=1, seeds=2
    )
    plan.run(Films())
    return out


@pytest.fixture(scope="module")
def rows(ran: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((ran / "results.json").read_text())["rows"]
    return found


def printed(ran: Path) -> list[list[str]]:
    """The cells of every line of the tables."""
    lines = (ran / "table.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:2] == "| "]
    return [line for line in cells if line[0] != "row"]


@pytest.mark.parametrize("is_quick", [True, False])
def test_every_mechanism_that_can_treat_a_video_has_a_row(is_quick: bool) -> None:
    named = {spec.mechanism for spec in rows_of.all_rows(SHAPE, is_quick=is_quick)}
    for name in catalog.names("release"):
        assert name in named or not isinstance(catalog.example("release", name), Streams)
    assert {"video_dprp", "cosine_gaussian", "face_blur"} <= named


def test_a_mechanism_that_nobody_named_gets_its_examples_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rows_of.catalog, "names", lambda room: ("blur", "brand_new"))
    found = [s for s in rows_of.all_rows(SHAPE, is_quick=True) if s.mechanism == "brand_new"]
    assert len(found) == 1 and found[0].fields is None and found[0].table == 1
    monkeypatch.undo()
    assert replace(found[0], mechanism="mosaic").made() == catalog.example("release", "mosaic")


def test_what_is_not_installed_says_so_in_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(spec: Spec) -> None:
        raise MissingExtra("cv2 is needed here")

    monkeypatch.setattr(Spec, "made", absent)
    specs = [Spec(table=1, name="blur", mechanism="blur")]
    work = runs.planned(specs, SHAPE)
    cells = pages.cells(work.missing[specs[0]])
    assert cells[1:6] == ("-", "-", "-", "none", "none") and "cv2 is needed" in cells[6]


def test_the_full_form_holds_all_that_the_paper_varies() -> None:
    quick, full = (rows_of.all_rows((20, 240, 320, 3), is_quick=few) for few in (True, False))
    assert len(full) > len(quick)
    ks = [spec.at for spec in full if spec.table == 3 and spec.line == "as published"]
    assert ks == [1200, 2304, 3072, 7500, 15360]  # at the paper's size, its own
    assert {spec.at for spec in full if spec.table == 4} == {0.2, 0.4, 0.5, 0.6, 0.8}
    assert {spec.at for spec in full if spec.table == 2} == {2, 5, 8}


def test_the_published_form_carries_no_epsilon_but_its_claim_and_what_holds(
    rows: list[dict[str, Any]], ran: Path
) -> None:
    published = [row for row in rows if (row["fields"] or {}).get("form") == "as_published"]
    assert {row["table"] for row in published} == {1, 2, 3, 4}
    for row in published:
        assert row["epsilon"] is row["frame"] is row["video"] is None and row["nominal"] == 8
        assert row["claim"].startswith("CLAIMED, NOT VALID: epsilon 8")
        really = float(re.findall(r"really gives epsilon (\S+) for one frame", row["said"])[0])
        assert really > 1000
    for cells in printed(ran):
        if "as published" in cells[0]:
            assert cells[4] == "8, CLAIMED, NOT VALID" and cells[5] == "none"


def test_frame_rows_say_that_they_are_no_video_level_numbers(rows: list[dict[str, Any]]) -> None:
    frames = [row for row in rows if row["unit"] == "frame"]
    assert len(frames) > 8
    for row in frames:
        mechanism = Spec(table=1, name="", mechanism=row["mechanism"], fields=row["fields"]).made()
        assert mechanism is not None
        event = mechanism.event_for(SHAPE, Unit(name=UnitName.VIDEO))
        assert event is not None
        whole = epsilon(event, delta=1e-4, relation="replace_one")
        assert row["epsilon"] <= row["nominal"] < row["video"] == pytest.approx(whole, abs=2e-4)
        assert "one frame of a recording of 16 frames; not a video-level number" in row["said"]
        assert row["relation"] == "replace_one" and row["frame"] == row["epsilon"]


def test_heuristics_have_no_epsilon(rows: list[dict[str, Any]]) -> None:
    seen = 0
    for row in rows:
        name = row["mechanism"]
        if name and row["missing"] is None and catalog.is_a("release", name, "Heuristic"):
            assert isinstance(catalog.example("release", name), Heuristic)
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
    said = [cells[5] for cells in printed(ran) if cells[0].startswith(("DP-SGD", "MultiClip"))]
    assert len(said) == 9 and all("zero_out" in text and "replace_one" in text for text in said)


def test_both_splits_are_released_and_each_recording_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    real = Mosaic.apply

    def counted(self: Mosaic, value: Any, noise: Any) -> Any:
        if isinstance(value, Video):
            seen.append(value.frames.tobytes())
        return real(self, value, noise)

    monkeypatch.setattr(Mosaic, "apply", counted)
    train, test = (
        Kept(origin=Films(split=split), numbers=tuple(range(count)))
        for split, count in (("train", 6), ("test", 3))
    )
    plan = VideoDprpTables(batch=4, epochs=1.0, seeds=1, jobs=1)
    told: list[int] = []
    specs = [
        Spec(table=1, name="mosaic", mechanism="mosaic"),
        Spec(table=2, name="again, 3 segments", mechanism="mosaic", segments=3, tested=3),
    ]
    found = runs.measure(
        plan,
        (train, test),
        specs,
        journal=bench.Journal(),
        told=lambda what, done, total: told.append(done),
    )
    films = [film.frames.tobytes() for split in (train, test) for film in split]
    assert sorted(seen) == sorted(films) and len(set(films)) == 9
    assert told == [3, 6, 6, 3], "raw tests, raw and released training recordings, released tests"
    for row in found:
        assert len(row.raw.top_1) == len(row.released.top_1) == 1
        assert 0.9 < (row.changed or 0) <= 1


def test_a_stopped_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = VideoDprpTables(out=tmp_path, batch=4, epochs=1.0, seeds=1, jobs=1)
    specs = [
        Spec(table=1, name=name, line=name, mechanism=mechanism)
        for name, mechanism in (("raw", None), ("mosaic", "mosaic"), ("blur", "blur"))
    ]
    monkeypatch.setattr("masquerade.recipes.video_dprp.all_rows", lambda shape, is_quick: specs)
    real, groups = runs._taught, []

    def stopped(plan: Any, group: Any, *rest: Any) -> Any:
        groups.append(group[0].name)
        if len(groups) == 3:
            raise KeyboardInterrupt
        return real(plan, group, *rest)

    monkeypatch.setattr(runs, "_taught", stopped)
    with pytest.raises(KeyboardInterrupt):
        plan.run(Films())
    kept = bench.Journal.of(plan, Films())
    assert len(kept.held) == 2 and not bench.Journal.of(replace(plan, part="all"), Films()).held
    found = plan.run(Films()).data["rows"]
    assert groups == ["raw", "mosaic", "blur", "blur"], "what was finished is not done again"
    assert [row["name"] for row in found] == ["raw", "mosaic", "blur"]
    (raw,), (mosaic,) = kept.held.values()
    assert [found[0]["top_1_raw"], found[1]["top_1_raw"]] == [
        raw["raw"]["top_1"],
        mosaic["raw"]["top_1"],
    ]
    assert found[1]["said"] == mosaic["promise"]["said"] and found[1]["changed"] > 0.9
    assert not (tmp_path / "cells.json").exists()


def test_json_and_markdown_agree(rows: list[dict[str, Any]], ran: Path) -> None:
    lines = printed(ran)
    assert len(lines) == len(rows)
    for cells, row in zip(lines, rows, strict=True):
        assert cells[0] == row["name"] and len(cells) == len(pages.HEADING)
        for cell, scores in zip(cells[1:3], (row["top_1_raw"], row["top_1_released"]), strict=True):
            assert cell == bench.percent(scores)
        assert (cells[5] == "none") == (row["epsilon"] is None)
        assert cells[7:] == ["-", "-"] and row["cmap"] is row["f1"] is None
    found = json.loads((ran / "results.json").read_text())
    text = (ran / "table.md").read_text()
    assert all(f"- {sentence}" in text for sentence in found["findings"])
    assert found["setting"]["train"] == 6 and found["setting"]["test"] == 3
    assert "1 epochs, batches of 4" in text and "learning rate" in text
    assert "Each epsilon is that of one release or one run alone" in text.replace("\n", " ")


def test_a_page_gets_a_section_with_its_date_and_plots(ran: Path) -> None:
    text = (ran / "page.md").read_text()
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    assert text.startswith("# Results\n\nOlder things.\n\n## Video-DPRP") and today in text
    assert "`masquerade recipe video_dprp --data few_films" not in text  # a test's, not a room's
    plots = re.findall(r"\((page/\w+\.svg)\)", text)
    assert {"page/video_dprp_1.svg", "page/video_dprp_2.svg"} <= set(plots)
    assert all((ran / plot).read_text().startswith("<svg") for plot in plots)


def test_recordings_as_short_as_the_network_sees_make_segments_alike(ran: Path) -> None:
    findings = json.loads((ran / "results.json").read_text())["findings"]
    assert any("segments are one and the same" in sentence for sentence in findings)


def made_up(
    name: str, at: float, share: float, *, unit: str = "video", most: float = 8.0
) -> ResultRow:
    promise = RowPromise(
        epsilon=most, delta=1e-4, unit=unit, frame=most, video=most * (1 + (unit == "frame"))
    )
    score = Score(top_1=(share,), by_class=(share,) * 12)
    return ResultRow(spec=Spec(table=2, name=name, at=at), promise=promise, raw=score)


@pytest.mark.parametrize(
    ("multi", "verdict"),
    [((0.9, 0.9, 0.9), "confirmed here"), ((0.9, 0.5, 0.1), "refuted"), ((0.9, 0.5, 0.5), "open")],
)
def test_that_multi_clip_is_ahead_is_judged_by_the_numbers(
    multi: tuple[float, ...], verdict: str
) -> None:
    found = []
    for at, share in zip(rows_of.EPSILONS, multi, strict=True):
        found += [made_up("MultiClip, 3 segments", at, share), made_up("DP-SGD", at, 0.5)]
    sentence = pages.findings(found, SETTING)[1]
    assert f"is ahead of `DP-SGD` is {verdict}" in sentence and "epsilon 8:" in sentence


def test_a_model_that_takes_whole_classes_for_others_is_not_told_apart_from_chance() -> None:
    lucky = Score(top_1=(0.25,), by_class=(1.0,) * 3 + (0.0,) * 9)
    real = Score(top_1=(0.25,), by_class=(0.25, 0.2, 0.3) * 4)
    chance = Score(top_1=(1 / 12,), by_class=(1 / 12,) * 12)
    assert pages.told_apart(lucky, chance, 1000) == "not told apart"
    assert pages.told_apart(real, chance, 1000) == "higher"
    assert pages.told_apart(chance, real, 1000) == "lower"


def test_the_best_row_is_sought_among_those_proved_for_the_same_unit() -> None:
    frame = made_up("release", 8, 0.9, unit="frame", most=8.0)
    video = made_up("training", 8, 0.5, most=5.0)
    unproved = replace(frame, promise=RowPromise(), raw=Score(top_1=(1.0,)))
    everything = [frame, video, unproved]
    assert pages.best(everything, "frame", 8) is frame
    assert pages.best(everything, "frame", 5) is video  # a whole recording's holds for a frame
    assert pages.best(everything, "video", 8) is video  # a frame's does not for a recording
    assert pages.best(everything, "video", 2) is None


def test_a_release_is_as_good_as_its_worst_recording() -> None:
    mechanism = Spec(
        table=1,
        name="",
        mechanism="gaussian_noise",
        fields={"epsilon": 8.0, "delta": 1e-4, "unit": "frame"},
    ).made()
    assert mechanism is not None
    short, long, both = (
        promises.of_release(mechanism, shapes)
        for shapes in ([SHAPE], [(32, *SHAPE[1:])], [SHAPE, (32, *SHAPE[1:])])
    )
    assert short.video is not None and long.video is not None
    assert short.video < long.video == both.video and "of 32 frames" in both.said


def test_without_noise_nothing_is_promised() -> None:
    free = make_method("dp_sgd", epsilon=float("inf"), unit="video")
    found = promises.of_training(free, free.plan(100))
    assert found == RowPromise() and found.epsilon is None and "no privacy" in found.said


def test_one_part_of_a_data_set_is_not_learned_and_tested_alike() -> None:
    with pytest.raises(BadInput, match="train and a test split"):
        EXAMPLE.run(Films(split="train"))


def test_the_command_line_takes_a_world_and_prints_the_tables(
    command: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Any] = []

    def measured(plan: VideoDprpTables, data: Any, **how: Any) -> tuple[list[ResultRow], Setting]:
        asked.extend((plan, data))
        return [
            replace(made_up("raw", 0, 0.5), spec=Spec(table=1, name="raw", line="raw"))
        ], SETTING

    monkeypatch.setattr(VideoDprpTables, "measure", measured)
    done = command("recipe", "video_dprp", "--quick", "--videos", "36", "--out", tmp_path)
    assert done.code == 0 and "| raw | 50.0 |" in done.out and "Wrote" in done.out
    assert asked[0].quick and asked[1] == Stage(videos=36)  # the default data set
    assert (tmp_path / "video_dprp_1.svg").is_file()


def test_the_command_names_what_was_chosen_and_no_path() -> None:
    plan = VideoDprpTables(quick=True, seeds=2, weights=Path("/secret/w"), out=Path("/secret/o"))
    said = bench.command(plan, Stage(videos=36, height=64))
    assert said == (
        "masquerade recipe video_dprp --videos 36 --height 64 --weights PATH --seeds 2 --quick"
    )


@pytest.mark.parametrize("field", ["seeds", "most", "jobs"])
def test_counts_are_checked(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        VideoDprpTables(**{field: 0})
