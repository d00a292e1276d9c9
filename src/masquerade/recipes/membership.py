"""Membership beside utility: what attackers find in models of a recipe, and what epsilon allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from masquerade import _json
from masquerade.account.power import false_negative_rate
from masquerade.attack.case_model import ModelCase
from masquerade.attack.membership import Membership
from masquerade.attack.membership_curve import RATES
from masquerade.events import DpEvent
from masquerade.guarantee import Relation
from masquerade.recipes import bench
from masquerade.report import plot
from masquerade.scores import Success
from masquerade.tradeoff import power

_MAIN = "LiRA, with and without"
Allowed: TypeAlias = Callable[[float], float]
"""From a rate of false alarms to the hits that a guarantee allows."""


@dataclass(frozen=True, kw_only=True)
class MembersFound:
    """One attacker against one way of training.

    Args:
        row: the way of training.
        epsilon: that was asked for; None without noise.
        attacker: by what they know.
        published: hits at each rate of false alarms, and the area under the curve.
        ceiling: the same of a model that was overfitted to few.
        floor: the same of models that never saw whom they are asked for.
        allowed: hits that the guarantee allows at each rate; empty without one.
        alarms: of the curve.
        hits: of the curve.
        shadows: models.
        protected: what the unit is.
    """

    row: str
    epsilon: float | None
    attacker: str
    published: tuple[Success, ...]
    ceiling: tuple[Success, ...]
    floor: tuple[Success, ...]
    allowed: tuple[float, ...]
    alarms: tuple[float, ...]
    hits: tuple[float, ...]
    shadows: int
    protected: str

    @property
    def is_refuted(self) -> bool:
        """Whether more is found than the guarantee allows."""
        pairs = zip(self.published, self.allowed, strict=False)
        return any(figure.low > most for figure, most in pairs)


def allowed_by(
    event: DpEvent, *, epsilon: float, delta: float, relation: Relation = Relation.REPLACE_ONE
) -> Allowed:
    """The most that any attacker finds: by the whole curve of the event, and by epsilon."""

    def most(rate: float) -> float:
        missed = false_negative_rate(rate, event, relation=relation)
        return min(1 - missed, power(rate, epsilon=epsilon, delta=delta, is_gaussian=False))

    return most


def found_in(
    case: ModelCase,
    *,
    row: str,
    epsilon: float | None,
    attack: Membership,
    protected: str,
    told: bench.Told = bench.quiet,
) -> list[dict[str, Any]]:
    """Every attacker against a way of training, as JSON for a journal."""
    found = []
    for tried in attack.tried(case, told=told):
        concluded = attack.concluded(case, tried)
        alarms, hits = tried.published.curve()
        one = MembersFound(
            row=row,
            epsilon=epsilon,
            attacker=tried.attacker,
            published=concluded.published,
            ceiling=concluded.ceiling,
            floor=concluded.floor,
            allowed=() if case.allowed is None else tuple(case.allowed(rate) for rate in RATES),
            alarms=tuple(alarms.round(6).tolist()),
            hits=tuple(hits.round(6).tolist()),
            shadows=attack.shadows,
            protected=protected,
        )
        found.append(_json.encode(one))
    return found


def read(held: Sequence[dict[str, Any]]) -> list[MembersFound]:
    """From a journal."""
    return [_json.decode(MembersFound, one) for one in held]


def columns(epsilons: Sequence[float]) -> list[float]:
    """The epsilons at which it is worth to attack: about 1, the largest, and without noise."""
    finite = [epsilon for epsilon in epsilons if epsilon < math.inf]
    some = {min(finite, key=lambda one: abs(math.log(one))), max(finite)} if finite else set()
    return [*sorted(some), math.inf]


def section(found: Sequence[MembersFound]) -> list[str]:
    """Markdown: a table, and what it shows; empty where nobody attacked."""
    if not found:
        return []
    units = {(one.published[0].count, one.published[0].of) for one in found}
    shown = ", ".join(f"{count} {of}" for count, of in sorted(units))
    return [
        "### Membership: found at 1 % false alarms, in per cent",
        _table(found),
        bench.listing(
            [
                f"{found[0].shadows} shadow models of each row, half of {shown} in each; every "
                "one is attacked by the others. Brackets are 95 % intervals over whole units.",
                "The ceiling is a model that was trained on few of them without noise and for "
                "long; the floor are models that never saw whom they were asked for.",
                _refuted(found),
            ]
        ),
    ]


def _table(found: Sequence[MembersFound]) -> str:
    names = list(dict.fromkeys(one.attacker for one in found))
    heading = ["trained by", "epsilon", "what is protected", *names, "epsilon allows"]
    heading += [f"AUC, {_MAIN}"]
    rows = []
    for row, epsilon in dict.fromkeys((one.row, one.epsilon) for one in found):
        own = {one.attacker: one for one in found if (one.row, one.epsilon) == (row, epsilon)}
        main = own[_MAIN]
        words = [_span(own[name].published[0]) for name in names]
        most = f"{100 * main.allowed[0]:.1f}" if main.allowed else "anything"
        shown = "no noise" if epsilon is None else f"{epsilon:g}"
        area = main.published[2]
        rows.append(
            [
                row,
                shown,
                main.protected,
                *words,
                most,
                f"{area.value:.2f} ({area.low:.2f} to {area.high:.2f})",
            ]
        )
    first = {one.attacker: one for one in reversed(found)}
    for name, bound in (("ceiling", "ceiling"), ("floor", "floor")):
        figures = [getattr(first[each], bound) for each in names]
        area = getattr(first[_MAIN], bound)[2]
        rows.append([name, "", "", *(_span(one[0]) for one in figures), "", f"{area.value:.2f}"])
    return bench.table(heading, rows)


def _span(figure: Success) -> str:
    value, low, high = (100 * each for each in (figure.value, figure.low, figure.high))
    return f"{value:.1f} ({low:.1f} to {high:.1f})"


def _refuted(found: Sequence[MembersFound]) -> str:
    wrong = [f"{one.row} at {one.epsilon:g}" for one in found if one.is_refuted and one.epsilon]
    if wrong:
        return f"More is found than epsilon allows: {', '.join(dict.fromkeys(wrong))}."
    return "Nowhere is more found than epsilon allows."


def drawn(found: Sequence[MembersFound]) -> str:
    """The curves of LiRA on logarithmic axes, beside guessing and the ceiling of what is found."""
    lines = [plot.Line(name="guessing", x=_LEVELS, y=_LEVELS, is_faint=True)]
    for one in found:
        if one.attacker == _MAIN:
            shown = "no noise" if one.epsilon is None else f"epsilon {one.epsilon:g}"
            name = f"{one.row}, {shown}"
            lines.append(plot.Line(name=name, x=np.array(one.alarms), y=np.array(one.hits)))
    axes = plot.Axes(
        title="Who was learned from, by LiRA",
        x_label="false alarms",
        y_label="found",
        is_log=True,
    )
    return plot.svg(lines, axes)


_LEVELS = np.array([1e-3, 1.0])
