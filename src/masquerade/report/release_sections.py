"""A release on the page: pictures, what is protected and what is not, and its receipt.

What a guarantee means for somebody who has never heard of epsilon: two short answers.

`masquerade.wording` has the exact sentences, which stand behind a fold. These here say the same
with fewer words, and never more than it.

Claim and evidence beside each other: what is promised, and what the best attack could show.

What attackers find before and after, on the page: a question, an answer, bars with intervals.
"""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from masquerade._formatting import format_count
from masquerade._formatting import format_rounded_down as down
from masquerade._formatting import format_rounded_up as up
from masquerade.guarantee import WHOLE_FILE, Guarantee, GuaranteeKind, Relation, Unit, UnitName
from masquerade.report import page, plots
from masquerade.report.page import PagePart, Section
from masquerade.scores import AttackResult, MeasuredRate
from masquerade.wording import PERSON_AREA_SHARE, count_people, explain

if TYPE_CHECKING:
    from masquerade.receipt import Receipt


_SMALL_PX = 64  # pixels: somebody who is seen from afar
_VACUOUS_EPSILON = 100.0
_ALIKE_WORDS = ((0.05, "almost the same"), (0.5, "similar, though not the same"))
_OF_A_PERSON = (
    "a person",
    "anything:",
    "someone seen in many frames",
    "what reaches beyond one",
)  # said here in other words
_COPIES_NOTE = (
    "Further copies: each time the same recordings are used again, protection gets weaker."
)


@dataclass(frozen=True, kw_only=True)
class PlainAnswers:
    """Two answers.

    Args:
        is_proved: whether any promise is worth the name.
        protected: what nobody can learn for sure, and how sure they can be.
        exposed: what is not protected, the most important first.
    """

    is_proved: bool
    protected: list[str]
    exposed: list[str]


def answer_plainly(
    guarantee: Guarantee, *, is_film: bool, is_rehearsal: bool = False
) -> PlainAnswers:
    """The answers of one release.

    Args:
        guarantee: what is promised.
        is_film: whether it is of a film or a picture; a frame of numbers is a row.
        is_rehearsal: whether the noise can be computed by anybody who knows the seed.
    """
    others = [_make_sentence(each) for each in guarantee.not_protected if _is_new(each)]
    if guarantee.epsilon is None or guarantee.epsilon > _VACUOUS_EPSILON:
        said = _answer_no_promise(guarantee, is_rehearsal=is_rehearsal)
        return PlainAnswers(
            is_proved=False, protected=said, exposed=["Anything it shows.", *others]
        )
    person = _explain_unit(guarantee.unit, is_film=is_film)
    return PlainAnswers(
        is_proved=True,
        protected=[_describe_protected(guarantee, is_film=is_film), _describe_certainty(guarantee)],
        exposed=[*person, *others, _COPIES_NOTE],
    )


def _answer_no_promise(guarantee: Guarantee, *, is_rehearsal: bool) -> list[str]:
    if is_rehearsal:
        return [
            "Nothing: this is a rehearsal. Its noise can be computed and taken away by anybody who "
            "knows the seed. It is not meant to be published."
        ]
    hides = guarantee.released.partition("tries to hide ")[2]
    if guarantee.kind is GuaranteeKind.HEURISTIC and hides:
        return [
            f"Nothing for certain. It was made to hide {hides}; that may work, and it may fail or "
            "be undone. No proof stands behind it."
        ]
    if guarantee.epsilon is not None:
        return ["Nothing worth the name: the promise is so weak that anything may show."]
    return ["Nothing for certain. No proof stands behind what was published."]


def _describe_protected(guarantee: Guarantee, *, is_film: bool) -> str:
    """The unit in words; what is taken as public stands outside of it."""
    unit, relaxed = guarantee.unit, guarantee.kind is GuaranteeKind.FORMAL_RELAXED
    said = _describe_unit(unit, is_film=is_film)
    if relaxed:
        return f"{said}, except for the part of it that is treated as public (see the details)."
    return f"{said}."


def _describe_unit(unit: Unit, *, is_film: bool) -> str:
    sites = unit.sites or 1
    side = max(1, math.isqrt(sites))
    match unit.name:
        case UnitName.VALUE:
            return "Any single number of the file"
        case UnitName.PIXELS:
            return (
                f"Any {sites:,} dots (pixels) of it, such as a spot of {side} by {side} that is "
                "seen for one frame"
            )
        case UnitName.TUBE:
            return f"Any spot of up to {sites:,} dots (pixels), for as long as it is seen"
        case UnitName.FRAME if is_film:
            return "Any single frame: what was to be seen in one instant"
        case UnitName.FRAME:
            return "Any single row: what was measured in one moment"
        case name if name in WHOLE_FILE and unit.is_of_a_file:
            return "Everything in this file, and so everybody who is in it"
        case UnitName.SUBJECT:
            return "Every person: all that one of them contributed"
        case UnitName.SHARD:
            return "The part of the data that one of many teachers (small models) learned from"
        case _:
            return "Any single recording of those that it was learned from"


