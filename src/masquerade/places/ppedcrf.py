"""PPEDCRF: noise where a film shows its place, and people as they are [ma2026]."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from masquerade import _check
from masquerade.mechanism import Frames, Heuristic, Shape, Value, as_video
from masquerade.mechanisms.given_masks import read_given_labels, read_given_masks
from masquerade.noise import Noise
from masquerade.places import place_maps, place_noise
from masquerade.places.place_maps import LogitSource, MapMaker, MappedFrame, PenaltyKind, PlaceFrame
from masquerade.places.place_noise import FilmNoise, NoiseShape
from masquerade.recordings import Video

_MAX_SIGMA = 255.0
_MAX_CLASS_WEIGHT = 100.0  # weight of a class


class PpedcrfForm(StrEnum):
    """Which algorithm."""

    SELECTIVE = "selective"
    AS_PUBLISHED = "as_published"


class KeptPeople(StrEnum):
    """Whose pixels stay as they are."""

    SEGMENTER = "segmenter"
    GIVEN = "given"
    NOBODY = "nobody"


@dataclass(frozen=True, kw_only=True)
class Ppedcrf(Heuristic):
    """Put noise on the background where it shows the place, more where it shows more.

    Logits say where the place is told [ma2026, Eq. 1]; a random field smooths them over
    neighbours and along the motion [ma2026, Eq. 2]; the control penalty [ma2026, Eq. 3] says how
    much of sigma goes where [ma2026, Eq. 5]. People are left as they are, to the bit. Part of the
    noise stands still with the scene, since noise that is fresh in every frame averages out.
    By default every part of the background gets the same, in patterns: at equal PSNR that hides
    more than noise of another shape, or than the same on fewer pixels (docs/places.md).

    The form as_published is what the paper's evaluation measured: its network was not trained, so
    its map is one half everywhere, the same as half of sigma on every pixel, people included, and
    fresh in every frame. Its noise is white, whatever shape says.

    Guarantee:
        none: the noise depends on the film itself, and where little is put nearly all is shown.
            Who averages many frames sees through the fresh part; only `attack place_retrieval`
            tells how much of the place is left.

    Args:
        sigma: standard deviation of the noise where it is strongest, in shades of 255.
        form: selective or as_published.
        people: segmenter (a public network finds them in each frame; this needs the extra masks),
            given (masks; in Python a `Video` brings its own, here and with segmenter) or nobody
            (every pixel is background).
        masks: with people given, a .npy or .npz with one array (T, H, W), not 0 on people. It is
            private; no receipt names it.
        unary: even (the same everywhere, which is half of sigma on all of the background),
            evidence (edges and texture that stay, without training) or network (a small one that
            was taught where public networks look; needs the extra train).
        iterations: of the random field.
        spatial: weight of a pixel's neighbours.
        temporal: weight of the frame before.
        alpha: weight of the control penalty.
        penalty: normalised, as the paper has it, or none: the map alone says how much goes where.
        classes: a .npy or .npz with one array (T, H, W) of whole numbers: which class each pixel is
            of. It is private; no receipt names it.
        class_weights: for class 0, 1, ...: what the control penalty is multiplied by, 0 to 100.
        still: the share of the noise's power that stands still with the scene, 0 to below 1.
        shape: patterns (what a public network draws from secret numbers; it was taught to make
            places hard to tell; needs the extra train), white (each pixel by itself) or grain
            (grains of some pixels).
        grain: with shape grain, the size of the grains as a share of the frame's shorter side.
        bank: with shape patterns, a safetensors file of that network's weights; by default our own.
        reduce: the map is made on frames that are smaller by this factor.
        export: write what the maps are like (coverage, spread, entropy of each frame) to this file
            as JSON. It is computed from the private video: do not publish it. It must be a new
            file; no receipt names it.
    """

    sigma: float = 16.0
    form: str = "selective"
    people: str = "segmenter"
    masks: str | None = field(default=None, compare=False)
    unary: str = "even"
    iterations: int = 5
    spatial: float = 2.0
    temporal: float = 2.0
    alpha: float = 1.0
    penalty: str = "normalised"
    classes: str | None = field(default=None, compare=False)
    class_weights: tuple[float, ...] | None = None
    still: float = 0.5
    shape: str = "patterns"
    grain: float = 0.01
    bank: str | None = None
    reduce: int = 4
    export: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _check.parse_choice(PpedcrfForm, form=self.form)
        _check.parse_choice(KeptPeople, people=self.people)
        _check.parse_choice(LogitSource, unary=self.unary)
        _check.parse_choice(PenaltyKind, penalty=self.penalty)
        _check.parse_choice(NoiseShape, shape=self.shape)
        _check.positive(sigma=self.sigma, alpha=self.alpha, grain=self.grain)
        _check.at_most(_MAX_SIGMA, sigma=self.sigma)
        _check.at_most(1.0, alpha=self.alpha, grain=self.grain)
        _check.not_negative(still=self.still)
        _check.count(reduce=self.reduce)
        if self.still >= 1:
            raise ValueError(
                f"Expected still below 1, got still={self.still}; noise that only stands still "
                "shows every change between frames as it is."
            )
        if self.masks is not None and self.people != KeptPeople.GIVEN:
            raise ValueError(
                f"Expected masks with people given, got people={self.people}; leave one out."
            )
        if self.bank is not None and self.shape != NoiseShape.PATTERNS:
            raise ValueError(
                f"Expected a bank with shape patterns, got shape={self.shape}; leave one out."
            )
        if self.class_weights is not None:
            object.__setattr__(self, "class_weights", tuple(self.class_weights))
            for weight in self.class_weights or ():
                _check.not_negative(class_weights=weight)
                _check.at_most(_MAX_CLASS_WEIGHT, class_weights=weight)
        if self.classes is not None and not self.class_weights:
            raise ValueError("Expected class_weights with classes, got none; say what they weigh.")
        self._make_mapper()

    @property
    def hides(self) -> str:
        """The place."""
        return "where the film was taken"

    def encode_fields(self) -> dict[str, Any]:
        """The public fields; where private files lie is not one of them, nor where a bank does."""
        hidden = dict.fromkeys(("masks", "classes", "export"))
        bank = None if self.bank is None else Path(self.bank).name
        return {**super().encode_fields(), **hidden, "bank": bank}

    def apply(self, value: Value, noise: Noise) -> Value:
        """The released video; people in a `Video` with a mask are those of the mask."""
        is_own = isinstance(value, Video) and self.masks is None and self._keeps_people
        if not (is_own and isinstance(value, Video)) or value.person_mask is None:
            return super().apply(value, noise)
        self.check(value)
        pairs = zip(value.frames, value.person_mask, strict=True)
        shape = value.frames.shape
        shown = self._add_film_noise(self._map_masked_frames(pairs, shape), shape, noise)
        return Video(frames=np.stack(list(shown)), rate_hz=value.rate_hz)

    def stream(self, frames: Frames, shape: Shape, noise: Noise) -> Frames:
        """The frames with noise on the background; whatever a network raises ends the stream."""
        if self.export is not None:
            place_maps.check_export_path(Path(self.export))
        return self._add_film_noise(self.map_frames(frames, shape), as_video(shape), noise)

    def map_frames(self, frames: Frames, shape: Shape) -> Iterator[MappedFrame]:
        """Every frame with its map, for a heat map or a table; it is private."""
        shape = as_video(shape)
        return self._map_masked_frames(self._iter_with_people(frames, shape), shape)

    @property
    def _is_published(self) -> bool:
        return self.form == PpedcrfForm.AS_PUBLISHED

    @property
    def _keeps_people(self) -> bool:
        return self.people != KeptPeople.NOBODY and not self._is_published

    def _make_mapper(self) -> MapMaker:
        weights = place_maps.DynamicField(
            iterations=self.iterations, spatial=self.spatial, temporal=self.temporal
        )
        return MapMaker(
            field=weights,
            unary=LogitSource.EVEN if self._is_published else LogitSource(self.unary),
            alpha=self.alpha,
            penalty=PenaltyKind(self.penalty),
            reduce=self.reduce,
            follows=not self._is_published,
        )

    def _iter_with_people(
        self, frames: Frames, shape: Shape
    ) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        if not self._keeps_people:
            return ((frame, None) for frame in frames)
        if self.people == KeptPeople.GIVEN:
            instead = "let a network find people (--people segmenter)"
            return zip(frames, read_given_masks(self.masks, shape, instead=instead), strict=True)
        from masquerade.vision.person_detector import PersonSegmenter  # needs an extra

        segmenter = PersonSegmenter(private="background")
        segmenter.load_networks()  # before any frame is taken
        return ((frame, segmenter.segment_frame(frame)) for frame in frames)

    def _map_masked_frames(
        self, pairs: Iterator[tuple[np.ndarray, np.ndarray | None]], shape: Shape
    ) -> Iterator[MappedFrame]:
        if self.classes is None:
            return self._make_mapper().iter_maps(
                PlaceFrame(frame, people) for frame, people in pairs
            )
        labels = read_given_labels(self.classes, shape, name="classes", instead="leave them out")
        weights = place_maps.make_class_weighing(self.class_weights or ())
        return self._make_mapper().iter_maps(
            PlaceFrame(frame, people, weights(classes))
            for (frame, people), classes in zip(pairs, labels, strict=True)
        )

    def _make_film_noise(self, size: tuple[int, int], noise: Noise) -> FilmNoise:
        if self._is_published:
            return place_noise.ScatteredNoise(size, still=0.0, grain_px=0.0, noise=noise)
        if self.shape == NoiseShape.PATTERNS:
            return place_noise.PatternedNoise(size, still=self.still, bank=self.bank, noise=noise)
        grain_px = self.grain * min(size) if self.shape == NoiseShape.GRAIN else 0.0
        return place_noise.ScatteredNoise(size, still=self.still, grain_px=grain_px, noise=noise)

    def _add_film_noise(self, maps: Iterator[MappedFrame], shape: Shape, noise: Noise) -> Frames:
        """Frames with noise of the amount that each pixel gets."""
        grains = self._make_film_noise((shape[1], shape[2]), noise)
        notes = place_maps.MaskNotes(self.sigma, self.export)
        for one in maps:
            notes.add_facts(one.facts)
            following = grains.next_frame_noise(one.resize_steps())
            yield place_noise.add_place_noise(one.frame, one.amount, following, self.sigma)
        notes.report_facts()
