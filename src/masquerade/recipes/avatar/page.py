"""The table of avatars in words and pictures: what is said is computed from the rows."""

from __future__ import annotations

import math
from typing import Any

from masquerade import _json
from masquerade.recipes import bench
from masquerade.recipes.avatar.rows import AIM, HIDDEN, NAMES, REFINED, WHY_NOT, AvatarFound, Gap
from masquerade.recipes.released.film import Shown
from masquerade.recipes.verdict import Runs
from masquerade.report import bars
from masquerade.report import plots as plots_of_report

TITLE = "Learning from avatars"
_HEADING = ("learned from", "who is hidden", "tested on the same", "tested on original films")
_OTHERS: tuple[Shown, ...] = ("isolated", "emptied")


def markdown(found: AvatarFound) -> str:
    """The table, and what it shows."""
    parts = [
        "### Top-1 without noise",
        bench.table(_HEADING, _rows(found)),
        "### What it shows",
        bench.listing(sentences(found)),
    ]
    return "\n\n".join(parts) + "\n"


def _rows(found: AvatarFound) -> list[tuple[str, ...]]:
    rows = [
        (NAMES[shown], HIDDEN[shown], _told(row.own_runs), _told(row.real_runs))
        for shown in NAMES
        for row in [found.row(shown)]
    ]
    return [*rows, (REFINED, "people", WHY_NOT, "-")]


def _told(runs: Runs) -> str:
    """With the standard error in brackets."""
    return str(runs) if math.isnan(runs.error) else f"{runs} ({100 * runs.error:.1f})"


def sentences(found: AvatarFound) -> list[str]:
    """What the table shows, each sentence computed."""
    told = [_aim(found, asked_real=real) for real in (False, True)]
    return [
        *told,
        *(_behind(found, shown) for shown in _OTHERS),
        _released(found),
        f"Learned from {found.units} films: {found.about}; {found.plan.network}, part "
        f"{found.plan.part}, {found.plan.epochs:g} epochs. Tested on {found.tested} films of other "
        f"people, in per cent. ± is the standard deviation over n = {found.plan.repeats} runs; in "
        "brackets the standard error, over runs and tested films.",
        "Figures alone are what is drawn for certain (eroded r), on grey: what MaskDP takes as "
        "public. Nothing here has an epsilon.",
    ]


def _aim(found: AvatarFound, *, asked_real: bool) -> str:
    where = "on original films" if asked_real else "on avatars"
    gap = found.gap("avatars", asked_real=asked_real)
    return (
        f"Learned from avatars and tested {where}: {_points(gap)} behind original films. Aim: "
        f"within {100 * AIM:.0f} points: {gap.says}."
    )


def _behind(found: AvatarFound, shown: Shown) -> str:
    gap = found.gap(shown, asked_real=False)
    said = f"{NAMES[shown].capitalize()}, tested on the same"
    return f"{said}: {_points(gap)} behind original films: {gap.word}."


def _points(gap: Gap) -> str:
    error = "" if math.isnan(gap.error) else f" (standard error {100 * gap.error:.1f})"
    return f"{100 * gap.mean:.1f} points{error}"


def _released(found: AvatarFound) -> str:
    held = found.summary
    return (
        f"Of {held.films} released films {held.without} show no figure, and {held.undrawn} of "
        f"{held.frames} frames with people. {100 * held.outside:.2f} % of people's pixels lie "
        f"outside of q; {100 * held.visible:.2f} % are seen as they were, in {held.shown_films} "
        f"films more than one in a hundred; {held.blurred} frames were blurred. "
        f"{100 * held.certain:.1f} % of all pixels are drawn for certain."
    )


def plain(found: AvatarFound) -> dict[str, Any]:
    """As JSON; of a path only that there is one."""
    plan = found.plan
    setting = {
        "network": plan.network,
        "weights": plan.weights and "PATH",
        "part": plan.part,
        "epochs": plan.epochs,
        "batch": plan.batch,
        "learning_rate": plan.learning_rate,
        "seeds": plan.repeats,
        "device": plan.device,
    }
    return {
        "setting": setting,
        "about": found.about,
        "units": found.units,
        "tested": found.tested,
        "rows": [row.plain() for row in found.rows],
        "missing": {REFINED: WHY_NOT},
        "gaps": [_gap(found, shown, real) for shown in NAMES for real in (False, True)],
        "films": _json.encode(found.summary),
        "sentences": sentences(found),
    }


def _gap(found: AvatarFound, shown: Shown, asked_real: bool) -> dict[str, Any]:
    gap = found.gap(shown, asked_real=asked_real)
    error = None if math.isnan(gap.error) else gap.error
    numbers = {"mean": gap.mean, "error": error, "word": gap.word, "aim": gap.says}
    return {"shown": shown, "tested_on_real": asked_real, **numbers}


def plots(found: AvatarFound) -> dict[str, str]:
    """Bars of all rows, tested in both ways."""
    series = [
        bench.bars_of("tested on the same", [row.own for row in found.rows]),
        bench.bars_of("tested on original films", [row.real for row in found.rows]),
    ]
    axes = plots_of_report.Axes(
        title="Learned from films of a kind", x_label="", y_label="per cent right"
    )
    names = [NAMES[row.shown] for row in found.rows]
    return {"avatar_top_1": bars.draw_bars(series, names, axes, limits=(0.0, 100.0))}
