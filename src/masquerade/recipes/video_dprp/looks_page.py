"""What attackers tell of the people in Video-DPRP's releases, as a table and in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from masquerade.recipes import bench
from masquerade.recipes.video_dprp.results import LooksTold, ResultRow
from masquerade.recipes.video_dprp.rows import CLAIMED
from masquerade.scores import Success

TITLE = "What attackers tell of the people in releases"
_HEADING = (
    *("release", "cMAP, learned from raw", "cMAP, adaptive"),
    *("F1, learned from raw", "F1, adaptive", "the stronger one"),
)
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
        labels=first.notes[0].rstrip(".") if first.notes else "labels",
        measures=" and ".join(one.measure for one in first.published),
        count=first.published[0].count,
    )
    lines = [("raw recordings", *_both(first.ceiling), "where an attack must succeed")]
    lines += [(name, *_cells(told), _verdict(told)) for name, told in known.items()]
    adaptive = next(iter(known.values())).attacks[-1]
    floors = [_shown(one) for pair in zip(first.floor, adaptive.floor, strict=True) for one in pair]
    lines.append(("random data", *floors, "where an attack must fail"))
    return [f"### {TITLE}", words, bench.table(_HEADING, lines)]


def looks_findings(rows: Sequence[ResultRow]) -> list[str]:
    """Which releases hide what people look like, by the stronger attacker's verdict."""
    known = _by_release(rows)
    if not known:
        return []
    first = next(iter(known.values())).attacks[0]
    if not first.is_telling:
        return [f"What people look like: {_lower(first.verdict)}"]
    kinds: dict[str, list[str]] = {}
    for name, told in known.items():
        kinds.setdefault(told.strongest.verdict.partition(":")[0], []).append(f"`{name}`")
    listed = ". ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items())
    return [f"What people look like, by the stronger of two attackers. {listed}."]


def _by_release(rows: Sequence[ResultRow]) -> dict[str, LooksTold]:
    """A release stands once, under the name of its first row."""
    found: dict[str, LooksTold] = {}
    seen = set()
    for row in rows:
        if row.looks is not None and row.looks not in seen:
            seen.add(row.looks)
            found[_named(row)] = row.looks
    return found


def _named(row: ResultRow) -> str:
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
    return told.strongest.verdict.partition(":")[0].lower()


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]