def _describe_certainty(guarantee: Guarantee) -> str:
    """How alike results would be, and how often a change is noticed."""
    alike = next((words for most, words in _ALIKE_WORDS if guarantee.detection_rate <= most), None)
    times = math.ceil(100 * guarantee.detection_rate - 1e-9)
    often = f"at most {times} times in 100" if times < 100 else "perhaps every time"
    looks = f"would have looked {alike}" if alike else "may have looked quite different"
    other = "something else" if guarantee.relation is Relation.REPLACE_ONE else "left out"
    if guarantee.relation is Relation.ZERO_OUT and guarantee.unit.is_of_a_file:
        other = "left blank"
    return (
        f"Had it been {other}, what was published {looks}. Even somebody "
        f"who knows all the rest, and may raise a false alarm once in 100 times, would notice "
        f"the change {often} (with guesses alone: once)."
    )


def _explain_unit(unit: Unit, *, is_film: bool) -> list[str]:
    """Why the unit is less than a person; nothing where it is one."""
    sites, small = unit.sites or 1, PERSON_AREA_SHARE * _SMALL_PX**2
    match unit.name:
        case UnitName.VALUE:
            why = " A person shows in many numbers."
        case UnitName.PIXELS if sites <= small:
            why = (
                f" Even somebody far away ({_SMALL_PX} dots tall) covers about {small:.0f} dots of "
            )
            why += "every frame. If people cannot be made out, that is due to the blur and the "
            why += "noise you see, and about that nothing is proved."
        case UnitName.PIXELS:
            why = " Somebody covers that many dots within a few frames."
        case UnitName.TUBE:
            tall = math.isqrt(int(sites / PERSON_AREA_SHARE))
            why = f" Anyone taller than about {tall} dots in the picture is larger than that spot."
        case UnitName.FRAME:
            why = f" Whoever is in several {'frames' if is_film else 'rows'} can show."
            if is_film:
                why += " A face that holds still comes out sharply if the film is long."
        case UnitName.VIDEO | UnitName.RECORD if not unit.is_of_a_file:
            why = " Somebody who is in several recordings can show."
        case UnitName.SHARD if (unit.shards_per_subject or 1) > 1:
            why = " One person's data reaches several teachers."
        case _:
            return []
    return [f"A whole person.{why}"]


def _is_new(phrase: str) -> bool:
    return not phrase.startswith(_OF_A_PERSON)


def _make_sentence(phrase: str) -> str:
    return f"{phrase[:1].upper()}{phrase[1:].rstrip('.')}."


_WIDTH, _LEFT, _RIGHT = 480, 150, 400


def draw_leaks(claim: float, shown: float) -> str:
    """Two bars: the leak that is allowed, and the leak that was shown at least.

    Example:
        >>> draw_leaks(8.0, 4.5).count("<rect")
        2
    """
    most = max(claim, shown, 1e-9)
    is_refuted = shown > claim
    most_said, least_said = up(claim, 3), down(shown, 3)
    says = f"At most {most_said} is claimed, at least {least_said} was shown."
    rows = [
        ("claimed: at most", claim, most_said, "#1b6ca8"),
        ("shown: at least", shown, least_said, "#c8553d" if is_refuted else "#3d8361"),
    ]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} 76" class="spans" '
        f'role="img" aria-label="{html.escape(says)}" font-family="system-ui, sans-serif" '
        'font-size="14">'
    ]
    for number, (name, value, said, colour) in enumerate(rows):
        y = 8 + 34 * number
        wide = (_RIGHT - _LEFT) * value / most
        parts += [
            f'<text x="0" y="{y + 17}">{name}</text>',
            f'<rect x="{_LEFT}" y="{y}" width="{wide:.1f}" height="24" rx="3" fill="{colour}"/>',
            f'<text x="{_LEFT + wide + 8:.1f}" y="{y + 17}">{said}</text>',
        ]
    return "\n".join([*parts, "</svg>"])


