"""Dense optical flow: where every pixel of a frame was in another one, and pictures moved by it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from masquerade import _check
from masquerade._optional import lazy_module

cv2 = lazy_module("cv2", extra="vision")


_MIN_SIDE_PX = 64  # the estimator reads past its buffers on narrower frames


class FlowPreset(StrEnum):
    """How carefully the optical flow is estimated."""

    FAST = "fast"
    MEDIUM = "medium"


@dataclass(frozen=True, kw_only=True)
class OpticalFlow:
    """Estimates flow by OpenCV's dense inverse search.

    Args:
        preset: medium, or fast (three to six times faster, with rougher outlines, and small
            things move too little).
    """

    preset: str = "medium"

    def __post_init__(self) -> None:
        _check.parse_choice(FlowPreset, preset=self.preset)

    def estimate_back_flow(self, now: np.ndarray, before: np.ndarray) -> np.ndarray:
        """(H, W, 2) float32, right and down in pixels: ``now`` at x shows ``before`` at x + back.

        Args:
            now: (H, W, 3) uint8.
            before: of the same shape.
        """
        _check.shape("H W 3", now=now, before=before)
        height, width, _ = now.shape
        speed = (
            cv2.DISOPTICAL_FLOW_PRESET_FAST
            if self.preset == FlowPreset.FAST
            else cv2.DISOPTICAL_FLOW_PRESET_MEDIUM
        )
        found = cv2.DISOpticalFlow_create(speed).calc(
            compute_brightness(now), compute_brightness(before), None
        )
        return np.ascontiguousarray(found[:height, :width])


def compute_brightness(frame: np.ndarray) -> np.ndarray:
    """(H, W) uint8 of a frame, at least as large as the flow estimator needs."""
    grey = cv2.cvtColor(np.ascontiguousarray(frame), cv2.COLOR_RGB2GRAY)
    below, right = (max(0, _MIN_SIDE_PX - size) for size in grey.shape)
    return np.pad(grey, ((0, below), (0, right)), mode="edge")


def warp_picture(picture: np.ndarray, back: np.ndarray, *, is_nearest: bool = False) -> np.ndarray:
    """What ``picture`` shows at x + back(x); its edges continue outside.

    Args:
        picture: (H, W) or (H, W, C), a frame or any field of numbers.
        back: (H, W, 2), as `OpticalFlow.estimate_back_flow` gives it.
        is_nearest: take the nearest pixel instead of a mean of four, which keeps the spread of
            noise.
    """
    _check.shape("H W 2", back=back)
    if picture.shape[:2] != back.shape[:2]:
        raise ValueError(
            f"Expected a picture of the flow's size {back.shape[:2]}, got {picture.shape[:2]}."
        )
    height, width, _ = back.shape
    x = back[..., 0] + np.arange(width, dtype=np.float32)
    y = back[..., 1] + np.arange(height, dtype=np.float32)[:, None]
    how = cv2.INTER_NEAREST if is_nearest else cv2.INTER_LINEAR
    given = np.ascontiguousarray(picture)
    moved = cv2.remap(given, x, y, how, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(moved).reshape(picture.shape)


def lies_inside(back: np.ndarray) -> np.ndarray:
    """(H, W) bool: where x + back(x) lies in the picture."""
    height, width, _ = back.shape
    x = back[..., 0] + np.arange(width)
    y = back[..., 1] + np.arange(height)[:, None]
    return np.asarray((x >= 0) & (x <= width - 1) & (y >= 0) & (y <= height - 1))
