"""The demo's claims: what papers print and what holds, audits, and what noise an epsilon takes."""

from __future__ import annotations

from collections import Counter

import numpy as np

from masquerade.accounting import compute_epsilon
from masquerade.accounting.compose import make_sampled_gaussian
from masquerade.accounting.verdict import VERDICT_COLUMNS, judge_papers
from masquerade.demo.steps import AUDIT_CONFIDENCE, Chapter, Progress, hide_progress, make_curves
from masquerade.guarantee import Relation
from masquerade.publish.audits import AUDIT_COLUMNS, list_audit_rows, make_short_games, play_games
from masquerade.report import page, plots
from masquerade.report.page import PagePart

_SAMPLING_PROB, _STEPS, _DELTA = 0.01, 1000, 1e-5
_NOISE_MULTIPLIERS = np.geomspace(0.6, 20, 9)


def make_paper_chapter(progress: Progress = hide_progress) -> Chapter:
    """The papers, each with its arithmetic."""
    title, verdicts = "Five papers: claimed, and true", judge_papers(progress)
    rows = [verdict.list_cells() for verdict in verdicts]
    held = Counter(verdict.valid for verdict in verdicts)
    arithmetic = "".join(
        f"<h3>{verdict.paper}</h3>\n"
        + page.format_paragraphs([verdict.title + ".", verdict.reason])
        + page.format_listing(verdict.arithmetic)
        for verdict in verdicts
    )
    return Chapter(
        sections=[
            page.Section(
                title=title, body=page.format_table(VERDICT_COLUMNS, rows), part=PagePart.APPENDIX
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


def make_audit_chapter(progress: Progress = hide_progress) -> Chapter:
    """The short audits."""
    title = "Claim and evidence"
    found = play_games(make_short_games(), progress, confidence=AUDIT_CONFIDENCE)
    rows = list_audit_rows(found)
    refuted = [name for name, (claim, evidence) in found.items() if evidence.refutes(claim.epsilon)]
    said = (
        "Each claim is played against its worst case; an audit can refute, never prove. Bounds "
        f"hold with confidence {AUDIT_CONFIDENCE:.1%} each."
    )
    body = page.format_paragraphs([said]) + page.format_table(AUDIT_COLUMNS, rows)
    return Chapter(
        sections=[page.Section(title=title, body=body, part=PagePart.AUDIT)],
        lines=[
            f"{len(found)} claims were put to the test; REFUTED: {', '.join(refuted) or 'none'}. "
            "An audit can only refute; it never proves.",
            "",
        ],
        data={"audits": {name: evidence.epsilon_at_least for name, (_, evidence) in found.items()}},
    )


def make_noise_chapter(progress: Progress = hide_progress) -> Chapter:
    """Epsilon against the noise multiplier, for the relations."""
    curves = [
        ("zero_out", Relation.ZERO_OUT, False),
        ("add_remove", Relation.ADD_REMOVE, False),
        ("replace_one", Relation.REPLACE_ONE, False),
        ("revealed, zero_out", Relation.ZERO_OUT, True),
        ("revealed, replace_one", Relation.REPLACE_ONE, True),
    ]
    points: list[tuple[str, float, float]] = []
    for name, relation, is_revealed in curves:
        for z in _NOISE_MULTIPLIERS.tolist():
            event = make_sampled_gaussian(
                z, sampling_prob=_SAMPLING_PROB, steps=_STEPS, is_revealed=is_revealed
            )
            points.append((name, z, compute_epsilon(event, delta=_DELTA, relation=relation)))
            progress("epsilon against noise", len(points), len(curves) * len(_NOISE_MULTIPLIERS))
    axes = plots.PlotAxes(
        title=f"Poisson sampling, q = {_SAMPLING_PROB:g}, {_STEPS} steps, delta = {_DELTA:g}",
        x_label="noise multiplier",
        y_label="epsilon",
        is_log=True,
    )
    drawn = page.format_figure(plots.draw_lines(make_curves(points), axes))
    said = page.format_paragraphs(["zero_out and add_remove coincide here."])
    section = page.Section(title="Epsilon against noise", body=drawn + said, part=PagePart.APPENDIX)
    return Chapter(sections=[section])
