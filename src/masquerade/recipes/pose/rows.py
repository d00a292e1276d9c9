"""The rows of the pose tables: ways of learning, and cells once they are measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from masquerade.recipes.verdict import Runs, Word, compared
from masquerade.scores import Success
from masquerade.training.dp_sgd import DpSgd
from masquerade.training.feature_dp import FeatureDp
from masquerade.training.feature_projective import FeatureProjective
from masquerade.training.method import Method
from masquerade.training.projected import Projected
from masquerade.training.public_features import PublicFeatures

if TYPE_CHECKING:
    from masquerade.recipes.pose import PoseTables


NO_PRIVACY, ALONE = "no privacy", "public weights alone"
PHOTOS_ONLY, FEATURES_ONLY = "public photos only", "public features only"
DP, PROJECTED, FEATURE, BOTH = "DP-SGD", "projected", "feature", "feature-projective"
FREE = (NO_PRIVACY, ALONE, PHOTOS_ONLY, FEATURES_ONLY)  # the same at every epsilon
LEARNERS: Mapping[str, type[Method]] = {
    NO_PRIVACY: DpSgd,
    PHOTOS_ONLY: PublicFeatures,
    FEATURES_ONLY: PublicFeatures,
    DP: DpSgd,
    PROJECTED: Projected,
    FEATURE: FeatureDp,
    BOTH: FeatureProjective,
}
UNITS = {
    NO_PRIVACY: "nothing",
    ALONE: "nothing private is read",
    PHOTOS_ONLY: "nothing private is read",
    FEATURES_ONLY: "nothing but psi and joints is read",
    DP: "one person in one photo",
    PROJECTED: "one person in one photo",
    FEATURE: "the same, but for psi and joints",
    BOTH: "the same, but for psi and joints",
}
STRATEGY_WORDS = {
    "last_stage": "last stage, all norms and head",
    "all": "all weights",
    "scratch": "all weights, from random ones",
    "head": "head alone",
}


@dataclass(frozen=True, kw_only=True)
class PoseCell:
    """What was measured of one row, in one setting.

    Args:
        method: the row.
        strategy: what is trained.
        epsilon: that was asked for; infinity for rows without noise.
        clip_norm: C; 0 for rows without noise.
        relation: under which epsilon is met.
        pckh: share of joints within half a head, one a run.
        fine: within a tenth of a head.
        proved: epsilon of the very run under each relation; empty without noise.
        noise_multiplier: z.
        steps: of a run.
        tested: photos.
        taught: private photos.
        photo_error: standard error of a run's share, by how photos scatter; None if not known.
        psi: which public pictures, in words; empty where there are none.
        photos: each tested photo's share of right joints, the mean over runs, as two hexadecimal
            digits of 255ths; empty if not kept.
    """

    method: str
    strategy: str
    epsilon: float
    clip_norm: float
    relation: str
    pckh: tuple[float, ...]
    fine: tuple[float, ...]
    proved: Mapping[str, float] = field(default_factory=dict)
    noise_multiplier: float = 0.0
    steps: int = 0
    tested: int
    taught: int = 0
    photo_error: float | None = None
    psi: str = ""
    photos: str = ""

    @property
    def runs(self) -> Runs:
        """Shares of right joints; photos, not joints, are what was drawn to be tested.

        A photo's share scatters less than a coin does: as many coins are counted as scatter alike.
        """
        mean = sum(self.pckh) / len(self.pckh)
        if not self.photo_error:
            return Runs(self.pckh, tested=self.tested)
        return Runs(self.pckh, tested=mean * (1 - mean) / self.photo_error**2)

    def beside(self, other: PoseCell) -> Word:
        """Whether it is ahead of another cell: photo by photo, where both kept them.

        Two rows that were tested on the same photos find the same ones hard, so that their
        difference scatters less over photos than either does.
        """
        if not self.photos or len(self.photos) != len(other.photos):
            return compared(self.runs, other.runs)
        mine, theirs = (_shares(cell.photos) for cell in (self, other))
        gaps = mine - theirs
        return compared(self.runs, other.runs, chance=float(gaps.std(ddof=1)) / len(gaps) ** 0.5)


def written(shares: np.ndarray) -> str:
    """Shares (photos,) from 0 to 1 as `PoseCell` keeps them."""
    return bytes(np.rint(255 * shares).astype(np.uint8)).hex()


def _shares(photos: str) -> np.ndarray:
    return np.frombuffer(bytes.fromhex(photos), np.uint8) / 255


@dataclass(frozen=True, kw_only=True)
class PoseFound:
    """All cells, and what they are of.

    Args:
        cells: of the tables.
        coarse: cells of the frontier: feature-projective and public features by psi.
        plan: settled.
        about: the data in words.
        taught: private photos.
        tested: photos.
        named: how often an attacker names people by what psi shows, by psi in words; by whole
            photos under no word.
    """

    cells: tuple[PoseCell, ...]
    coarse: tuple[PoseCell, ...] = ()
    plan: PoseTables
    about: str
    taught: int
    tested: int
    named: Mapping[str, Success] = field(default_factory=dict)

    @property
    def relations(self) -> list[str]:
        """In order."""
        return list(dict.fromkeys(cell.relation for cell in self.cells if cell.proved))

    @property
    def strategies(self) -> list[str]:
        """In order."""
        return list(dict.fromkeys(cell.strategy for cell in self.cells))

    def free(self, method: str, strategy: str) -> PoseCell | None:
        """The cell of a row without noise; public weights alone have no strategy but scratch."""
        return next(self._of(method=method, strategy=strategy), None)

    def best(self, method: str, epsilon: float, *, strategy: str, relation: str) -> PoseCell | None:
        """The cell of a private row with the clip norm that has the highest mean."""
        every = self.row(method, epsilon, strategy=strategy, relation=relation)
        return max(every, key=lambda cell: cell.runs.mean, default=None)

    def row(
        self, method: str, epsilon: float, *, strategy: str, relation: str
    ) -> Sequence[PoseCell]:
        """The cells of a private row, one a clip norm."""
        known = {"method": method, "epsilon": epsilon, "strategy": strategy, "relation": relation}
        return list(self._of(**known))

    def _of(self, **known: Any) -> Iterator[PoseCell]:
        return (
            cell
            for cell in self.cells
            if all(getattr(cell, name) == value for name, value in known.items())
        )
