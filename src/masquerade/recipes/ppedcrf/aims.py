"""What PPEDCRF set out to do, and how far it came: sentences computed from the cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from masquerade.recipes.ppedcrf import variants
from masquerade.recipes.ppedcrf.measured import PlaceCell
from masquerade.recipes.ppedcrf.run import PlaceFindings, at_psnr
from masquerade.recipes.verdict import Runs, compared

_HALF, _GAIN, _JOINTS_PX = 0.5, 0.10, 2.0


def sentences(found: PlaceFindings) -> list[str]:
    """One a claim."""
    said = [_scene(found), _mask(found)]
    said += [_matched(found, psnr) for psnr in found.plan.psnrs]
    said += [_learned(found), _joints(found)]
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
    """Against global noise at equal PSNR."""
    ours, other = (
        runs_of(found, found.cells(at_psnr(psnr), name), found.plan.networks)
        for name in (variants.OURS, variants.GLOBAL)
    )
    above = [
        name
        for name in found.plan.networks
        if runs_of(found, found.cells(at_psnr(psnr), variants.OURS), [name]).mean
        > runs_of(found, found.cells(at_psnr(psnr), variants.GLOBAL), [name]).mean
    ]
    word = {"ahead": "more is told than with global noise", "behind": "less is told"}.get(
        compared(ours, other), compared(ours, other)
    )
    ratio = ours.mean / other.mean if other.mean else np.nan
    aim = "reached" if ratio <= _HALF else "missed"
    worse = f"; above it for {', '.join(above)}" if above else "; above it for none"
    return (
        f"At {psnr:g} dB: Top-1 {ours} with PPEDCRF, {other} with global noise, {ratio:.2f} of it "
        f"({word}; n = {len(ours.shares)} runs of {ours.tested:g} films{worse}). The aim of half "
        f"is {aim}."
    )


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
    return f"People's joints move by {moved:.2f} pixels on average at the lowest PSNR; {aim}."
