"""Colour that private pixels share with public ones does not reach the public view."""

from __future__ import annotations

from typing import Any

import av
import numpy as np
import pytest

from masquerade.io.video.colour import ToRgb
from masquerade.recordings import Video
from masquerade.training import views
from masquerade.training.views import BORDER_PX, FILL_LEVEL, PrivateSide

SIZES = [(64, 48), (63, 49)]


def decoded(rgb: np.ndarray, pixels: str = "yuv420p") -> np.ndarray:
    """A picture as it comes out of a file whose pixels share colour."""
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(rgb), format="rgb24")
    return ToRgb()(frame.reformat(format=pixels, interpolation="AREA"))


def pictures(height: int, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two pictures that differ where a mask is not, and the mask, drawn at odd places."""
    rng = np.random.default_rng(height)
    mask = np.zeros((height, width), bool)
    mask[11:50, 7:38] = True
    mask[20:27, 17:20] = False
    one, other = rng.integers(0, 256, (2, height, width, 3), np.uint8)
    return one, np.where(mask[..., None], one, other), mask


@pytest.mark.parametrize("pixels", ["yuv420p", "yuv422p"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("private", list(PrivateSide))
def test_shared_colour_is_cut_off_at_the_border(
    size: tuple[int, int], pixels: str, private: PrivateSide
) -> None:
    one, other, mask = pictures(*size)
    mask = mask if private is PrivateSide.BACKGROUND else ~mask
    films = [decoded(each, pixels)[None] for each in (one, other)]
    shown = [views.fill_private(film, mask[None], private) for film in films]
    assert np.array_equal(*shown)
    assert (shown[0] != FILL_LEVEL).any(), "something is public"
    naive = [views.fill_private(film, mask[None], private, border=0) for film in films]
    assert not np.array_equal(*naive), "without a border it would show"


def test_half_the_border_would_not_do() -> None:
    one, other, mask = pictures(63, 49)
    films = [decoded(each)[None] for each in (one, other)]
    few = [views.fill_private(film, mask[None], PrivateSide.BACKGROUND, border=3) for film in films]
    assert not np.array_equal(*few)


@pytest.mark.parametrize("turns", range(4))
def test_a_turned_video_has_the_same_border(turns: int) -> None:
    one, other, mask = (np.rot90(each, turns) for each in pictures(63, 49))
    films = [np.rot90(decoded(np.rot90(each, -turns)), turns)[None] for each in (one, other)]
    assert np.array_equal(
        *(views.fill_private(f, mask[None], PrivateSide.BACKGROUND) for f in films)
    )


def test_frames_that_were_drawn_keep_all_that_is_public() -> None:
    one, _, mask = pictures(64, 48)
    video: Any = {"frames": one[None], "rate_hz": 1.0, "person_mask": mask[None]}
    drawn = views.public_view(Video(**video, is_decoded=False), PrivateSide.BACKGROUND)
    film = views.public_view(Video(**video), PrivateSide.BACKGROUND)
    assert np.array_equal(drawn[0][mask], one[mask])
    is_shown = (film[0] == one).all(axis=-1)
    inside = np.zeros_like(mask)
    inside[11 + BORDER_PX : 50 - BORDER_PX, 7 + BORDER_PX : 38 - BORDER_PX] = True
    inside[20 - BORDER_PX : 27 + BORDER_PX, 17 - BORDER_PX : 20 + BORDER_PX] = False
    assert np.array_equal(is_shown, inside)
    assert views.hash_mask_source(Video(**video)) != views.hash_mask_source(
        Video(**video, is_decoded=False)
    )
