"""One HTML file: sections of words, tables and pictures, stamped by what may be done with it.

How the page looks, on a phone and a wide screen, by day, by night and on paper.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

_LIGHT_COLOURS = """--ink: #1c2430; --soft-ink: #4a5464; --paper: #fff; --line: #c9cedb;
  --soft: #f3f5f9; --link: #14507e; --bad: #8c2f1b; --bad-soft: #fbe9e4; --good: #1f5c3b;
  --good-soft: #e6f3eb; --warn: #6b4300; --warn-soft: #fdf0d3;
  --blue: #1b6ca8; --red: #c8553d; --green: #3d8361; --violet: #8e5ea2;
  --gold: #b8860b; --grey: #555555;"""
_DARK_COLOURS = """--ink: #e8ebf2; --soft-ink: #b4bccb; --paper: #14181f; --line: #3d4554;
  --soft: #1f2530; --link: #9cccf5; --bad: #ffc9bb; --bad-soft: #3a1c14; --good: #b9ebcc;
  --good-soft: #14301f; --warn: #f4d08a; --warn-soft: #382a0e;
  --blue: #6fb7ee; --red: #ee8d76; --green: #7cc59f; --violet: #c39bd6;
  --gold: #e0b04a; --grey: #b0b6c2;"""

# Plots carry their colours, since they are also files; on the page they follow its palette.
_PLOTS = "".join(
    f'figure svg [stroke="{own}"] {{ stroke: var(--{name}); }}\n'
    f'figure svg [fill="{own}"] {{ fill: var(--{name}); }}\n'
    for own, name in (
        ("#1b6ca8", "blue"),
        ("#c8553d", "red"),
        ("#3d8361", "green"),
        ("#8e5ea2", "violet"),
        ("#b8860b", "gold"),
        ("#555555", "grey"),
        ("#555", "grey"),
        ("#ddd", "line"),
        ("#fff", "paper"),
        ("#f6f6f6", "soft"),
    )
)

