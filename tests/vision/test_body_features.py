"""Bodies are compared by colours from head to foot, and by what a network makes of them."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from masquerade.errors import BadInput
from masquerade.io import downloads
from masquerade.io.video import read
from masquerade.vision.body_features import ColourLayout

pytest.importorskip("cv2")


RED, BLUE, WHITE = (200, 20, 20), (20, 20, 200), (240, 240, 240)
# Of the frames 60 and 80 of a real film: a woman who walks, and a man on a roof.
WOMAN = ([1290, 530, 1490, 930], [1100, 520, 1340, 930])
MAN = ([560, 100, 700, 480], [560, 90, 700, 470])


def asset(name: str) -> Path:
    try:
        return downloads.fetch_asset(name)
    except (OSError, BadInput) as error:
        pytest.skip(f"{name} cannot be had: {error}")


@pytest.fixture(scope="module")
def film() -> np.ndarray:
    return read.read_segment(asset("sports2d_demo"), 60, 81)[::20]


def dressed(above: tuple[int, ...], below: tuple[int, ...]) -> np.ndarray:
    frame = np.zeros((80, 60, 3), np.uint8)
    frame[10:40, 20:40], frame[40:70, 20:40] = above, below
    return frame


BOX = np.array([[20.0, 10.0, 40.0, 70.0]])


def likeness(embed: object, film: np.ndarray) -> np.ndarray:
    """(2, 2, 2, 2): how like the woman and the man in two frames are each other."""
    rows = [
        embed.embed(frame, np.array(boxes))  # type: ignore[attr-defined]
        for frame, *boxes in zip(film, WOMAN, MAN, strict=True)
    ]
    rows = np.array(rows)  # (frame, person, D)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=2), 1, atol=1e-5)
    return np.asarray(np.einsum("fpd,gqd->pfqg", rows, rows))


def test_colours_at_the_same_height_are_like_and_others_are_not() -> None:
    eyes = ColourLayout()
    one, same, swapped, other = (
        eyes.embed(dressed(*clothes), BOX)[0]
        for clothes in ((RED, BLUE), (RED, BLUE), (BLUE, RED), (WHITE, WHITE))
    )
    assert one.shape == (120,) and one.dtype == np.float32
    assert one @ same > 0.999 > 0.6 > one @ swapped and one @ other < 0.3


def test_a_mask_leaves_out_what_is_behind() -> None:
    eyes, wide = ColourLayout(), np.array([[0.0, 10.0, 60.0, 70.0]])
    before, behind = dressed(RED, BLUE), dressed(RED, BLUE)
    behind[:, :20] = WHITE
    mask = np.zeros((1, 80, 60))
    mask[0, 10:70, 20:40] = 1
    same = eyes.embed(before, wide, mask) @ eyes.embed(behind, wide, mask).T
    assert same.item() > 0.999
    assert (eyes.embed(before, wide) @ eyes.embed(behind, wide).T).item() < 0.95
    assert not eyes.embed(before, wide, 0 * mask).any(), "of nothing there is nothing to compare"


def test_real_people_are_more_like_themselves_than_each_other_in_colour(film: np.ndarray) -> None:
    like = likeness(ColourLayout(), film)
    same = min(like[0, :, 0].min(), like[1, :, 1].min())
    assert same > like[0, :, 1].max()


def test_real_people_are_more_like_themselves_to_a_network(film: np.ndarray) -> None:
    pytest.importorskip("torch")
    from masquerade.vision.body_features import BodyFeatures

    asset("efficientnet_lite0")
    eyes = BodyFeatures()
    like = likeness(eyes, film)
    assert min(like[0, :, 0].min(), like[1, :, 1].min()) > like[0, :, 1].max()
    assert eyes.embed(film[0], np.zeros((0, 4))).shape == (0, 1280)
    assert eyes.embed(film[0][:1, :1], np.array([[0, 0, 1, 1]])).shape == (1, 1280)
    again = pickle.loads(pickle.dumps(eyes))
    assert again == eyes and "_network" not in vars(again)


def test_any_network_can_look() -> None:
    pytest.importorskip("torch")
    from masquerade.vision.body_features import BodyFeatures

    class Mean:
        def embed(self, frames: np.ndarray, /) -> np.ndarray:
            return frames.mean(axis=(1, 2), dtype=np.float32)

    eyes = BodyFeatures(network=Mean())
    red, blue = eyes.embed(dressed(RED, BLUE), np.array([[20, 10, 40, 40], [20, 40, 40, 70]]))
    np.testing.assert_allclose(red, np.array(RED) / np.linalg.norm(RED), atol=1e-3)
    assert red.argmax() == 0 and blue.argmax() == 2
    assert eyes.embed(dressed(RED, BLUE), np.zeros((0, 4))).shape == (0, 3)
    with pytest.raises(ValueError, match="give that its own weights"):
        BodyFeatures(network=Mean(), weights=Path("lite0.pth"))


def test_a_network_sees_grey_where_the_mask_is_none() -> None:
    pytest.importorskip("torch")
    from masquerade.vision.body_features import crop_bodies

    mask = np.zeros((1, 80, 60))
    mask[0, 10:40] = 1
    (picture,) = crop_bodies(dressed(RED, BLUE), BOX, mask)
    assert picture.shape == (224, 224, 3)
    assert picture[50, 100].tolist() == list(RED) and picture[170, 100].tolist() == [128] * 3


def test_other_weights_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from masquerade.vision.body_features import BodyFeatures

    path = tmp_path / "other.pth"
    path.write_bytes(b"no weights at all")
    with pytest.raises(BadInput, match="Expected"):
        BodyFeatures(weights=path).embed(dressed(RED, BLUE), BOX)


def test_boxes_may_reach_out_of_the_frame_but_must_show_something() -> None:
    eyes, frame = ColourLayout(), dressed(RED, BLUE)
    out = np.array([[-20.0, -10.0, 40.0, 700.0]])
    inside = np.array([[0.0, 0.0, 40.0, 80.0]])
    np.testing.assert_array_equal(eyes.embed(frame, out), eyes.embed(frame, inside))
    assert eyes.embed(frame, np.zeros((0, 4))).shape == (0, 120)
    for box in ([60, 0, 70, 9], [0, 80, 9, 90], [-9, 0, 0, 9], [9, 0, 2, 9]):
        with pytest.raises(ValueError, match="show something of a frame of 80 x 60"):
            eyes.embed(frame, np.array([box]))


def test_what_is_no_frame_and_no_box_is_refused() -> None:
    eyes, frame = ColourLayout(), dressed(RED, BLUE)
    with pytest.raises(ValueError, match="uint8 pixels"):
        eyes.embed(frame / 255, BOX)
    for boxes in (BOX[0], np.full((1, 4), np.nan)):
        with pytest.raises(ValueError, match="Expected boxes as"):
            eyes.embed(frame, boxes)
    with pytest.raises(ValueError, match=r"masks.*\(N, H, W\)"):
        eyes.embed(frame, BOX, np.ones((2, 80, 60)))
    with pytest.raises(ValueError, match="stripes"):
        ColourLayout(stripes=0)
