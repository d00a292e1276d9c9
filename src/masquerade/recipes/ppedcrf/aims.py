"""What PPEDCRF set out to do, and how far it came: sentences computed from the cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from masquerade.attacks.rates import bootstrap
from masquerade.recipes.ppedcrf import activities, variants
from masquerade.recipes.ppedcrf.findings import PlaceFindings, at_psnr
from masquerade.recipes.ppedcrf.measured import PlaceCell
from masquerade.recipes.verdict import Runs, compared

_HALF, _GAIN, _JOINTS_PX, _POINTS = 0.5, 0.10, 2.0, 1.0


def sentences(found: PlaceFindings) -> list[str]:
    """One a claim."""
    said = [_scene(found), _mask(found)]
    said += [_matched(found, psnr) for psnr in found.plan.psnrs]
    said += [_learned(found), _joints(found), _acted(found)]
    return [one for one in said if one]


def _scene(found: PlaceFindings) -> str:
    pairs, distractors = found.likeness
    films = len(next(iter(next(iter(found.raw.values())).values())))
    return (
        f"{films} films, each of another place; pairs are alike by {pairs:.2f} (cosine), the first "
        f"distractors by {distractors:.2f}. Networks that nothing was learned on: "
        f"{', '.join(found.plan.networks)}."
    )


def _mask(found: PlaceFindings) -> str:
    facts = found.maps
    said = (
        f"The mask covers {facts.coverage:.2f} of the background on average, with a spread of "
        f"{facts.spread:.2f} and {facts.entropy:.2f} bits a pixel"
    )
    return f"{said}: THE MASK IS CONSTANT." if facts.spread < 0.01 else f"{said}."


def runs_of(found: PlaceFindings, cells: Sequence[PlaceCell], networks: Sequence[str]) -> Runs:
    """Top-1, mean over networks, one share a run."""
    shares = [
        float(np.mean([cell.top(name, found.gallery) for name in networks])) for cell in cells
    ]
    films = len(next(iter(next(iter(found.raw.values())).values())))
    return Runs(tuple(shares), tested=films)


def _matched(found: PlaceFindings, psnr: float) -> str:
    """Against global noise at equal PSNR, and against the same noise behind people."""
    table, networks = at_psnr(psnr), found.plan.networks

    def runs(name: str, who: Sequence[str] = networks) -> Runs:
        return runs_of(found, found.cells(table, name), who)

    ours, other = runs(variants.OURS), runs(variants.GLOBAL)
    above = [
        name
        for name in networks
        if runs(variants.OURS, [name]).mean > runs(variants.GLOBAL, [name]).mean
    ]
    verdict = compared(ours, other)
    word = {"ahead": "more is told than with global noise", "behind": "less is told"}.get(
        verdict, verdict
    )
    ratio, low, high = shared(found, table, variants.GLOBAL)
    aim = "reached" if ratio <= _HALF else f"missed by {ratio - _HALF:.2f}"
    worse = f"; above it for {', '.join(above)}" if above else "; above it for none"
    said = (
        f"At {psnr:g} dB: Top-1 {ours} with PPEDCRF, {other} with global noise, {ratio:.2f} of it "
        f"({low:.2f} to {high:.2f}, 95 % over places; {word}; n = {len(ours.shares)} runs of "
        f"{ours.tested:g} films{worse}). The aim of half is {aim}."
    )
    if variants.OURS == variants.behind.name or not found.cells(table, variants.behind.name):
        return said
    equal, low, high = shared(found, table, variants.behind.name)
    return (
        f"{said} White noise that leaves people as they are, too: {runs(variants.behind.name)}; "
        f"{equal:.2f} of it ({low:.2f} to {high:.2f})."
    )


def shared(found: PlaceFindings, table: str, other: str) -> tuple[float, float, float]:
    """Top-1 of ours over another row's, with the ends of its 95 % interval over places."""
    ours, theirs = (
        np.mean(
            [
                [hit[0] for hit in cell.hits[network][str(found.gallery)]]
                for cell in found.cells(table, name)
                for network in found.plan.networks
            ],
            axis=0,
        )
        for name in (variants.OURS, other)
    )  # one a place: the mean over runs and networks

    def ratio(rows: np.ndarray) -> float:
        below = float(theirs[rows].mean())
        return float(ours[rows].mean()) / below if below else np.nan

    one = bootstrap("ratio", ratio, range(len(ours)), of="places", seed=0)
    return one.value, one.low, one.high


def _learned(found: PlaceFindings) -> str:
    """What the attacker who has learned gains over the naive one."""
    gains = {}
    for name in (variants.OURS, variants.GLOBAL):
        naive, taught = (
            float(
                np.mean(
                    [
                        s
                        for one in found.adapted
                        if (one.name, one.how) == (name, how)
                        for s in one.shares
                    ]
                )
            )
            for how in ("one frame", "has learned from releases")
        )
        gains[name] = (100 * naive, 100 * taught)
    naive, taught = gains[variants.OURS]
    aim = "reached" if taught - naive < 100 * _GAIN else "missed"
    return (
        f"Who has learned from releases names {taught:.1f} % instead of {naive:.1f} % with PPEDCRF "
        f"(with global noise {gains[variants.GLOBAL][1]:.1f} instead of "
        f"{gains[variants.GLOBAL][0]:.1f} %). The aim of less than 10 points more is {aim}."
    )


def _joints(found: PlaceFindings) -> str:
    moved = found.moved_px.get(variants.OURS)
    if moved is None:
        return "The pose network is not there: whether joints move was not measured."
    aim = "reached" if moved < _JOINTS_PX else "missed"
    return (
        f"People's joints move by {moved:.2f} pixels on average at {min(found.plan.psnrs):g} dB. "
        f"The aim of less than 2 is {aim}."
    )


def _acted(found: PlaceFindings) -> str:
    one = found.activities
    if one is None:
        return ""
    lost, error = activities.difference(one, one.after[variants.OURS])
    before, after = (100 * float(np.mean(each)) for each in (one.before, one.after[variants.OURS]))
    said = (
        f"A frozen public network names {before:.1f} % of activities before and {after:.1f} % "
        f"after, at {one.psnr:g} dB: {lost:+.1f} points lost, standard error {error:.1f} (n = "
        f"{len(one.before)} recordings, by the means of {one.learned} raw ones). The aim of less "
        f"than 1 point is {_less(lost, error)}."
    )
    if variants.OURS not in one.anew:
        return said
    lost, error = activities.difference(one, one.anew[variants.OURS])
    return (
        f"{said} By the means of {one.learned} released ones, as who has nothing but the "
        f"publication learns: {100 * float(np.mean(one.anew[variants.OURS])):.1f} %, {lost:+.1f} "
        f"points lost, standard error {error:.1f}: {_less(lost, error)}."
    )


def _less(lost: float, error: float) -> str:
    """Whether it is less than a point."""
    if lost + 2 * error < _POINTS:
        return "reached"
    return "not told" if lost - 2 * error < _POINTS else "missed"
