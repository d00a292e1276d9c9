"""Video-DPRP's page: tables and plots, and what they show in sentences computed from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from experiments.claims import (
    ERRORS,
    AnyClaim,
    Claim,
    Runs,
    Word,
    compare_runs,
    group_words,
    write_sentences,
)
from experiments.pages import Page, fill_row, make_bars, make_curves, write_list, write_table
from experiments.video_dprp_rows import (
    ALONE,
    CLAIMED,
    DP_SGD,
    MULTI_CLIP,
    RAW,
    SEGMENTS,
    SOUND,
    SOUND_3,
    Looks,
    ResultRow,
    RowPromise,
    Setting,
    VideoDprpFound,
)
from masquerade import _json
from masquerade._formatting import format_rounded_up
from masquerade.report import plots
from masquerade.scores import MeasuredRate

# --- what the tables show

_UNTOUCHED = 0.005  # of the numbers
_HELD: dict[Word, str] = {
    "ahead": "holds",
    "behind": "does not hold",
    "not told apart": "is open",
    "not known from one run": "is open (one run tells nothing)",
}
_VERSUS = {
    "ahead": "ahead of",
    "behind": "behind",
    "not told apart": "not told apart from",
    "not known from one run": "not known from one run from",
}


def _compare(one: Runs, other: Runs) -> str:
    return f"{one} against {other}, {compare_runs(one, other)}"


def _find_runs(found: VideoDprpFound, name: str) -> Runs | None:
    """Of a row of Table 1 that releases nothing."""
    return found.list_measured(1).get((name, 0.0), (None, None))[1]


def write_against_public(found: VideoDprpFound) -> Iterator[str]:
    """What was learned at all: beside what public weights know without anybody private."""
    alone, raw = (_find_runs(found, name) for name in (ALONE, RAW))
    if alone is None:
        return
    if raw is not None:
        gap = 100 * (raw.mean - alone.mean)
        yield (
            f"Learning from raw recordings and {ALONE}: {_compare(raw, alone)}; "
            f"{gap:.1f} points are there to be learned."
        )
    groups = group_words(
        {
            place: compare_runs(runs, alone)
            for place, (row, runs) in found.list_measured(2).items()
            if row.promise.claim is None
        }
    )
    parts = list[str]()
    for word, places in groups.items():
        names = dict.fromkeys(name for name, _ in places)
        ats = {one: " ".join(f"{at:g}" for name, at in places if name == one) for one in names}
        parts.append(f"{word}: " + ", ".join(f"`{name}` at {at}" for name, at in ats.items()))
    if parts:
        yield f"Rows of Table 2 beside {ALONE} ({alone}). {'; '.join(parts)}."


def _list_heuristics(found: VideoDprpFound) -> list[tuple[str, Runs]]:
    """The rows of Table 1 that hide something and have no epsilon."""
    return [
        (row.spec.name, runs)
        for row, runs in found.list_measured(1).values()
        if row.spec.mechanism is not None and row.promise.nominal is None
    ]


def write_against_raw(found: VideoDprpFound) -> Iterator[str]:
    """What the heuristics of Table 1 cost: beside learning from raw recordings."""
    raw, rows = _find_runs(found, RAW), _list_heuristics(found)
    if raw is None or not rows:
        return
    groups = group_words({f"`{name}` {runs}": compare_runs(runs, raw) for name, runs in rows})
    words = "; ".join(f"{word}: {', '.join(names)}" for word, names in groups.items())
    yield f"What hides by rules of thumb, beside raw recordings ({raw}). {words}."


def write_pair(one: str, other: str, found: VideoDprpFound) -> Iterator[str]:
    """That one row of Table 2 is ahead of another, as the paper has it."""
    held = found.list_measured(2)
    pairs = {
        epsilon: (held[one, epsilon], held[other, epsilon])
        for epsilon in found.settings.epsilons
        if (one, epsilon) in held and (other, epsilon) in held
    }
    if not pairs:
        return
    words = {at: compare_runs(a, b) for at, ((_, a), (_, b)) in pairs.items()}
    listed = "; ".join(
        f"epsilon {at:g}: {_compare(a, b)}" for at, ((_, a), (_, b)) in pairs.items()
    )
    units = {str(row.promise.unit) for both in pairs.values() for row, _ in both}
    unlike = " Their units differ, so this is not like for like." if len(units) > 1 else ""
    yield f"That `{one}` is ahead of `{other}` {format_held(words)}. {listed}.{unlike}"


def format_held(words: Mapping[float, Word]) -> str:
    """At which epsilons a claim holds, is open, or does not hold.

    Example:
        >>> format_held({2.0: "ahead", 5.0: "not told apart", 8.0: "not told apart"})
        'holds here at epsilon 2, and is open at epsilon 5 and 8'
        >>> format_held({2.0: "behind", 5.0: "behind"})
        'does not hold here at any epsilon'
    """
    groups = group_words(words)
    if len(groups) == 1:
        [word] = groups
        return f"{_HELD[word]} here at {'any' if word == 'behind' else 'every'} epsilon"
    parts = list[str]()
    for word, places in groups.items():
        *first, last = map("{:g}".format, places)
        where = f"{', '.join(first)} and {last}" if first else last
        parts.append(f"{_HELD[word]}{'' if parts else ' here'} at epsilon {where}")
    return ", and ".join(parts)


def write_published(found: VideoDprpFound) -> Iterator[str]:
    """The paper's own form: beside every heuristic, and along epsilon."""
    epsilons = found.settings.epsilons
    own = {
        row.promise.nominal: row.raw
        for row in found.rows
        if row.spec.table == 1 and row.promise.claim is not None and row.raw is not None
    }
    most, least = own.get(max(epsilons)), own.get(min(epsilons))
    if most is None:
        return
    rows = _list_heuristics(found)
    groups = group_words({f"`{name}`": compare_runs(most, runs) for name, runs in rows})
    words = "; ".join(f"{_VERSUS[word]} {', '.join(names)}" for word, names in groups.items())
    yield (
        f"Video-DPRP as published, claiming {max(epsilons):g}, on raw tests ({most}) is {words}."
    )
    if least is not None and len(own) > 1:
        yield (
            f"As published, from epsilon {min(epsilons):g} to {max(epsilons):g}: "
            f"{_describe_change(least, most)}."
        )