STYLE = f"""
:root {{ color-scheme: light dark; {_LIGHT_COLOURS} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_DARK_COLOURS} }} }}
@media print {{ :root {{ color-scheme: light; {_LIGHT_COLOURS} }} }}
* {{ box-sizing: border-box; }}
body {{ font: 17px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 1rem auto 4rem;
  padding: 0 1rem; color: var(--ink); background: var(--paper); overflow-wrap: anywhere; }}
a {{ color: var(--link); }} p, li {{ max-width: 46rem; }}
h1 {{ margin: 0; line-height: 1.2; font-size: 1.9rem; }}
header p {{ margin: .4rem 0; max-width: none; }}
h2 {{ margin: 2.4rem 0 .8rem; font-size: 1.35rem; line-height: 1.25; }}
h3 {{ margin: 1.2rem 0 .4rem; font-size: 1.05rem; }}
main > section:first-child h2 {{ margin-top: 1rem; }}
main > section + section {{ border-top: 1px solid var(--line); margin-top: 2rem; }}
.folded + .folded {{ margin-top: 0; }}
.folded h2 {{ display: inline; font-size: 1.1rem; }} .folded summary {{ padding: 1rem 0; }}
.scroll {{ overflow-x: auto; }}
.plot svg {{ min-width: 34rem; }}
table {{ border-collapse: collapse; width: 100%; font-size: 15px; overflow-wrap: normal; }}
th, td {{ text-align: left; vertical-align: top; padding: .45rem .6rem;
  border-bottom: 1px solid var(--line); }}
th, pre {{ background: var(--soft); }}
pre {{ padding: .8rem; overflow-x: auto; font-size: 13px; max-height: 30rem; }}
summary {{ cursor: pointer; color: var(--link); }} summary h2 {{ color: var(--ink); }}
.stamp {{ display: inline-block; padding: .15rem .6rem; border-radius: .3rem; font-size: 14px;
  font-weight: 600; max-width: 100%; }}
.private {{ background: var(--bad-soft); color: var(--bad); }}
.doubtful {{ background: var(--warn-soft); color: var(--warn); }}
.public {{ background: var(--good-soft); color: var(--good); }}
figure {{ margin: .8rem 0; }} figcaption, .small {{ font-size: 14px; color: var(--soft-ink); }}
svg, video, img {{ max-width: 100%; height: auto; }}
figure svg text:not([fill]) {{ fill: var(--ink); }}
{_PLOTS}
figure.spans svg {{ display: block; width: 100%; max-width: 34rem; }}
figure.unit svg {{ width: 100%; max-width: 20rem; display: block; }}
.pair {{ display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 17rem), 1fr)); }}
.pair figure {{ margin: 0; }}
.pair video, .pair img {{ width: 100%; max-height: 60vh; object-fit: contain; display: block;
  border-radius: .3rem; background: #000; }}
.pair figure:only-child {{ max-width: 44rem; }}
.cards {{ display: grid; gap: 1rem; margin: 1rem 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); }}
.card {{ border-radius: .4rem; padding: .2rem 1.1rem .6rem; border-left: .4rem solid; }}
.card > * {{ color: var(--ink); }} .card h3 {{ font-size: 1.15rem; margin: .8rem 0 .2rem; }}
.card.good {{ background: var(--good-soft); border-color: var(--good); }}
.card.doubtful {{ background: var(--warn-soft); border-color: var(--warn); }}
.card.bad {{ background: var(--bad-soft); border-color: var(--bad); }}
.card p:first-of-type {{ font-weight: 600; margin-top: .2rem; }}
.card ul {{ padding-left: 1.1rem; }}
.card li {{ margin: .35rem 0; }}
.controls {{ display: flex; gap: .8rem; align-items: center; margin: .8rem 0 .3rem; }}
.controls input {{ flex: 1; min-width: 0; height: 2rem; accent-color: var(--link); }}
button {{ font: inherit; font-weight: 600; min-height: 2.75rem; min-width: 6rem; cursor: pointer;
  color: var(--paper); background: var(--link); border: 0; border-radius: .4rem; }}
:focus-visible {{ outline: 3px solid var(--link); outline-offset: 2px; }}
.skip {{ position: absolute; left: -99rem; }}
.skip:focus {{ left: 1rem; background: var(--paper); }}
@media (max-width: 640px) {{
  thead {{ position: absolute; left: -99rem; }} table, tbody, tr, td {{ display: block; }}
  tr {{ border: 1px solid var(--line); border-radius: .4rem; margin: .8rem 0; padding: .3rem 0; }}
  td {{ border: 0; padding: .25rem .7rem; }}
  td::before {{ content: attr(data-name); display: block; font-size: 13px;
    color: var(--soft-ink); }}
}}
@media (prefers-reduced-motion: reduce) {{ * {{ animation: none !important;
  transition: none !important; scroll-behavior: auto !important; }} }}
@page {{ margin: 1.5cm; }}
@media print {{ .controls, .skip, pre {{ display: none; }}
  body {{ max-width: none; font-size: 11pt; margin: 0; }}
  figure, tr, .card {{ break-inside: avoid; }} h2, h3 {{ break-after: avoid; }}
  .card, .stamp {{ print-color-adjust: exact; -webkit-print-color-adjust: exact; }}
  .pair {{ grid-template-columns: 1fr 1fr; }} .pair video, .pair img {{ max-height: 7cm; }}
  .cards {{ grid-template-columns: 1fr 1fr; }} figure.unit svg {{ max-width: 6cm; }} }}
"""

# One button and one slider move all films of a group; nothing plays before it is asked to.
SCRIPT = """
for (const group of document.querySelectorAll('[data-films]')) {
  const films = [...group.querySelectorAll('video')], first = films[0];
  const button = group.querySelector('button'), slider = group.querySelector('input');
  const said = () => {
    const now = first.currentTime, all = first.duration || 0;
    button.textContent = first.paused ? 'Play' : 'Pause';
    slider.setAttribute('aria-valuetext', now.toFixed(1) + ' of ' + all.toFixed(1) + ' seconds');
  };
  const follow = () => {
    if (first.paused) return;
    slider.value = 1000 * first.currentTime / (first.duration || 1);
    films.slice(1).forEach((film) => {
      const wanted = Math.min(first.currentTime, film.duration || 0);
      if (Math.abs(film.currentTime - wanted) > .15) film.currentTime = wanted;
    });
    requestAnimationFrame(follow);
  };
  button.addEventListener('click', () => {
    const plays = first.paused;
    films.forEach((film) => { plays ? film.play() : film.pause(); });
    said(); follow();
  });
  slider.addEventListener('input', () => {
    films.forEach((film) => {
      film.pause();
      film.currentTime = slider.value / 1000 * (film.duration || 0);
    });
    said();
  });
  for (const what of ['play', 'pause', 'loadedmetadata', 'seeked']) {
    first.addEventListener(what, said);
  }
}
addEventListener('beforeprint', () => {
  document.querySelectorAll('section:not(.folded) details').forEach((one) => { one.open = true; });
});
"""


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


