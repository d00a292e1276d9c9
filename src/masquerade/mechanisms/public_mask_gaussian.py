"""Gaussian noise inside a public mask: what can be proved of noise that is put in some places."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from masquerade import _check
from masquerade.accounting import sensitivity
from masquerade.accounting.compose import compute_epsilon as epsilon_of
from masquerade.errors import BadInput
from masquerade.events import DpEvent, GaussianDpEvent
from masquerade.guarantee import (
    Accountant,
    Guarantee,
    GuaranteeKind,
    Relation,
    Unit,
    UnitName,
    make_unit,
)
from masquerade.mechanism import Frames, Plan, Shape, Shapes, VideoMechanism, as_video, first_unit
from masquerade.mechanisms import expected_view as sight
from masquerade.mechanisms.gaussian_video import PUBLIC, not_protected
from masquerade.mechanisms.given_masks import read_masks
from masquerade.noise import (
    Noise,
    Scale,
    compute_rounded_bound,
    find_grid,
    find_scale,
    round_to_grid,
)
from masquerade.tradeoff import gaussian_mu
from masquerade.wording import delta_caveat

_UNITS = tuple(name for name in UnitName if name is not UnitName.SHARD)
_MAX_SIGMA, _MAX_LEVEL = 2.0**20, 256.0
_HALF_RANGE = 127.5  # of the range of a value
_ONE_PIXEL = np.ones((1, 1), np.uint8)


@dataclass(frozen=True, kw_only=True)
class PublicMaskGaussian(VideoMechanism):
    """Add Gaussian noise inside a mask that everyone may know, and nothing outside.

    The sound relative of `ppedcrf`: where noise goes, and how much, is settled without looking at
    the film, so what it protects inside the mask can be proved. Noise of a strength that leaves a
    pleasant picture has an epsilon in the hundreds, which is printed as it is.

    Guarantee:
        unit: as chosen, of what lies inside the mask: value, pixels, tube, frame, video, record
            or subject.
        relation: replace_one.
        bound: L2 sensitivity 255 sqrt(n), n numbers touched, against the smallest noise inside
            the mask; analytic Gaussian [balle2018, Thm 8].
        numerics: exact grid Gaussian, ChaCha20.

    Args:
        delta: target of the guarantee.
        epsilon: target of the guarantee; or give sigma.
        sigma: standard deviation of the noise where the mask is 1, in shades of 255; epsilon
            follows from it.
        unit: what one change may touch: value, pixels, tube, frame, video, record, subject.
        pixels: m, for the units pixels and tube.
        mask: a .npy or .npz with one array, (H, W) or (T, H, W), of bools or whole numbers: 0 is
            published as it is, 1 gets the noise. Draw it by hand or from other data: one that was
            computed from this film tells about it. Without one the noise is everywhere.
        mask_sha256: of the mask's file; the receipt has it, you need not say it.
        levels: noise where the mask is 2, 3, ..., in multiples of that where it is 1, at least 1.
    """

    delta: float
    epsilon: float | None = None
    sigma: float | None = None
    unit: str | None = None
    pixels: int | None = None
    mask: str | None = field(default=None, compare=False)
    mask_sha256: str | None = None
    levels: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        _check.delta(delta=self.delta)
        if (self.epsilon is None) == (self.sigma is None):
            raise ValueError(
                f"Expected one of epsilon and sigma, got epsilon={self.epsilon} and "
                f"sigma={self.sigma}."
            )
        if self.epsilon is not None:
            _check.positive(epsilon=self.epsilon)
        if self.sigma is not None:
            _check.positive(sigma=self.sigma)
            _check.at_most(_MAX_SIGMA, sigma=self.sigma)
        if self.levels is not None:
            object.__setattr__(self, "levels", tuple(self.levels))
        for level in self.levels or ():
            _check.at_least(1.0, "Level 1 has the least noise, which is proved.", levels=level)
            _check.at_most(_MAX_LEVEL, levels=level)
        _ = self.privacy_unit  # refused here, or right

    @cached_property
    def privacy_unit(self) -> Unit:
        """The unit, in 8-bit video."""
        return make_unit(self.unit, self.pixels, low=0.0, high=255.0, among=_UNITS)

    @property
    def is_masked(self) -> bool:
        """Whether something is published as it is."""
        return self.mask is not None or self.mask_sha256 is not None

    def encode_fields(self) -> dict[str, Any]:
        """The public fields; of the mask its hash, not where it lies."""
        found = self.mask_sha256 if self.mask is None else _hash_mask_file(Path(self.mask))
        return {**super().encode_fields(), "mask": None, "mask_sha256": found}

    @lru_cache(maxsize=64)  # noqa: B019
    def compute_scale(self, shape: Shape | Shapes) -> Scale:
        """The least noise inside the mask, from half the distance of two neighbours."""
        touched = self._count_touched_frames(shape, self.privacy_unit)
        bound = _HALF_RANGE * math.sqrt(touched)
        if self.epsilon is not None:
            mu = gaussian_mu(self.epsilon, self.delta) / 2
            return find_scale(bound, mu=mu, coordinates=touched)
        sigma = self.sigma or 0.0
        grid = min(1.0, find_grid(sigma))
        return Scale(
            sigma=sigma, grid=grid, sensitivity=compute_rounded_bound(bound, grid, touched)
        )

    def event_for(self, shape: Shape | Shapes, unit: Unit) -> DpEvent | None:
        """As another unit feels it; none where a mask leaves something without noise."""
        if self.is_masked or unit.name is UnitName.SHARD:
            return None
        return self._make_event(as_video(shape), unit)

    def _make_event(self, shape: Shape, unit: Unit) -> DpEvent:
        """One Gaussian, in multiples of a unit's bound."""
        scale, touched = self.compute_scale(shape), self._count_touched_frames(shape, unit)
        bound = compute_rounded_bound(_HALF_RANGE * math.sqrt(touched), scale.grid, touched)
        return GaussianDpEvent(math.nextafter(scale.sigma / bound, 0.0))

    def plan(self, shape: Shape | Shapes) -> Plan:
        """What is proved for what lies inside the mask, however large epsilon is.

        The expected error is that where the mask is 1; what is left to see is unknown where a part
        is shown as it is.
        """
        unit, shape = self.privacy_unit, as_video(shape)
        sigma, event = self.compute_scale(shape).sigma, self._make_event(shape, unit)
        where = "every pixel inside a public mask with noise, and all others as they are"
        public = (*PUBLIC, "the mask, settled without looking at the video") * self.is_masked
        bare = "everything outside the mask, which is published as it is, and the mask itself"
        guarantee = Guarantee(
            kind=GuaranteeKind.FORMAL_RELAXED if self.is_masked else GuaranteeKind.FORMAL,
            unit=unit,
            relation=Relation.REPLACE_ONE,
            released=where if self.is_masked else "every pixel of the video, with noise",
            epsilon=epsilon_of(event, delta=self.delta, relation=Relation.REPLACE_ONE),
            delta=self.delta,
            accountant=Accountant.ANALYTIC_GAUSSIAN,
            assumed_public=public or PUBLIC,
            not_protected=((bare,) if self.is_masked else ()) + not_protected(unit),
            numerics="Gaussian rounded to a grid, exactly sampled; ChaCha20, so computational",
            composition="this release alone; every further release of the same footage adds to it",
            caveats=delta_caveat(self.delta, shape[0] if unit.name is UnitName.FRAME else 1),
        )
        share = None if self.is_masked else sight.compute_raw_share(sigma**2)
        return Plan(guarantee=guarantee, event=event, expected_error=sigma, visible_share=share)

    def stream(self, frames: Frames, shape: Shape, noise: Noise) -> Frames:
        """Noise inside the mask, rounded and clipped to 8 bits afterwards."""
        scale, masks = self.compute_scale(shape), self._read_mask_frames(as_video(shape))
        return (
            np.clip(np.rint(self._add_masked_noise(frame, mask, scale, noise)), 0, 255).astype(
                np.uint8
            )
            for frame, mask in zip(frames, masks, strict=False)  # the masks need not end
        )

    def _add_masked_noise(
        self, frame: np.ndarray, mask: np.ndarray, scale: Scale, noise: Noise
    ) -> np.ndarray:
        """What is made public, before it is rounded to 8 bits: (H, W, 3) float64."""
        made = round_to_grid(frame, scale.grid)
        if not self.is_masked:
            made += noise.sample_gaussian(scale.sigma, frame.shape, grid=scale.grid)
            return made
        for number, level in enumerate((1.0, *(self.levels or ())), 1):
            inside = np.broadcast_to(mask == number, frame.shape[:2])
            count = int(np.count_nonzero(inside))
            made[inside] += noise.sample_gaussian(scale.sigma * level, (count, 3), grid=scale.grid)
        return made

    def play(
        self, worlds: tuple[np.ndarray, np.ndarray], truth: int, trials: int, noise: Noise
    ) -> np.ndarray:
        """Log-likelihood ratios of the best attacker, for an audit; it sees unrounded numbers."""
        shape, scale = worlds[0].shape, self.compute_scale(worlds[0].shape)
        masks = list(itertools.islice(self._read_mask_frames(shape), shape[0]))
        noises = np.stack(
            [np.broadcast_to(self._build_sigma_map(mask, scale), shape[1:3]) for mask in masks]
        )
        weight = np.zeros(noises.shape)
        np.divide(1.0, noises**2, out=weight, where=noises > 0)
        first, second = (world.astype(np.float64) for world in worlds)
        apart, middle = (second - first) * weight[..., None], (first + second) / 2
        found = np.empty(trials)
        for trial in range(trials):
            seen = [
                self._add_masked_noise(frame, mask, scale, noise)
                for frame, mask in zip(worlds[truth], masks, strict=True)
            ]
            found[trial] = np.sum((np.stack(seen) - middle) * apart)
        return found

    def _build_sigma_map(self, mask: np.ndarray, scale: Scale) -> np.ndarray:
        table = np.array([0.0, 1.0, *(self.levels or ())]) * scale.sigma
        return np.asarray(table[mask.astype(np.intp)])

    def worst_case(self, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
        """A black video, and the same with one unit white, inside the mask."""
        value = np.zeros(as_video(shape), np.uint8)
        neighbour = value.copy()
        if not self.is_masked or self.mask is None:
            first_unit(neighbour, self.privacy_unit)[...] = 255
            return value, neighbour
        masks = itertools.islice(self._read_mask_frames(shape), shape[0])
        inside = np.stack([np.broadcast_to(mask == 1, shape[1:3]) for mask in masks])
        return value, _whiten_unit(neighbour, inside, self.privacy_unit)

    def _read_mask_frames(self, shape: Shape) -> Iterator[np.ndarray]:
        """The mask of each frame; it must fit the video."""
        if self.mask is None:
            if self.is_masked:
                raise BadInput("Expected the mask's file, got its hash alone; name it with --mask.")
            return itertools.repeat(_ONE_PIXEL)
        if self.mask_sha256 is not None and _hash_mask_file(Path(self.mask)) != self.mask_sha256:
            raise BadInput(f"Expected the mask of that hash at {self.mask}, got another.")
        found = read_masks(Path(self.mask), "a mask", (shape[1:3], shape[:3]))
        most = 1 + len(self.levels or ())
        if found.min() < 0 or found.max() > most:
            raise BadInput(
                f"Expected a mask of 0 to {most}, got {found.min()} to {found.max()}; say with "
                "--levels how much noise the others get."
            )
        return itertools.repeat(found) if found.ndim == 2 else iter(found)

    @staticmethod
    def _count_touched_frames(shape: Shape | Shapes, unit: Unit) -> int:
        return sensitivity.count_changed_coordinates(unit, (as_video(shape),))


def _whiten_unit(video: np.ndarray, inside: np.ndarray, unit: Unit) -> np.ndarray:
    """The video (T, H, W, 3) with one unit of what lies inside, (T, H, W), white."""
    sites, most = inside.copy(), unit.sites or 1
    if unit.name in (UnitName.VALUE, UnitName.PIXELS):
        sites = (np.cumsum(inside).reshape(inside.shape) <= most) & inside
    elif unit.name is UnitName.TUBE:
        ever = inside.any(axis=0)
        sites &= (np.cumsum(ever).reshape(ever.shape) <= most) & ever
    elif unit.name is UnitName.FRAME:
        sites[np.arange(len(sites)) != np.argmax(inside.any(axis=(1, 2)))] = False
    channels = slice(1) if unit.name is UnitName.VALUE else slice(3)
    video[..., channels][sites] = 255
    return video


def _hash_mask_file(path: Path) -> str:
    if not path.is_file():
        raise BadInput(f"Expected a mask at {path}; there is no such file.")
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
