"""How hard Stage is: the networks, the training loop and the scores behind the figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from masquerade.networks import small_networks, without_privacy  # noqa: E402
from tools import figures  # noqa: E402
from tools.figures import FIGURES, WORK, keeps  # noqa: E402

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)


def quiet(done: int, total: int) -> None:
    assert 0 < done <= total


@pytest.mark.parametrize(
    ("axes", "shape"), [(1, (2, 3, 128)), (2, (2, 3, 64, 48)), (3, (2, 3, 16, 48, 48))]
)
def test_a_classifier_takes_signals_pictures_and_films(axes: int, shape: tuple[int, ...]) -> None:
    net = small_networks.make_classifier(axes=axes, channels=3, classes=5)
    assert net(torch.zeros(shape)).shape == (2, 5)


def test_no_record_changes_what_a_network_says_of_another() -> None:
    net = small_networks.make_classifier(axes=2, channels=3, classes=5).eval()
    pictures = torch.rand(3, 3, 32, 32)
    with torch.no_grad():
        assert torch.allclose(net(pictures)[:1], net(pictures[:1]), atol=1e-5)


def test_a_pose_network_finds_a_bright_spot() -> None:
    rng = np.random.default_rng(0)
    where = rng.uniform(0.2, 0.8, (192, 1, 2)).astype(np.float32)
    at = (np.arange(32) + 0.5) / 32
    apart = (at[None, :, None] - where[:, :, 1:]) ** 2 + (at[None, None] - where[:, :, :1]) ** 2
    spots = np.repeat(255 * np.exp(-apart / 0.005)[:, None], 3, axis=1).astype(np.uint8)
    net = small_networks.PoseNet(1, widths=(8, 16))
    course = without_privacy.TrainingCourse(epochs=8, batch=16, rate=1e-2, seed=1)
    without_privacy.train_plainly(
        net,
        spots[:128],
        where[:128],
        course=course,
        progress=quiet,
        loss=small_networks.compute_heat_loss,
    )
    found = small_networks.find_hottest_joints(
        torch.from_numpy(without_privacy.predict_outputs(net, spots[128:]))
    ).numpy()
    error = np.abs(found - where[128:]).mean()
    assert error < 0.04, "guessing the middle gives 0.15"


def test_a_second_hot_place_does_not_move_a_joint() -> None:
    maps = torch.full((1, 1, 16, 16), -20.0)
    maps[0, 0, 4, 10], maps[0, 0, 14, 1] = 5.0, 4.5
    assert torch.allclose(
        small_networks.find_hottest_joints(maps) * 16, torch.tensor([[[10.5, 4.5]]])
    )


def test_training_learns_what_can_be_learned_and_not_what_cannot() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 400)
    signals = rng.normal(0, 1, (400, 2, 32)).astype(np.float32)
    signals[:, 0] += labels[:, None]
    for targets, at_least, at_most in ((labels, 0.9, 1.0), (rng.permutation(labels), 0.3, 0.7)):
        net = small_networks.make_classifier(axes=1, channels=2, classes=2, widths=(8, 16))
        course = without_privacy.TrainingCourse(epochs=6, batch=32, seed=1)
        learned, unseen = (signals[:300], targets[:300]), (signals[300:], targets[300:])
        found = without_privacy.measure_trained_top_1(
            net, learned, unseen, course=course, progress=quiet
        )
        assert at_least <= found <= at_most


def test_bytes_become_minus_one_to_one_and_shifts_move_pixels() -> None:
    assert without_privacy.make_input_tensor(np.array([0, 255], np.uint8)).tolist() == [-1.0, 1.0]
    batch = torch.arange(16.0).reshape(1, 1, 4, 4)
    course = without_privacy.TrainingCourse(shifts=2)
    moved = without_privacy._jitter_batch(batch.clone(), course, np.random.default_rng(3))
    assert sorted(moved.flatten().tolist()) == batch.flatten().tolist()
    assert not torch.equal(moved, batch)


def test_rank_1_needs_the_nearest_known_take_to_be_the_same_person() -> None:
    rng = np.random.default_rng(0)
    names = [name for name in "abc" for _ in range(6)]
    centres = {name: 5 * rng.normal(size=8) for name in "abc"}
    good = np.stack([centres[name] + rng.normal(0, 0.1, 8) for name in names])
    assert figures._rank_1(good, names) == 1
    assert figures._rank_1(rng.normal(size=good.shape), names) < 0.9


def test_a_person_is_cut_out_of_the_frame() -> None:
    frame = np.zeros((64, 64, 3), np.uint8)
    mask = np.zeros((64, 64), bool)
    mask[10:50, 20:30] = True
    frame[mask] = 200
    cut = figures._cut(frame, mask, (64, 48))
    assert cut.shape == (64, 48, 3) and cut[:, 24].min() == 200
    assert figures._cut(frame, np.zeros_like(mask), (64, 48)).shape == (64, 48, 3)


def test_frames_are_made_smaller_by_means() -> None:
    grey = np.random.default_rng(0).random((2, 64, 64))
    small = figures._smaller(grey)
    assert small.shape == (2, 48, 48) and small.mean() == pytest.approx(grey.mean())


def test_a_figure_is_kept_only_where_it_should_be() -> None:
    assert keeps("video", {"top_1": 0.9}) and not keeps("video", {"top_1": 0.8})
    assert keeps("frame", {"top_1": 0.5}) and not keeps("frame", {"top_1": 0.7})
    near = {"efficientnet_lite0": 0.7, "thumbnail": 0.6}
    assert not keeps("place", near) and keeps("place", near | {"thumbnail": 0.2})


def test_nearest_neighbours_are_searched_among_what_is_known() -> None:
    rng = np.random.default_rng(0)
    where = np.repeat(np.arange(5), 4)
    known = np.tile([True, False, False, True], 5)
    features = rng.normal(size=(5, 16))[where] + rng.normal(0, 0.01, (20, 16))
    assert figures._nearest(features, where, known) == 1


def test_every_figure_names_work_that_exists_and_the_docs_show_it() -> None:
    page = (DOCS / "figures.md").read_text()
    for name, figure in FIGURES.items():
        assert callable(WORK[name])
        assert f"--figure {name}`" in page and figure.said in page
    assert "| NO |" not in page
