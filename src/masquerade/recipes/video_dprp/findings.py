"""What Video-DPRP's tables show, in sentences that are computed from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from masquerade.recipes.verdict import ERRORS, Runs, Word, compared
from masquerade.recipes.video_dprp.looks_page import looks_findings
from masquerade.recipes.video_dprp.results import Measured, ResultRow, Setting
from masquerade.recipes.video_dprp.rows import (
    ALONE,
    CLAIMED,
    DP_SGD,
    MULTI_CLIP,
    RAW,
    SEGMENTS,
    SOUND_3,
)

_UNTOUCHED = 0.005  # of the numbers
_HELD: dict[Word, str] = {
    "ahead": "holds",
    "behind": "does not hold",
    "not told apart": "is open",
    "not known from one run": "is open (one run tells nothing)",
}


def findings(found: Measured, setting: Setting) -> list[str]:
    """What the numbers say."""
    rows = found.rows
    said = [
        f"Chance is {100 / setting.classes:.1f}. A row is ahead of another if it is by more than "
        f"{ERRORS:g} standard errors, of runs (n = {setting.seeds}) and of tested recordings "
        "together; else they are not told apart."
    ]
    said += _against_public(rows) + _against_raw(rows)
    said += _pair(MULTI_CLIP, DP_SGD, rows, setting)
    if setting.shape[0] <= setting.seen and _of(rows, 2):
        said.append(
            f"A recording of {setting.shape[0]} frames is all that the network sees: the "
            f"{SEGMENTS} segments are one and the same, and MultiClip is DP-SGD."
        )
    said += _pair(SOUND_3, MULTI_CLIP, rows, setting)
    said += _published(rows, setting)
    if any(row.spec.table in (1, 2) and row.promise.epsilon is not None for row in rows):
        said += [_best(rows, unit, setting) for unit in ("frame", "video")]
    said += [
        f"{row.spec.name} changed {100 * row.changed:.2f} % of these recordings' numbers: it finds "
        "next to nothing to hide here, and its row is that of raw recordings."
        for row in rows
        if row.changed is not None and row.changed < _UNTOUCHED and row.spec.table == 1
    ]
    for table, letter in ((3, "k"), (4, "b")):
        said += _trend([row for row in rows if row.spec.table == table], letter)
    return said + _cut(rows) + looks_findings(rows) + _times(found)


def _of(rows: Sequence[ResultRow], table: int) -> dict[tuple[str, float], ResultRow]:
    return {
        (row.spec.name, row.spec.at): row
        for row in rows
        if row.spec.table == table and row.raw is not None
    }


def _told(one: Runs, other: Runs) -> str:
    return f"{one} against {other}, {compared(one, other)}"


def _against_public(rows: Sequence[ResultRow]) -> list[str]:
    """What was learned at all: beside what public weights know without anybody private."""
    first, second = _of(rows, 1), _of(rows, 2)
    alone, raw = first.get((ALONE, 0.0)), first.get((RAW, 0.0))
    if alone is None or alone.raw is None:
        return []
    said = []
    if raw is not None and raw.raw is not None:
        gap = 100 * (raw.raw.mean - alone.raw.mean)
        said.append(
            f"Learning from raw recordings and {ALONE}: {_told(raw.raw, alone.raw)}; "
            f"{gap:.1f} points are there to be learned."
        )
    listed: dict[str, dict[str, list[str]]] = {}
    for (name, at), row in second.items():
        if row.raw is not None and row.promise.claim is None:
            own = listed.setdefault(compared(row.raw, alone.raw), {})
            own.setdefault(f"`{name}`", []).append(f"{at:g}")
    if listed:
        words = "; ".join(
            f"{word}: " + ", ".join(f"{name} at {' '.join(ats)}" for name, ats in names.items())
            for word, names in listed.items()
        )
        said.append(f"Rows of Table 2 beside {ALONE} ({alone.raw}). {words}.")
    return said


def _against_raw(rows: Sequence[ResultRow]) -> list[str]:
    """What the heuristics of Table 1 cost: beside learning from raw recordings."""
    raw = _of(rows, 1).get((RAW, 0.0))
    if raw is None or raw.raw is None:
        return []
    listed: dict[str, list[str]] = {}
    for (name, _), row in _of(rows, 1).items():
        if row.spec.mechanism is not None and row.promise.nominal is None and row.raw is not None:
            listed.setdefault(compared(row.raw, raw.raw), []).append(f"`{name}` {row.raw}")
    if not listed:
        return []
    words = "; ".join(f"{word}: {', '.join(names)}" for word, names in listed.items())
    return [f"What hides by rules of thumb, beside raw recordings ({raw.raw}). {words}."]


def _pair(one: str, other: str, rows: Sequence[ResultRow], setting: Setting) -> list[str]:
    """That one row of Table 2 is ahead of another, as the paper has it."""
    held = _of(rows, 2)
    pairs = [
        (epsilon, held[one, epsilon], held[other, epsilon])
        for epsilon in setting.epsilons
        if (one, epsilon) in held and (other, epsilon) in held
    ]
    words: dict[float, Word] = {}
    listed = []
    for epsilon, a, b in pairs:
        if a.raw is not None and b.raw is not None:
            words[epsilon] = compared(a.raw, b.raw)
            listed.append(f"epsilon {epsilon:g}: {_told(a.raw, b.raw)}")
    if not words:
        return []
    units = {str(row.promise.unit) for _, *both in pairs for row in both}
    unlike = " Their units differ, so this is not like for like." if len(units) > 1 else ""
    return [f"That `{one}` is ahead of `{other}` {_held(words)}. {'; '.join(listed)}.{unlike}"]


def _held(words: Mapping[float, Word]) -> str:
    """At which epsilons a claim holds, is open, or does not hold.

    Example:
        >>> _held({2.0: "ahead", 5.0: "not told apart", 8.0: "not told apart"})
        'holds here at epsilon 2, and is open at epsilon 5 and 8'
        >>> _held({2.0: "behind", 5.0: "behind"})
        'does not hold here at any epsilon'
    """
    groups: dict[Word, list[str]] = {}
    for epsilon, word in words.items():
        groups.setdefault(word, []).append(f"{epsilon:g}")
    if len(groups) == 1:
        [word] = groups
        return f"{_HELD[word]} here at {'any' if word == 'behind' else 'every'} epsilon"
    parts = [f"{_HELD[word]}{{}} at epsilon {_listed(ats)}" for word, ats in groups.items()]
    return ", and ".join(part.format("" if at else " here") for at, part in enumerate(parts))


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _published(rows: Sequence[ResultRow], setting: Setting) -> list[str]:
    """The paper's own form: beside every heuristic, and along epsilon."""
    own = {
        row.promise.nominal: row.raw
        for row in rows
        if row.spec.table == 1 and row.promise.claim is not None and row.raw is not None
    }
    most = own.get(max(setting.epsilons))
    if most is None:
        return []
    listed: dict[str, list[str]] = {}
    for row in rows:
        is_other = row.spec.mechanism is not None and row.promise.nominal is None
        if row.spec.table == 1 and is_other and row.raw is not None:
            listed.setdefault(compared(most, row.raw), []).append(f"`{row.spec.name}`")
    said = [
        f"Video-DPRP as published, claiming {max(setting.epsilons):g}, on raw tests ({most}) is "
        + "; ".join(f"{_versus(word)} {', '.join(names)}" for word, names in listed.items())
        + "."
    ]
    least = own.get(min(setting.epsilons))
    if least is not None and len(own) > 1:
        said.append(
            f"As published, from epsilon {min(setting.epsilons):g} to {max(setting.epsilons):g}: "
            f"{least} to {most} ({_change(least, most)})."
        )
    return said


