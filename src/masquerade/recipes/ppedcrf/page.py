"""PPEDCRF's tables in words and pictures: what is said is computed from the cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from masquerade import _json
from masquerade.recipes import bench
from masquerade.recipes.ppedcrf import aims, variants
from masquerade.recipes.ppedcrf.findings import PlaceFindings, at_psnr, at_sigma
from masquerade.recipes.ppedcrf.measured import PlaceCell

RAW = "raw"


def markdown(found: PlaceFindings) -> str:
    """The tables, and what they show."""
    plan, first = found.plan, at_sigma(found.plan.sigmas[0])
    parts = [
        "### What it shows",
        bench.listing(aims.sentences(found)),
        f"### Table 3: all variants, {first}",
        _table_3(found, first),
        "### Table 4: strengths",
        _table_4(found),
        f"### Table 5: networks and galleries, {first}",
        _table_5(found, first),
        "### Table 6: equal PSNR",
        *(_table_6(found, psnr) for psnr in plan.psnrs),
        "### Which noise, on which map",
        _grid(found),
        f"### Table 7: over time, {first}",
        _table_7(found, first),
        "### Attackers who do more",
        _more(found),
        "### Noise by the attacker's own gradients",
        _own(found),
    ]
    return "\n\n".join(parts) + "\n"


def plain(found: PlaceFindings) -> dict[str, Any]:
    """As JSON."""
    return {
        "galleries": list(found.sizes),
        "likeness": list(found.likeness),
        "raw": found.raw,
        "maps": _json.encode(found.maps),
        "tables": {
            name: [_json.encode(cell) for cell in cells] for name, cells in found.tables.items()
        },
        "adapted": [_json.encode(one) for one in found.adapted],
        "moved_px": found.moved_px,
        "oracles": [_json.encode(one) for one in found.oracles],
        "activities": _json.encode(found.activities),
        "sentences": aims.sentences(found),
    }


def shares(
    found: PlaceFindings, cells: Sequence[PlaceCell], networks: Sequence[str], first: int = 1
) -> list[float]:
    """One a run: the share of films whose place is named, mean over networks."""
    return [
        float(np.mean([cell.top(name, found.gallery, first) for name in networks]))
        for cell in cells
    ]


def raw_share(
    found: PlaceFindings, networks: Sequence[str], gallery: int, column: int = 0
) -> float:
    """The same of films as they are."""
    rows = [[hit[column] for hit in found.raw[name][str(gallery)]] for name in networks]
    return float(np.mean(rows))


def _numbers(values: Sequence[float], digits: int = 2) -> str:
    return f"{np.mean(values):.{digits}f}"


def _table_3(found: PlaceFindings, table: str) -> str:
    network = found.plan.networks[:1]
    raw = [100 * raw_share(found, network, found.gallery, column) for column in (0, 1)]
    rows = [[RAW, *(f"{value:.1f}" for value in raw), "", "", ""]]
    for where in (table, "support"):
        for name in found.names(where):
            cells = found.cells(where, name)
            rows.append(
                [
                    name,
                    *(bench.percent(shares(found, cells, network, first)) for first in (1, 5)),
                    _numbers([cell.psnr for cell in cells]),
                    _numbers([cell.ssim for cell in cells], 3),
                    _overlap(found, name),
                ]
            )
    heading = [f"{network[0]}, gallery {found.gallery}", "Top-1", "Top-5", "PSNR, dB", "SSIM"]
    return bench.table([*heading, "mask IoU"], rows)


def _overlap(found: PlaceFindings, name: str) -> str:
    """How much of the mask stays from frame to frame, where there is one of ours."""
    if name in (variants.GLOBAL, variants.PUBLISHED):
        return "mask is constant"
    if name.endswith(variants.MAPS["even"]) or (
        name == variants.OURS and variants.CHOSEN[1] == "even"
    ):
        return "mask is constant"
    if name == variants.ABLATIONS[0].name or name.endswith(variants.MAPS["evidence"]):
        return "-"  # their maps are others
    if name == "random mask":
        share = found.maps.coverage
        return f"{share / (2 - share):.3f}"
    return f"{found.maps.overlap:.3f}"


def _strength(cells: Sequence[PlaceCell]) -> str:
    """Sigma, or the epsilon of a mechanism that has one; blur and mosaic have neither."""
    if cells[0].sigma is None:
        return "fixed"
    is_formal = any(cells[0].name == row.name for row in variants.FORMAL)
    return f"epsilon {cells[0].sigma:.3g}" if is_formal else f"sigma {cells[0].sigma:.1f}"


def _table_4(found: PlaceFindings) -> str:
    network, rows = found.plan.networks[:1], []
    for sigma in found.plan.sigmas:
        for name in (variants.OURS, *(row.name for row in variants.ABLATIONS), variants.GLOBAL):
            cells = found.cells(at_sigma(sigma), name)
            rows.append(
                [
                    f"{sigma:g}",
                    name,
                    *(bench.percent(shares(found, cells, network, first)) for first in (1, 5)),
                    _numbers([cell.psnr for cell in cells]),
                    _numbers([cell.ssim for cell in cells], 3),
                ]
            )
    return bench.table(["sigma", "variant", "Top-1", "Top-5", "PSNR, dB", "SSIM"], rows)


def _table_5(found: PlaceFindings, table: str) -> str:
    rows = []
    cells = found.cells(table, variants.OURS)
    for name in (*found.plan.networks, *found.plan.taught):
        met = "yes" if name in found.plan.taught else "no"
        for size in found.sizes:
            raw = raw_share(found, [name], size)
            after = [cell.top(name, size) for cell in cells]
            change = 100 * (float(np.mean(after)) - raw)
            rows.append(
                [name, met, str(size), f"{100 * raw:.1f}", bench.percent(after), f"{change:+.1f}"]
            )
    heading = ["network", "met in training", "gallery", "raw Top-1", "PPEDCRF Top-1", "change"]
    return bench.table(heading, rows)


def _table_6(found: PlaceFindings, psnr: float) -> str:
    rows, table = [], at_psnr(psnr)
    plan = found.plan
    support = [row.name for row in (*variants.BLURS[1:2], *variants.MOSAICS[2:3])]
    for name in (*found.names(table), *support):
        cells = found.cells("support" if name in support else table, name)
        each = [
            bench.percent([cell.top(one, found.gallery) for cell in cells]) for one in plan.networks
        ]
        rows.append(
            [
                name,
                _strength(cells),
                *each,
                bench.percent(shares(found, cells, plan.networks)),
                bench.percent(shares(found, cells, plan.taught)) if plan.taught else "-",
                _numbers([cell.psnr for cell in cells]),
                _numbers([cell.ssim for cell in cells], 3),
            ]
        )
    heading = [table, "strength", *plan.networks, "mean", "mean of those met", "PSNR, dB", "SSIM"]
    return bench.table(heading, rows)


def _grid(found: PlaceFindings) -> str:
    """Shapes by maps at each PSNR, people as they are: the mean over networks not met."""
    rows = []
    for shape in variants.SHAPES:
        for unary, called in variants.MAPS.items():
            name = variants.shaped(shape, unary).name
            each = [
                bench.percent(shares(found, found.cells(at_psnr(psnr), name), found.plan.networks))
                for psnr in found.plan.psnrs
            ]
            rows.append([shape, called, *each])
    return bench.table(["noise", "map", *map(at_psnr, found.plan.psnrs)], rows)


def _own(found: PlaceFindings) -> str:
    rows = [
        [
            one.network,
            at_psnr(one.psnr),
            *map(bench.percent, (one.by_map, one.by_map_patterns, one.by_steps)),
        ]
        for one in found.oracles
    ]
    heading = ["network", "PSNR", "white noise by its map", "patterns by its map", "its gradient"]
    return bench.table(heading, rows)


def _table_7(found: PlaceFindings, table: str) -> str:
    rows = []
    for where in (table, "support"):
        for name in found.names(where):
            cells = found.cells(where, name)
            rows.append(
                [
                    name,
                    _numbers([cell.flicker for cell in cells]),
                    _numbers([cell.stability for cell in cells], 3),
                    _overlap(found, name),
                ]
            )
    return bench.table(["variant", "flicker", "stability", "mask IoU"], rows)


def _more(found: PlaceFindings) -> str:
    ways = list(dict.fromkeys(one.how for one in found.adapted))
    rows = []
    for name in dict.fromkeys(one.name for one in found.adapted):
        for network in dict.fromkeys(one.network for one in found.adapted):
            held = {
                one.how: one.shares
                for one in found.adapted
                if (one.name, one.network) == (name, network)
            }
            rows.append([name, network, *(bench.percent(held[how]) for how in ways)])
    return bench.table(["variant", "network", *ways], rows)
