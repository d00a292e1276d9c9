"""The part of a picture around a person, as a pose network is shown it, and the way back.

Convention: a picture spans 0 to its width and 0 to its height; so does a crop.

Squares around people, cut out of frames: what a network that looks at somebody is shown.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade._optional import torch

CROP_PX = 64  # what is seen of a person
_SQUARE_SCALE = 1.4  # sides of a square around somebody's joints


def find_person_square(joints: np.ndarray, side_px: int) -> np.ndarray:
    """Squares around joints (T, J, 2): middle and side (T, 3), as shares of a frame's side.

    Example:
        >>> find_person_square(np.array([[[10.0, 20.0], [30.0, 60.0]]]), 100).round(2).tolist()
        [[0.2, 0.4, 0.56]]
    """
    low, high = np.nanmin(joints, axis=1), np.nanmax(joints, axis=1)  # (T, 2)
    side = _SQUARE_SCALE * (high - low).max(axis=1, keepdims=True)
    return np.asarray(np.hstack([(low + high) / 2, side]) / side_px)


def crop_person(frames: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
    """Squares (N, 3, 64, 64) of frames (N, 3, H, W), where boxes (N, 3) say; edges continue."""
    x, y, side = boxes.unbind(dim=1)
    none = torch.zeros_like(x)
    rows = [torch.stack(row, dim=1) for row in ((side, none, 2 * x - 1), (none, side, 2 * y - 1))]
    grid = torch.nn.functional.affine_grid(
        torch.stack(rows, dim=1), [len(frames), 3, CROP_PX, CROP_PX], align_corners=False
    )
    return torch.nn.functional.grid_sample(frames, grid, padding_mode="border", align_corners=False)


SIZE_PX = (256, 192)  # of a crop: height, width

CROP_SCALE = 1.25  # sides of a crop, for each of the box
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet; public

Box = tuple[float, float, float, float]


@dataclass(frozen=True, kw_only=True)
class CropRegion:
    """A part of a picture that has the shape of a crop; it may reach beyond the picture.

    Args:
        left: where it begins, in pixels.
        top: likewise.
        width: in pixels.
        height: in pixels.
    """

    left: float
    top: float
    width: float
    height: float

    def map_into_crop(self, points: np.ndarray) -> np.ndarray:
        """Points (..., 2) of the picture in the crop."""
        return np.asarray((points - [self.left, self.top]) * self._scale)

    def map_back(self, points: np.ndarray) -> np.ndarray:
        """Points (..., 2) of the crop in the picture."""
        return np.asarray(points / self._scale + [self.left, self.top])

    @property
    def _scale(self) -> np.ndarray:
        return np.array([SIZE_PX[1] / self.width, SIZE_PX[0] / self.height])


def find_pose_square(box: Box, *, enlarged: float = CROP_SCALE) -> CropRegion:
    """What is shown of a person in a box (x, y, width, height): some more, in the crop's shape.

    Example:
        >>> find_pose_square((100, 100, 30, 80), enlarged=1.0).width
        60.0
    """
    x, y, width, height = box
    tall = max(height, width * SIZE_PX[0] / SIZE_PX[1]) * enlarged
    wide = tall * SIZE_PX[1] / SIZE_PX[0]
    return CropRegion(
        left=x + (width - wide) / 2, top=y + (height - tall) / 2, width=wide, height=tall
    )


def find_crop_region(image: np.ndarray, box: Box | None) -> CropRegion:
    """Around the box; around the whole picture where there is none."""
    height, width = image.shape[:2]
    return (
        find_pose_square(box)
        if box is not None
        else find_pose_square((0, 0, width, height), enlarged=1.0)
    )


def crop_pose(image: np.ndarray, region: CropRegion) -> np.ndarray:
    """(256, 192, 3) uint8: a picture (H, W, 3) where the region is, smoothed where made smaller.

    Beyond the picture it is the grey that networks are normalised to. Nothing larger than the
    picture or the crop is ever held, whatever the region.
    """
    down, is_down = _compute_resize_weights(image.shape[0], region.top, region.height, SIZE_PX[0])
    across, is_across = _compute_resize_weights(
        image.shape[1], region.left, region.width, SIZE_PX[1]
    )
    part = image[is_down][:, is_across].astype(np.float32)
    seen = np.einsum("oh,hwc->owc", down, part, optimize=True)
    seen = np.einsum("pw,owc->opc", across, seen, optimize=True)
    covered = down.sum(axis=1)[:, None] * across.sum(axis=1)[None, :]
    grey = 255 * np.array(_MEAN, np.float32)
    mixed = seen + (1 - covered)[:, :, None] * grey
    found: np.ndarray = np.clip(np.rint(mixed), 0, 255).astype(np.uint8)
    return found


def _compute_resize_weights(
    size: int, start: float, length: float, out: int
) -> tuple[np.ndarray, slice]:
    """(out, used): how much each pixel along one axis is in each of the crop, and which are used.

    A triangle around each of the crop's pixels, as wide as the step between them or two pixels.
    """
    step = length / out
    reach = max(1.0, step)
    middles = start + (np.arange(out) + 0.5) * step - 0.5  # pixel i has its middle at i here
    first = int(np.clip(np.floor(middles[0] - reach), 0, size - 1))
    last = int(np.clip(np.ceil(middles[-1] + reach), 0, size - 1)) + 1
    away = np.abs(np.arange(first, last)[None, :] - middles[:, None])
    found = np.clip(1 - away / reach, 0, None)
    is_whole = (middles - reach >= -1) & (middles + reach <= size)
    total = np.where(is_whole, np.maximum(found.sum(axis=1), 1e-9), reach)
    found = found / np.maximum(total, found.sum(axis=1))[:, None]
    return found.astype(np.float32), slice(first, last)


def make_crop_inputs(crops: np.ndarray) -> torch.Tensor:
    """Crops (N, 256, 192, 3) uint8 as a network wants them: (N, 3, 256, 192) float32."""
    held = torch.from_numpy(np.ascontiguousarray(crops)).permute(0, 3, 1, 2)
    return normalise_crops(held)


def normalise_crops(crops: torch.Tensor) -> torch.Tensor:
    """Crops (N, 3, H, W) uint8 as float32, by ImageNet's means and deviations."""
    mean, std = (torch.tensor(of, device=crops.device).view(3, 1, 1) for of in (_MEAN, _STD))
    return ((crops.float() / 255 - mean) / std).contiguous()


def make_crop_targets(joints: np.ndarray | None, region: CropRegion, count: int) -> np.ndarray:
    """(J, 3) float32: where joints (J, 2) of the picture are in the crop, and whether they count.

    A joint that is missing, or outside the crop, does not; of nobody, none does.
    """
    if joints is None:
        return np.zeros((count, 3), np.float32)
    inside = region.map_into_crop(joints.astype(np.float64))
    with np.errstate(invalid="ignore"):
        is_known = np.all((inside >= 0) & (inside < [SIZE_PX[1], SIZE_PX[0]]), axis=1)
    placed = np.where(is_known[:, None], inside, 0.0)
    return np.column_stack([placed, is_known]).astype(np.float32)
