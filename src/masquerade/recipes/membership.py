"""Membership beside utility: what attackers find in models of a recipe, and what epsilon allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from joblib import delayed

from masquerade import _formatting, _json
from masquerade.accounting.power import false_negative_rate
from masquerade.attacks.attack import ModelCase
from masquerade.attacks.membership import Membership
from masquerade.attacks.membership_scores import RATES, Shadows
from masquerade.events import DpEvent
from masquerade.guarantee import Relation
from masquerade.recipes import bench
from masquerade.recipes.verdict import Runs
from masquerade.report import plots
from masquerade.scores import Success
from masquerade.tradeoff import power

_MAIN = "LiRA, with and without"
_TESTED = 4  # attacked models that are trained once more, to test them
_LEVELS = np.geomspace(1e-3, 1.0, 16)  # false alarms at which what is allowed is drawn
Allowed: TypeAlias = Callable[[float], float]
"""From a rate of false alarms to the hits that a guarantee allows."""


@dataclass(frozen=True, kw_only=True)
class MembersFound:
    """One attacker against one way of training, and what such models are good for.

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
        bound: hits that the guarantee allows at each of `_LEVELS`; empty without one.
        top_1: of models that learned from the same halves, on recordings that nobody learned from.
        tested: how many of these recordings there are.
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
    bound: tuple[float, ...] = ()
    top_1: tuple[float, ...] = ()
    tested: int = 0

    @property
    def use(self) -> Runs:
        """Top-1 of the attacked."""
        return Runs(self.top_1, tested=self.tested)

    @property
    def named(self) -> str:
        """The row and its epsilon, short."""
        return f"{self.row}, " + (
            "no noise" if self.epsilon is None else f"eps {_up(self.epsilon)}"
        )

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


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackedRow:
    """A way of training that is attacked, and how its models are tested.

    Args:
        name: of the row.
        epsilon: that it has; None without noise.
        protected: what the unit is.
        case: for the attack.
        test: Top-1 of a model that learns from these units, (U,) bool, by a seed.
        tested: recordings that this is the share of.
    """

    name: str
    epsilon: float | None
    protected: str
    case: ModelCase
    test: Callable[[np.ndarray, int], float]
    tested: int

    def top_1(self, attack: Membership) -> tuple[float, ...]:
        """Of a few models, each of the same units as one that is attacked."""
        some = attack.halves(self.case)[:_TESTED]
        calls = (delayed(self.test)(members, number) for number, members in enumerate(some))
        return tuple(bench.together(calls, jobs=attack.processes))


def found_in(
    attacked: AttackedRow,
    *,
    attack: Membership,
    leaky: Callable[[], Shadows] | None = None,
    told: bench.Told = bench.quiet,
) -> list[dict[str, Any]]:
    """Every attacker against a way of training, as JSON for a journal.

    ``leaky`` gives the ceiling's models where several rows share them.
    """
    case, found = attacked.case, []
    top_1, allowed, bound = attacked.top_1(attack), _most(case, RATES), _most(case, _LEVELS)
    for tried in attack.tried(case, told=told, leaky=leaky and leaky()):
        concluded = attack.concluded(case, tried)
        alarms, hits = tried.published.curve()
        one = MembersFound(
            row=attacked.name,
            epsilon=attacked.epsilon,
            attacker=tried.attacker,
            published=concluded.published,
            ceiling=concluded.ceiling,
            floor=concluded.floor,
            allowed=allowed,
            alarms=tuple(alarms.round(6).tolist()),
            hits=tuple(hits.round(6).tolist()),
            shadows=attack.shadows,
            protected=attacked.protected,
            bound=bound,
            top_1=top_1,
            tested=attacked.tested,
        )
        found.append(_json.encode(one))
    return found


def _most(case: ModelCase, rates: Sequence[float] | np.ndarray) -> tuple[float, ...]:
    return () if case.allowed is None else tuple(case.allowed(float(rate)) for rate in rates)


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
                f"Top-1 is of {len(found[0].top_1)} models that learned from the same halves as "
                f"attacked ones did, on {found[0].tested} recordings or windows of other people.",
                _refuted(found),
            ]
        ),
    ]


