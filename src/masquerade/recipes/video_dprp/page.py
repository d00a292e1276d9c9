"""Video-DPRP's tables as Markdown, what they show in computed sentences, and their plots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from masquerade._round import shown
from masquerade.recipes import bench
from masquerade.recipes.video_dprp.promises import RowPromise
from masquerade.recipes.video_dprp.rows import EPSILONS, SEGMENTS, ResultRow, Score, Setting
from masquerade.report import bars, plot

HEADING = (
    *("row", "Top-1, raw test", "Top-1, released test", "numbers changed", "nominal epsilon"),
    *("true epsilon", "like for like", "cMAP (attack)", "F1 (attack)"),
)
TITLES = {
    1: "Table 1: release, then learn",
    2: "Table 2: training with noise, and releases",
    3: "Table 3: the number of columns k",
    4: "Table 4: the budget's share b",
}
_UNTOUCHED = 0.005  # of the numbers
_ERRORS = 3  # standard errors
_WORDS = {
    1: "Every recording is released once, as a whole; the model learns from the releases without "
    "further noise (post-processing) and is tested on the test recordings as they are and on "
    "released ones. Released recordings can be watched by anyone; of a row of Table 2 that trains "
    "with noise only the model is public.",
    2: "Epsilon is met under replace_one in every row, so that releases and runs can be compared; "
    "papers on DP-SGD mean zero_out, which is printed beside it. Segments are cut from one release "
    "of a whole recording and cost nothing more.",
    3: "k keeps the paper's share of a frame's numbers ({share}), since it may not exceed them: a "
    "frame has {numbers} here. Epsilon is 8 for one frame, delta 1e-4.",
    4: "The sound form (orthonormal) has no b: V cancels, so all of the budget goes to the "
    "projection. b exists in the published form, where it only scales the noise on the projection, "
    "and in the truncated form, sound and an ablation, where the rest buys the directions that "
    "are kept.",
}


def plain(rows: Sequence[ResultRow], setting: Setting) -> dict[str, Any]:
    """As JSON."""
    return {
        "setting": asdict(setting),
        "rows": [_plain(row) for row in rows],
        "findings": findings(rows, setting),
    }


def _plain(row: ResultRow) -> dict[str, Any]:
    """Numbers that are not finite are left out; places for what attacks will measure are kept."""
    promise = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in asdict(row.promise).items()
    }
    named = ("table", "name", "mechanism", "fields", "segments", "tested")
    return {
        **{name: getattr(row.spec, name) for name in named},
        "top_1_raw": list(row.raw.top_1),
        "top_1_released": list(row.released.top_1),
        "by_class_raw": list(row.raw.by_class),
        "by_class_released": list(row.released.by_class),
        "changed": row.changed,
        **promise,
        "missing": row.missing,
        "cmap": None,
        "f1": None,
    }


def markdown(rows: Sequence[ResultRow], setting: Setting) -> str:
    """The setting, the four tables, and what they show."""
    parts = [_about(setting)]
    for table, title in TITLES.items():
        own = [row for row in rows if row.spec.table == table]
        numbers = math.prod(setting.shape[1:])
        words = _WORDS[table].format(numbers=numbers, share="k/d, d = 320 x 240 x 3")
        parts += [f"### {title}", words, bench.table(HEADING, map(cells, own))]
    parts += ["### What they show", bench.listing(findings(rows, setting))]
    return "\n\n".join(parts) + "\n"


def _about(setting: Setting) -> str:
    length, height, width, _ = setting.shape
    runs = "run" if setting.seeds == 1 else "runs; mean and spread"
    return (
        f"{setting.train} training and {setting.test} test recordings of {setting.classes} "
        f"activities, such as {length} frames of {height} x {width}; the network sees "
        f"{setting.seen} frames, its {setting.part} is trained ({setting.course}); "
        f"{setting.seeds} {runs} on one release. Labels, and which recording is whose, are public "
        "in this experiment. Each epsilon is that of one release or one run alone: all rows "
        "together cost more. What attacks find (cMAP, F1) is not measured yet."
    )


def cells(row: ResultRow) -> tuple[str, ...]:
    """The row's cells, as in `HEADING`."""
    if row.missing is not None:
        return (row.spec.name, "-", "-", "-", "none", "none", row.missing, "-", "-")
    changed = "-" if row.changed is None else f"{100 * row.changed:.1f} %"
    return (
        *(row.spec.name, row.raw.shown, row.released.shown, changed),
        *(_nominal(row.promise), _true(row.promise), row.promise.said, "-", "-"),
    )