def find_best(rows: Iterable[ResultRow], unit: str, most: float) -> ResultRow | None:
    """The row of the highest Top-1 on raw tests, of those proved for a unit up to an epsilon."""
    fitting = [
        (row.raw.mean, row)
        for row in rows
        for epsilon in [getattr(row.promise, unit)]
        if row.raw is not None and epsilon is not None and epsilon <= most
    ]
    return max(fitting, key=lambda pair: pair[0])[1] if fitting else None


def write_best(found: VideoDprpFound) -> Iterator[str]:
    """The best at one unit and one relation, of runs and of releases, in Tables 1 and 2."""
    own = [row for row in found.rows if row.spec.table in (1, 2)]
    if all(row.promise.epsilon is None for row in own):
        return
    kinds = {
        "training": [row for row in own if row.spec.mechanism is None],
        "a release": [row for row in own if row.spec.mechanism is not None],
    }
    for unit, what in (("frame", "one frame"), ("video", "a whole recording")):
        listed = []
        for most in found.settings.epsilons:
            tops = {kind: find_best(some, unit, most) for kind, some in kinds.items()}
            texts = [
                f"{kind}: {'none in the tables' if top is None else describe_row(top, found)}"
                for kind, top in tops.items()
            ]
            listed.append(f"epsilon up to {most:g}: {'; '.join(texts)}")
        yield (
            f"Best on raw tests at equal true unit, {what} under replace_one. {'. '.join(listed)}."
        )


def describe_row(row: ResultRow, found: VideoDprpFound) -> str:
    """Its name and Top-1, and whether that is chance."""
    chance = Runs((1 / found.settings.classes,) * 2, tested=10**9)
    is_chance = row.raw is not None and compare_runs(row.raw, chance) != "ahead"
    said = " (not told apart from chance)" if is_chance else ""
    return f"`{row.spec.name}` {row.raw}{said}"