def _table(found: Sequence[MembersFound]) -> str:
    names = list(dict.fromkeys(one.attacker for one in found))
    heading = ["trained by", "epsilon", "what is protected", *names, "epsilon allows"]
    heading += [f"AUC, {_MAIN}", "Top-1 of the attacked"]
    rows = []
    for row, epsilon in dict.fromkeys((one.row, one.epsilon) for one in found):
        own = {one.attacker: one for one in found if (one.row, one.epsilon) == (row, epsilon)}
        main = own[_MAIN]
        words = [_span(own[name].published[0]) for name in names]
        most = f"{100 * main.allowed[0]:.1f}" if main.allowed else "anything"
        shown = "no noise" if epsilon is None else _up(epsilon)
        area = main.published[2]
        rows.append(
            [
                row,
                shown,
                main.protected,
                *words,
                most,
                f"{area.value:.2f} ({area.low:.2f} to {area.high:.2f})",
                str(main.use) if main.top_1 else "-",
            ]
        )
    first = {one.attacker: one for one in reversed(found)}
    for name, bound in (("ceiling", "ceiling"), ("floor", "floor")):
        figures = [getattr(first[each], bound) for each in names]
        area = getattr(first[_MAIN], bound)[2]
        rows.append(
            [name, "", "", *(_span(one[0]) for one in figures), "", f"{area.value:.2f}", ""]
        )
    return bench.table(heading, rows)


def _up(epsilon: float) -> str:
    """Three digits, never less than it is."""
    return _formatting.shown(epsilon, 3)


def _span(figure: Success) -> str:
    value, low, high = (100 * each for each in (figure.value, figure.low, figure.high))
    return f"{value:.1f} ({low:.1f} to {high:.1f})"


def _refuted(found: Sequence[MembersFound]) -> str:
    wrong = [f"{one.row} at {one.epsilon:g}" for one in found if one.is_refuted and one.epsilon]
    if wrong:
        return f"More is found than epsilon allows: {', '.join(dict.fromkeys(wrong))}."
    return "Nowhere is more found than epsilon allows."


def drawn(found: Sequence[MembersFound]) -> str:
    """The curves of LiRA on logarithmic axes, each beside what its guarantee allows."""
    lines = [plots.Line(name="guessing", x=_LEVELS[[0, -1]], y=_LEVELS[[0, -1]], is_faint=True)]
    for colour, one in enumerate(_by_main(found)):
        x, y = np.array(one.alarms), np.array(one.hits)
        shown = x >= _LEVELS[0]  # below, a handful of guesses decide
        lines.append(plots.Line(name=one.named, x=x[shown], y=y[shown], colour=colour))
        if one.bound:
            most = np.array(one.bound)
            lines.append(
                plots.Line(name="   allowed", x=_LEVELS, y=most, colour=colour, is_faint=True)
            )
    axes = plots.Axes(
        title="Who was learned from, by LiRA, and what epsilon allows",
        x_label="false alarms",
        y_label="found",
        is_log=True,
    )
    return plots.draw_lines(lines, axes)


def kept(found: Sequence[MembersFound], *, this: tuple[str, float | None] | None = None) -> str:
    """What models are good for against what LiRA finds in them, with the frontier.

    Args:
        found: the models that were attacked.
        this: the row and the epsilon of one to mark.
    """
    dots = [
        plots.Dot(
            name=one.named,
            given_away=100 * one.published[0].value,
            low=100 * one.published[0].low,
            high=100 * one.published[0].high,
            kept=100 * one.use.mean,
            spread=100 * one.use.spread if len(one.top_1) > 1 else 0.0,
            is_proved=one.epsilon is not None,
            is_this=(one.row, one.epsilon) == this,
        )
        for one in _by_main(found)
    ]
    axes = plots.Axes(
        title="What is kept against who is found",
        x_label="found by LiRA at 1 % false alarms, % (less is better; 1 is guessing)",
        y_label="Top-1 of the attacked, %",
    )
    return plots.draw_frontier(dots, axes)


def _by_main(found: Sequence[MembersFound]) -> list[MembersFound]:
    return [one for one in found if one.attacker == _MAIN]
