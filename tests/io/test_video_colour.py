"""Ledgers know recordings by their RGB: a quicker way to it must give the very same values."""

from __future__ import annotations

import av
import numpy as np
import pytest
from av.video.reformatter import ColorRange

from masquerade.io.video import colour


def frame_of(pixel_format: str, height: int, width: int, *, seed: int) -> av.VideoFrame:
    """Random bytes in every plane, so that each value and each clamp occurs."""
    rng = np.random.default_rng(seed)
    frame = av.VideoFrame(width, height, pixel_format)
    for plane in frame.planes:
        plane.update(rng.bytes(plane.buffer_size))
    return frame


@pytest.mark.parametrize("pixel_format", sorted(colour._QUICK_FORMATS))
def test_the_quick_way_to_rgb_gives_the_same_values(
    pixel_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = ((720, 96), (34, 50), (17, 33), (2, 2), (1, 1), (65, 257))
    for seed, (height, width) in enumerate(sizes):
        for tag, reach in ((1, ColorRange.MPEG), (5, ColorRange.JPEG), (9, ColorRange.MPEG)):
            frame = frame_of(pixel_format, height, width, seed=seed)
            frame.colorspace, frame.color_range = tag, reach
            quick = colour.ToRgb()(frame)
            with monkeypatch.context() as patch:
                patch.setattr(colour, "_QUICK_FORMATS", set())
                plain = colour.ToRgb()(frame)
            assert quick.shape == (height, width, 3) and quick.dtype == np.uint8
            assert np.array_equal(quick, plain) and quick.flags.c_contiguous
            assert not np.shares_memory(quick, colour.ToRgb()(frame))


def test_the_comparison_can_fail() -> None:
    one, other = (colour.ToRgb()(frame_of("yuv420p", 34, 50, seed=seed)) for seed in (1, 2))
    assert not np.array_equal(one, other)
