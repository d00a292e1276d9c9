"""One HTML file: sections of words, tables and pictures, stamped public or private."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from masquerade.report.style import SCRIPT, STYLE
from masquerade.wording import explain

if TYPE_CHECKING:  # plots are drawn where no accountant is installed
    from masquerade.receipt import Receipt


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of the page.

    Args:
        title: its heading.
        body: HTML, made by the functions of this file.
        has_originals: whether anything in it was computed from private input outside a guarantee.
    """

    title: str
    body: str
    has_originals: bool = False


def page(title: str, sections: Sequence[Section], *, lead: str = "") -> str:
    """The whole page; one section with originals makes all of it private."""
    if any(section.has_originals for section in sections):
        stamp = '<span class="stamp private">PRIVATE: shows originals or figures of them</span>'
    else:
        stamp = '<span class="stamp public">PUBLIC: nothing here was computed from originals</span>'
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{STYLE}</style></head><body>",
        '<a class="skip" href="#main">To the content</a>',
        f"<header><h1>{html.escape(title)}</h1>",
        f"<p>{stamp}</p>",
        paragraphs([lead] if lead else []) + '</header><main id="main">',
    ]
    for section in sections:
        heading = html.escape(section.title)
        parts.append(f"<section><h2>{heading}</h2>\n{section.body}</section>")
    return "\n".join([*parts, f"</main><script>{SCRIPT}</script></body></html>\n"])


def paragraphs(lines: Iterable[str]) -> str:
    """Plain sentences."""
    return "\n".join(f"<p>{html.escape(line)}</p>" for line in lines)


def listing(lines: Iterable[str]) -> str:
    """A list of sentences."""
    return "<ul>\n" + "\n".join(f"<li>{html.escape(line)}</li>" for line in lines) + "\n</ul>"


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of plain text."""
    head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in heading)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    inside = f"<thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody>"
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Table">'
        f"<table>{inside}</table></div>"
    )


def figure(svg: str) -> str:
    """A picture made by `masquerade.report.plot`."""
    return f"<figure>{svg}</figure>"


def film(mp4: bytes) -> str:
    """A short video inside the page; it plays when it is asked to."""
    data = base64.b64encode(mp4).decode()
    return (
        '<figure><video controls="" loop="" muted="" playsinline="" aria-label="A film" '
        f'src="data:video/mp4;base64,{data}"></video></figure>'
    )


def receipt_section(title: str, receipt: Receipt, *, pictures: str = "", unit: str = "") -> Section:
    """A release: pictures, what is protected and what is not, and the receipt folded away."""
    first, *others = explain(receipt.guarantee)
    bare = [line for line in others if line.startswith("Not protected")]
    text = receipt.to_json()
    data = base64.b64encode(text.encode()).decode()
    name = html.escape(f"{title}.receipt.json", quote=True)
    folded = (
        "<details><summary>The receipt</summary>\n"
        + listing(line for line in others if line not in bare)
        + f'<p><a download="{name}" href="data:application/json;base64,{data}">Download it</a></p>'
        + f'<pre tabindex="0">{html.escape(text)}</pre></details>'
    )
    body = pictures + paragraphs([first]) + unit + paragraphs(bare) + folded
    return Section(title=title, body=body)
