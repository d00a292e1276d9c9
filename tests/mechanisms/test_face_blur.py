from __future__ import annotations

import json
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade.errors import BadInput
from masquerade.guarantee import GuaranteeKind
from masquerade.mechanism import Heuristic
from masquerade.mechanisms import face_blur
from masquerade.mechanisms.face_blur import BlurStrength, CoverStyle, FaceBlur, FaceCover
from masquerade.noise import Noise

FACE = np.array([20.0, 24.0, 50.0, 64.0, 0.9])
SHAPE = (90, 80, 3)


@dataclass
class Finder:
    """A detector that finds these faces, frame by frame, and notes what it was shown."""

    faces: dict[int, list[np.ndarray]]
    whole: list[int] = field(default_factory=list)
    parts: list[int] = field(default_factory=list)

    def __call__(self, frame: np.ndarray) -> np.ndarray:
        self.whole.append(number_of(frame))
        return self._found(self.whole[-1])

    def search_near(self, frame: np.ndarray, boxes: np.ndarray) -> np.ndarray:
        assert len(boxes)
        self.parts.append(number_of(frame))
        return self._found(self.parts[-1])

    def _found(self, number: int) -> np.ndarray:
        return np.array(self.faces.get(number, [])).reshape(-1, 5)


@pytest.fixture
def finding(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Finder]:
    """Let the detector find these faces, frame by frame."""

    def install(faces: dict[int, list[np.ndarray]]) -> Finder:
        finder = Finder(faces)
        monkeypatch.setattr(face_blur, "load_detector", lambda *_, **__: finder)
        monkeypatch.setattr(face_blur, "fetch_asset", Path)
        return finder

    return install


def video(frames: int, *, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    """Noise, with each frame's number in its first pixel."""
    values = np.random.default_rng(7).integers(0, 256, (frames, *shape), dtype=np.uint8)
    values[:, 0, 0, 0] = np.arange(frames)
    return values


def number_of(frame: np.ndarray) -> int:
    return int(frame[0, 0, 0])


def covered(values: np.ndarray, mechanism: FaceBlur) -> list[int]:
    """The frames that a release changes."""
    before = values.copy()
    released = np.stack(list(mechanism.stream(iter(values), values.shape, Noise())))
    assert np.array_equal(values, before)
    assert released.dtype == np.uint8 and released.shape == values.shape
    return np.flatnonzero(np.any(released != values, axis=(1, 2, 3))).tolist()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"kernel": 4097}, "at most 4095"),
        ({"hold": 10**9}, "at most 1000"),
        ({"every": 10**9}, "at most 1000"),
        ({"margin": 1e9}, "at most 10"),
        ({"detect_height": 10**9}, "at most 65535"),
        ({"sigma": 0.01}, "at least 0.5"),
        ({"sigma": 1e300}, "at most 1e"),
    ],
)
def test_numbers_beyond_reason_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        FaceBlur(**wrong)


def test_a_face_is_covered_before_and_after_it_is_found(finding: Any) -> None:
    finding({number: [FACE] for number in (8, 9, 10, 11)})
    assert covered(video(20), FaceBlur(hold=4)) == list(range(6, 15))
    assert covered(video(20), FaceBlur(hold=2)) == list(range(7, 14))
    assert covered(video(20), FaceBlur(hold=0)) == [8, 9, 10, 11]
    finding({8: [FACE]})
    assert covered(video(20), FaceBlur(hold=3)) == [8]


def test_a_face_that_is_missed_for_up_to_hold_frames_stays_covered(finding: Any) -> None:
    finding({0: [FACE], 4: [FACE], 8: [FACE], 9: [FACE]})
    assert covered(video(10), FaceBlur(hold=3)) == list(range(10))


@pytest.mark.parametrize("frames", [1, 2, 30])
def test_of_every_third_frame_the_whole_is_searched_and_of_others_a_part(
    finding: Any, frames: int
) -> None:
    finder = finding({number: [FACE] for number in range(frames)})
    assert covered(video(frames), FaceBlur(every=3, hold=0)) == list(range(frames))
    assert finder.whole == sorted({*range(0, frames, 3), frames - 1})
    assert sorted(finder.whole + finder.parts) == list(range(frames))


def test_where_nobody_is_the_frames_in_between_are_not_searched(finding: Any) -> None:
    finder = finding({})
    assert covered(video(30), FaceBlur(every=3)) == []
    assert not finder.parts


def test_a_face_that_is_missed_in_between_is_covered_there(finding: Any) -> None:
    finding({number: [FACE] for number in range(0, 30, 5)})
    assert covered(video(30), FaceBlur(every=5, hold=0)) == list(range(26))


