"""Video-DPRP's tables as Markdown and JSON, and their plots."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from masquerade import _json
from masquerade._formatting import shown
from masquerade.recipes import bench
from masquerade.recipes.verdict import Runs
from masquerade.recipes.video_dprp import looks_page
from masquerade.recipes.video_dprp.findings import findings
from masquerade.recipes.video_dprp.results import Measured, ResultRow, Setting
from masquerade.report import bars
from masquerade.report import plots as plots_of_report

HEADING = (
    *("row", "Top-1, raw test", "Top-1, released test", "numbers changed"),
    *("epsilon, one frame", "epsilon, whole recording"),
)
TITLES = {
    1: "Table 1: release, then learn",
    2: "Table 2: training with noise, and releases",
    3: "Table 3: the number of columns k",
    4: "Table 4: the budget's share b",
    5: "Table 5: seconds a video",
}
_WORDS = {
    1: "Every recording is released as a whole, anew in each run; the model learns from the "
    "releases without further noise (post-processing). Raw tests are all test recordings, released "
    "ones a part of them in each run, {part} of them. Released recordings can be watched by "
    "anyone; of a row of Table 2 that trains with noise only the model is public.",
    2: "Top-1 on raw tests. Epsilon is met under replace_one in every row, so that releases and "
    "runs can be compared, at delta {delta:g}, for what the second column names. Segments are cut "
    "from one release of a whole recording and cost nothing more.",
    3: "Top-1 on raw tests. k keeps the paper's share of a frame's numbers (k/d, d = 320 x 240 x "
    "3), since it may not exceed them: a frame has {numbers} here. Epsilon is {most:g} for one "
    "frame, delta {delta:g}, as asked for or as claimed.",
    4: "Top-1 on raw tests, epsilon as in Table 3. The sound default (orthonormal) has no b: V "
    "cancels, so all of the budget goes to the projection. As published, V is computed and "
    "cancels, so b only scales the noise on the projection; cut, V keeps its top directions, with "
    "the published noise; truncated is the same with noise that is enough.",
    5: "Wall clock for one video of {frames} frames, {height} x {width}, {where}, one after the "
    "other in the same run as the other tables. The paper's are for UCF101 on its own GPU. Its own "
    "form takes minutes on a processor, and is timed there in the setting *paper* alone.",
}


def plain(found: Measured, setting: Setting) -> dict[str, Any]:
    """As JSON."""
    return {
        "setting": asdict(setting),
        "rows": [_plain(row) for row in found.rows],
        "seconds": [asdict(row) for row in found.timed],
        "faces": None if found.faces is None else asdict(found.faces),
        "findings": findings(found, setting),
    }


def _plain(row: ResultRow) -> dict[str, Any]:
    """Numbers that are not finite are left out."""
    promise = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in asdict(row.promise).items()
    }
    named = ("table", "name", "mechanism", "fields", "segments", "tested", "line", "at")
    tests = {"raw": row.raw, "released": row.released}
    return {
        **{name: getattr(row.spec, name) for name in named},
        **{f"top_1_{name}": list(runs.shares) if runs else [] for name, runs in tests.items()},
        **{f"tested_{name}": runs.tested if runs else None for name, runs in tests.items()},
        "changed": row.changed,
        "looks": None if row.looks is None else _json.encode(row.looks.attacks),
        **promise,
        "missing": row.missing,
    }


def markdown(found: Measured, setting: Setting) -> str:
    """The setting, the tables, and what they show."""
    parts = [_about(setting)]
    if setting.left_open:
        parts += ["What the paper leaves open:", bench.listing(setting.left_open)]
    for table, title in TITLES.items():
        own = [row for row in found.rows if row.spec.table == table]
        if own or (table == 5 and found.timed):
            parts += [f"### {title}", _words(table, found, setting), _table(table, own, found)]
            parts += [bench.listing(notes)] if (notes := _notes(table, own, found)) else []
    parts += looks_page.section(found.rows)
    parts += ["### What they show", bench.listing(findings(found, setting))]
    return "\n\n".join(parts) + "\n"


def _about(setting: Setting) -> str:
    length, height, width, _ = setting.shape
    runs = "run" if setting.seeds == 1 else "runs"
    return (
        f"Setting *{setting.name}*: {setting.train} training and {setting.test} test recordings of "
        f"{setting.classes} activities, such as {length} frames of {height} x {width}; "
        f"{setting.network} sees {setting.seen} frames, its {setting.part} is trained "
        f"({setting.course}). n = {setting.seeds} {runs} of each row, on the same recordings, with "
        "a release and models of its own; mean and standard deviation, in per cent. Labels, and "
        "which recording is whose, are public in this experiment. Each epsilon is that of one "
        "release or one run alone: all rows together cost more."
    )


def _words(table: int, found: Measured, setting: Setting) -> str:
    frames, height, width = (*found.timed_shape, 0, 0, 0)[:3]
    released = [row.released.tested for row in found.rows if row.released is not None]
    return _WORDS[table].format(
        part=min(released, default=0),
        delta=setting.delta,
        numbers=math.prod(setting.shape[1:]),
        most=max(setting.epsilons),
        frames=frames,
        height=height,
        width=width,
        where="on one NVIDIA GPU" if found.is_gpu else "on the processor",
    )


def _table(table: int, rows: Sequence[ResultRow], found: Measured) -> str:
    if table == 1:
        return bench.table(HEADING, map(cells, rows))
    if table == 5:
        lines = ((row.name, f"{row.seconds:.2f}", _number(row.paper)) for row in found.timed)
        return bench.table(("release", "seconds", "in the paper"), lines)
    if table == 2:
        return _crossed(
            rows, ("row", "protects one"), lambda row: (row.spec.name, _unit(row)), "epsilon {:g}"
        )
    return _crossed(
        rows,
        ({3: "k", 4: "b"}[table],),
        lambda row: (f"{row.spec.at:g}",),
        "{}",
        across=lambda row: row.spec.line,
    )


def _crossed(
    rows: Sequence[ResultRow],
    corner: tuple[str, ...],
    down: Callable[[ResultRow], tuple[str, ...]],
    heading: str,
    *,
    across: Callable[[ResultRow], Any] = lambda row: row.spec.at,
) -> str:
    """Top-1 on raw tests, a line for what ``down`` says and a column for what ``across`` does."""
    held = {(down(row), across(row)): row for row in rows}
    lines, columns = (list(dict.fromkeys(keys)) for keys in zip(*held, strict=True))
    return bench.table(
        (*corner, *(heading.format(column) for column in columns)),
        ((*line, *(_top_1(held.get((line, column))) for column in columns)) for line in lines),
    )


def _top_1(row: ResultRow | None) -> str:
    return "-" if row is None or row.raw is None else str(row.raw)


def _unit(row: ResultRow) -> str:
    if row.promise.claim is not None:
        return "frame, CLAIMED, NOT VALID"
    return {"video": "recording"}.get(str(row.promise.unit), str(row.promise.unit))


def cells(row: ResultRow) -> tuple[str, ...]:
    """A row of Table 1, as in `HEADING`."""
    promise, changed = row.promise, "-" if row.changed is None else f"{100 * row.changed:.1f} %"
    frame, video = _number(promise.frame), _number(promise.video)
    if promise.claim is not None:
        frame, video = f"{shown(promise.nominal or 0.0)}, CLAIMED, NOT VALID", "none"
    released = "-" if row.released is None else str(row.released)
    return (row.spec.name, _top_1(row), released, changed, frame, video)


def _number(value: float | None) -> str:
    """To one decimal, or with three digits.

    Example:
        >>> _number(63.7084), _number(814.079), _number(8.0), _number(None)
        ('63.7', '814.1', '8.0', 'none')
    """
    if value is None:
        return "none"
    return (
        "without bound" if math.isinf(value) else f"{value:.1f}" if value < 1e4 else f"{value:.3g}"
    )


def _notes(table: int, rows: Sequence[ResultRow], found: Measured) -> list[str]:
    """What holds for a group of rows, said once."""
    said = []
    if table == 1:
        said += _of_releases(rows)
        if found.faces is not None and found.faces.visible:
            share = 100 * found.faces.found / found.faces.visible
            said.append(
                f"face_blur finds {share:.1f} % of the faces that are in sight here (nose and both "
                f"eyes visible): {found.faces.found} of {found.faces.visible}."
            )
    if table == 2:
        said += _of_training(rows)
    if really := _once(row.promise.really for row in rows if row.promise.claim):
        listed = ", ".join(shown(value, 3) for value in really)
        said.append(
            "As published: what is proved for the paper's noise on projection and covariance is an "
            f"epsilon of at most {listed} for one frame."
        )
    missing = [row for row in rows if row.missing is not None]
    return said + [f"{row.spec.name}: {row.missing}" for row in missing]


def _of_releases(rows: Sequence[ResultRow]) -> list[str]:
    deltas = _once(row.promise.delta for row in rows if row.promise.epsilon is not None)
    listed = ", ".join(f"{delta:g}" for delta in deltas)
    proved = [
        f"Epsilons hold under replace_one at delta {listed}. One that is asked for one frame is no "
        "number for a whole recording: the last column is what the same noise gives there."
    ]
    return (proved if deltas else []) + [
        "Where there is none, nothing is proved, for no unit: a heuristic, or no privacy at all."
    ]


def _of_training(rows: Sequence[ResultRow]) -> list[str]:
    pairs = _once(
        f"{row.promise.epsilon:.1f} is {row.promise.zero_out:.1f}"
        for row in rows
        if row.promise.zero_out is not None and row.promise.epsilon is not None
    )
    return [
        "Of training only the model is published, and any frame of a recording is protected with "
        f"it. Papers on DP-SGD mean zero_out: {', '.join(pairs)} there.",
        "A row that protects one frame and one that protects a whole recording are not like for "
        "like, whatever their epsilons.",
    ]


def _once(values: Iterable[Any]) -> list[Any]:
    return [value for value in dict.fromkeys(values) if value is not None]


def plots(found: Measured) -> dict[str, str]:
    """One a table: Top-1 along epsilon, k and b, bars for the others."""
    drawn = {}
    for table, label in ((2, "epsilon (unit in the name; replace_one)"), (3, "k"), (4, "b")):
        points = [
            (row.spec.line, row.spec.at, 100 * row.raw.mean)
            for row in found.rows
            if row.spec.table == table and row.spec.line and row.raw is not None
        ]
        if lines := [line for line in bench.curves(points) if len(line.x) > 1]:
            axes = plots_of_report.Axes(
                title=TITLES[table], x_label=label, y_label="Top-1, raw test, %"
            )
            drawn[f"video_dprp_{table}"] = plots_of_report.draw_lines(lines, axes)
    return _bars(found.rows) | drawn | _seconds(found) | looks_page.plots(found.rows)


def _bars(rows: Sequence[ResultRow]) -> dict[str, str]:
    """Table 1: both protocols beside each other."""
    own = [(row.spec.line, row.raw, row.released or row.raw) for row in rows if row.spec.table == 1]
    own = [(line, raw, released) for line, raw, released in own if raw is not None]
    if not own:
        return {}
    lines, raw, released = zip(*own, strict=True)
    series = [_bar("raw test", raw), _bar("released test", released)]
    axes = plots_of_report.Axes(title=TITLES[1], x_label="", y_label="Top-1, %")
    return {"video_dprp_1": bars.draw_bars(series, list(lines), axes)}


def _bar(name: str, runs: Sequence[Runs]) -> bars.Bars:
    return bench.bars_of(name, [some.shares for some in runs])


def _seconds(found: Measured) -> dict[str, str]:
    if not found.timed:
        return {}
    times = np.array([row.seconds for row in found.timed])
    series = [bars.Bars(name="seconds", values=times, spreads=np.full(len(times), math.nan))]
    axes = plots_of_report.Axes(title=TITLES[5], x_label="", y_label="seconds a video")
    names = [
        row.name.partition(",")[0] if "sound" not in row.name else "video_dprp, sound"
        for row in found.timed
    ]
    return {"video_dprp_5": bars.draw_bars(series, names, axes)}
