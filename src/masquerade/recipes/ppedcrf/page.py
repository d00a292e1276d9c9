"""PPEDCRF's tables in words and pictures: what is said is computed from the cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from masquerade import _json
from masquerade.recipes import bench
from masquerade.recipes.ppedcrf import aims, variants
from masquerade.recipes.ppedcrf.measured import PlaceCell
from masquerade.recipes.ppedcrf.run import PlaceFindings, at_psnr, at_sigma
from masquerade.report import bars, plot

_RAW = "raw"


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
        f"### Table 7: over time, {first}",
        _table_7(found, first),
        "### Attackers who do more",
        _more(found),
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
        "sentences": aims.sentences(found),
    }


def plots(found: PlaceFindings) -> dict[str, str]:
    """Figures 3, 4 and 5."""
    return {
        "ppedcrf_frontier": _frontier(found),
        "ppedcrf_networks": _networks(found),
        "ppedcrf_support": _support(found),
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
    rows = [[_RAW, *(f"{value:.1f}" for value in raw), "", "", ""]]
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
    if name in (variants.ABLATIONS[0].name, variants.UNTAUGHT.name):
        return "-"  # their maps are others
    if name == "random mask":
        share = found.maps.coverage
        return f"{share / (2 - share):.3f}"
    return f"{found.maps.overlap:.3f}"


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
    for name in found.names(table):
        cells = found.cells(table, name)
        each = [
            bench.percent([cell.top(one, found.gallery) for cell in cells]) for one in plan.networks
        ]
        rows.append(
            [
                name,
                _numbers([cell.sigma or 0.0 for cell in cells], 1),
                *each,
                bench.percent(shares(found, cells, plan.networks)),
                bench.percent(shares(found, cells, plan.taught)) if plan.taught else "-",
                _numbers([cell.psnr for cell in cells]),
                _numbers([cell.ssim for cell in cells], 3),
            ]
        )
    heading = [table, "sigma", *plan.networks, "mean", "mean of those met", "PSNR, dB", "SSIM"]
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


def _frontier(found: PlaceFindings) -> str:
    """Figure 3: what is named against what is left of the picture."""
    points = []
    for table, cells in found.tables.items():
        if not table.endswith("dB"):
            continue
        for name in (variants.OURS, variants.EVEN.name, variants.GLOBAL, variants.white.name):
            some = [cell for cell in cells if cell.name == name]
            if some:
                left = float(np.mean([cell.psnr for cell in some]))
                told = float(np.mean(shares(found, some, found.plan.networks)))
                points.append((name, left, 100 * told))
    return plot.svg(
        bench.curves(points),
        plot.Axes(
            title=f"Top-1 among {found.gallery} places, networks not met in training",
            x_label="PSNR, dB",
            y_label="Top-1, %",
        ),
    )


def _networks(found: PlaceFindings) -> str:
    """Figure 4: all networks, before and after at the lowest PSNR."""
    names = (*found.plan.networks, *found.plan.taught)
    table = at_psnr(min(found.plan.psnrs))
    series = [bench.bars_of(_RAW, [[raw_share(found, [name], found.gallery)] for name in names])]
    for variant in (variants.GLOBAL, variants.OURS):
        cells = found.cells(table, variant)
        groups = [[cell.top(name, found.gallery) for cell in cells] for name in names]
        series.append(bench.bars_of(variant, groups))
    axes = plot.Axes(title=f"Top-1 at {table}", x_label="", y_label="Top-1, %")
    return bars.svg(series, names, axes, limits=(0.0, 100.0))


def _support(found: PlaceFindings) -> str:
    """Figure 5: blur and mosaic on the same support."""
    points = []
    for cell in found.tables["support"]:
        if not np.isfinite(cell.psnr):
            continue  # nothing was changed
        told = 100 * shares(found, [cell], found.plan.networks[:1])[0]
        points.append((cell.name.split(",")[0], cell.psnr, told))
    return plot.svg(
        bench.curves(points),
        plot.Axes(
            title="Blur and mosaic where PPEDCRF puts noise", x_label="PSNR, dB", y_label="Top-1, %"
        ),
    )