def test_a_face_that_comes_between_two_looks_is_covered_from_the_first_on(finding: Any) -> None:
    finding({number: [FACE] for number in (4, 5, 6, 7)})
    assert covered(video(12), FaceBlur(every=3, hold=0)) == [4, 5, 6, 7]


def test_what_is_not_quite_a_face_is_looked_at_in_between(finding: Any) -> None:
    sure, doubtful = FACE, FACE * [1, 1, 1, 1, 0.18]  # scores of 0.9 and 0.16, threshold 0.2
    nearly = FACE * [1, 1, 1, 1, 0.215]  # 0.1935: enough in a part, where scores are a bit off
    finder = finding({3: [doubtful], 4: [sure], 5: [doubtful]})
    assert covered(video(9), FaceBlur(every=3, hold=0)) == [4]
    assert finder.parts == [1, 2, 4, 5]
    finding({3: [nearly], 4: [nearly], 5: [doubtful]})
    assert covered(video(9), FaceBlur(every=3, hold=0)) == [4]


def test_a_video_that_ends_sooner_than_it_said_is_searched_to_its_end(finding: Any) -> None:
    finding({4: [FACE]})
    frames = list(FaceBlur(every=3, hold=0).stream(iter(video(5)), (9, *SHAPE), Noise()))
    assert len(frames) == 5
    assert not np.array_equal(frames[4], video(5)[4])


def test_frames_wait_no_longer_than_they_must(finding: Any) -> None:
    finder = finding({})
    stream = FaceBlur(hold=4).stream(iter(video(20)), (20, *SHAPE), Noise())
    for number in range(10):
        assert number_of(next(stream)) == number
        assert len(finder.whole) == number + 5


def test_a_detector_that_fails_ends_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    def detect(frame: np.ndarray) -> np.ndarray:
        if number_of(frame) == 7:
            raise RuntimeError("out of memory")
        return np.zeros((0, 5))

    monkeypatch.setattr(face_blur, "load_detector", lambda *_, **__: detect)
    stream = FaceBlur(hold=2, detector="x.onnx").stream(iter(video(9)), (9, *SHAPE), Noise())
    passed: list[np.ndarray] = []
    with pytest.raises(RuntimeError, match="out of memory"):
        passed.extend(stream)
    assert len(passed) == 5 and not list(stream)
    with pytest.raises(RuntimeError, match="out of memory"):
        FaceBlur(hold=2, detector="x.onnx").apply(video(9), Noise())


def test_a_network_that_is_not_there_or_is_none_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"not a network")
    for path in (tmp_path / "missing.onnx", broken):
        for layout in ("centerface", "boxes_scores"):
            with pytest.raises(BadInput, match="ONNX"):
                FaceBlur(detector=str(path), detector_layout=layout).apply(video(1), Noise())


def test_small_and_big_faces_stay_where_sizes_are_limited(finding: Any) -> None:
    faces = {0: [FACE], 1: [FACE * [1, 1, 1, 0.5, 1]], 2: [FACE * [0.5, 0.5, 1.5, 1.3, 1]]}
    finding(faces)  # 40, 30 and 71 pixels
    assert covered(video(3), FaceBlur(hold=0, min_size=40)) == [0, 2]
    assert covered(video(3), FaceBlur(hold=0, max_size=40)) == [0, 1]
    assert covered(video(3), FaceBlur(hold=0, min_size=40, max_size=40)) == [0]


def test_regions_are_left_alone(finding: Any) -> None:
    finding({0: [FACE]})
    values = video(1)
    mechanism = FaceBlur(style="solid", leave_alone=("30,40,10,5", "0,0,1,1", "70,80,999,999"))
    released = np.asarray(mechanism.apply(values, Noise()))
    assert np.array_equal(released[0, 40:45, 30:40], values[0, 40:45, 30:40])
    assert not np.any(released[0, 39, 30:40]) and not np.any(released[0, 40:45, 29])


@pytest.mark.parametrize("style", CoverStyle)
@pytest.mark.parametrize("strength", BlurStrength)
@pytest.mark.parametrize("size", [(1, 1), (5, 3), (31, 33), (90, 80)])
def test_every_style_covers_the_whole_face_in_frames_of_any_size(
    style: CoverStyle, strength: BlurStrength, size: tuple[int, int]
) -> None:
    frame = np.full((*size, 3), 255, dtype=np.uint8)
    frame[::2, ::2] = 200
    cover = FaceCover(style=style, strength=strength, kernel=21, sigma=10.0, margin=0.3)
    before = frame.copy()
    painted = cover.cover_faces(frame, np.array([[-4.0, -3.0, 1.0, 2.0], FACE[:4] / 3, FACE[:4]]))
    assert np.array_equal(frame, before) and painted.shape == frame.shape
    if style is CoverStyle.SOLID:
        assert not np.any(painted[24:64, 20:50])