def _describe_change(old: Runs, new: Runs) -> str:
    word = compare_runs(new, old)
    return f"{old} to {new} ({ {'ahead': 'higher', 'behind': 'lower'}.get(word, word) })"


def write_untouched(found: VideoDprpFound) -> Iterator[str]:
    """Which releases of Table 1 find next to nothing to hide."""
    for row in found.rows:
        if row.changed is not None and row.changed < _UNTOUCHED and row.spec.table == 1:
            yield (
                f"{row.spec.name} changed {100 * row.changed:.2f} % of these recordings' numbers: "
                "it finds next to nothing to hide here, and its row is that of raw recordings."
            )


def write_trends(found: VideoDprpFound) -> Iterator[str]:
    """Whether more of k or b helped, by form, as the paper says it does."""
    for table in (3, 4):
        rows = [row for row in found.rows if row.spec.table == table]
        for line in dict.fromkeys(row.spec.line for row in rows):
            own = [(r.spec.at, r.raw) for r in rows if r.spec.line == line and r.raw is not None]
            if len(own) > 1:
                (first, low), *_, (last, high) = sorted(own, key=lambda point: point[0])
                yield (
                    f"video_dprp, {line}, from {CORNERS[table][0]} = {first:g} to {last:g}: "
                    f"{_describe_change(low, high)}."
                )


def write_cut(found: VideoDprpFound) -> Iterator[str]:
    """Whether V does anything with the published noise: cut, beside all of it."""
    held = {(r.spec.line, r.spec.at): runs for r, runs in found.list_measured(4).values()}
    listed = [
        f"b = {at:g}: {_compare(cut, held['as published', at])}"
        for (line, at), cut in held.items()
        if line == "as published, V cut" and ("as published", at) in held
    ]
    if listed:
        yield f"The top directions of V alone, beside all of them ({CLAIMED}): {'; '.join(listed)}."


def write_looks(found: VideoDprpFound) -> Iterator[str]:
    """Which releases hide what people look like, by the stronger attacker's verdict."""
    known = _list_releases(found.rows)
    if not known:
        return
    first = next(iter(known.values())).attacks[0]
    if not first.is_telling:
        yield f"What people look like: {first.verdict[0].lower()}{first.verdict[1:]}"
        return
    kinds: dict[str, list[str]] = {}
    varied = [looks.kind for name, looks in known.items() if name.startswith(_VARIED)]
    for name, looks in known.items():
        if not name.startswith(_VARIED):
            kinds.setdefault(looks.kind, []).append(f"`{name}`")
    for kind in dict.fromkeys(varied):
        said = f"{varied.count(kind)} of the {len(varied)} further releases of k and b"
        kinds.setdefault(kind, []).append(said)
    listed = ". ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items())
    yield f"What people look like, by the stronger of two attackers. {listed}."


def write_times(found: VideoDprpFound) -> Iterator[str]:
    """How long a release takes beside the sound form's."""
    seconds = {row.name: row.seconds for row in found.timed}
    ours = seconds.pop(SOUND, None)
    if ours is not None:
        listed = [f"{name} {value / ours:.1f} times as long" for name, value in seconds.items()]
        yield f"A release by video_dprp (sound form) takes {ours:.2f} s; {', '.join(listed)}."


CLAIMS: tuple[AnyClaim, ...] = (
    Claim(
        text="Chance is {chance:.1f}. A row is ahead of another if it is by more than {errors:g} "
        "standard errors, of runs (n = {s.seeds}) and of tested recordings together; else they "
        "are not told apart.",
        values={
            "chance": lambda found: 100 / found.settings.classes,
            "errors": lambda found: ERRORS,
        },
    ),
    write_against_public,
    write_against_raw,
    partial(write_pair, MULTI_CLIP, DP_SGD),
    Claim(
        text=f"A recording of {{s.shape[0]}} frames is all that the network sees: the {SEGMENTS} "
        "segments are one and the same, and MultiClip is DP-SGD.",
        when=lambda f: f.settings.shape[0] <= f.settings.seen and bool(f.list_measured(2)),
    ),
    partial(write_pair, SOUND_3, MULTI_CLIP),
    write_published,
    write_best,
    write_untouched,
    write_trends,
    write_cut,
    write_looks,
    write_times,
)