_ATTACK_QUESTIONS = {
    "attribute_inference": "Can it be told what people look like?",
    "reidentify": "Can people be recognised?",
    "place_retrieval": "Can the place be recognised?",
    "membership": "Can it be told who was learned from?",
    "reconstruct": "Can the picture be brought back?",
    "seed_subtraction": "Can the noise be taken away?",
}
_FIGURE_WORDS = {
    "rank-1": "recognised at the first guess (rank-1)",
    "Top-1": "recognised at the first guess (Top-1)",
    "cMAP": "how well looks are told apart (cMAP)",
    "explained": "share of the picture's variation that was brought back",
    "error undone": "share of the noise that was taken away",
    "AUC": "how well those learned from are told from others (AUC; 50 % is guessing)",
}
_ATTACK_NOTE = (
    "We attacked recordings that were released in this way. The same attacker was also given the "
    "originals (before), where it should succeed, and random data, where it must fail. A dot is "
    "what was measured, its bar the 95 % interval, the dashed line guessing. A better attacker may "
    "come."
)


def write_attack_section(name: str, found: Sequence[AttackResult]) -> Section:
    """One attack; the headline of each attacker is drawn, every figure stands in a folded table.

    Args:
        name: of the attack.
        found: its attackers.
    """
    rows = [
        (each.attacker, own.measure, *map(_format_interval, (top, own, low)))
        for each in found
        for own, top, low in zip(each.published, each.ceiling, each.floor, strict=True)
    ]
    heading = ("attacker", "measure", "before", "after", "random data")
    table = page.format_table(heading, rows, says="What attackers found")
    notes = [f"{each.attacker}: {each.verdict}" for each in found]
    notes += dict.fromkeys(note for each in found for note in each.notes)
    body = page.format_paragraphs([_ATTACK_NOTE]) + "".join(map(_draw_attack, found))
    body += page.fold_body("All figures, and how to read them", table + page.format_listing(notes))
    asked = _ATTACK_QUESTIONS.get(name, f"What the attack {name} finds")
    return Section(title=asked, body=body, has_originals=True, part=PagePart.ATTACKS)


def _draw_attack(found: AttackResult) -> str:
    first = found.published[0]
    spans = [
        plots.DrawnSpan(name=name, value=one.value, low=one.low, high=one.high)
        for name, one in (
            ("before", found.ceiling[0]),
            ("after", first),
            ("random data", found.floor[0]),
        )
    ]
    measure = _FIGURE_WORDS.get(first.measure, first.measure)
    whose = f"Measured: {measure}, over {first.count} {first.of}."
    says = (
        f"{whose} Before {_format_interval(found.ceiling[0])}, after {_format_interval(first)}, "
        "random data "
    )
    says += f"{_format_interval(found.floor[0])}."
    drawn = plots.draw_intervals(spans, says=says, chance=first.chance)
    who = found.attacker
    who = f"An attacker who {who}" if who.startswith("holds ") else f"Attacker: {who}"
    return (
        page.format_heading(_describe_attack(found))
        + page.format_paragraphs([f"{who}."])
        + page.caption_picture(drawn, whose)
    )


def _describe_attack(found: AttackResult) -> str:
    """The verdict, by the same rule, in other words."""
    if not found.is_telling:
        return "No answer: this attack fails on the originals too."
    if found.published[0].low <= found.floor[0].high:
        return "No better than with random data."
    if found.published[0].high < found.ceiling[0].low:
        return "Worse than with the originals, but not stopped."
    return "Not stopped: as good as with the originals."


def _format_interval(figure: MeasuredRate) -> str:
    return f"{figure.value:.3f} ({figure.low:.3f} to {figure.high:.3f})"


_MAX_FILES = 500  # whose receipts a page carries
_ALWAYS_WORDS = "perhaps every time"  # as `answer_plainly` has it


def write_release_section(
    title: str,
    receipt: Receipt,
    *,
    pictures: str = "",
    unit: str = "",
    is_film: bool = False,
    cautions: tuple[str, ...] | None = None,
) -> Section:
    """What was published, and two answers in plain words; the exact ones are folded away.

    Args:
        title: the file's name.
        receipt: that was checked.
        pictures: of it, made by `masquerade.report.media`.
        unit: the same, of what one unit covers.
        is_film: whether it is a film or a picture.
        cautions: what stands against it, by `cautions`; None if it was made here.
    """
    said = answer_plainly(receipt.guarantee, is_film=is_film, is_rehearsal=receipt.is_rehearsal)
    kind, states = ("good", "") if said.is_proved else ("bad", "")
    if said.is_proved and cautions:
        kind, states = "doubtful", ", as the receipt states"
    cards = (
        f'<div class="cards"><div class="card {kind}"><h3>What is protected{states}</h3>'
        f"{page.format_paragraphs(said.protected)}{unit}</div>"
        '<div class="card bad"><h3>What is not protected</h3>'
        f"{_format_exposed(said.exposed)}</div></div>"
    )
    exact = page.format_listing(explain(receipt.guarantee, is_technical=True))
    people = count_people(receipt.counted, receipt.shapes[0][0]) if receipt.counted else []
    body = (
        page.format_paragraphs(people)
        + pictures
        + cards
        + page.fold_body("The same, exactly", exact)
    )
    return Section(title=title, body=body, cautions=cautions, keeps_times=receipt.kept_times)