def test_the_ellipse_is_no_bigger_than_its_box_allows() -> None:
    cover = FaceCover(
        style=CoverStyle.SOLID, strength=BlurStrength.SCALED, kernel=21, sigma=10.0, margin=0.3
    )
    painted = cover.cover_faces(
        np.full((400, 400, 3), 255, np.uint8), np.array([[150, 150, 250, 270]])
    )
    area = np.sum(painted[..., 0] == 0) / (100 * 120)
    assert area == pytest.approx(np.pi / 4 * 1.6**2, rel=0.01)


def contrast_left(side: int, **fields: Any) -> float:
    """How much is left of stripes as wide as an eye in a face of so many pixels."""
    stripe = max(1, side // 6)
    frame = np.zeros((3 * side, 3 * side, 3), dtype=np.uint8)
    frame[:, (np.arange(3 * side) // stripe) % 2 == 0] = 255
    cover = FaceCover(kernel=21, sigma=10.0, margin=0.3, **fields)
    painted = cover.cover_faces(
        frame, np.array([[side, side, 2 * side, 2 * side]], dtype=np.float64)
    )
    middle = slice(side + side // 4, 2 * side - side // 4)
    return float(np.std(painted[middle, middle]) / np.std(frame[middle, middle]))


@pytest.mark.parametrize("side", [20, 60, 300])
@pytest.mark.parametrize("style", [CoverStyle.BLUR, CoverStyle.MOSAIC])
def test_what_is_as_big_as_an_eye_vanishes_in_faces_of_any_size(
    side: int, style: CoverStyle
) -> None:
    assert contrast_left(side, style=style, strength=BlurStrength.SCALED) < 0.3


def test_the_paper_s_kernel_hides_nothing_of_a_big_face() -> None:
    assert contrast_left(20, style=CoverStyle.BLUR, strength=BlurStrength.PAPER) < 0.2
    assert contrast_left(300, style=CoverStyle.BLUR, strength=BlurStrength.PAPER) > 0.8


def test_the_exported_file_is_private_and_says_so(finding: Any, tmp_path: Path) -> None:
    target = tmp_path / "faces.json"
    finding({0: [FACE], 2: [FACE + 1], 9: [FACE]})
    mechanism = FaceBlur(hold=2, export=str(target))
    stream = mechanism.stream(iter(video(10)), (10, *SHAPE), Noise())
    next(stream)
    assert not target.exists()
    list(stream)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    said = json.loads(target.read_text())
    assert "Do not publish" in said["PRIVATE"]
    assert said["video"] == {"frames": 10, "height": 90, "width": 80}
    assert [[found["frame"] for found in face] for face in said["faces"]] == [[0, 2], [9]]
    assert said["faces"][0][0] == {"frame": 0, "box": [20.0, 24.0, 50.0, 64.0], "score": 0.9}
    assert str(target) not in json.dumps(mechanism.encode_fields())
    with pytest.raises(FileExistsError, match="another name"):
        mechanism.apply(video(1), Noise())
    with pytest.raises(ValueError, match="folder"):
        FaceBlur(export=str(tmp_path / "no" / "x.json")).apply(video(1), Noise())


@pytest.mark.parametrize(
    "wrong",
    [
        {"kernel": 20},
        {"kernel": 1},
        {"kernel": 0},
        {"sigma": 0.0},
        {"sigma": float("nan")},
        {"style": "glitter"},
        {"strength": "weak"},
        {"thresh": 0.0},
        {"thresh": 1.5},
        {"margin": -0.1},
        {"hold": -1},
        {"hold": 1.5},
        {"every": 0},
        {"min_size": 0},
        {"min_size": 9, "max_size": 8},
        {"detect_height": 0},
        {"detector_layout": "yolo"},
        {"leave_alone": ("1,2,3",)},
        {"leave_alone": ("1,2,3,0",)},
        {"leave_alone": ("-1,2,3,4",)},
        {"leave_alone": ("a,b,c,d",)},
    ],
    ids=str,
)
def test_wrong_fields_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"Expected|Unknown"):
        FaceBlur(**wrong)


def test_it_promises_nothing_and_says_the_same_twice(finding: Any) -> None:
    finding({0: [FACE]})
    assert isinstance(FaceBlur(), Heuristic)
    assert FaceBlur().guarantee((4, *SHAPE)).kind is GuaranteeKind.HEURISTIC
    first, second = (np.asarray(FaceBlur().apply(video(1), Noise())) for _ in range(2))
    assert np.array_equal(first, second)


def test_regions_survive_the_json_round_trip() -> None:
    mechanism = FaceBlur(leave_alone=("1,2,3,4",))
    assert FaceBlur(**json.loads(json.dumps(mechanism.encode_fields()))) == mechanism