# --- the tables

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
CORNERS = {2: ("row", "protects one"), 3: ("k",), 4: ("b",)}  # of their headings
_WORDS = {
    1: "Every recording is released as a whole, anew in each run; the model learns from the "
    "releases without further noise (post-processing). Raw tests are all test recordings, released "
    "ones a part of them in each run, {part} of them. Released recordings can be watched by "
    "anyone; of a row of Table 2 that trains with noise only the model is public.",
    2: "Top-1 on raw tests. Epsilon is met under replace_one in every row, so that releases and "
    "runs can be compared, at delta {s.delta:g}, for what the second column names. Segments are "
    "cut from one release of a whole recording and cost nothing more.",
    3: "Top-1 on raw tests. k keeps the paper's share of a frame's numbers (k/d, d = 320 x 240 x "
    "3), since it may not exceed them: a frame has {numbers} here. Epsilon is {most:g} for one "
    "frame, delta {s.delta:g}, as asked for or as claimed.",
    4: "Top-1 on raw tests, epsilon as in Table 3. The sound default (orthonormal) has no b: V "
    "cancels, so all of the budget goes to the projection. As published, V is computed and "
    "cancels, so b only scales the noise on the projection; cut, V keeps its top directions, with "
    "the published noise; truncated is the same with noise that is enough.",
    5: "Wall clock for one video of {f.timed_shape[0]} frames, {f.timed_shape[1]} x "
    "{f.timed_shape[2]}, {where}, one after the other in the same run as the other tables. The "
    "paper's are for UCF101 on its own GPU. Its own form takes minutes on a processor, and is "
    "timed there in the setting *paper* alone.",
}


def write_page(found: VideoDprpFound) -> Page:
    """For machines and for people; plots of a preset of Stage that is not the usual one say so."""
    kind, drawn = found.preset, draw_plots(found)
    return Page(
        title=f"Video-DPRP: releases, and training with noise{kind and f', preset {kind}'}",
        text=write_text(found),
        data={
            "setting": asdict(found.settings),
            "rows": [row_to_json(row) for row in found.rows],
            "seconds": [asdict(row) for row in found.timed],
            "faces": None if found.faces is None else asdict(found.faces),
            "findings": list(write_sentences(found, CLAIMS)),
        },
        plots={
            name.replace("dprp_", f"dprp_{kind}_") if kind else name: one
            for name, one in drawn.items()
        },
    )


def row_to_json(row: ResultRow) -> dict[str, Any]:
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
        "looks": None if row.looks is None else _json.encode_noun(row.looks.attacks),
        **promise,
        "missing": row.missing,
    }


def write_text(found: VideoDprpFound) -> str:
    """The setting, the tables, and what they show."""
    parts, left_open = [_describe_setting(found.settings)], found.settings.left_open
    if left_open:
        parts += ["What the paper leaves open:", write_list(left_open)]
    for table, title in TITLES.items():
        own = [row for row in found.rows if row.spec.table == table]
        if own or (table == 5 and found.timed):
            parts += [f"### {title}", _write_words(table, found), _write_table(table, own, found)]
            parts += [write_list(notes)] if (notes := list(_write_notes(table, own, found))) else []
    parts += write_looks_section(found.rows)
    parts += ["### What they show", write_list(write_sentences(found, CLAIMS))]
    return "\n\n".join(parts) + "\n"


def _describe_setting(s: Setting) -> str:
    length, height, width, _ = s.shape
    runs = "run" if s.seeds == 1 else "runs"
    return (
        f"Setting *{s.name}*: {s.train} training and {s.test} test recordings of "
        f"{s.classes} activities, such as {length} frames of {height} x {width}; "
        f"{s.network} sees {s.seen} frames, its {s.part} is trained "
        f"({s.course}). n = {s.seeds} {runs} of each row, on the same recordings, with "
        "a release and models of its own; mean and standard deviation, in per cent. Labels, and "
        "which recording is whose, are public in this experiment. Each epsilon is that of one "
        "release or one run alone: all rows together cost more."
    )


