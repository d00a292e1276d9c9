"""Which variants are measured, at which strength, by whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from masquerade import _json
from masquerade.attack.place_pictures import Looking
from masquerade.recipes import bench
from masquerade.recipes.ppedcrf import joints, variants
from masquerade.recipes.ppedcrf.measured import PlaceCell, PlaceRoom
from masquerade.recipes.ppedcrf.variants import Variant

if TYPE_CHECKING:
    from masquerade.recipes.ppedcrf import PpedcrfTables

DEFAULT = 8.0  # the paper's sigma_0
MATCHED = (variants.ours, variants.EVEN, variants.white, variants.everywhere)
COMPARED = (variants.ours, variants.everywhere)  # by attackers who do more
TIGHT = 33.0  # dB at which those are
_LOOKERS = 2  # networks of those


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
    """

    plan: PpedcrfTables
    sizes: tuple[int, ...]
    likeness: tuple[float, float]
    raw: Any
    tables: dict[str, tuple[PlaceCell, ...]]
    maps: MapSummary
    adapted: tuple[Adapted, ...]
    moved_px: dict[str, float]

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


def measure(
    plan: PpedcrfTables, room: PlaceRoom, *, journal: bench.Journal, told: bench.Told
) -> PlaceFindings:
    """Every cell, noted as it is measured."""
    noted = partial(_noted, journal, told)
    facts = _json.decode(MapSummary, journal.measured("maps", partial(map_facts, room)))
    share = random_share(facts)
    tables = {}
    for sigma in plan.sigmas:
        rows = _at_sigma(plan, sigma, share)
        tables[at_sigma(sigma)] = noted(at_sigma(sigma), rows, plan, room)
    tables["support"] = noted("support", (*variants.BLURS, *variants.MOSAICS), plan, room)
    for psnr in plan.psnrs:
        rows = [_strong(variant, room, psnr, journal) for variant in MATCHED]
        tables[at_psnr(psnr)] = noted(at_psnr(psnr), rows, plan, room)
    return PlaceFindings(
        plan=plan,
        sizes=room.sizes,
        likeness=room.scenes.likeness,
        raw=journal.measured("raw", room.raw),
        tables=tables,
        maps=facts,
        adapted=tuple(_adapted(plan, room, journal, told)),
        moved_px=_moved(plan, room, journal),
    )


def _at_sigma(plan: PpedcrfTables, sigma: float, share: Variant) -> Sequence[Variant]:
    """The rows of Tables 3 and 4."""
    rows = [variants.ours, *variants.ABLATIONS]
    if sigma == plan.sigmas[0]:
        rows += [variants.UNTAUGHT, variants.white, variants.published, share]
    rows.append(variants.everywhere)
    return [row.at(sigma) for row in rows]


def _strong(variant: Variant, room: PlaceRoom, psnr: float, journal: bench.Journal) -> Variant:
    """The variant at a strength that leaves so many dB."""
    found = journal.measured(
        f"strength of {variant.name} at {psnr:g} dB",
        lambda: variants.matched(variant, room.scenes.queries, psnr).sigma,
    )
    return variant.at(float(found))


def _noted(
    journal: bench.Journal,
    told: bench.Told,
    table: str,
    rows: Sequence[Variant],
    plan: PpedcrfTables,
    room: PlaceRoom,
) -> tuple[PlaceCell, ...]:
    cells = []
    todo = [(row, seed) for row in rows for seed in range(plan.seeds)]
    for number, (row, seed) in enumerate(todo):
        if row.sigma is None and seed:
            continue  # nothing is random
        name = f"{table}, {row.name}, run {seed}"
        held = journal.measured(name, partial(room.cell, row, seed, _who(table, row, plan)))
        cells.append(_json.decode(PlaceCell, held))
        told(table, number + 1, len(todo))
    return tuple(cells)


def _who(table: str, row: Variant, plan: PpedcrfTables) -> Sequence[str]:
    """Who looks: everybody at equal PSNR and in Table 5, elsewhere the first network."""
    is_table_5 = table == at_sigma(plan.sigmas[0]) and row.name == variants.OURS
    return () if table.endswith("dB") or is_table_5 else plan.networks[:1]


def map_facts(room: PlaceRoom) -> MapSummary:
    """Of the maps of all films."""
    facts, overlaps = [], []
    for film in room.scenes.queries:
        maps = variants.mapped(film)
        facts += [one.facts for one in maps]
        covered = variants.support(film)
        both, either = covered[1:] & covered[:-1], covered[1:] | covered[:-1]
        overlaps.append(both.sum() / max(1, either.sum()))
    return MapSummary(
        coverage=float(np.mean([one.coverage for one in facts])),
        spread=float(np.mean([one.spread for one in facts])),
        entropy=float(np.mean([one.entropy for one in facts])),
        overlap=float(np.mean(overlaps)),
    )


def random_share(facts: MapSummary) -> Variant:
    """The random mask that covers as much as the maps do."""
    return variants.random_mask(round(facts.coverage, 3))


def _adapted(
    plan: PpedcrfTables, room: PlaceRoom, journal: bench.Journal, told: bench.Told
) -> list[Adapted]:
    """Attackers who average, clean or have learned, against two variants of equal PSNR."""
    psnr = TIGHT if TIGHT in plan.psnrs else plan.psnrs[0]
    found = []
    for base in COMPARED:
        variant = _strong(base, room, psnr, journal)
        for how, attack in _ways(plan, room).items():
            for network in plan.networks[:_LOOKERS]:
                name = f"{how}, {variant.name}, {network}"
                told(how, 0, 1)
                shares = journal.measured(name, partial(_runs, attack, variant, network, plan))
                found.append(
                    Adapted(name=variant.name, network=network, how=how, shares=tuple(shares))
                )
    return found


Attacker = Callable[[Variant, int, str], float]


def _runs(attack: Attacker, variant: Variant, network: str, plan: PpedcrfTables) -> list[float]:
    return [attack(variant, seed, network) for seed in range(plan.seeds)]


def _ways(plan: PpedcrfTables, room: PlaceRoom) -> dict[str, Attacker]:
    size = str(max((each for each in room.sizes if each <= 48), default=room.sizes[0]))

    def looks(looking: Looking, variant: Variant, seed: int, network: str) -> float:
        hits = room.seen(room.released(variant, seed), looking, [network])[network][size]
        return float(np.mean([hit[0] for hit in hits]))

    def learns(variant: Variant, seed: int, network: str) -> float:
        return room.adapted(variant, seed, network)[size]

    ways: dict[str, Attacker] = {"one frame": partial(looks, Looking())}
    for count in plan.averaged:
        ways[f"mean of {count} frames"] = partial(looks, Looking(frames=count, motion="still"))
    ways["denoised"] = partial(looks, Looking(denoise=True))
    most = max(plan.averaged, default=1)
    ways[f"mean of {most}, denoised"] = partial(
        looks, Looking(frames=most, motion="still", denoise=True)
    )
    ways["has learned from releases"] = learns
    return ways


def _moved(plan: PpedcrfTables, room: PlaceRoom, journal: bench.Journal) -> dict[str, float]:
    """By how much joints move, at the lowest PSNR."""
    found = {}
    for base in COMPARED:
        variant = _strong(base, room, min(plan.psnrs), journal)
        measured = journal.measured(f"joints, {base.name}", partial(joints.moved_px, room, variant))
        if measured is not None:
            found[base.name] = float(measured)
    return found
