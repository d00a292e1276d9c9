"""Selective privacy: noise in the region, the video itself outside, nothing passes unseen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade.errors import BadInput, MissingExtra
from masquerade.io import downloads
from masquerade.io.video import read
from masquerade.mechanism import as_video
from masquerade.mechanisms import selective_privacy
from masquerade.mechanisms.selective_privacy import SelectivePrivacy
from masquerade.noise import Noise
from masquerade.recordings import Video

SHAPE = (60, 90)


def some_video(count: int = 5) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, *SHAPE, 3), dtype=np.uint8)


def squares(count: int = 5) -> np.ndarray:
    """A square of 20 pixels that moves to the right, (T, H, W) bool."""
    masks = np.zeros((count, *SHAPE), bool)
    for number, mask in enumerate(masks):
        mask[10:30, 5 + 4 * number : 25 + 4 * number] = True
    return masks


class Finder:
    """A detector of one face that never moves, and of none where it is told to miss it."""

    def __init__(self, face: tuple[float, ...] = (40, 20, 50, 30, 0.9), missed: Any = ()) -> None:
        self.face, self.missed, self.seen = face, missed, 0

    def __call__(self, frame: np.ndarray) -> np.ndarray:
        self.seen += 1
        return np.array([] if self.seen - 1 in self.missed else [self.face]).reshape(-1, 5)

    def search_near(self, frame: np.ndarray, boxes: np.ndarray) -> np.ndarray:
        return self(frame)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Any:
    def put(finder: Any) -> None:
        monkeypatch.setattr(selective_privacy, "load_detector", lambda *_, **__: finder)
        monkeypatch.setattr(selective_privacy, "fetch_asset", Path)

    return put


def test_given_masks_hide_what_is_inside_and_nothing_else(tmp_path: Path) -> None:
    frames, masks = some_video(), squares()
    np.save(tmp_path / "masks.npy", masks)
    mechanism = SelectivePrivacy(region="given", masks=str(tmp_path / "masks.npy"), grow=0)
    out = np.asarray(mechanism.apply(frames, Noise()))
    assert np.array_equal(out[~masks], frames[~masks])
    assert np.mean(out[masks] == frames[masks]) < 0.05  # one in 256 by chance
    again = np.asarray(mechanism.apply(frames, Noise()))
    assert not np.array_equal(out, again)


def test_a_region_grows_to_all_sides(tmp_path: Path) -> None:
    frames, masks = some_video(1), np.zeros((1, *SHAPE), np.uint8)
    masks[0, 30, 40] = 7
    np.savez(tmp_path / "masks.npz", people=masks)
    mechanism = SelectivePrivacy(region="given", masks=str(tmp_path / "masks.npz"), grow=3)
    out = np.asarray(mechanism.apply(frames, Noise()))
    rows, columns = np.nonzero(np.any(out[0] != frames[0], axis=-1))
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (27, 33, 37, 43)


def test_a_video_with_masks_of_its_own_is_hidden_inside_those() -> None:
    frames, masks = some_video(), squares()
    video = Video(frames=frames, rate_hz=10.0, person_mask=masks)
    out = SelectivePrivacy(region="given", grow=0).apply(video, Noise())
    assert isinstance(out, Video) and out.person_mask is None
    assert np.array_equal(out.frames[~masks], frames[~masks])
    assert np.mean(out.frames[masks] == frames[masks]) < 0.05


def test_without_masks_nothing_is_released() -> None:
    with pytest.raises(BadInput, match=r"got none; name a file with --masks, or let a network"):
        SelectivePrivacy(region="given").apply(some_video(), Noise())
    video = Video(frames=some_video(), rate_hz=10.0)
    with pytest.raises(BadInput, match="got none"):
        SelectivePrivacy(region="given").apply(video, Noise())


@pytest.mark.parametrize(
    ("masks", "said"),
    [
        (squares(4), r"shape \(5, 60, 90\).*got \(4, 60, 90\)"),
        (squares()[:, :-1], r"got \(5, 59, 90\)"),
        (squares().astype(float), "bools or whole numbers.*float64"),
    ],
)
def test_masks_that_do_not_fit_are_refused(tmp_path: Path, masks: np.ndarray, said: str) -> None:
    np.save(tmp_path / "masks.npy", masks)
    mechanism = SelectivePrivacy(region="given", masks=str(tmp_path / "masks.npy"))
    with pytest.raises(BadInput, match=said):
        mechanism.apply(some_video(), Noise())


@pytest.mark.parametrize("content", [None, b"", b"\x93NUMPY", b"PK\x03\x04 rubbish"])
def test_a_file_that_holds_no_masks_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "masks.npy"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadInput, match=r"no such file|cannot be read"):
        SelectivePrivacy(region="given", masks=str(path)).apply(some_video(), Noise())


def test_faces_are_hidden_also_where_the_detector_misses_them(found: Any) -> None:
    frames = some_video(8)
    found(Finder(missed=(3, 4)))
    out = np.asarray(SelectivePrivacy(grow=0).apply(frames, Noise()))
    changed = np.any(out != frames, axis=-1)
    inside = np.zeros(SHAPE, bool)
    inside[17:33, 37:53] = True  # the face and three tenths around it
    assert not np.any(changed[:, ~inside]) and np.mean(changed[:, inside]) > 0.95


def test_bodies_reach_from_above_the_face_to_the_feet(found: Any) -> None:
    found(Finder(face=(40, 10, 46, 16, 0.9)))
    frames = some_video(3)
    out = np.asarray(SelectivePrivacy(region="bodies", grow=0).apply(frames, Noise()))
    changed = np.any(out != frames, axis=(0, 3))
    left, top, right, bottom = selective_privacy.estimate_body_box(np.array([40, 10, 46, 16]))
    assert changed[int(np.ceil(top)) : int(bottom), int(left) : int(right)].all()
    assert not changed[:, : int(left)].any() and not changed[int(bottom) + 1 :].any()


class Segmenter:
    """Finds somebody in the upper left corner of each frame, and notes what is asked of it."""

    private = ""
    seen = 0
    is_ready = False

    def __init__(self, *, private: str) -> None:
        Segmenter.private, Segmenter.seen, Segmenter.is_ready = private, 0, False

    def load_networks(self) -> None:
        Segmenter.is_ready = True

    def segment_frame(self, frame: np.ndarray) -> np.ndarray:
        Segmenter.seen += 1
        mask = np.zeros(frame.shape[:2], bool)
        mask[:40, :30] = True
        return mask


@pytest.fixture
def people(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("ai_edge_litert")
    home = "masquerade.vision.person_detector.PersonSegmenter"
    return lambda segmenter: monkeypatch.setattr(home, segmenter)


def test_people_are_hidden_frame_by_frame_with_doubt_on_their_side(people: Any) -> None:
    people(Segmenter)
    frames, inside = some_video(4), np.zeros(SHAPE, bool)
    inside[:43, :33] = True
    mechanism = SelectivePrivacy(region="people", grow=3)
    shown = mechanism.stream(iter(frames), as_video(frames.shape), Noise())
    assert Segmenter.private == "person" and Segmenter.is_ready and Segmenter.seen == 0
    for number, (out, frame) in enumerate(zip(shown, frames, strict=True)):
        assert Segmenter.seen == number + 1
        changed = np.any(out != frame, axis=-1)
        assert not np.any(changed[~inside]) and np.mean(changed[inside]) > 0.95
    assert "the people that a segmenter finds look" in mechanism.hides


def test_without_its_networks_a_segmenter_takes_no_frame(people: Any) -> None:
    class Missing(Segmenter):
        def load_networks(self) -> None:
            raise BadInput("no network")

    def source() -> Iterator[np.ndarray]:
        raise AssertionError("a frame was taken")
        yield

    people(Missing)
    with pytest.raises(BadInput, match="no network"):
        SelectivePrivacy(region="people").stream(source(), as_video((4, *SHAPE, 3)), Noise())


def test_a_real_walker_is_hidden_and_most_of_the_rest_is_not() -> None:
    segmenters = pytest.importorskip("masquerade.vision.person_detector", exc_type=MissingExtra)
    try:
        for name in segmenters.NETWORKS:
            downloads.fetch_asset(name)
        frame = read.read_segment(downloads.fetch_asset("sports2d_demo"), 80, 81)[
            :, 480:980, 1000:1500
        ]
    except (OSError, BadInput) as error:
        pytest.skip(f"a network or the film cannot be had: {error}")
    out = np.asarray(SelectivePrivacy(region="people").apply(frame, Noise()))
    changed = np.any(out[0] != frame[0], axis=-1)
    sure = segmenters.PersonSegmenter(private="background").segment_frame(frame[0])
    assert sure.sum() > 500 and changed[sure].mean() > 0.95 and changed.mean() < 0.5


def test_a_detector_that_fails_ends_the_release(found: Any) -> None:
    class Failing(Finder):
        def __call__(self, frame: np.ndarray) -> np.ndarray:
            raise BadInput("no more")

    found(Failing())
    with pytest.raises(BadInput, match="no more"):
        SelectivePrivacy().apply(some_video(), Noise())


def test_no_frame_waits_longer_than_it_must(found: Any) -> None:
    found(Finder())
    taken = []

    def source() -> Iterator[np.ndarray]:
        for number, frame in enumerate(some_video(12)):
            taken.append(number)
            yield frame

    mechanism = SelectivePrivacy(hold=2)
    for number, _ in enumerate(mechanism.stream(source(), as_video((12, *SHAPE, 3)), Noise())):
        assert len(taken) <= number + 2 + 1


def test_no_receipt_says_where_the_masks_lie(tmp_path: Path, command: Any) -> None:
    source, target = tmp_path / "in.npy", tmp_path / "out.npy"
    np.save(source, some_video())
    np.save(tmp_path / "secret.npy", squares())
    words = ("--mechanism", "selective_privacy", "--region", "given", "--masks")
    assert command("release", source, target, *words, tmp_path / "secret.npy").code == 0
    assert "secret" not in (tmp_path / "out.npy.receipt.json").read_text()
    assert command("receipt", "check", target).code == 0


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"region": "hands"}, "choose from faces, bodies, people, given"),
        ({"masks": "a.npy"}, "masks with region given, got region=faces"),
        ({"grow": -1}, "grow=-1"),
        ({"grow": 1.5}, r"whole number, got grow=1\.5"),
        ({"hold": 5000}, "at most 1000, got hold=5000"),
        ({"thresh": 2.0}, "thresh"),
        ({"preset": "slow"}, "choose from fast, medium"),
    ],
)
def test_bad_fields_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        SelectivePrivacy(**fields)