def _nominal(promise: RowPromise) -> str:
    if promise.nominal is None:
        return "none"
    said = shown(promise.nominal)
    return said if promise.claim is None else f"{said}, {promise.claim.partition(':')[0]}"


def _true(promise: RowPromise) -> str:
    if promise.epsilon is None:
        return "none"
    proved = f"{promise.relation} {shown(promise.epsilon)}"
    if promise.zero_out is not None:
        proved += f", zero_out {shown(promise.zero_out)}"
    return f"{proved} (one {promise.unit}, delta {promise.delta:g})"


def findings(rows: Sequence[ResultRow], setting: Setting) -> list[str]:
    """What the numbers say, each sentence computed from them."""
    chance = 1 / setting.classes
    scatter = 100 * math.sqrt(chance * (1 - chance) / setting.classes)
    said = [
        f"Chance is {100 * chance:.1f}. A model that learned nothing still gives most recordings "
        f"of a class one label, so its Top-1 scatters about chance by {scatter:.1f} or so. Two "
        f"numbers are told apart where they differ by more than {_ERRORS} standard errors, over "
        "recordings or over classes, whichever is larger: many pairs are compared."
    ]
    said += _compared("MultiClip, 3 segments", "DP-SGD", rows, setting)
    if setting.shape[0] <= setting.seen:
        said.append(
            f"A recording of {setting.shape[0]} frames is all that the network sees: the "
            f"{SEGMENTS} segments are one and the same, and MultiClip is DP-SGD."
        )
    said += _compared("video_dprp, sound form, 3 segments", "MultiClip, 3 segments", rows, setting)
    said += [_best(rows, unit, setting) for unit in ("frame", "video")]
    for row in rows:
        if row.changed is not None and row.changed < _UNTOUCHED and row.spec.table == 1:
            said.append(
                f"{row.spec.name} changed {100 * row.changed:.2f} % of these recordings: it finds "
                "next to nothing to hide here, and its row is that of raw recordings."
            )
    for table, letter in ((3, "k"), (4, "b")):
        said += _trend([row for row in rows if row.spec.table == table], letter, setting)
    return said


def _compared(one: str, other: str, rows: Sequence[ResultRow], setting: Setting) -> list[str]:
    """That one row of Table 2 is ahead of another, as the paper has it: held, refuted, or open."""
    held = {
        (row.spec.name, row.spec.at): row for row in rows if row.spec.table == 2 and row.raw.top_1
    }
    pairs = [
        (epsilon, held[one, epsilon], held[other, epsilon])
        for epsilon in EPSILONS
        if (one, epsilon) in held and (other, epsilon) in held
    ]
    if not pairs:
        return []
    words = [told_apart(a.raw, b.raw, setting.test) for _, a, b in pairs]
    verdict = "open here: they are not told apart at every epsilon"
    if all(word == "higher" for word in words):
        verdict = "confirmed here at every epsilon"
    elif "lower" in words:
        verdict = "refuted here"
    listed = []
    for (epsilon, a, b), word in zip(pairs, words, strict=True):
        text = f"epsilon {epsilon:g}: {a.raw.shown} against {b.raw.shown}, {word}"
        more = held.get((f"{other}, tested on {SEGMENTS} segments", epsilon))
        if more is not None:
            text += f" ({more.raw.shown} where the test averages {SEGMENTS} segments as well)"
        listed.append(text)
    units = {str(row.promise.unit) for _, *both in pairs for row in both}
    unlike = " Their units differ, so this is not like for like." if len(units) > 1 else ""
    return [f"That `{one}` is ahead of `{other}` is {verdict}. {'; '.join(listed)}.{unlike}"]


def told_apart(first: Score, second: Score, test: int) -> str:
    """Whether a Top-1 is higher or lower than another by more than three standard errors.

    Of recordings, as if each were right by itself; and of classes, which are not: a model that
    takes one class for another is wrong on all of it.

    Example:
        >>> high, low = (Score(top_1=(p,), by_class=(p, p)) for p in (0.9, 0.5))
        >>> told_apart(high, low, 100), told_apart(high, low, 4)
        ('higher', 'not told apart')
    """
    one, two = first.mean, second.mean
    both = (one + two) / 2
    apart = np.subtract(first.by_class, second.by_class)
    error = max(
        math.sqrt(2 * both * (1 - both) / test),
        bench.spread(apart) / math.sqrt(len(apart)),
    )
    if abs(one - two) <= _ERRORS * error:
        return "not told apart"
    return "higher" if one > two else "lower"


