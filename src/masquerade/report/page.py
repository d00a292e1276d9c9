"""One HTML file: sections of words, tables and pictures, stamped public or private."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from masquerade.wording import explain

if TYPE_CHECKING:  # plots are drawn where no accountant is installed
    from masquerade.receipt import Receipt

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
  color: #1c2430; background: #fff; }
h1 { margin-bottom: 0; } h2 { margin-top: 2.2rem; border-bottom: 1px solid #dde; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; vertical-align: top; padding: .45rem .6rem;
  border-bottom: 1px solid #dde; }
th, pre { background: #f3f5f9; } pre { padding: .8rem; overflow-x: auto; font-size: 13px; }
.stamp { display: inline-block; padding: .15rem .6rem; border-radius: .3rem; font-weight: 600; }
.private { background: #fbe4df; color: #8c2f1b; } .public { background: #e2f1e8; color: #1f5c3b; }
figure { margin: 1rem 0; } svg, video { max-width: 100%; height: auto; } video { width: 22rem; }
"""


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
        stamp = '<span class="stamp private">PRIVATE: shows original data</span>'
    else:
        stamp = '<span class="stamp public">PUBLIC: nothing here was computed from originals</span>'
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>{html.escape(title)}</h1>",
        f"<p>{stamp}</p>",
        paragraphs([lead] if lead else []),
    ]
    for section in sections:
        parts.append(f"<h2>{html.escape(section.title)}</h2>\n{section.body}")
    return "\n".join([*parts, "</body></html>\n"])


def paragraphs(lines: Iterable[str]) -> str:
    """Plain sentences."""
    return "\n".join(f"<p>{html.escape(line)}</p>" for line in lines)


def listing(lines: Iterable[str]) -> str:
    """A list of sentences."""
    return "<ul>\n" + "\n".join(f"<li>{html.escape(line)}</li>" for line in lines) + "\n</ul>"


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of plain text."""
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in heading)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"


def figure(svg: str) -> str:
    """A picture made by `masquerade.report.plot`."""
    return f"<figure>{svg}</figure>"


def film(mp4: bytes) -> str:
    """A short video inside the page, playing over and over."""
    data = base64.b64encode(mp4).decode()
    return (
        '<figure><video controls="" loop="" muted="" autoplay="" playsinline="" '
        f'src="data:video/mp4;base64,{data}"></video></figure>'
    )


def receipt_section(title: str, receipt: Receipt) -> Section:
    """A release: its guarantee in plain words, and the receipt itself."""
    words = listing(explain(receipt.guarantee))
    return Section(title=title, body=f"{words}\n<pre>{html.escape(receipt.to_json())}</pre>")
