"""Which variants are measured, at which strength, by whom."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np

from masquerade import _json
from masquerade.attacks.place_matching import Looking
from masquerade.recipes import bench
from masquerade.recipes.ppedcrf import activities, joints, oracle, taken, variants
from masquerade.recipes.ppedcrf.findings import (
    Activities,
    Adapted,
    MapSummary,
    Oracle,
    PlaceFindings,
    at_psnr,
    at_sigma,
)
from masquerade.recipes.ppedcrf.measured import PlaceCell, PlaceRoom
from masquerade.recipes.ppedcrf.variants import Variant

if TYPE_CHECKING:
    from masquerade.recipes.ppedcrf import PpedcrfTables


MATCHED = (*variants.GRID, variants.everywhere, *variants.FORMAL)
COMPARED = tuple(
    {
        each.name: each
        for each in (
            variants.ours,
            variants.shaped("patterns", "even"),
            variants.behind,
            variants.everywhere,
        )
    }.values()
)  # by attackers who do more
TIGHT = 33.0  # dB at which those are
_LOOKERS = 2  # networks of those
_OTHERS = 100_000  # seeds of what the attacker releases


@dataclass(frozen=True, kw_only=True, eq=False)
class PlaceCourse:
    """A run: the plan, what attackers hold, what is noted, and who is told."""

    plan: PpedcrfTables
    room: PlaceRoom
    journal: bench.Journal
    told: bench.Told

    @property
    def films(self) -> tuple[Any, ...]:
        """That are released."""
        return self.room.scenes.queries

    def all(
        self,
        what: str,
        calls: Mapping[str, Callable[[], Any]],
        finish: Callable[[str, Any], Any] = lambda name, made: made,
    ) -> dict[str, Any]:
        """What calls give, by name, several at a time; what is noted already is not done again.

        Args:
            what: they are.
            calls: for other processes; what they need travels along.
            finish: what is done with the answer of each, here, before it is noted.
        """
        missing = [name for name in calls if name not in self.journal.held]
        made: Iterable[Any] = (calls[name]() for name in missing)
        if self.plan.jobs > 1 and len(missing) > 1:
            tasks = (joblib.delayed(calls[name])() for name in missing)
            made = bench.together(tasks, jobs=self.plan.jobs)
        for number, (name, answer) in enumerate(zip(missing, made, strict=True)):
            self.journal.note(name, finish(name, answer))
            self.told(what, number + 1, len(missing))
        return {name: self.journal.held[name] for name in calls}


def measure(
    plan: PpedcrfTables, room: PlaceRoom, *, journal: bench.Journal, told: bench.Told
) -> PlaceFindings:
    """Every cell, noted as it is measured."""
    course = PlaceCourse(plan=plan, room=room, journal=journal, told=told)
    facts = _json.decode(MapSummary, journal.measured("maps", partial(map_facts, room)))
    strong = _strengths(course)
    tables = {at_sigma(sigma): _at_sigma(plan, sigma, random_share(facts)) for sigma in plan.sigmas}
    tables["support"] = [*variants.BLURS, *variants.MOSAICS]
    for psnr in plan.psnrs:
        tables[at_psnr(psnr)] = [strong[row.name, psnr] for row in MATCHED]
    return PlaceFindings(
        plan=plan,
        sizes=room.sizes,
        likeness=room.scenes.likeness,
        raw=journal.measured("raw", room.raw),
        tables=_cells(course, tables),
        maps=facts,
        adapted=tuple(_adapted(course, strong)),
        moved_px=_moved(course, strong),
        oracles=_oracles(course),
        activities=_activities(course, strong),
    )


def _at_sigma(plan: PpedcrfTables, sigma: float, share: Variant) -> Sequence[Variant]:
    """The rows of Tables 3 and 4."""
    rows = {each.name: each for each in (variants.ours, variants.selective, *variants.ABLATIONS)}
    if sigma == plan.sigmas[0]:
        more = (*variants.GRID, variants.published, share)
        rows |= {each.name: each for each in more if each.name not in rows}
    rows[variants.GLOBAL] = variants.everywhere
    return [row.at(sigma) for row in rows.values()]


def _strengths(course: PlaceCourse) -> dict[tuple[str, float], Variant]:
    """Every variant at every PSNR, at the strength that leaves so many dB."""
    pairs = [(row, psnr) for psnr in course.plan.psnrs for row in MATCHED]
    calls = {
        f"strength of {row.name} at {psnr:g} dB": partial(_strength, row, course.films, psnr)
        for row, psnr in pairs
    }
    found = course.all("strengths", calls)
    return {
        (row.name, psnr): row.at(float(sigma))
        for (row, psnr), sigma in zip(pairs, found.values(), strict=True)
    }


def _strength(row: Variant, films: Sequence[Any], psnr: float) -> float | None:
    return variants.matched(row, films, psnr).sigma


def _cells(
    course: PlaceCourse, tables: Mapping[str, Sequence[Variant]]
) -> dict[str, tuple[PlaceCell, ...]]:
    todo = {
        f"{table}, {row.name}, run {seed}": (table, row, seed)
        for table, rows in tables.items()
        for row in rows
        for seed in range(course.plan.seeds)
        if row.sigma is not None or not seed  # else nothing is random
    }
    calls = {
        name: partial(taken.taken, course.films, row, seed) for name, (_, row, seed) in todo.items()
    }

    def finish(name: str, made: taken.Taken) -> PlaceCell:
        table, row, seed = todo[name]
        return course.room.cell(row, seed, made, _who(table, row, course.plan))

    held = course.all("tables", calls, finish)
    found = {name: _json.decode(PlaceCell, each) for name, each in held.items()}
    return {
        table: tuple(found[name] for name, (own, _, _) in todo.items() if own == table)
        for table in tables
    }


def _who(table: str, row: Variant, plan: PpedcrfTables) -> Sequence[str]:
    """Who looks: everybody in Tables 5 and 6, elsewhere the first network."""
    is_table_5 = table == at_sigma(plan.sigmas[0]) and row.name == variants.OURS
    is_table_6 = table.endswith("dB") or table == "support"
    return () if is_table_5 or is_table_6 else plan.networks[:1]


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


def _tight(plan: PpedcrfTables) -> float:
    return TIGHT if TIGHT in plan.psnrs else plan.psnrs[0]


def _adapted(course: PlaceCourse, strong: Mapping[tuple[str, float], Variant]) -> list[Adapted]:
    """Attackers who average, clean or have learned, against variants of equal PSNR."""
    plan, room = course.plan, course.room
    size, lookers = str(_gallery(room)), plan.networks[:_LOOKERS]
    rows = [strong[base.name, _tight(plan)] for base in COMPARED]

    def seen(name: str, pictures: np.ndarray) -> dict[str, float]:
        hits = {each: room.hits(each, pictures)[size] for each in lookers}
        return {each: float(np.mean([hit[0] for hit in rows])) for each, rows in hits.items()}

    def learned(name: str, made: tuple[np.ndarray, ...]) -> dict[str, float]:
        shown, *released = made
        return {each: room.adapted(each, shown, tuple(released))[size] for each in lookers}  # type: ignore[arg-type]

    runs = [(row, seed) for row in rows for seed in range(plan.seeds)]
    found: dict[str, Any] = {}
    for how, looking in _ways(plan).items():
        calls: dict[str, Callable[[], Any]] = {
            f"{how}, {row.name}, run {seed}": partial(
                taken.looked, course.films, row, seed, looking
            )
            for row, seed in runs
        }
        found |= course.all(how, calls, seen)
    calls = {
        f"{LEARNED}, {row.name}, run {seed}": partial(
            _to_learn, course.films, room.to_learn_from, row, seed
        )
        for row, seed in runs
    }
    found |= course.all(LEARNED, calls, learned)
    return [
        Adapted(
            name=row.name,
            network=network,
            how=how,
            shares=tuple(
                found[f"{how}, {row.name}, run {seed}"][network] for seed in range(plan.seeds)
            ),
        )
        for row in rows
        for how in (*_ways(plan), LEARNED)
        for network in lookers
    ]


LEARNED = "has learned from releases"


def _to_learn(
    films: Sequence[Any], pictures: Sequence[np.ndarray], row: Variant, seed: int
) -> tuple[np.ndarray, ...]:
    """What was released, and what an attacker releases in the same way, without people."""
    alone = without_people(row)
    shown = taken.looked(films, row, seed, Looking())
    own = [
        taken.each(each, alone, _OTHERS * (part + 1) + seed * len(each))
        for part, each in enumerate(pictures)
    ]
    return shown, *own


def without_people(variant: Variant) -> Variant:
    """The variant on pictures without anybody."""
    fields = {**dict(variant.fields), **({"people": "nobody"} if variant.has_people else {})}
    return replace(variant, fields=tuple(fields.items()))


def _gallery(room: PlaceRoom) -> int:
    return max((each for each in room.sizes if each <= 48), default=room.sizes[0])


def _ways(plan: PpedcrfTables) -> dict[str, Looking]:
    """What attackers do who have learned nothing."""
    ways = {"one frame": Looking()}
    for count in plan.averaged:
        ways[f"mean of {count} frames"] = Looking(frames=count, motion="still")
    ways["denoised"] = Looking(denoise=True)
    most = max(plan.averaged, default=1)
    ways[f"mean of {most}, denoised"] = Looking(frames=most, motion="still", denoise=True)
    return ways


def _moved(course: PlaceCourse, strong: Mapping[tuple[str, float], Variant]) -> dict[str, float]:
    """By how much joints move, at the lowest PSNR."""
    found = {}
    for base in COMPARED:
        variant = strong[base.name, min(course.plan.psnrs)]
        measured = course.journal.measured(
            f"joints, {base.name}", partial(joints.moved_px, course.room, variant)
        )
        if measured is not None:
            found[base.name] = float(measured)
    return found


def _oracles(course: PlaceCourse) -> tuple[Oracle, ...]:
    """Noise by the attackers' own gradients."""
    plan = course.plan
    pairs = [(name, psnr) for name in plan.networks[:_LOOKERS] for psnr in plan.psnrs]
    found = list[Oracle]()
    for network, psnr in pairs:
        course.told("noise by an attacker's own gradients", len(found), len(pairs))
        held = course.journal.measured(
            f"own gradients, {network}, {psnr:g} dB",
            partial(oracle.told, course.room, network, psnr, plan.seeds, _gallery(course.room)),
        )
        found.append(_json.decode(Oracle, held))
    return tuple(found)


def _activities(
    course: PlaceCourse, strong: Mapping[tuple[str, float], Variant]
) -> Activities | None:
    """Whether activities are still named, at the lowest PSNR."""
    plan, psnr = course.plan, min(course.plan.psnrs)
    if not plan.acted:
        return None
    rows = [strong[base.name, psnr] for base in COMPARED]
    held = course.journal.measured("activities", partial(activities.named, plan, rows, psnr))
    return None if held is None else _json.decode(Activities, held)