_PRIVATE_STAMP = (
    "PRIVATE: this page shows originals, or figures computed from them. Keep it as safe as they "
    "are."
)
_PUBLIC_STAMP = "PUBLIC: nothing on this page was computed from originals. It may be shared."
_PROVED_STAMP = (
    "PUBLIC: all that was computed from originals is under a proof{but}, and signed by a key that "
    "was named. It may be shared."
)
_BUT_PUBLIC = ", but for what is listed as taken as public"
_MAX_NAMES = 3  # of files in a stamp


def render_page(title: str, sections: Sequence[Section], *, lead: str = "") -> str:
    """The whole page; one section with originals makes all of it private, one caution doubtful."""
    kind, said = choose_stamp(sections)
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
        f"{format_paragraphs([lead] if lead else [])}{stamp}</header>",
        '<main id="main">',
        *map(_place_section, sorted(sections, key=lambda section: section.part)),
        f"</main><script>{SCRIPT}</script></body></html>\n",
    ]
    return "\n".join(parts)


def choose_stamp(sections: Sequence[Section]) -> tuple[str, list[str]]:
    """How a page is stamped, and in which words; of several files, each caution names its own."""
    if any(section.has_originals for section in sections):
        return "private", [_PRIVATE_STAMP]
    released = [section for section in sections if section.cautions is not None]
    files: dict[str, list[str]] = {}
    for section in released:
        for caution in section.cautions or ():
            files.setdefault(caution, []).extend(section.names)
    if not files:
        but = _BUT_PUBLIC * any(section.keeps_times for section in released)
        return "public", [_PROVED_STAMP.format(but=but) if released else _PUBLIC_STAMP]
    is_one = sum(len(section.names) for section in released) < 2
    return "doubtful", [
        caution if is_one else f"{_join_names(names)}: {caution}"
        for caution, names in files.items()
    ]


def _join_names(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + f" and {more} more" * (more > 0)


def _place_section(section: Section) -> str:
    heading = f"<h2>{html.escape(section.title)}</h2>"
    if section.part >= PagePart.RECEIPTS:
        inside = f"<details><summary>{heading}</summary>\n{section.body}</details>"
        return f'<section class="folded">{inside}</section>'
    return f"<section>{heading}\n{section.body}</section>"


def fold_body(summary: str, body: str) -> str:
    """What only some readers want: a line that opens."""
    return f"<details><summary>{html.escape(summary)}</summary>\n{body}</details>"


def format_heading(said: str) -> str:
    """Of a part of a section."""
    return f"<h3>{html.escape(said)}</h3>"


def caption_picture(svg: str, caption: str) -> str:
    """A small picture that is readable on a phone, and words below it."""
    below = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
    return f'<figure class="spans">{svg}{below}</figure>'


def format_paragraphs(lines: Iterable[str]) -> str:
    """Plain sentences."""
    return "\n".join(f"<p>{html.escape(line)}</p>" for line in lines)


def format_listing(lines: Iterable[str]) -> str:
    """A list of sentences."""
    return "<ul>\n" + "\n".join(f"<li>{html.escape(line)}</li>" for line in lines) + "\n</ul>"


def format_table(
    heading: Sequence[str], rows: Iterable[Sequence[str]], *, says: str = "Table"
) -> str:
    """A table of plain text; on a phone each row is a card, its cells named.

    Args:
        heading: names of the columns.
        rows: cells, the first of which names the row.
        says: what it shows, for those who hear the page.
    """
    head = "".join(_format_cell("th", "columnheader", cell, ' scope="col"') for cell in heading)
    body = "\n".join(
        '<tr role="row">'
        + "".join(
            _format_cell("td", "cell", cell, f' data-name="{html.escape(name, quote=True)}"')
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


def _format_cell(tag: str, role: str, said: str, more: str) -> str:
    return f'<{tag} role="{role}"{more}>{html.escape(said)}</{tag}>'


def format_figure(svg: str) -> str:
    """A picture made by this room; on a phone it can be moved sideways."""
    label = 'tabindex="0" role="region" aria-label="Picture"'
    return f'<figure><div class="scroll plot" {label}>{svg}</div></figure>'
