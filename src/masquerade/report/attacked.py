"""What attackers find before and after, on the page: a question, an answer, bars with intervals."""

from __future__ import annotations

from collections.abc import Sequence

from masquerade.report import intervals, page
from masquerade.report.page import PagePart, Section
from masquerade.scores import Attacked, Success

_ASKED = {
    "attribute_inference": "Can it be told what people look like?",
    "reidentify": "Can people be recognised?",
    "place_retrieval": "Can the place be recognised?",
    "membership": "Can it be told who was learned from?",
    "reconstruct": "Can the picture be brought back?",
    "seed_subtraction": "Can the noise be taken away?",
}
_MEASURED = {
    "rank-1": "recognised at the first guess (rank-1)",
    "Top-1": "recognised at the first guess (Top-1)",
    "cMAP": "how well looks are told apart (cMAP)",
    "explained": "share of the picture's variation that was brought back",
    "error undone": "share of the noise that was taken away",
    "AUC": "how well those learned from are told from others (AUC; 50 % is guessing)",
}
_SAID = (
    "We attacked recordings that were released in this way. The same attacker was also given the "
    "originals (before), where it should succeed, and random data, where it must fail. A dot is "
    "what was measured, its bar the 95 % interval, the dashed line guessing. A better attacker may "
    "come."
)


def section(name: str, found: Sequence[Attacked]) -> Section:
    """One attack; the headline of each attacker is drawn, every figure stands in a folded table.

    Args:
        name: of the attack.
        found: its attackers.
    """
    rows = [
        (each.attacker, own.measure, *map(_span, (top, own, low)))
        for each in found
        for own, top, low in zip(each.published, each.ceiling, each.floor, strict=True)
    ]
    heading = ("attacker", "measure", "before", "after", "random data")
    table = page.table(heading, rows, says="What attackers found")
    notes = [f"{each.attacker}: {each.verdict}" for each in found]
    notes += dict.fromkeys(note for each in found for note in each.notes)
    body = page.paragraphs([_SAID]) + "".join(map(_drawn, found))
    body += page.folded("All figures, and how to read them", table + page.listing(notes))
    asked = _ASKED.get(name, f"What the attack {name} finds")
    return Section(title=asked, body=body, has_originals=True, part=PagePart.ATTACKS)


def _drawn(found: Attacked) -> str:
    first = found.published[0]
    spans = [
        intervals.DrawnSpan(name=name, value=one.value, low=one.low, high=one.high)
        for name, one in (
            ("before", found.ceiling[0]),
            ("after", first),
            ("random data", found.floor[0]),
        )
    ]
    measure = _MEASURED.get(first.measure, first.measure)
    whose = f"Measured: {measure}, over {first.count} {first.of}."
    says = f"{whose} Before {_span(found.ceiling[0])}, after {_span(first)}, random data "
    says += f"{_span(found.floor[0])}."
    drawn = intervals.svg(spans, says=says, chance=first.chance)
    who = found.attacker
    who = f"An attacker who {who}" if who.startswith("holds ") else f"Attacker: {who}"
    return (
        page.heading(_plainly(found)) + page.paragraphs([f"{who}."]) + page.captioned(drawn, whose)
    )


def _plainly(found: Attacked) -> str:
    """The verdict, by the same rule, in other words."""
    if not found.is_telling:
        return "No answer: this attack fails on the originals too."
    if found.published[0].low <= found.floor[0].high:
        return "No better than with random data."
    if found.published[0].high < found.ceiling[0].low:
        return "Worse than with the originals, but not stopped."
    return "Not stopped: as good as with the originals."


def _span(figure: Success) -> str:
    return f"{figure.value:.3f} ({figure.low:.3f} to {figure.high:.3f})"
