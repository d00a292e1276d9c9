"""What there is to see in a release is said before it is made, and grey is not made unasked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import masquerade as mq
import video_files as maker
from masquerade import catalog
from masquerade.ledger import Ledger
from masquerade.mechanisms import expected_view as sight
from masquerade.mechanisms import prior
from masquerade.mechanisms.expected_view import ExpectedView, predict_view
from masquerade.vision import transforms
from video_files import KINDS

FILM = maker.moving(16, 48, 64)
COSINE = "--mechanism cosine_gaussian --epsilon 8 --delta 1e-4 --unit".split()
MOVIE = (64, 120, 160, 3)


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return maker.make(tmp_path / "in.mp4", FILM, KINDS["h264.mp4"])


def visible(
    name: str, unit: str, pixels: int | None = None, epsilon: float = 8
) -> ExpectedView | None:
    mechanism = mq.make_mechanism(name, epsilon=epsilon, delta=1e-4, unit=unit, pixels=pixels)
    return predict_view(mechanism.plan(MOVIE), (MOVIE,), is_video=True)


@pytest.mark.parametrize("name", ["cosine_gaussian", "pooled_gaussian"])
def test_units_and_budgets_are_said_as_they_looked(name: str) -> None:
    # looked at on Stage's clips of this size: docs/video.md
    assert visible(name, "subject") is ExpectedView.GREY
    assert visible(name, "tube", 1024) is ExpectedView.GREY
    assert visible(name, "frame", epsilon=1) is ExpectedView.GREY
    assert visible(name, "pixels", 256) is ExpectedView.SHAPES
    assert visible(name, "tube", 16) is ExpectedView.SHAPES
    assert visible(name, "frame") is ExpectedView.SHAPES
    assert visible(name, "pixels", 16) is ExpectedView.SCENE


@pytest.mark.parametrize("form", ["orthonormal", "gaussian", "truncated", "as_published"])
def test_a_random_projection_shows_nothing(form: str) -> None:
    mechanism = mq.make_mechanism(
        "video_dprp", epsilon=8, delta=1e-4, unit="pixels", pixels=1, form=form
    )
    shape = (8, 24, 32, 3)
    assert predict_view(mechanism.plan(shape), (shape,), is_video=True) is ExpectedView.GREY


def test_noise_on_every_pixel_is_judged_as_it_is_shown() -> None:
    found = [visible("gaussian_noise", "value", epsilon=epsilon) for epsilon in (1, 8, 64)]
    assert found == [ExpectedView.GREY, ExpectedView.SHAPES, ExpectedView.SCENE]


@pytest.mark.parametrize("name", ["cosine_gaussian", "pooled_gaussian"])
@pytest.mark.parametrize(("pixels", "epsilon"), [(1, 64.0), (256, 8.0), (4096, 0.1)])
def test_what_is_expected_is_what_is_left(name: str, pixels: int, epsilon: float) -> None:
    rng = np.random.default_rng(0)
    film = _like_the_prior(rng)
    mechanism = mq.make_mechanism(name, epsilon=epsilon, delta=1e-4, unit="pixels", pixels=pixels)
    out = mechanism.apply(film, mq.Noise(seed=3))
    share = mechanism.plan(film.shape).visible_share
    assert share is not None
    assert _share(film, np.asarray(out)) == pytest.approx(share, abs=0.2)


def _like_the_prior(rng: np.random.Generator) -> np.ndarray:
    """A film of grey, (24, 48, 64, 3), drawn from the prior."""
    size = (24, 48, 64)
    box = rng.standard_normal(size) * np.sqrt(prior.compute_full_spectrum(size))
    rows = [transforms.cosine_matrix(n, n, np.float64) for n in size]
    luma = np.asarray(transforms.backward(box, *rows)) / np.sqrt(3)
    grey = np.clip(127.5 + luma, 0, 255)
    return np.repeat(grey[..., None], 3, axis=-1).astype(np.uint8)


def _share(film: np.ndarray, out: np.ndarray) -> float:
    one, other = (x.mean(-1) - x.mean((1, 2, 3), keepdims=True)[..., 0] for x in (film, out))
    return float(1 - np.sum((one - other) ** 2) / np.sum(one**2))


def test_heuristics_and_numbers_that_mean_something_have_no_such_sentence(
    tmp_path: Path, command: Any
) -> None:
    blur = catalog.make_example("mechanisms", "blur")
    assert predict_view(blur.plan(MOVIE), (MOVIE,), is_video=True) is None
    np.save(tmp_path / "in.npy", FILM[:2])
    words = "--mechanism gaussian_noise --epsilon 1 --delta 1e-4 --unit value --json".split()
    done = command("release", tmp_path / "in.npy", tmp_path / "out.npy", *words)
    assert done.code == 0 and done.json["expect"] is None


@pytest.mark.parametrize(
    ("unit", "epsilon", "remedy"), [("subject", 8, "--unit frame"), ("frame", 0.2, "--epsilon")]
)
def test_numbers_that_are_noise_alone_are_refused_before_anything_is_spent(
    unit: str, epsilon: float, remedy: str, tmp_path: Path, command: Any
) -> None:
    heart, out = tmp_path / "heart.csv", tmp_path / "out.csv"
    heart.write_text("70\n" * 240)
    how = f"--mechanism gaussian_noise --delta 1e-5 --unit {unit} --low 30 --high 220 --epsilon"
    words = ["release", heart, out, *how.split(), epsilon]
    done = command(*words)
    assert done.code == 2 and "as wide as the public range" in done.err and not out.exists()
    assert "--yes" in done.err and f"Choose {remedy}" in done.err
    said = done.err.partition("Choose ")[2].split()[:2]
    assert not (said[0] == "--epsilon" and float(said[1]) > 20), "which would protect nothing"
    assert command(*words, *said, "--dry-run", "--json").json["expect"] is None
    told = command(*words, "--dry-run")
    assert told.code == 0 and "would be refused" in told.out
    assert "Expect numbers that are noise alone." in told.out
    assert command(*words, "--yes", "--json").json["expect"] == "numbers that are noise alone"


def test_one_number_is_not_averaged_with_any_other() -> None:
    given = {"epsilon": 1, "delta": 1e-5, "unit": "frame", "low": 0, "high": 1}
    mechanism = mq.make_mechanism("gaussian_noise", **given)
    assert mq.release_value(np.ones(10), mechanism).receipt
    with pytest.raises(ValueError, match="noise alone"):
        mq.release_value(np.ones(1), mechanism)


def test_numbers_that_are_noise_alone_are_refused_from_python() -> None:
    mechanism = mq.make_mechanism(
        "gaussian_noise", epsilon=8, delta=1e-5, unit="subject", low=30, high=220
    )
    with pytest.raises(ValueError, match="accept_grey=True"):
        mq.release_value(np.full(240, 70.0), mechanism)
    assert mq.release_value(np.full(240, 70.0), mechanism, accept_grey=True).receipt


def test_grey_is_refused_before_anything_is_spent(clip: Path, command: Any) -> None:
    ledger, target = clip.with_name("budget.db"), clip.with_name("out.mp4")
    opened = "--epsilon 20 --delta 1e-4 --unit video --ledger".split()
    assert command("ledger", "open", "ward", *opened, ledger).code == 0
    assert command("ledger", "add", "ward", clip, "--ledger", ledger).code == 0
    words = ["release", clip, target, *COSINE, "video", "--ledger", ledger]
    done = command(*words)
    assert done.code == 2 and "got plain grey or noise" in done.err and "--yes" in done.err
    assert not target.exists()
    assert [entry.kind for entry in Ledger(ledger).read_entries()] == ["open", "add"]
    told = command(*words, "--dry-run")
    assert told.code == 0 and "Expect plain grey or noise." in told.out
    assert "would be refused" in told.out
    done = command(*words, "--yes")
    _, first, expect, *_ = done.out.splitlines()
    assert done.code == 0 and first.startswith("Protects this whole file")
    assert expect == "Expect plain grey or noise."
    again = command(*words, "--json")
    assert again.code == 0 and again.json["already_done"], "what stands is not refused"
    assert again.json["expect"] == "plain grey or noise"


def test_grey_is_refused_from_python_and_rehearsed_freely(clip: Path) -> None:
    mechanism = mq.make_mechanism("cosine_gaussian", epsilon=8, delta=1e-4, unit="subject")
    with pytest.raises(ValueError, match="something can be seen"):
        mq.release_file(clip, clip.with_name("out.mp4"), mechanism)
    grey = mq.release_file(clip, clip.with_name("out.mp4"), mechanism, noise=mq.Noise(seed=1))
    assert grey.value.name == "out.rehearsal.mp4"


def test_a_folder_refuses_its_grey_files_and_says_what_the_others_show(
    tmp_path: Path, command: Any
) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    for name in ("a.mp4", "b.mp4"):
        maker.make(inside / name, FILM, KINDS["h264.mp4"])
    words = ["release", inside, tmp_path / "out", *COSINE]
    refused = command(*words, "video", "--jobs", 1)
    assert refused.code == 2 and refused.out.count("FAILED") == 2
    assert not list((tmp_path / "out").glob("*"))
    told = command(*words, "pixels", "--pixels", 4, "--dry-run")
    assert "in 2 files." in told.out
    done = command(*words, "pixels", "--pixels", 4, "--jobs", 1)
    assert done.code == 0 and "in 2 files." in done.out
    assert "does not protect a whole person" in done.out
    resumed = command(*words, "pixels", "--pixels", 4, "--jobs", 1, "--resume", "--json")
    assert [file["expect"] for file in resumed.json["files"]] == ["a readable scene"] * 2


def test_a_projection_of_everything_would_show_everything() -> None:
    assert (
        sight.compute_raw_share(0.0, projected=1.0) == 1.0
        and sight.compute_raw_share(0.0, projected=0.5) < 0.8
    )