def _write_words(table: int, found: VideoDprpFound) -> str:
    released = [row.released.tested for row in found.rows if row.released is not None]
    return _WORDS[table].format(
        f=found,
        s=found.settings,
        part=min(released, default=0),
        numbers=math.prod(found.settings.shape[1:]),
        most=max(found.settings.epsilons),
        where="on one NVIDIA GPU" if found.is_gpu else "on the processor",
    )


def _write_table(table: int, rows: Sequence[ResultRow], found: VideoDprpFound) -> str:
    if table == 1:
        return write_table(HEADING, map(fill_cells, rows))
    if table == 5:
        timed = ((row.name, f"{row.seconds:.2f}", format_number(row.paper)) for row in found.timed)
        return write_table(("release", "seconds", "in the paper"), timed)
    # Top-1 on raw tests, each in the line and the column that it is named by
    held: dict[tuple[tuple[str, ...], str], Runs | None]
    held = {((f"{row.spec.at:g}",), row.spec.line): row.raw for row in rows}
    if table == 2:
        units = [(row.spec.name, _name_unit(row)) for row in rows]
        held = {(u, f"epsilon {r.spec.at:g}"): r.raw for u, r in zip(units, rows, strict=True)}
    lines, columns = (list(dict.fromkeys(keys)) for keys in zip(*held, strict=True))
    return write_table(
        (*CORNERS[table], *columns),
        ((*line, *fill_row([held.get((line, one)) for one in columns], str)) for line in lines),
    )


def _name_unit(row: ResultRow) -> str:
    if row.promise.claim is not None:
        return "frame, CLAIMED, NOT VALID"
    return {"video": "recording"}.get(str(row.promise.unit), str(row.promise.unit))


def fill_cells(row: ResultRow) -> tuple[str, ...]:
    """A row of Table 1, as in `HEADING`."""
    promise, changed = row.promise, "-" if row.changed is None else f"{100 * row.changed:.1f} %"
    frame, video = format_number(promise.frame), format_number(promise.video)
    if promise.claim is not None:
        frame, video = f"{format_rounded_up(promise.nominal or 0.0)}, CLAIMED, NOT VALID", "none"
    return (row.spec.name, *fill_row([row.raw, row.released], str), changed, frame, video)


def format_number(value: float | None) -> str:
    """To one decimal, or with three digits.

    Example:
        >>> format_number(63.7084), format_number(814.079), format_number(8.0), format_number(None)
        ('63.7', '814.1', '8.0', 'none')
    """
    if value is None:
        return "none"
    return (
        "without bound" if math.isinf(value) else f"{value:.1f}" if value < 1e4 else f"{value:.3g}"
    )


def _write_notes(table: int, rows: Sequence[ResultRow], found: VideoDprpFound) -> Iterator[str]:
    """What holds for a group of rows, said once."""
    promises = [row.promise for row in rows]
    if table == 1:
        if deltas := _list_once(one.delta for one in promises if one.epsilon is not None):
            yield (
                f"Epsilons hold under replace_one at delta {', '.join(map('{:g}'.format, deltas))}."
                " One that is asked for one frame is no number for a whole recording: the last "
                "column is what the same noise gives there."
            )
        yield (
            "Where there is none, nothing is proved, for no unit: a heuristic, or no privacy at "
            "all."
        )
        if found.faces is not None and found.faces.visible:
            yield (
                f"face_blur finds {100 * found.faces.found / found.faces.visible:.1f} % of the "
                "faces that are in sight here (nose and both eyes visible): "
                f"{found.faces.found} of {found.faces.visible}."
            )
    if table == 2:
        pairs = _list_once(
            f"{one.epsilon:.1f} is {one.zero_out:.1f}"
            for one in promises
            if one.zero_out is not None and one.epsilon is not None
        )
        yield (
            "Of training only the model is published, and any frame of a recording is protected "
            f"with it. Papers on DP-SGD mean zero_out: {', '.join(pairs)} there."
        )
        yield (
            "A row that protects one frame and one that protects a whole recording are not like "
            "for like, whatever their epsilons."
        )
    if really := _list_once(one.really for one in promises if one.claim):
        listed = ", ".join(format_rounded_up(value, 3) for value in really)
        yield (
            "As published: what is proved for the paper's noise on projection and covariance is an "
            f"epsilon of at most {listed} for one frame."
        )
    yield from (f"{row.spec.name}: {row.missing}" for row in rows if row.missing is not None)


