"""The demo on one page, and the same on a screen."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from masquerade.account.verdict import Verdict
from masquerade.audit.game import Claim
from masquerade.doors.outputs import receipt_path
from masquerade.recipes import audits, papers
from masquerade.recipes.demo import clip, sensor_model, video_model
from masquerade.recipes.demo.steps import Day
from masquerade.recipes.mask_dp import page as mask_dp
from masquerade.recipes.stage import world
from masquerade.report import page
from masquerade.scores import Evidence
from masquerade.wording import explain


@dataclass(frozen=True, kw_only=True)
class Found:
    """All that the demo did.

    Args:
        verdicts: on the papers.
        noise: epsilon against noise, drawn.
        played: claim and evidence of every audit.
        people: of Stage, drawn.
        clips: releases of one video.
        learned: a model of videos.
        worn: models of worn sensors.
        account: the story of a budget.
        day: a released signal.
    """

    verdicts: list[Verdict]
    noise: str
    played: dict[str, tuple[Claim, Evidence]]
    people: dict[str, str]
    clips: clip.Clips
    learned: video_model.Learned
    worn: list[sensor_model.Line]
    account: list[str]
    day: Day

    @property
    def evidence(self) -> list[tuple[str, ...]]:
        """Lines of the audits' table."""
        return [audits.row(name, *pair) for name, pair in self.played.items()]


def html(found: Found) -> str:
    """The page, in reading order."""
    arithmetic = "".join(
        f"<h3>{verdict.paper}</h3>\n"
        + page.paragraphs([verdict.title + ".", verdict.reason])
        + page.listing(verdict.arithmetic)
        for verdict in found.verdicts
    )
    judged = page.table(papers.HEADING, [papers.row(verdict) for verdict in found.verdicts])
    played = "Each claim is played against its worst case; an audit can refute, never prove."
    generated = "Generated data, so the original can be shown beside it."
    coincide = "zero_out and add_remove coincide here."
    sections = [
        page.Section(title="Five papers: claimed, and true", body=judged),
        page.Section(title="The arithmetic behind each row", body=arithmetic),
        page.Section(
            title="Claim and evidence",
            body=page.paragraphs([played]) + page.table(audits.HEADING, found.evidence),
        ),
        page.Section(
            title="Epsilon against noise",
            body=page.figure(found.noise) + page.paragraphs([coincide]),
        ),
        page.Section(
            title="A released signal",
            body=page.paragraphs([generated]) + page.figure(found.day.drawn),
            has_originals=True,
        ),
        page.receipt_section("Its receipt, in plain words", found.day.receipt),
        *world.sections(found.people),
        *clip.sections(found.clips),
        video_model.section(found.learned),
        sensor_model.section(found.worn),
        page.Section(title="An account that cannot be overdrawn", body=page.listing(found.account)),
    ]
    return page.page("Masquerade", sections, lead="Everyone dances; nobody is recognised.")


def plain(found: Found) -> dict[str, Any]:
    """As JSON."""
    return {
        "released": str(found.day.path),
        "papers": {verdict.paper: verdict.valid for verdict in found.verdicts},
        "videos": {shown.name: str(shown.path) for shown in found.clips.shown},
        "audits": {name: pair[1].epsilon_at_least for name, pair in found.played.items()},
        "training": video_model.plain(found.learned),
        "wearers": sensor_model.plain(found.worn),
    }


def lines(found: Found) -> list[str]:
    """On a screen: tables, the receipt in words, the story of the account."""
    learned, worn = found.learned, found.worn
    return [
        _table("Five papers: claimed, and true", papers.HEADING, map(papers.row, found.verdicts)),
        _table("Claim and evidence", audits.HEADING, found.evidence),
        _table("A released video", clip.HEADING, map(clip.row, found.clips.shown)),
        clip.SAID,
        "",
        _table("A model, trained privately", video_model.HEADING, video_model.rows(learned)),
        *mask_dp.sentences(learned.found),
        "",
        _table("Worn sensors: teachers who vote", sensor_model.HEADING, sensor_model.rows(worn)),
        *sensor_model.sentences(worn),
        "",
        f"Released {found.day.path}, one day of steps, one number a minute. Its receipt "
        f"({receipt_path(found.day.path).name}) says:",
        *(f"  {line}" for line in explain(found.day.receipt.guarantee)),
        "",
        *found.account,
    ]


def _table(title: str, heading: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    stream = io.StringIO()
    shown = Table(*heading, title=title, show_lines=True)
    for row in rows:
        shown.add_row(*row)
    Console(file=stream, width=132).print(shown)
    return stream.getvalue()