def _versus(word: str) -> str:
    return {"ahead": "ahead of", "behind": "behind"}.get(word, f"{word} from")


def best(rows: Sequence[ResultRow], unit: str, most: float) -> ResultRow | None:
    """The row of the highest Top-1 on raw tests, of those proved for a unit up to an epsilon."""
    fitting = [
        (row.raw.mean, row)
        for row in rows
        for epsilon in [getattr(row.promise, unit)]
        if row.raw is not None and epsilon is not None and epsilon <= most
    ]
    return max(fitting, key=lambda pair: pair[0])[1] if fitting else None


def _best(rows: Sequence[ResultRow], unit: str, setting: Setting) -> str:
    """The best at one unit and one relation, of runs and of releases, in Tables 1 and 2."""
    own = [row for row in rows if row.spec.table in (1, 2)]
    kinds = {
        "training": [row for row in own if row.spec.mechanism is None],
        "a release": [row for row in own if row.spec.mechanism is not None],
    }
    listed = []
    for most in setting.epsilons:
        tops = {kind: best(some, unit, most) for kind, some in kinds.items()}
        texts = [
            f"{kind}: {'none in the tables' if top is None else _described(top, setting)}"
            for kind, top in tops.items()
        ]
        listed.append(f"epsilon up to {most:g}: {'; '.join(texts)}")
    what = {"frame": "one frame", "video": "a whole recording"}[unit]
    return f"Best on raw tests at equal true unit, {what} under replace_one. {'. '.join(listed)}."


def _described(row: ResultRow, setting: Setting) -> str:
    chance = Runs((1 / setting.classes,) * 2, tested=10**9)
    text = f"`{row.spec.name}` {row.raw}"
    is_chance = row.raw is not None and compared(row.raw, chance) != "ahead"
    return text + (" (not told apart from chance)" if is_chance else "")


def _change(old: Runs, new: Runs) -> str:
    word = compared(new, old)
    return {"ahead": "higher", "behind": "lower"}.get(word, word)


def _trend(rows: Sequence[ResultRow], letter: str) -> list[str]:
    """Whether more of k or b helped, by form, as the paper says it does."""
    said = []
    for line in dict.fromkeys(row.spec.line for row in rows):
        own = sorted((r for r in rows if r.spec.line == line), key=lambda r: r.spec.at)
        ends = [row for row in own if row.raw is not None]
        if len(ends) > 1 and ends[0].raw is not None and ends[-1].raw is not None:
            low, high = ends[0].raw, ends[-1].raw
            said.append(
                f"video_dprp, {line}, from {letter} = {ends[0].spec.at:g} to "
                f"{ends[-1].spec.at:g}: {low} to {high} ({_change(low, high)})."
            )
    return said


def _cut(rows: Sequence[ResultRow]) -> list[str]:
    """Whether V does anything with the published noise: cut, beside all of it."""
    held = {(row.spec.line, row.spec.at): row.raw for row in rows if row.spec.table == 4}
    listed = [
        f"b = {at:g}: {_told(cut, whole)}"
        for (line, at), cut in held.items()
        for whole in [held.get(("as published", at))]
        if line == "as published, V cut" and cut is not None and whole is not None
    ]
    if not listed:
        return []
    return [f"The top directions of V alone, beside all of them ({CLAIMED}): {'; '.join(listed)}."]


def _times(found: Measured) -> list[str]:
    seconds = {row.name: row.seconds for row in found.timed}
    ours = seconds.get("video_dprp, sound form")
    if ours is None:
        return []
    listed = [
        f"{name} {value / ours:.1f} times as long"
        for name, value in seconds.items()
        if name != "video_dprp, sound form"
    ]
    return [f"A release by video_dprp (sound form) takes {ours:.2f} s; {', '.join(listed)}."]