def _list_once(values: Iterable[Any]) -> list[Any]:
    return [value for value in dict.fromkeys(values) if value is not None]


def draw_plots(found: VideoDprpFound) -> dict[str, str]:
    """One a table: Top-1 along epsilon, k and b, bars for the others; then those of looks."""
    drawn = {}
    if own := list(found.list_measured(1).values()):
        series = [
            make_bars("raw test", [runs.shares for _, runs in own]),
            make_bars("released test", [(row.released or runs).shares for row, runs in own]),
        ]
        axes = plots.PlotAxes(title=TITLES[1], x_label="", y_label="Top-1, %")
        drawn["video_dprp_1"] = plots.draw_bars(series, [row.spec.line for row, _ in own], axes)
    for table, label in ((2, "epsilon (unit in the name; replace_one)"), (3, "k"), (4, "b")):
        points = [
            (row.spec.line, row.spec.at, 100 * runs.mean)
            for row, runs in found.list_measured(table).values()
            if row.spec.line
        ]
        if lines := [line for line in make_curves(points) if len(line.x) > 1]:
            axes = plots.PlotAxes(title=TITLES[table], x_label=label, y_label="Top-1, raw test, %")
            drawn[f"video_dprp_{table}"] = plots.draw_lines(lines, axes)
    if found.timed:
        times = np.array([row.seconds for row in found.timed])
        seconds = plots.BarSeries(
            name="seconds", values=times, spreads=np.full(len(times), math.nan)
        )
        axes = plots.PlotAxes(title=TITLES[5], x_label="", y_label="seconds a video")
        names = [
            row.name.partition(",")[0] if "sound" not in row.name else "video_dprp, sound"
            for row in found.timed
        ]
        drawn["video_dprp_5"] = plots.draw_bars([seconds], names, axes)
    return drawn | draw_looks(found.rows)


# --- what attackers tell of the people in releases

LOOKS_TITLE = "What attackers tell of the people in releases"
_LOOKS_HEADING = (
    *("release", "cMAP, learned from raw", "cMAP, adaptive"),
    *("F1, learned from raw", "F1, adaptive", "the stronger one"),
)
_VARIED = ("k = ", "b = ")  # how rows of Tables 3 and 4 begin: too many to name
_LOOKS_WORDS = (
    "How well a network tells what people look like ({labels}), as {measures} in per cent with "
    "95 % intervals over n = {count} people; a large figure is bad. One attacker has learned from "
    "raw recordings of other people, the other from other people's recordings that were released "
    "in the same way. Both are told where the person is. One release of each recording. The "
    "paper's figures are for PA-HMDB51 and VISPR, and for the first attacker alone. Where only a "
    "model is published nobody can look at anybody; that is not in this table."
)


def write_looks_section(rows: Iterable[ResultRow]) -> list[str]:
    """Heading, words and table; nothing where nothing was measured."""
    known = _list_releases(rows)
    if not known:
        return []
    attacks = next(iter(known.values())).attacks
    first, adaptive = attacks[0], attacks[-1]
    words = _LOOKS_WORDS.format(
        labels=_list_labels(first.notes[0]) if first.notes else "labels",
        measures=" and ".join(one.measure for one in first.published),
        count=first.published[0].count,
    )
    # raw recordings are the same for both attackers: what is not released needs no adapting
    ends = [_fill_figures(*both) for both in ([first.ceiling] * 2, (first.floor, adaptive.floor))]
    lines = [("raw recordings", *ends[0], "where an attack must succeed")]
    for name, looks in known.items():
        figures = _fill_figures(looks.attacks[0].published, looks.attacks[-1].published)
        lines.append((name, *figures, looks.kind.lower()))
    lines.append(("random data", *ends[1], "where an attack must fail"))
    return [f"### {LOOKS_TITLE}", words, write_table(_LOOKS_HEADING, lines)]


