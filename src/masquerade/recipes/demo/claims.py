"""The demo's claims: what five papers print and what holds, and every claim that can be played."""

from __future__ import annotations

from masquerade.recipes import audits, bench, papers
from masquerade.recipes.demo.chapter import Chapter, table
from masquerade.report import page


def judged(told: bench.Told = bench.quiet) -> Chapter:
    """The papers, each with its arithmetic."""
    title, verdicts = "Five papers: claimed, and true", papers.judge(told)
    rows = [papers.row(verdict) for verdict in verdicts]
    arithmetic = "".join(
        f"<h3>{verdict.paper}</h3>\n"
        + page.paragraphs([verdict.title + ".", verdict.reason])
        + page.listing(verdict.arithmetic)
        for verdict in verdicts
    )
    return Chapter(
        sections=[
            page.Section(title=title, body=page.table(papers.HEADING, rows)),
            page.Section(title="The arithmetic behind each row", body=arithmetic),
        ],
        lines=[table(title, papers.HEADING, rows)],
        data={"papers": {verdict.paper: verdict.valid for verdict in verdicts}},
    )


def played(told: bench.Told = bench.quiet) -> Chapter:
    """The short audits."""
    title, found = "Claim and evidence", audits.play_all(audits.games(is_long=False), told)
    rows = [audits.row(name, *pair) for name, pair in found.items()]
    said = "Each claim is played against its worst case; an audit can refute, never prove."
    body = page.paragraphs([said]) + page.table(audits.HEADING, rows)
    return Chapter(
        sections=[page.Section(title=title, body=body)],
        lines=[table(title, audits.HEADING, rows)],
        data={"audits": {name: evidence.epsilon_at_least for name, (_, evidence) in found.items()}},
    )