def best(rows: Sequence[ResultRow], unit: str, most: float) -> ResultRow | None:
    """The row of the highest Top-1 on raw tests, of those proved for a unit up to an epsilon."""
    proved = [(getattr(row.promise, unit), row) for row in rows if row.raw.top_1]
    fitting = [row for epsilon, row in proved if epsilon is not None and epsilon <= most]
    return max(fitting, key=lambda row: row.raw.mean, default=None)


def _best(rows: Sequence[ResultRow], unit: str, setting: Setting) -> str:
    """The best at one unit and one relation, of runs and of releases, in Tables 1 and 2."""
    own = [row for row in rows if row.spec.table in (1, 2)]
    kinds = {
        "training": [row for row in own if row.spec.mechanism is None],
        "a release": [row for row in own if row.spec.mechanism is not None],
    }
    listed = []
    for most in EPSILONS:
        tops = {kind: best(some, unit, most) for kind, some in kinds.items()}
        texts = [
            f"{kind}, {'none in the tables' if top is None else _described(top, setting)}"
            for kind, top in tops.items()
        ]
        listed.append(f"epsilon up to {most:g}: {'; '.join(texts)}")
    what = {"frame": "one frame", "video": "a whole recording"}[unit]
    return f"Best at equal true unit, {what} under replace_one. {'. '.join(listed)}."


def _described(row: ResultRow, setting: Setting) -> str:
    share = 1 / setting.classes
    chance = Score(top_1=(share,), by_class=(share,) * len(row.raw.by_class))
    text = f"{row.spec.name}: {row.raw.shown} on raw tests"
    text += f", {row.released.shown} on released ones" if row.released.top_1 else ""
    scores = [some for some in (row.raw, row.released) if some.top_1]
    is_chance = all(told_apart(some, chance, setting.test) != "higher" for some in scores)
    return text + (" (not told apart from chance)" if is_chance else "")


def _trend(rows: Sequence[ResultRow], letter: str, setting: Setting) -> list[str]:
    """Whether more of k or b helped, by form, as the paper says it does."""
    said = []
    for line in dict.fromkeys(row.spec.line for row in rows):
        own = sorted(
            (r for r in rows if r.spec.line == line and r.raw.top_1), key=lambda r: r.spec.at
        )
        if len(own) < 2:
            continue
        low, high = own[0], own[-1]
        ways = [
            f"{old.shown} to {new.shown} on {what} tests ({told_apart(new, old, setting.test)})"
            for old, new, what in (
                (low.raw, high.raw, "raw"),
                (low.released, high.released, "released"),
            )
        ]
        said.append(
            f"video_dprp, {line}, from {letter} = {low.spec.at:g} to {high.spec.at:g}: "
            f"{', '.join(ways)}."
        )
    return said


def plots(rows: Sequence[ResultRow]) -> dict[str, str]:
    """Top-1 on raw tests along epsilon, k and b; only what has several points is drawn."""
    found = {}
    for table, label in ((2, "epsilon (unit in the name; replace_one)"), (3, "k"), (4, "b")):
        own = [row for row in rows if row.spec.table == table and row.spec.line and row.raw.top_1]
        drawn = bench.curves((row.spec.line, row.spec.at, 100 * row.raw.mean) for row in own)
        if lines := [line for line in drawn if len(line.x) > 1]:
            axes = plot.Axes(title=TITLES[table], x_label=label, y_label="Top-1, raw test, %")
            found[f"video_dprp_{table}"] = plot.svg(lines, axes)
    return found | _released(rows)


def _released(rows: Sequence[ResultRow]) -> dict[str, str]:
    """Table 1 as bars: both protocols beside each other."""
    own = [row for row in rows if row.spec.table == 1 and row.raw.top_1]
    series = [
        bench.bars_of("raw test", [row.raw.top_1 for row in own]),
        bench.bars_of("released test", [row.released.top_1 or row.raw.top_1 for row in own]),
    ]
    axes = plot.Axes(title=TITLES[1], x_label="", y_label="Top-1, %")
    return {"video_dprp_1": bars.svg(series, [row.spec.line for row in own], axes)}
