"""All that was measured about places."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from masquerade.recipes.ppedcrf.measured import PlaceCell

if TYPE_CHECKING:
    from masquerade.recipes.ppedcrf import PpedcrfTables


@dataclass(frozen=True, kw_only=True)
class MapSummary:
    """What maps are like, over all films.

    Args:
        coverage: mean sensitivity of the background.
        spread: its standard deviation within a frame.
        entropy: mean bits of a pixel's yes or no.
        overlap: of what neighbouring frames' maps cover, over what either does.
    """

    coverage: float
    spread: float
    entropy: float
    overlap: float


@dataclass(frozen=True, kw_only=True)
class Adapted:
    """An attacker who does more than compare one raw frame.

    Args:
        name: of the variant.
        network: who looks.
        how: what the attacker does.
        shares: Top-1 in the gallery, one a run.
    """

    name: str
    network: str
    how: str
    shares: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Oracle:
    """Noise made with an attacker's own gradients: a bound on what maps and shapes can do.

    Args:
        network: whose gradients, and who looks.
        psnr: dB.
        by_map: Top-1 in the gallery, white noise where this network looks; one a run.
        by_map_patterns: the same with patterns.
        by_steps: shades changed along the gradient itself.
    """

    network: str
    psnr: float
    by_map: tuple[float, ...]
    by_map_patterns: tuple[float, ...]
    by_steps: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Activities:
    """How often a frozen public network names what people do.

    Args:
        before: of raw recordings, 1 where it is right, one a recording.
        after: of released ones, by variant.
        psnr: dB at which they were released.
        learned: recordings that the classes' means are of.
        anew: of released ones, where the means are of released ones too, by variant.
    """

    before: tuple[float, ...]
    after: dict[str, tuple[float, ...]]
    psnr: float
    learned: int
    anew: dict[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class PlaceFindings:
    """All that was measured.

    Args:
        plan: how.
        sizes: of galleries.
        likeness: of pairs and of the first distractors.
        raw: hits of films as they are, by network and gallery.
        tables: cells by table: "sigma 8" and the like, and "33 dB" and the like.
        maps: what the maps are like.
        adapted: attackers who do more.
        moved_px: by how much joints move, by variant: the mean over films and joints.
        oracles: Top-1 where noise goes by the attacker's own gradients.
        activities: how often activities are named, before and after; None where that is not known.
    """

    plan: PpedcrfTables
    sizes: tuple[int, ...]
    likeness: tuple[float, float]
    raw: Any
    tables: dict[str, tuple[PlaceCell, ...]]
    maps: MapSummary
    adapted: tuple[Adapted, ...]
    moved_px: dict[str, float]
    oracles: tuple[Oracle, ...] = ()
    activities: Activities | None = None

    @property
    def gallery(self) -> int:
        """The one of Tables 3, 4 and 6: the paper's largest, or the largest there is."""
        return max((size for size in self.sizes if size <= 48), default=self.sizes[0])

    def cells(self, table: str, name: str) -> list[PlaceCell]:
        """The runs of a variant."""
        return [cell for cell in self.tables[table] if cell.name == name]

    def names(self, table: str) -> list[str]:
        """Its variants, in order."""
        return list(dict.fromkeys(cell.name for cell in self.tables[table]))


def at_sigma(sigma: float) -> str:
    """The name of a table."""
    return f"sigma {sigma:g}"


def at_psnr(psnr: float) -> str:
    """The name of a table."""
    return f"{psnr:g} dB"
