"""Squares around people, cut out of frames: what a network that looks at somebody is shown."""

from __future__ import annotations

import numpy as np

from masquerade._torch import Tensor, nn, torch

CROP_PX = 64  # what is seen of a person
_AROUND = 1.4  # sides of a square around somebody's joints


def around(joints: np.ndarray, side_px: int) -> np.ndarray:
    """Squares around joints (T, J, 2): middle and side (T, 3), as shares of a frame's side.

    Example:
        >>> around(np.array([[[10.0, 20.0], [30.0, 60.0]]]), 100).round(2).tolist()
        [[0.2, 0.4, 0.56]]
    """
    low, high = np.nanmin(joints, axis=1), np.nanmax(joints, axis=1)  # (T, 2)
    side = _AROUND * (high - low).max(axis=1, keepdims=True)
    return np.asarray(np.hstack([(low + high) / 2, side]) / side_px)


def cropped(frames: Tensor, boxes: Tensor) -> Tensor:
    """Squares (N, 3, 64, 64) of frames (N, 3, H, W), where boxes (N, 3) say; edges continue."""
    x, y, side = boxes.unbind(dim=1)
    none = torch.zeros_like(x)
    rows = [torch.stack(row, dim=1) for row in ((side, none, 2 * x - 1), (none, side, 2 * y - 1))]
    grid = nn.functional.affine_grid(
        torch.stack(rows, dim=1), [len(frames), 3, CROP_PX, CROP_PX], align_corners=False
    )
    return nn.functional.grid_sample(frames, grid, padding_mode="border", align_corners=False)
