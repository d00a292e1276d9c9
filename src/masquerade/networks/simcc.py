"""Joints as classes: one classifier over columns, one over rows [lisimcc2022].

The published head makes one small map a joint, enlarges it bilinearly and shows all its numbers to
two linear layers over bins, of which there are two a pixel. What is enlarged lies in a subspace of
as many dimensions as the small map has numbers, so the linear layers are kept in an orthonormal
basis of it: the function, its gradients and their norms are the same, with a sixteenth of the
weights, and privacy noise is added to no weight that could never matter.

Convention:
    A crop spans 0 to 192 across and 0 to 256 down. Bin b has its middle at (b + 0.5) / 2.
    Targets are (..., J, 3): x, y and how much the joint counts, 0 if it is not known.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from masquerade._torch import Tensor, nn, torch
from masquerade.networks.picture_crops import SIZE_PX

SPLIT = 2  # bins a pixel
BINS = (SIZE_PX[1] * SPLIT, SIZE_PX[0] * SPLIT)  # across, down
ENLARGED = (32, 24)  # the published map: height, width
_STRIDE = 32  # of the features that the head is given
_SMALL = (SIZE_PX[0] // _STRIDE, SIZE_PX[1] // _STRIDE)


class Decoded(NamedTuple):
    """Where joints are.

    Args:
        joints: (..., J, 2) in the crop.
        scores: (..., J) from 0 to 1: how high the peaks are, beside those of a target.
    """

    joints: Tensor
    scores: Tensor


class Simcc(nn.Module):
    """Features (N, C, 8, 6) as (N, J, 896): logits of bins across, then of bins down.

    Args:
        width: C.
        joints: J.
        smoothing: standard deviation of targets, in bins.
    """

    def __init__(self, width: int, joints: int, *, smoothing: float = 3.0) -> None:
        super().__init__()
        self.smoothing = smoothing
        self.joints = nn.Conv2d(width, joints, 1)
        numbers = math.prod(_SMALL)
        self.x, self.y = (nn.Linear(numbers, bins) for bins in BINS)
        _, coordinates = torch.linalg.qr(enlarging())
        self.register_buffer("coordinates", coordinates.float(), persistent=False)

    def forward(self, features: Tensor) -> Tensor:
        """Logits."""
        seen = self.joints(features).flatten(2) @ self.coordinates.T  # (N, J, 48)
        return torch.cat([self.x(seen), self.y(seen)], dim=2)

    def losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """(N,): the loss of each record, from (N, J, 896) and targets (N, J, 3); of it alone."""
        return losses(logits, targets, smoothing=self.smoothing)


def enlarging() -> Tensor:
    """(768, 48) float64: bilinear from the small map to the large one, as a matrix."""
    numbers = math.prod(_SMALL)
    each = torch.eye(numbers, dtype=torch.float64).reshape(numbers, 1, *_SMALL)
    large = nn.functional.interpolate(each, size=ENLARGED, mode="bilinear", align_corners=False)
    return large.flatten(1).T.contiguous()


def reduced(weight: Tensor) -> Tensor:
    """A published classifier (bins, 768) as ours (bins, 48): the same function of small maps."""
    basis, _ = torch.linalg.qr(enlarging())
    found: Tensor = (weight.double() @ basis).to(weight.dtype)
    return found


def losses(logits: Tensor, targets: Tensor, *, smoothing: float) -> Tensor:
    """Kullback-Leibler divergence of what is said from smoothed targets, the mean over all joints.

    A joint that does not count adds nothing, and the mean is over all J, so nothing in it depends
    on any other record.
    """
    total = torch.zeros(targets.shape[:-1], dtype=logits.dtype, device=logits.device)
    for axis, said in enumerate(logits.split(BINS, dim=-1)):
        wanted = _smoothed(targets[..., axis], said.shape[-1], smoothing)  # log, (..., J, bins)
        apart = wanted.exp() * (wanted - said.log_softmax(dim=-1))
        total = total + apart.sum(dim=-1)
    return (total * targets[..., 2]).mean(dim=-1)


def _smoothed(places: Tensor, bins: int, smoothing: float) -> Tensor:
    """Logarithms of a Gaussian around each place, that add up to one over the bins."""
    middles = torch.arange(bins, device=places.device, dtype=places.dtype)
    away = middles - (places[..., None] * SPLIT - 0.5)
    return (-0.5 * (away / smoothing) ** 2).log_softmax(dim=-1)


def decoded(logits: Tensor, *, smoothing: float) -> Decoded:
    """Where the bins say that joints are; exact where they say a Gaussian.

    The logarithm of a Gaussian is a parabola, so three bins around the highest give its middle.
    """
    places, peaks = [], []
    for said in logits.split(BINS, dim=-1):
        level = said.log_softmax(dim=-1)
        peak = level.max(dim=-1)
        places.append((_middle(level, peak.indices) + 0.5) / SPLIT)
        peaks.append(peak.values.exp())
    best = 1 / (smoothing * math.sqrt(2 * math.pi))
    score = (peaks[0] * peaks[1]).sqrt() / best
    return Decoded(torch.stack(places, dim=-1), score.clamp(max=1.0))


def _middle(level: Tensor, place: Tensor) -> Tensor:
    """The top of the parabola through the three bins around a place, or nearest to it."""
    inner = place.clamp(1, level.shape[-1] - 2)
    before, here, after = (
        level.gather(-1, (inner + step)[..., None])[..., 0] for step in (-1, 0, 1)
    )
    bend = before - 2 * here + after
    shift = 0.5 * (before - after) / torch.where(bend < 0, bend, -torch.ones_like(bend))
    return torch.where(bend < 0, inner + shift.clamp(-1.5, 1.5), place.to(shift.dtype))


def unmirrored(logits: Tensor, pairs: list[int]) -> Tensor:
    """What is said of mirrored crops, as of the crops themselves.

    Args:
        logits: (N, J, 896).
        pairs: where each joint is when left and right change places.
    """
    across, down = logits.split(BINS, dim=-1)
    return torch.cat([across.flip(-1), down], dim=-1)[..., pairs, :]


def both_ways(straight: Tensor, turned: Tensor) -> Tensor:
    """The mean of two answers, as logits; each axis' probabilities are averaged."""
    pairs = zip(straight.split(BINS, dim=-1), turned.split(BINS, dim=-1), strict=True)
    means = [(one.softmax(-1) + two.softmax(-1)).clamp_min(1e-30).log() for one, two in pairs]
    return torch.cat(means, dim=-1)