def list_cautions(
    receipt: Receipt, *, is_film: bool, is_signed: bool, doubt: str = ""
) -> tuple[str, ...]:
    """Why it may not be shared as something that is proved, the most telling first.

    Args:
        receipt: that was checked.
        is_film: whether it is a film or a picture.
        is_signed: whether a key that the reader named has signed it.
        doubt: what the file itself says against its receipt.

    Returns:
        Nothing if it may.
    """
    guarantee, what = receipt.guarantee, "film" if is_film else "file"
    plain, said = answer_plainly(guarantee, is_film=is_film), []
    if receipt.is_rehearsal:
        said.append(
            f"REHEARSAL: this {what} is the original under noise that anybody who knows the seed "
            "can take away. It must not be shared."
        )
    elif guarantee.kind is GuaranteeKind.HEURISTIC:
        hides = guarantee.released.partition("tries to hide ")[2].partition(";")[0]
        said.append(
            f"HEURISTIC: this {what} is the original, but for what {receipt.mechanism} changed "
            f"to hide {hides or 'something'}. Nothing is proved; what it left is shown as it was."
        )
    elif not plain.is_proved:
        weak = "under a proof so weak that anything may show"
        proof = "and no proof protects them" if guarantee.epsilon is None else weak
        said.append(f"NO GUARANTEE: this {what} was made from originals, {proof}.")
    if plain.is_proved and any(_ALWAYS_WORDS in each for each in plain.protected):
        said.append(
            "HARDLY PROTECTED: somebody who knows all the rest would notice a change of what is "
            f"protected {_ALWAYS_WORDS}."
        )
    if plain.is_proved and guarantee.kind is GuaranteeKind.FORMAL_RELAXED:
        said.append(
            f"PROVED IN PART: nothing is promised for what this {what} treats as public, which is "
            "used as it was."
        )
    if doubt:
        said.append(f"DOUBTFUL: {doubt}")
    if receipt.kept_sound:
        said.append("SOUND: the sound of this film is that of the original; no proof covers it.")
    if not is_signed and not receipt.is_rehearsal:
        said.append(
            "NOT VERIFIED: no key that was named has signed the receipt, so anyone could have "
            "written it."
        )
    return tuple(said)


def _format_exposed(said: Sequence[str]) -> str:
    """A list; the first sentence of the first, the most important one, is strong."""
    start, dot, rest = said[0].partition(". ")
    first = f"<strong>{html.escape(start)}{dot}</strong>{html.escape(rest)}"
    others = "".join(f"<li>{html.escape(each)}</li>" for each in said[1:])
    return f"<ul><li>{first}</li>{others}</ul>"


def make_receipts_section(
    checked: Sequence[tuple[str, Receipt]], *, texts: Sequence[bytes] = ()
) -> Section:
    """Every receipt, to read and to download.

    Args:
        checked: names of files, each with its receipt.
        texts: the same receipts as they were read and verified; else as this version writes them.
    """
    shown = checked[:_MAX_FILES]
    held = texts or [receipt.to_json().encode() for _, receipt in shown]
    body = "\n".join(_format_receipt(*one, text) for one, text in zip(shown, held, strict=False))
    if len(shown) < len(checked):
        left = format_count(len(checked) - len(shown), "receipt")
        body += page.format_paragraphs([f"{left} more stand beside their files."])
    only = f"The receipt of {checked[0][0]}" if len(checked) == 1 else ""
    title = only or f"The {len(checked)} receipts"
    return Section(title=title, body=body, part=PagePart.RECEIPTS)


def _format_receipt(name: str, receipt: Receipt, text: bytes) -> str:
    shown = html.escape(text.decode())
    data = base64.b64encode(text).decode()
    target = html.escape(f"{name}.receipt.json", quote=True)
    link = (
        f'<a download="{target}" href="data:application/json;base64,{data}">Download {target}</a>'
    )
    label = html.escape(f"Receipt of {name}", quote=True)
    return (
        f"<p>{link}: released on {html.escape(receipt.date)} by {html.escape(receipt.mechanism)}, "
        f"Masquerade {html.escape(receipt.code_version)}.</p>"
        + page.fold_body(
            f"Read it: {name}",
            f'<pre tabindex="0" role="region" aria-label="{label}">{shown}</pre>',
        )
    )
