"""One variant, released once: what is left of the picture, and how often its place is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from masquerade.attack.metric import Discriminants
from masquerade.attack.place_gallery import PlaceGallery, among_first
from masquerade.attack.place_pictures import Looking
from masquerade.recipes.ppedcrf.scenes import Scenes
from masquerade.recipes.ppedcrf.variants import Variant
from masquerade.recordings import Video
from masquerade.sight import embedding_cache
from masquerade.sight.place_features import PlaceFeatures
from masquerade.utility import picture

FIRST = (1, 5, 10)  # places that the attacker may name
_FILMS = 1_000  # more than there are in a run
_OTHERS = 100_000  # seeds of what the attacker releases
_ADAPTED = Discriminants(shrunk=0.3, is_scaled=False, is_between=False)


@dataclass(frozen=True, kw_only=True)
class PlaceCell:
    """One row of a table, in one run.

    Args:
        name: of the variant.
        sigma: its strength; None where there is no noise.
        seed: of the run.
        psnr: of the middle frames, mean, in dB.
        ssim: of the films.
        flicker: mean absolute change from frame to frame.
        stability: spread of how much frames were changed.
        hits: by network and size of gallery, for each film whether its place is among the first
            1, 5 and 10.
    """

    name: str
    sigma: float | None
    seed: int
    psnr: float
    ssim: float
    flicker: float
    stability: float
    hits: Mapping[str, Mapping[str, tuple[tuple[float, ...], ...]]]

    def top(self, network: str, gallery: int, first: int = 1) -> float:
        """The share of films whose place is among the first."""
        rows = self.hits[network][str(gallery)]
        return float(np.mean([row[FIRST.index(first)] for row in rows]))


@dataclass(frozen=True, kw_only=True, eq=False)
class PlaceRoom:
    """What attackers hold.

    Args:
        scenes: films and gallery.
        networks: one attacker each.
        sizes: of galleries.
    """

    scenes: Scenes
    networks: Mapping[str, PlaceFeatures]
    sizes: tuple[int, ...]

    @cached_property
    def _held(self) -> dict[str, np.ndarray]:
        return {name: self.embed(name, self.scenes.gallery) for name in self.networks}

    def embed(self, network: str, pictures: np.ndarray) -> np.ndarray:
        """(N, D) of unit length, remembered picture by picture."""
        eye = self.networks[network]
        rows = [
            embedding_cache.remembered(one[None], fingerprint=eye.fingerprint, make=eye.embed)
            for one in pictures
        ]
        return np.concatenate(rows)

    def hits(self, network: str, pictures: np.ndarray) -> dict[str, tuple[tuple[float, ...], ...]]:
        """For one picture a film, by size of gallery, whether the place is among the first."""
        return self._among(self.embed(network, pictures), self._held[network])

    def _among(
        self, asked: np.ndarray, held: np.ndarray
    ) -> dict[str, tuple[tuple[float, ...], ...]]:
        found = {}
        for size in self.sizes:
            places = np.arange(size)
            gallery = PlaceGallery(features=held[:size], owner=places)
            scores = gallery.scores(asked, places)
            own = np.arange(len(asked))
            columns = [among_first(scores, own, count=count).tolist() for count in FIRST]
            found[str(size)] = tuple(zip(*columns, strict=True))
        return found

    def raw(self) -> dict[str, dict[str, tuple[tuple[float, ...], ...]]]:
        """Of the films as they are."""
        return self.seen([film.frames for film in self.scenes.queries], Looking())

    def seen(
        self, shown: Sequence[np.ndarray], looking: Looking, networks: Sequence[str] = ()
    ) -> dict[str, dict[str, tuple[tuple[float, ...], ...]]]:
        """Of what was published, (T, H, W, 3) each."""
        pictures = np.concatenate(
            [looking.pictures(Video(frames=frames, rate_hz=10.0)) for frames in shown]
        )
        return {name: self.hits(name, pictures) for name in networks or self.networks}

    def cell(self, variant: Variant, seed: int, networks: Sequence[str] = ()) -> PlaceCell:
        """Release all films, and attack."""
        films = self.scenes.queries
        shown = self.released(variant, seed)
        judged = [
            picture.measure(film.frames, made, every=len(made) // 2 or 1)
            for film, made in zip(films, shown, strict=True)
        ]
        middles = [
            picture.measure(film.frames[middle : middle + 1], made[middle : middle + 1])
            for film, made in zip(films, shown, strict=True)
            for middle in (len(made) // 2,)
        ]
        return PlaceCell(
            name=variant.name,
            sigma=variant.sigma,
            seed=seed,
            psnr=float(np.mean([one.psnr for one in middles])),
            ssim=float(np.mean([one.ssim for one in middles])),
            flicker=float(np.mean([one.flicker_after for one in judged])),
            stability=float(np.mean([one.perturbation_stability for one in judged])),
            hits=self.seen(shown, Looking(), networks),
        )

    def released(self, variant: Variant, seed: int) -> list[np.ndarray]:
        """Each film once, with noise of its own."""
        return [
            variant.released(film, seed * _FILMS + number)
            for number, film in enumerate(self.scenes.queries)
        ]

    def adapted(self, variant: Variant, seed: int, network: str) -> dict[str, float]:
        """Top-1 by gallery of who has released pictures of other places, and learned from them.

        The attacker compares with a gallery that was released in the same way.
        """
        alone = without_people(variant)
        others = self.scenes.others
        shown = np.stack([film[len(film) // 2] for film in self.released(variant, seed)])
        held, first, second = (
            self.embed(network, _each(alone, pictures, _OTHERS * (part + 1) + seed * _FILMS))
            for part, pictures in enumerate((self.scenes.gallery[: max(self._few)], *_two(others)))
        )
        seen, whose = np.concatenate([first, second]), np.tile(np.arange(len(others)), 2)
        change = _ADAPTED.learned(seen, whose)
        few = replace(self, sizes=self._few)
        rows = few._among(
            _directions(change(self.embed(network, shown))), _directions(change(held))
        )
        return {size: float(np.mean([hit[0] for hit in hits])) for size, hits in rows.items()}

    @property
    def _few(self) -> tuple[int, ...]:
        """Galleries that the attacker releases; larger ones only take time."""
        return tuple(size for size in self.sizes if size <= 48) or self.sizes[:1]


def _directions(rows: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(length, 1e-12))


def _two(pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return pairs[:, 0], pairs[:, 1]


def _each(variant: Variant, pictures: np.ndarray, seed: int) -> np.ndarray:
    """Pictures released one by one."""
    films = (Video(frames=one[None], rate_hz=10.0) for one in pictures)
    return np.concatenate([variant.released(film, seed + n) for n, film in enumerate(films)])


def without_people(variant: Variant) -> Variant:
    """The variant on pictures without anybody."""
    fields = tuple(
        ("people", "nobody") if key == "people" else (key, value) for key, value in variant.fields
    )
    return replace(variant, fields=fields)
