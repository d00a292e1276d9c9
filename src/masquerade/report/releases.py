"""A release on the page: pictures, what is protected and what is not, and its receipt."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

from masquerade._printed import counted
from masquerade.guarantee import Kind
from masquerade.report import page
from masquerade.report.page import PagePart, Section
from masquerade.report.plain import plainly
from masquerade.wording import count_people, explain

if TYPE_CHECKING:
    from masquerade.receipt import Receipt

_MOST_FILES = 500  # whose receipts a page carries
_ALWAYS = "perhaps every time"  # as `plainly` has it


def section(
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
    said = plainly(receipt.guarantee, is_film=is_film, is_rehearsal=receipt.is_rehearsal)
    kind, states = ("good", "") if said.is_proved else ("bad", "")
    if said.is_proved and cautions:
        kind, states = "doubtful", ", as the receipt states"
    cards = (
        f'<div class="cards"><div class="card {kind}"><h3>What is protected{states}</h3>'
        f"{page.paragraphs(said.protected)}{unit}</div>"
        '<div class="card bad"><h3>What is not protected</h3>'
        f"{_exposed(said.exposed)}</div></div>"
    )
    exact = page.listing(explain(receipt.guarantee, is_technical=True))
    people = count_people(receipt.counted, receipt.shapes[0][0]) if receipt.counted else []
    body = page.paragraphs(people) + pictures + cards + page.folded("The same, exactly", exact)
    return Section(title=title, body=body, cautions=cautions, keeps_times=receipt.kept_times)


def cautions(
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
    plain, said = plainly(guarantee, is_film=is_film), []
    if receipt.is_rehearsal:
        said.append(
            f"REHEARSAL: this {what} is the original under noise that anybody who knows the seed "
            "can take away. It must not be shared."
        )
    elif guarantee.kind is Kind.HEURISTIC:
        hides = guarantee.released.partition("tries to hide ")[2].partition(";")[0]
        said.append(
            f"HEURISTIC: this {what} is the original, but for what {receipt.mechanism} changed "
            f"to hide {hides or 'something'}. Nothing is proved; what it left is shown as it was."
        )
    elif not plain.is_proved:
        weak = "under a proof so weak that anything may show"
        proof = "and no proof protects them" if guarantee.epsilon is None else weak
        said.append(f"NO GUARANTEE: this {what} was made from originals, {proof}.")
    if plain.is_proved and any(_ALWAYS in each for each in plain.protected):
        said.append(
            "HARDLY PROTECTED: somebody who knows all the rest would notice a change of what is "
            f"protected {_ALWAYS}."
        )
    if plain.is_proved and guarantee.kind is Kind.FORMAL_RELAXED:
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


def _exposed(said: Sequence[str]) -> str:
    """A list; the first sentence of the first, the most important one, is strong."""
    start, dot, rest = said[0].partition(". ")
    first = f"<strong>{html.escape(start)}{dot}</strong>{html.escape(rest)}"
    others = "".join(f"<li>{html.escape(each)}</li>" for each in said[1:])
    return f"<ul><li>{first}</li>{others}</ul>"


def receipts(checked: Sequence[tuple[str, Receipt]], *, texts: Sequence[bytes] = ()) -> Section:
    """Every receipt, to read and to download.

    Args:
        checked: names of files, each with its receipt.
        texts: the same receipts as they were read and verified; else as this version writes them.
    """
    shown = checked[:_MOST_FILES]
    held = texts or [receipt.to_json().encode() for _, receipt in shown]
    body = "\n".join(_receipt(*one, text) for one, text in zip(shown, held, strict=False))
    if len(shown) < len(checked):
        left = counted(len(checked) - len(shown), "receipt")
        body += page.paragraphs([f"{left} more stand beside their files."])
    only = f"The receipt of {checked[0][0]}" if len(checked) == 1 else ""
    title = only or f"The {len(checked)} receipts"
    return Section(title=title, body=body, part=PagePart.RECEIPTS)


def _receipt(name: str, receipt: Receipt, text: bytes) -> str:
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
        + page.folded(
            f"Read it: {name}",
            f'<pre tabindex="0" role="region" aria-label="{label}">{shown}</pre>',
        )
    )
