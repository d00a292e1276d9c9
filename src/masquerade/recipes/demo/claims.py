"""The demo's claims: what five papers print and what holds, and every claim that can be played."""

from __future__ import annotations

from collections import Counter

from masquerade.recipes import audits, bench, papers
from masquerade.recipes.demo.chapter import CONFIDENCE, Chapter
from masquerade.report import page
from masquerade.report.page import PagePart


def judged(told: bench.Told = bench.quiet) -> Chapter:
    """The papers, each with its arithmetic."""
    title, verdicts = "Five papers: claimed, and true", papers.judge(told)
    rows = [papers.row(verdict) for verdict in verdicts]
    held = Counter(verdict.valid for verdict in verdicts)
    arithmetic = "".join(
        f"<h3>{verdict.paper}</h3>\n"
        + page.paragraphs([verdict.title + ".", verdict.reason])
        + page.listing(verdict.arithmetic)
        for verdict in verdicts
    )
    return Chapter(
        sections=[
            page.Section(
                title=title, body=page.table(papers.HEADING, rows), part=PagePart.APPENDIX
            ),
            page.Section(
                title="The arithmetic behind each row", body=arithmetic, part=PagePart.APPENDIX
            ),
        ],
        lines=[
            f"Of {len(verdicts)} papers' epsilons {held[True]} hold as printed, {held[False]} do "
            f"not, {held[None]} cannot be determined; the page has the arithmetic."
        ],
        data={"papers": {verdict.paper: verdict.valid for verdict in verdicts}},
    )


def played(told: bench.Told = bench.quiet) -> Chapter:
    """The short audits."""
    title, games = "Claim and evidence", audits.games(is_long=False)
    found = audits.play_all(games, told, confidence=CONFIDENCE)
    rows = [audits.row(name, *pair) for name, pair in found.items()]
    refuted = [name for name, (claim, evidence) in found.items() if evidence.refutes(claim.epsilon)]
    said = (
        "Each claim is played against its worst case; an audit can refute, never prove. Bounds "
        f"hold with confidence {CONFIDENCE:.1%} each."
    )
    body = page.paragraphs([said]) + page.table(audits.HEADING, rows)
    return Chapter(
        sections=[page.Section(title=title, body=body, part=PagePart.AUDIT)],
        lines=[
            f"{len(found)} claims were put to the test; REFUTED: {', '.join(refuted) or 'none'}. "
            "An audit can only refute; it never proves.",
            "",
        ],
        data={"audits": {name: evidence.epsilon_at_least for name, (_, evidence) in found.items()}},
    )
