"""What attackers tell of the people in Video-DPRP's releases, as a table and in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from masquerade._formatting import shown
from masquerade.recipes import bench
from masquerade.recipes.verdict import Runs
from masquerade.recipes.video_dprp.promises import RowPromise
from masquerade.recipes.video_dprp.results import LooksTold, ResultRow
from masquerade.recipes.video_dprp.rows import CLAIMED
from masquerade.report import plots as plots_of_report
from masquerade.scores import Success

TITLE = "What attackers tell of the people in releases"
_HEADING = (
    *("release", "cMAP, learned from raw", "cMAP, adaptive"),
    *("F1, learned from raw", "F1, adaptive", "the stronger one"),
)
_VARIED = ("k = ", "b = ")  # how rows of Tables 3 and 4 begin: too many to name
_WORDS = (
    "How well a network tells what people look like ({labels}), as {measures} in per cent with "
    "95 % intervals over n = {count} people; a large figure is bad. One attacker has learned from "
    "raw recordings of other people, the other from other people's recordings that were released "
    "in the same way. Both are told where the person is. One release of each recording. The "
    "paper's figures are for PA-HMDB51 and VISPR, and for the first attacker alone. Where only a "
    "model is published nobody can look at anybody; that is not in this table."
)


def section(rows: Sequence[ResultRow]) -> list[str]:
    """Heading, words and table; nothing where nothing was measured."""
    known = _by_release(rows)
    if not known:
        return []
    first = next(iter(known.values())).attacks[0]
    words = _WORDS.format(
        labels=_labels(first.notes[0]) if first.notes else "labels",
        measures=" and ".join(one.measure for one in first.published),
        count=first.published[0].count,
    )
    lines = [("raw recordings", *_both(first.ceiling), "where an attack must succeed")]
    lines += [(name, *_cells(told), _verdict(told)) for name, told in known.items()]
    adaptive = next(iter(known.values())).attacks[-1]
    floors = [_shown(one) for pair in zip(first.floor, adaptive.floor, strict=True) for one in pair]
    lines.append(("random data", *floors, "where an attack must fail"))
    return [f"### {TITLE}", words, bench.table(_HEADING, lines)]


def _labels(note: str) -> str:
    """How many there are, and what they are about.

    Example:
        >>> _labels("3 labels: build: slim, build: heavy, skin_tone: dark.")
        '3 labels: build, skin tone'
    """
    count, _, named = note.rstrip(".").partition(": ")
    about = dict.fromkeys(label.partition(":")[0].replace("_", " ") for label in named.split(", "))
    return f"{count}: {', '.join(about)}"


def looks_findings(rows: Sequence[ResultRow]) -> list[str]:
    """Which releases hide what people look like, by the stronger attacker's verdict."""
    known = _by_release(rows)
    if not known:
        return []
    first = next(iter(known.values())).attacks[0]
    if not first.is_telling:
        return [f"What people look like: {_lower(first.verdict)}"]
    kinds: dict[str, list[str]] = {}
    varied = [name for name in known if name.startswith(_VARIED)]
    for name, told in known.items():
        if name not in varied:
            kinds.setdefault(_kind(told), []).append(f"`{name}`")
    for kind in dict.fromkeys(_kind(known[name]) for name in varied):
        own = sum(_kind(known[name]) == kind for name in varied)
        kinds.setdefault(kind, []).append(f"{own} of the {len(varied)} further releases of k and b")
    listed = ". ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items())
    return [f"What people look like, by the stronger of two attackers. {listed}."]


def plots(rows: Sequence[ResultRow]) -> dict[str, str]:
    """A table's releases: what they are good for against what they give away, where measured.

    Models have no dot: nobody can be looked at in them.
    """
    drawn = {}
    for table in dict.fromkeys(row.spec.table for row in rows):
        dots = [_dot(row, row.raw, row.looks) for row in rows if row.spec.table == table]
        if known := [dot for dot in dots if dot is not None]:
            axes = plots_of_report.Axes(
                title=f"Table {table}: what is kept against what is told of people",
                x_label="cMAP of the stronger attacker, % (less is better)",
                y_label="Top-1, raw test, %",
            )
            name = "video_dprp_looks" if table == 1 else f"video_dprp_looks_{table}"
            drawn[name] = plots_of_report.draw_frontier(known, axes)
    return drawn


def _dot(row: ResultRow, use: Runs | None, looks: LooksTold | None) -> plots_of_report.Dot | None:
    if use is None or looks is None:
        return None
    told = looks.strongest.published[0]
    return plots_of_report.Dot(
        name=_short(row) + _true_epsilon(row.promise),
        given_away=100 * told.value,
        low=100 * told.low,
        high=100 * told.high,
        kept=100 * use.mean,
        spread=0.0 if len(use.shares) < 2 else 100 * use.spread,
        is_proved=row.promise.epsilon is not None,
    )


def _short(row: ResultRow) -> str:
    """A row's name in a plot of its own table."""
    spec = row.spec
    if spec.table in (3, 4):
        return f"{'k' if spec.table == 3 else 'b'} = {spec.at:g}, {spec.line}"
    return spec.line if spec.table == 1 else spec.name.partition(", one ")[0]


def _true_epsilon(promise: RowPromise) -> str:
    """What is proved, which of a claim is another number than the claimed one.

    Example:
        >>> _true_epsilon(RowPromise(epsilon=8.0, unit="frame")), _true_epsilon(RowPromise())
        (', eps 8, frame', '')
        >>> _true_epsilon(RowPromise(nominal=8.0, really=9.12e13, claim="8: CLAIMED, NOT VALID"))
        ', eps 9.12e+13, claims 8'
    """
    if promise.really is not None and promise.nominal is not None:
        return f", eps {shown(promise.really, 3)}, claims {promise.nominal:g}"
    return "" if promise.epsilon is None else f", eps {shown(promise.epsilon, 3)}, {promise.unit}"


def _by_release(rows: Sequence[ResultRow]) -> dict[str, LooksTold]:
    """A release stands once, under the name of its first row."""
    found: dict[str, LooksTold] = {}
    seen = set()
    for row in rows:
        if row.looks is not None and (release := repr(row.spec.made())) not in seen:
            seen.add(release)
            found[named(row)] = row.looks
    return found


def named(row: ResultRow) -> str:
    """A release as the table of looks calls it."""
    name = row.spec.name
    if row.spec.table == 2:
        name = f"{name.split(',')[0]}, epsilon {row.spec.at:g}"
        unit = (row.spec.fields or {}).get("unit")
        name += f", one {unit}" if unit else ""
        name += ", CLAIMED" if (row.spec.fields or {}).get("form") == CLAIMED else ""
    return name


def _cells(told: LooksTold) -> list[str]:
    first, adaptive = told.attacks[0], told.attacks[-1]
    pairs = zip(first.published, adaptive.published, strict=True)
    return [_shown(one) for pair in pairs for one in pair]


def _both(ceiling: Sequence[Success]) -> list[str]:
    """The same for both attackers: what is not released needs no adapting."""
    return [_shown(one) for one in ceiling for _ in range(2)]


def _shown(figure: Success) -> str:
    """In per cent.

    Example:
        >>> _shown(Success(measure="m", value=0.5, low=0.4, high=0.62, count=9, of="people"))
        '50.0 (40.0 to 62.0)'
    """
    return f"{100 * figure.value:.1f} ({100 * figure.low:.1f} to {100 * figure.high:.1f})"


def _verdict(told: LooksTold) -> str:
    return _kind(told).lower()


def _kind(told: LooksTold) -> str:
    return told.strongest.verdict.partition(":")[0]


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]
