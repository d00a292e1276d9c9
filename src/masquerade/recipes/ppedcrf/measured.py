"""One variant, released once: what is left of the picture, and how often its place is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from masquerade.attacks.place_matching import PlaceGallery, among_first
from masquerade.attacks.rates import Discriminants
from masquerade.recipes.ppedcrf.scenes import Scenes
from masquerade.recipes.ppedcrf.taken import Taken
from masquerade.recipes.ppedcrf.variants import Variant
from masquerade.vision import embedding_cache
from masquerade.vision.place_features import PlaceFeatures

FIRST = (1, 5, 10)  # places that the attacker may name
Released = tuple[np.ndarray, np.ndarray, np.ndarray]
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
        """Of the gallery, remembered picture by picture."""
        return {
            name: np.concatenate(
                [
                    embedding_cache.remembered(
                        one[None], fingerprint=eye.fingerprint, make=eye.embed
                    )
                    for one in self.scenes.gallery
                ]
            )
            for name, eye in self.networks.items()
        }

    def embed(self, network: str, pictures: np.ndarray) -> np.ndarray:
        """(N, D) of unit length."""
        return self.networks[network].embed(pictures)

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
        films = self.scenes.queries
        pictures = np.stack([film.frames[len(film.frames) // 2] for film in films])
        return {name: self.hits(name, pictures) for name in self.networks}

    def cell(self, variant: Variant, seed: int, made: Taken, networks: Sequence[str]) -> PlaceCell:
        """What was released, attacked."""
        return PlaceCell(
            name=variant.name,
            sigma=variant.sigma,
            seed=seed,
            psnr=made.psnr,
            ssim=made.ssim,
            flicker=made.flicker,
            stability=made.stability,
            hits={name: self.hits(name, made.pictures) for name in networks or self.networks},
        )

    def adapted(self, network: str, shown: np.ndarray, released: Released) -> dict[str, float]:
        """Top-1 by gallery of who has released pictures of other places, and learned from them.

        Args:
            network: who looks.
            shown: (N, H, W, 3), one a film.
            released: the gallery and the other places, released by the attacker in the same way.
        """
        held, first, second = (self.embed(network, pictures) for pictures in released)
        seen, whose = np.concatenate([first, second]), np.tile(np.arange(len(first)), 2)
        change = _ADAPTED.learned(seen, whose)
        few = replace(self, sizes=self._few)
        rows = few._among(
            _directions(change(self.embed(network, shown))), _directions(change(held))
        )
        return {size: float(np.mean([hit[0] for hit in hits])) for size, hits in rows.items()}

    @property
    def to_learn_from(self) -> Released:
        """The gallery, and two pictures of each of other places, before they are released."""
        others = self.scenes.others
        return self.scenes.gallery[: max(self._few)], others[:, 0], others[:, 1]

    @property
    def _few(self) -> tuple[int, ...]:
        """Galleries that the attacker releases; larger ones only take time."""
        return tuple(size for size in self.sizes if size <= 48) or self.sizes[:1]


def _directions(rows: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(length, 1e-12))
