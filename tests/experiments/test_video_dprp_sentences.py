"""What Video-DPRP's tables say: sentences, times and faces, from numbers that are made up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments import engine, video_dprp
from experiments import video_dprp_page as pages
from experiments import video_dprp_rows as rows_of
from experiments.claims import write_sentences
from experiments.video_dprp import EXPERIMENT
from experiments.video_dprp_rows import (
    ALONE,
    RAW,
    FaceCount,
    ResultRow,
    RowPromise,
    Spec,
    TimedRow,
    VideoDprpFound,
)
from masquerade.datasets.stage import Stage
from masquerade.publish.models import make_method
from video_dprp_rows import CHOICES, SETTING, find, made_up

torch = pytest.importorskip("torch")
torch.set_num_threads(1)


def say(found: VideoDprpFound) -> list[str]:
    return list(write_sentences(found, pages.CLAIMS))


@pytest.mark.parametrize(
    ("multi", "verdict"),
    [
        ((0.9, 0.9, 0.9), "holds here at every epsilon"),
        ((0.1, 0.1, 0.1), "does not hold here at any epsilon"),
        (
            (0.9, 0.5, 0.1),
            "holds here at epsilon 2, and is open at epsilon 5, and does not hold at epsilon 8",
        ),
        ((0.9, 0.5, 0.5), "holds here at epsilon 2, and is open at epsilon 5 and 8"),
        ((0.5, 0.5, 0.5), "is open here at every epsilon"),
    ],
)
def test_that_multi_clip_is_ahead_is_judged_by_the_numbers(
    multi: tuple[float, ...], verdict: str
) -> None:
    found = []
    for at, share in zip(CHOICES.epsilons, multi, strict=True):
        found += [made_up(rows_of.MULTI_CLIP, at, share), made_up("DP-SGD", at, 0.5)]
    sentence = say(find(*found))[1]
    assert f"is ahead of `DP-SGD` {verdict}. epsilon 2:" in sentence and "epsilon 8:" in sentence


def test_what_public_weights_know_stands_beside_what_was_learned() -> None:
    first = [
        replace(made_up(name, 0, share), spec=Spec(table=1, name=name))
        for name, share in ((rows_of.RAW, 0.9), (rows_of.ALONE, 0.5))
    ]
    rows = (*first, made_up("DP-SGD", 2, 0.5), made_up("DP-SGD", 8, 0.8))
    raw, learned = say(find(*rows))[1:3]
    assert "90.0 ± 1.0 against 50.0 ± 1.0, ahead" in raw
    assert "not told apart: `DP-SGD` at 2; ahead: `DP-SGD` at 8" in learned


def test_the_published_form_is_compared_with_every_heuristic() -> None:
    def row(name: str, share: float, **promise: Any) -> ResultRow:
        spec = Spec(table=1, name=name, mechanism=name)
        return replace(made_up(name, 0, share), spec=spec, promise=RowPromise(**promise))

    rows = (
        row("mosaic", 0.8),
        row("blur", 0.5),
        row("low", 0.2),
        *(row("dprp", 0.5, nominal=at, claim="CLAIMED") for at in (2.0, 8.0)),
    )
    said = say(find(*rows))
    told = "behind `mosaic`; not told apart from `blur`; ahead of `low`"
    assert any(told in each for each in said)
    assert any("from epsilon 2 to 8: 50.0 ± 1.0 to 50.0 ± 1.0 (not told" in each for each in said)


def test_rules_of_thumb_are_judged_beside_raw_recordings_and_the_gap_is_said() -> None:
    def row(name: str, share: float, mechanism: str | None, **promise: Any) -> ResultRow:
        spec = Spec(table=1, name=name, mechanism=mechanism)
        return replace(made_up(name, 0, share), spec=spec, promise=RowPromise(**promise))

    rows = (
        row(RAW, 0.8, None),
        row(ALONE, 0.525, None),
        row("faces", 0.79, "face_blur"),
        row("coarse", 0.5, "mosaic"),
        row("noise", 0.1, "gaussian_noise", nominal=8.0, epsilon=8.0, frame=8.0),
    )
    said = say(find(*rows, settings=replace(SETTING, shape=(16, 64, 64, 3))))
    assert any("27.5 points are there to be learned" in each for each in said)
    told = "not told apart: `faces` 79.0 ± 1.0; behind: `coarse` 50.0 ± 1.0."
    assert any(f"beside raw recordings (80.0 ± 1.0). {told}" in each for each in said)
    assert not any("MultiClip" in each for each in said), "which is a row of Table 2"
    unproved = pages.write_text(find(*rows[:-1]))
    assert "at delta ." not in unproved and "Best on raw tests" not in unproved


def test_the_best_row_is_sought_among_those_proved_for_the_same_unit() -> None:
    frame = made_up("release", 8, 0.9, unit="frame", most=8.0)
    video = made_up("training", 8, 0.5, most=5.0)
    unproved = replace(frame, promise=RowPromise())
    everything = [frame, video, unproved]
    assert pages.find_best(everything, "frame", 8) is frame
    assert pages.find_best(everything, "frame", 5) is video  # a recording's holds for a frame
    assert pages.find_best(everything, "video", 8) is video  # a frame's does not for a recording
    assert pages.find_best(everything, "video", 2) is None


def test_a_model_that_learned_nothing_is_not_told_apart_from_chance() -> None:
    lucky, real = made_up("a", 8, 1 / 12 + 0.01), made_up("a", 8, 0.2)
    assert "not told apart from chance" in pages.describe_row(lucky, find())
    assert "chance" not in pages.describe_row(real, find())


def test_times_are_taken_in_the_same_run_on_one_video_of_the_papers_size() -> None:
    film = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), dtype=np.uint8)
    video = video_dprp.enlarge_video(film, count=5)
    assert video.shape == (5, 240, 320, 3)
    assert np.array_equal(video[3], video[1]) and np.array_equal(video[4], video[0])
    found = video_dprp.time_releases(video[:2, :24, :32], CHOICES, device="cpu", is_brief=False)
    assert {row.name for row in found} >= {"appearance_free", "video_dprp as published"}
    assert all(row.seconds > 0 for row in found)
    shown = find(
        timed=(TimedRow(name="video_dprp, sound form", seconds=2), TimedRow(name="b", seconds=3)),
        timed_shape=(5, 240, 320, 3),
    )
    text = pages.write_text(shown)
    assert "| b | 3.00 | none |" in text and "b 1.5 times as long" in text
    assert "5 frames, 240 x 320, on the processor" in text
    assert list(pages.draw_plots(shown)) == ["video_dprp_5"]


def test_faces_that_were_found_are_counted_against_the_truth() -> None:
    class Everything:
        def apply(self, frames: np.ndarray, noise: Any) -> np.ndarray:
            return 255 - frames

    class Nothing:
        def apply(self, frames: np.ndarray, noise: Any) -> np.ndarray:
            return frames.copy()

    stage = Stage(videos=54, frames=2, height=48, width=48)
    every, none = (video_dprp.count_faces(stage, made) for made in (Everything(), Nothing()))  # type: ignore[arg-type]
    assert every is not None and none is not None
    assert every.found == every.visible == none.visible > 0 and none.found == 0
    row = replace(made_up("face_blur", 0, 0.5), spec=Spec(table=1, name="face_blur"))
    text = pages.write_text(find(row, faces=FaceCount(visible=40, found=37)))
    assert "face_blur finds 92.5 % of the faces that are in sight here" in text


def test_the_command_line_takes_a_world_and_prints_the_tables(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Any] = []

    def measured(run: engine.Run) -> VideoDprpFound:
        asked.extend((run.settings, run.data))
        row = replace(made_up("raw", 0, 0.5), spec=Spec(table=1, name="raw", line="raw"))
        return find(row)

    own = replace(EXPERIMENT, measure=measured)
    monkeypatch.setattr(engine, "load_experiment", lambda name: own)
    assert engine.main(["video_dprp", "--quick", "--videos", "36", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "| raw | 50.0 ± 1.0 |" in out and "Wrote" in out
    assert asked[0].quick and asked[1] == Stage(videos=36)  # the default data set
    assert (tmp_path / "video_dprp_1.svg").is_file()


def test_without_noise_nothing_is_promised() -> None:
    free = make_method("dp_sgd", epsilon=float("inf"), unit="video")
    found = rows_of.state_training(free, free.plan_run(100))
    assert found == RowPromise() and found.epsilon is None and "no privacy" in found.said