def _list_labels(note: str) -> str:
    """How many there are, and what they are about.

    Example:
        >>> _list_labels("3 labels: build: slim, build: heavy, skin_tone: dark.")
        '3 labels: build, skin tone'
    """
    count, _, named = note.rstrip(".").partition(": ")
    about = dict.fromkeys(label.partition(":")[0].replace("_", " ") for label in named.split(", "))
    return f"{count}: {', '.join(about)}"


def _list_releases(rows: Iterable[ResultRow]) -> dict[str, Looks]:
    """A release stands once, under the name of its first row."""
    found: dict[str, tuple[str, Looks]] = {}
    for row in rows:
        if row.looks is not None:
            found.setdefault(repr(row.spec.build_mechanism()), (name_release(row), row.looks))
    return dict(found.values())


def name_release(row: ResultRow) -> str:
    """A release as the table of looks calls it."""
    name, fields = row.spec.name, row.spec.fields or {}
    if row.spec.table == 2:
        name = f"{name.split(',')[0]}, epsilon {row.spec.at:g}"
        name += f", one {fields['unit']}" if fields.get("unit") else ""
        name += ", CLAIMED" if fields.get("form") == CLAIMED else ""
    return name


def _fill_figures(one: Sequence[MeasuredRate], other: Sequence[MeasuredRate]) -> list[str]:
    """Both attackers' beside each other, measure by measure."""
    return [_format_figure(each) for pair in zip(one, other, strict=True) for each in pair]


def _format_figure(figure: MeasuredRate) -> str:
    """In per cent.

    Example:
        >>> one = MeasuredRate(measure="m", value=0.5, low=0.4, high=0.62, count=9, of="people")
        >>> _format_figure(one)
        '50.0 (40.0 to 62.0)'
    """
    return f"{100 * figure.value:.1f} ({100 * figure.low:.1f} to {100 * figure.high:.1f})"


def draw_looks(rows: Sequence[ResultRow]) -> dict[str, str]:
    """A table's releases: what they are good for against what they give away, where measured.

    Models have no dot: nobody can be looked at in them.
    """
    drawn = {}
    for table in dict.fromkeys(row.spec.table for row in rows):
        dots = [
            plots.FrontierDot(
                name=_name_dot(row),
                given_away=100 * figure.value,
                low=100 * figure.low,
                high=100 * figure.high,
                kept=100 * row.raw.mean,
                spread=0.0 if len(row.raw.shares) < 2 else 100 * row.raw.spread,
                is_proved=row.promise.epsilon is not None,
            )
            for row in rows
            if row.spec.table == table and row.raw is not None and row.looks is not None
            for figure in row.looks.strongest.published[:1]
        ]
        if dots:
            axes = plots.PlotAxes(
                title=f"Table {table}: what is kept against what is told of people",
                x_label="cMAP of the stronger attacker, % (less is better)",
                y_label="Top-1, raw test, %",
            )
            name = "video_dprp_looks" if table == 1 else f"video_dprp_looks_{table}"
            drawn[name] = plots.draw_frontier(dots, axes)
    return drawn


def _name_dot(row: ResultRow) -> str:
    """A row's name in a plot of its own table, and its epsilon."""
    name = row.spec.line if row.spec.table == 1 else row.spec.name.partition(", one ")[0]
    if row.spec.table in (3, 4):
        name = f"{CORNERS[row.spec.table][0]} = {row.spec.at:g}, {row.spec.line}"
    return name + _name_epsilon(row.promise)


def _name_epsilon(promise: RowPromise) -> str:
    """What is proved, which of a claim is another number than the claimed one.

    Example:
        >>> _name_epsilon(RowPromise(epsilon=8.0, unit="frame")), _name_epsilon(RowPromise())
        (', eps 8, frame', '')
        >>> _name_epsilon(RowPromise(nominal=8.0, really=9.12e13, claim="8: CLAIMED, NOT VALID"))
        ', eps 9.12e+13, claims 8'
    """
    if promise.really is not None and promise.nominal is not None:
        return f", eps {format_rounded_up(promise.really, 3)}, claims {promise.nominal:g}"
    return (
        ""
        if promise.epsilon is None
        else f", eps {format_rounded_up(promise.epsilon, 3)}, {promise.unit}"
    )
