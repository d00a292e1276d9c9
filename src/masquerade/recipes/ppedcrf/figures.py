"""Figures 3, 4 and 5 of PPEDCRF."""

from __future__ import annotations

import numpy as np

from masquerade.recipes import bench
from masquerade.recipes.ppedcrf import variants
from masquerade.recipes.ppedcrf.findings import PlaceFindings, at_psnr, at_sigma
from masquerade.recipes.ppedcrf.page import RAW, raw_share, shares
from masquerade.report import bars
from masquerade.report import plots as plots_of_report


def plots(found: PlaceFindings) -> dict[str, str]:
    """Those of numbers."""
    return {
        "ppedcrf_frontier": _frontier(found),
        "ppedcrf_galleries": _galleries(found),
        "ppedcrf_networks": _networks(found),
        "ppedcrf_support": _support(found),
    }


def _galleries(found: PlaceFindings) -> str:
    """Figure 4: every network by the size of the gallery, raw thin, released thick."""
    cells = found.cells(at_sigma(found.plan.sigmas[0]), variants.OURS)
    sizes, lines = np.array(found.sizes, float), []
    for number, name in enumerate((*found.plan.networks, *found.plan.taught)):
        raw = [100 * raw_share(found, [name], size) for size in found.sizes]
        after = [100 * np.mean([cell.top(name, size) for cell in cells]) for size in found.sizes]
        for what, values in ((name, after), (RAW, raw)):
            lines.append(
                plots_of_report.Line(
                    name=what,
                    x=sizes,
                    y=np.array(values),
                    is_faint=what == RAW,
                    colour=number,
                )
            )
    title = f"Top-1 by size of gallery, sigma {found.plan.sigmas[0]:g}"
    return plots_of_report.draw_lines(
        lines, plots_of_report.Axes(title=title, x_label="pictures", y_label="Top-1, %")
    )


def _frontier(found: PlaceFindings) -> str:
    """Figure 3: what is named against what is left of the picture."""
    points = []
    for table, cells in found.tables.items():
        if not table.endswith("dB"):
            continue
        for name in dict.fromkeys(
            (
                variants.OURS,
                variants.shaped("patterns", "even").name,
                variants.selective.name,
                variants.behind.name,
                variants.GLOBAL,
            )
        ):
            some = [cell for cell in cells if cell.name == name]
            if some:
                left = float(np.mean([cell.psnr for cell in some]))
                told = float(np.mean(shares(found, some, found.plan.networks)))
                points.append((name, left, 100 * told))
    return plots_of_report.draw_lines(
        bench.curves(points),
        plots_of_report.Axes(
            title=f"Top-1 among {found.gallery} places, networks not met in training",
            x_label="PSNR, dB",
            y_label="Top-1, %",
        ),
    )


def _networks(found: PlaceFindings) -> str:
    """Figure 4: all networks, before and after at the lowest PSNR."""
    names = (*found.plan.networks, *found.plan.taught)
    table = at_psnr(min(found.plan.psnrs))
    series = [bench.bars_of(RAW, [[raw_share(found, [name], found.gallery)] for name in names])]
    for variant in (variants.GLOBAL, variants.OURS):
        cells = found.cells(table, variant)
        groups = [[cell.top(name, found.gallery) for cell in cells] for name in names]
        series.append(bench.bars_of(variant, groups))
    axes = plots_of_report.Axes(title=f"Top-1 at {table}", x_label="", y_label="Top-1, %")
    return bars.draw_bars(series, names, axes, limits=(0.0, 100.0))


def _support(found: PlaceFindings) -> str:
    """Figure 5: blur and mosaic on the same support."""
    points = []
    for cell in found.tables["support"]:
        if not np.isfinite(cell.psnr):
            continue  # nothing was changed
        told = 100 * shares(found, [cell], found.plan.networks[:1])[0]
        points.append((cell.name.split(",")[0], cell.psnr, told))
    return plots_of_report.draw_lines(
        bench.curves(points),
        plots_of_report.Axes(
            title="Blur and mosaic where PPEDCRF puts noise", x_label="PSNR, dB", y_label="Top-1, %"
        ),
    )
