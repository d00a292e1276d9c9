"""What people look like: the measures, the labels, and the attack between ceiling and floor."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
metrics = pytest.importorskip("sklearn.metrics")

from masquerade.attacks import attribute_inference, looks  # noqa: E402
from masquerade.attacks.attack import Case, Recording, ignore_progress  # noqa: E402
from masquerade.attacks.attribute_inference import AttributeInference  # noqa: E402
from masquerade.attacks.looks import list_questions, read_labels_at  # noqa: E402
from masquerade.datasets.stage import Stage  # noqa: E402
from masquerade.errors import BadInput  # noqa: E402
from masquerade.recordings import Photo, Signal, Video  # noqa: E402

pytestmark = pytest.mark.usefixtures("private_features")


@pytest.mark.parametrize("levels", [3, 1000])
@pytest.mark.parametrize("seed", range(5))
def test_measures_are_those_of_scikit_learn_with_and_without_ties(levels: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, levels, (40, 6)) / levels
    right = rng.random((40, 6)) < rng.uniform(0.1, 0.9, 6)
    own = attribute_inference.average_precisions(scores, right)
    theirs = [metrics.average_precision_score(right[:, k], scores[:, k]) for k in range(6)]
    assert own == pytest.approx(theirs, abs=1e-12)
    cmap = metrics.average_precision_score(right, scores, average="macro")
    assert attribute_inference.class_mean_average_precision(scores, right) == pytest.approx(cmap)
    said = scores > 0.5
    f1 = metrics.f1_score(right, said, average="macro", zero_division=0)
    assert attribute_inference.class_f1(said, right) == pytest.approx(f1)


def test_a_label_that_all_or_none_have_is_left_out_and_ties_get_what_guessing_gets() -> None:
    right = np.array([[1, 1, 0], [0, 1, 0], [0, 1, 0], [1, 1, 0]], bool)
    same = np.zeros((4, 3))
    assert attribute_inference.class_mean_average_precision(same, right) == 0.5
    assert attribute_inference.compute_prevalence(right) == 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(attribute_inference.class_mean_average_precision(same[:, 1:], right[:, 1:]))


def test_a_perfect_order_is_one_and_the_reverse_is_low() -> None:
    right = np.array([[1], [1], [0], [0]])
    rising = np.array([[1], [2], [3], [4]])
    assert attribute_inference.class_mean_average_precision(-rising, right) == 1
    low = attribute_inference.class_mean_average_precision(rising, right)
    assert low == pytest.approx((1 / 3 + 2 / 4) / 2)


def test_two_words_are_one_label_and_three_are_three() -> None:
    told = [{"gender": "a", "build": "x"}, {"gender": "b", "build": "y"}]
    told.append({"gender": "a", "build": "z"})
    asked = list_questions(told, told, ())
    assert [str(one) for one in asked] == ["build: x", "build: y", "build: z", "gender: b"]
    assert [str(one) for one in list_questions(told, told, ("gender",))] == ["gender: b"]
    with pytest.raises(ValueError, match="Unknown attribute"):
        list_questions(told, told, ("hair",))


def test_who_learned_from_vispr_is_asked_what_pa_hmdb51_has() -> None:
    photo = {"a4_gender": 1, "a9_face_complete": 0, "a10_face_partial": 1, "a17_color": 0}
    film = {"gender": (0, 2), "face": (2, 0), "skin_color": (4, 0), "nudity": (0, 0)}
    known = [read_labels_at(photo, 0), read_labels_at({**photo, "a4_gender": 0, "a17_color": 1}, 0)]
    known.append(read_labels_at({**photo, "a10_face_partial": 0}, 0))
    targets = [read_labels_at(film, 0), read_labels_at(film, 1)]
    assert [one.attribute for one in list_questions(known, targets, ())] == [
        *("face", "gender", "skin_color")
    ]
    own = {one.attribute for one in list_questions(known, known, ())}
    assert own == {"a4_gender", "a10_face_partial", "a17_color"}, "nothing is asked twice"
    assert read_labels_at({"face": (0, -1)}, 1) == {}


def people(count: int, *, seed: int, films: int = 2) -> list[Recording]:
    """Dots in front of grey: red or blue, large or small, each somebody's."""
    rng, made = np.random.default_rng(seed), []
    for who in range(count):
        tone, build = who % 2, (who // 2) % 3
        for _ in range(films):
            frames = rng.integers(90, 130, (2, 32, 32, 3)).astype(np.uint8)
            x, y = rng.integers(10, 22, 2)
            half = 3 + 2 * build
            frames[:, y - half : y + half, x - half : x + half, 0 if tone else 2] = 250
            made.append(
                Video(
                    frames=frames,
                    rate_hz=1,
                    subject=f"{seed}-{who}",
                    attributes={"skin_tone": "red" if tone else "blue", "build": f"b{build}"},
                )
            )
    return made


def hidden(recording: Recording) -> Recording:
    assert isinstance(recording, Video)
    return replace(recording, frames=np.full_like(recording.frames, 127))


ATTACK = AttributeInference(pictures=1, steps=60, looks_at="frame")


def test_what_shows_is_told_and_what_is_painted_over_is_not() -> None:
    known, raw = people(12, seed=1), people(12, seed=2)
    plain = Case(known=known, targets=raw, raw=raw, release=lambda one: one)
    for found in ATTACK.run(plain, told=ignore_progress):
        assert found.is_telling and found.verdict.startswith("Not stopped"), found
        assert found.published[0].measure == "cMAP" and found.published[0].value > 0.85
        assert found.published[1].measure == "F1" and found.published[1].value > 0.6
        assert found.published[0].count == 12 and found.published[0].of == "people"
    covered = [hidden(one) for one in raw]
    grey = Case(known=known, targets=covered, raw=raw, release=hidden)
    for found in ATTACK.run(grey, told=ignore_progress):
        assert found.verdict.startswith("Not told apart from random"), found
        assert found.published[0].value == pytest.approx(found.published[0].chance or 0, abs=1e-9)


def test_colours_that_change_places_deceive_who_learned_from_raw_and_not_who_adapts() -> None:
    known, raw = people(12, seed=1), people(12, seed=2)

    def swapped(recording: Recording) -> Recording:
        assert isinstance(recording, Video)
        return replace(recording, frames=np.ascontiguousarray(recording.frames[..., ::-1]))

    only = replace(ATTACK, attributes=("skin_tone",))
    case = Case(known=known, targets=[swapped(one) for one in raw], raw=raw, release=swapped)
    naive, adaptive = only.run(case, told=ignore_progress)
    assert naive.published[0].value < 0.6 < 0.9 < adaptive.published[0].value


def test_a_network_that_has_seen_imagenet_looks_at_a_square_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[int] = []

    def embed(images: np.ndarray, *, net: object) -> np.ndarray:
        looked.append(len(images))
        return images.reshape(len(images), -1, 3)[:, :40].mean(axis=2).astype(np.float32)

    monkeypatch.setattr(attribute_inference, "_load_imagenet", lambda: None)
    monkeypatch.setattr(attribute_inference.efficientnet_lite, "embed_images", embed)
    known, targets = people(6, seed=0), people(4, seed=1)
    case = Case(known=known, targets=targets, raw=targets, release=lambda each: each)
    plan = AttributeInference(network="efficientnet_lite0", steps=2, pictures=2)
    first = plan.run(case, told=ignore_progress)
    assert sum(looked) == 2 * 2 * (len(known) + len(targets))  # raw and random, two squares each
    looked.clear()
    again = plan.run(case, told=ignore_progress)
    assert not looked and again == first


def test_labels_that_change_within_a_film_are_asked_for_each_frame() -> None:
    rng = np.random.default_rng(0)
    made: list[Recording] = []
    for number in range(24):
        face = rng.permutation([0, 2])
        frames = rng.integers(90, 130, (2, 32, 32, 3)).astype(np.uint8)
        frames[face == 2, 8:24, 8:24] = 250
        attributes = {"face": tuple(face.tolist())}
        made.append(Video(frames=frames, rate_hz=1, attributes=attributes))
        assert number < 24
    case = Case(known=made[:12], targets=made[12:], raw=made[12:])
    [found] = replace(ATTACK, attacker="raw", pictures=2).run(case, told=ignore_progress)
    assert found.published[0].of == "recordings" and found.published[0].count == 12
    assert found.published[0].value > 0.95


def test_without_labels_or_pictures_nothing_is_measured() -> None:
    film = Video(frames=np.zeros((1, 8, 8, 3), np.uint8), rate_hz=1)
    with pytest.raises(BadInput, match="what people look like"):
        ATTACK.run(Case(known=[film], targets=[film], raw=[film]), told=ignore_progress)
    worn = Signal(values=np.zeros((4, 2), np.float32), rate_hz=1, attributes={"gender": "a"})
    with pytest.raises(BadInput, match="videos or photos"):
        ATTACK.run(Case(known=[worn], targets=[worn], raw=[worn]), told=ignore_progress)
    with pytest.raises(BadInput, match="learned from"):
        ATTACK.run(Case(known=[], targets=[film], raw=[film]), told=ignore_progress)


def test_a_square_is_around_the_person_also_in_a_frame_that_is_no_square() -> None:
    image = np.zeros((40, 120, 3), np.uint8)
    image[10:30, 80:100] = 255
    joints = np.array([[82.0, 12.0], [98.0, 28.0]], np.float32)
    photo = Photo(image=image, joints=joints, visible=np.ones(2, bool), attributes={"face": "a"})
    for near, least, most in ((True, 0.6, 1.0), (False, 0.01, 0.1)):
        seen = looks.crop_pictures([photo], each=4, is_near=near, progress=lambda done: None)
        assert seen.squares.shape == (1, 3, 64, 64)
        assert least < seen.squares.mean() / 255 < most


@pytest.mark.slow
def test_on_stage_raw_recordings_tell_and_grey_ones_do_not(in_world: Path) -> None:
    world: dict[str, Any] = {"subjects": 210, "videos": 630, "frames": 2, "rate_hz": 2.0}
    raw = [film for film in Stage(**world, split="train") if isinstance(film, Video)]
    known = list(Stage(**world, split="public"))
    grey = [hidden(one) for one in raw]
    case = Case(known=known, targets=grey, raw=raw, release=hidden)
    [found] = AttributeInference(pictures=2, steps=500, attacker="raw").run(
        case, told=ignore_progress
    )
    assert found.is_telling, found.verdict
    assert found.verdict.startswith("Not told apart from random"), found
