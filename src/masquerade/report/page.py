"""One HTML file: sections of words, tables and pictures, stamped by what may be done with it."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from masquerade.report.style import SCRIPT, STYLE


class PagePart(IntEnum):
    """Where on the page a section stands: what a person asks first comes first."""

    PICTURES = 0
    ATTACKS = 1
    FRONTIER = 2
    BUDGET = 3
    AUDIT = 4
    RECEIPTS = 5  # folded, as the appendix is
    APPENDIX = 6


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of the page.

    Args:
        title: its heading.
        body: HTML, made by the functions of this room.
        has_originals: whether anything in it was computed from private input beside a release.
        cautions: why a release that it shows is not proved, or not known to be one, the most
            telling first; none if it is, None where it shows no release.
        names: of the files that it shows.
        keeps_times: whether a film kept the times of its frames, as public.
        part: where it stands; sections of one part stay in their order.
    """

    title: str
    body: str
    has_originals: bool = False
    cautions: tuple[str, ...] | None = None
    names: tuple[str, ...] = ()
    keeps_times: bool = False
    part: PagePart = PagePart.PICTURES


_PRIVATE = (
    "PRIVATE: this page shows originals, or figures computed from them. Keep it as safe as they "
    "are."
)
_PUBLIC = "PUBLIC: nothing on this page was computed from originals. It may be shared."
_PROVED = (
    "PUBLIC: all that was computed from originals is under a proof{but}, and signed by a key that "
    "was named. It may be shared."
)
_BUT_PUBLIC = ", but for what is listed as taken as public"
_MOST_NAMES = 3  # of files in a stamp


def page(title: str, sections: Sequence[Section], *, lead: str = "") -> str:
    """The whole page; one section with originals makes all of it private, one caution doubtful."""
    kind, said = stamps(sections)
    stamp = "".join(
        f'<p><strong class="stamp {kind}">{html.escape(each)}</strong></p>' for each in said
    )
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{STYLE}</style></head><body>",
        '<a class="skip" href="#main">To the content</a>',
        f"<header><h1>{html.escape(title)}</h1>",
        f"{paragraphs([lead] if lead else [])}{stamp}</header>",
        '<main id="main">',
        *map(_placed, sorted(sections, key=lambda section: section.part)),
        f"</main><script>{SCRIPT}</script></body></html>\n",
    ]
    return "\n".join(parts)


def stamps(sections: Sequence[Section]) -> tuple[str, list[str]]:
    """How a page is stamped, and in which words; of several files, each caution names its own."""
    if any(section.has_originals for section in sections):
        return "private", [_PRIVATE]
    released = [section for section in sections if section.cautions is not None]
    files: dict[str, list[str]] = {}
    for section in released:
        for caution in section.cautions or ():
            files.setdefault(caution, []).extend(section.names)
    if not files:
        but = _BUT_PUBLIC * any(section.keeps_times for section in released)
        return "public", [_PROVED.format(but=but) if released else _PUBLIC]
    is_one = sum(len(section.names) for section in released) < 2
    return "doubtful", [
        caution if is_one else f"{_listed(names)}: {caution}" for caution, names in files.items()
    ]


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + f" and {more} more" * (more > 0)


def _placed(section: Section) -> str:
    heading = f"<h2>{html.escape(section.title)}</h2>"
    if section.part >= PagePart.RECEIPTS:
        inside = f"<details><summary>{heading}</summary>\n{section.body}</details>"
        return f'<section class="folded">{inside}</section>'
    return f"<section>{heading}\n{section.body}</section>"


def folded(summary: str, body: str) -> str:
    """What only some readers want: a line that opens."""
    return f"<details><summary>{html.escape(summary)}</summary>\n{body}</details>"


def heading(said: str) -> str:
    """Of a part of a section."""
    return f"<h3>{html.escape(said)}</h3>"


def captioned(svg: str, caption: str) -> str:
    """A small picture that is readable on a phone, and words below it."""
    below = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
    return f'<figure class="spans">{svg}{below}</figure>'


def paragraphs(lines: Iterable[str]) -> str:
    """Plain sentences."""
    return "\n".join(f"<p>{html.escape(line)}</p>" for line in lines)


def listing(lines: Iterable[str]) -> str:
    """A list of sentences."""
    return "<ul>\n" + "\n".join(f"<li>{html.escape(line)}</li>" for line in lines) + "\n</ul>"


def table(heading: Sequence[str], rows: Iterable[Sequence[str]], *, says: str = "Table") -> str:
    """A table of plain text; on a phone each row is a card, its cells named.

    Args:
        heading: names of the columns.
        rows: cells, the first of which names the row.
        says: what it shows, for those who hear the page.
    """
    head = "".join(_cell("th", "columnheader", cell, ' scope="col"') for cell in heading)
    body = "\n".join(
        '<tr role="row">'
        + "".join(
            _cell("td", "cell", cell, f' data-name="{html.escape(name, quote=True)}"')
            for name, cell in zip(heading, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    inside = (
        f'<thead role="rowgroup"><tr role="row">{head}</tr></thead>'
        f'<tbody role="rowgroup">\n{body}\n</tbody>'
    )
    label = html.escape(says, quote=True)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">'
        f'<table role="table">{inside}</table></div>'
    )


def _cell(tag: str, role: str, said: str, more: str) -> str:
    return f'<{tag} role="{role}"{more}>{html.escape(said)}</{tag}>'


def figure(svg: str) -> str:
    """A picture made by this room; on a phone it can be moved sideways."""
    label = 'tabindex="0" role="region" aria-label="Picture"'
    return f'<figure><div class="scroll plot" {label}>{svg}</div></figure>'
