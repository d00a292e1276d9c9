"""Membership beside utility: what attackers find in models of a recipe, and what epsilon allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from experiments.claims import Runs
from experiments.engine import Progress, hide_progress, run_parallel
from experiments.pages import write_list, write_table
from masquerade import _formatting, _json
from masquerade.accounting.power import false_negative_rate
from masquerade.attacks.attack import ModelCase
from masquerade.attacks.membership import Membership
from masquerade.attacks.membership_scores import FALSE_ALARM_RATES, ShadowModels
from masquerade.events import DpEvent
from masquerade.guarantee import Relation
from masquerade.report import plots
from masquerade.scores import MeasuredRate
from masquerade.tradeoff import compute_max_power

_MAIN = "LiRA, with and without"
_TESTED = 4  # attacked models that are trained once more, to test them
_LEVELS = np.geomspace(1e-3, 1.0, 16)  # false alarms at which what is allowed is drawn
Allowed: TypeAlias = Callable[[float], float]
"""From a rate of false alarms to the hits that a guarantee allows."""


@dataclass(frozen=True, kw_only=True)
class MembersFound:
    """One attacker against one way of training, and what such models are good for."""

    row: str  # the way of training
    epsilon: float | None  # that was asked for; None without noise
    attacker: str  # by what they know
    # hits at each rate of false alarms, and the area under the curve
    published: tuple[MeasuredRate, ...]
    ceiling: tuple[MeasuredRate, ...]  # the same of a model that was overfitted to few
    floor: tuple[MeasuredRate, ...]  # the same of models that never saw whom they are asked for
    allowed: tuple[float, ...]  # hits that the guarantee allows at each rate; empty without one
    alarms: tuple[float, ...]  # of the curve
    hits: tuple[float, ...]  # of the curve
    shadows: int  # models
    protected: str  # what the unit is
    # hits that the guarantee allows at each of `_LEVELS`; empty without one
    bound: tuple[float, ...] = ()
    # of models that learned from the same halves, on recordings that nobody learned from
    top_1: tuple[float, ...] = ()
    tested: int = 0  # how many of these recordings there are

    @property
    def use(self) -> Runs:
        """Top-1 of the attacked."""
        return Runs(self.top_1, tested=self.tested)

    @property
    def named(self) -> str:
        """The row and its epsilon, short."""
        return f"{self.row}, " + (
            "no noise" if self.epsilon is None else f"eps {_round_up(self.epsilon)}"
        )

    @property
    def is_refuted(self) -> bool:
        """Whether more is found than the guarantee allows."""
        pairs = zip(self.published, self.allowed, strict=False)
        return any(figure.low > most for figure, most in pairs)


def bound_hits(
    event: DpEvent, *, epsilon: float, delta: float, relation: Relation = Relation.REPLACE_ONE
) -> Allowed:
    """The most that any attacker finds: by the whole curve of the event, and by epsilon."""

    def most(rate: float) -> float:
        missed = false_negative_rate(rate, event, relation=relation)
        return min(
            1 - missed, compute_max_power(rate, epsilon=epsilon, delta=delta, is_gaussian=False)
        )

    return most


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackedRow:
    """A way of training that is attacked, and how its models are tested."""

    name: str  # of the row
    epsilon: float | None  # that it has; None without noise
    protected: str  # what the unit is
    case: ModelCase  # for the attack
    # Top-1 of a model that learns from these units, (U,) bool, by a seed
    test: Callable[[np.ndarray, int], float]
    tested: int  # recordings that this is the share of

    def top_1(self, attack: Membership) -> tuple[float, ...]:
        """Of a few models, each of the same units as one that is attacked."""
        some = attack.sample_shadow_halves(self.case)[:_TESTED]
        calls = (partial(self.test, members, number) for number, members in enumerate(some))
        return tuple(run_parallel(calls, jobs=attack.num_processes))


def attack_row(
    attacked: AttackedRow,
    *,
    attack: Membership,
    leaky: Callable[[], ShadowModels] | None = None,
    progress: Progress = hide_progress,
) -> list[dict[str, Any]]:
    """Every attacker against a way of training, as JSON for a journal.

    ``leaky`` gives the ceiling's models where several rows share them.
    """
    case, found = attacked.case, []
    top_1, allowed, bound = (
        attacked.top_1(attack),
        _bound_at(case, FALSE_ALARM_RATES),
        _bound_at(case, _LEVELS),
    )
    for tried in attack.guess_members(case, told=progress, leaky=leaky and leaky()):
        concluded = attack.summarise_guesses(case, tried)
        alarms, hits = tried.published.compute_curve()
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
        found.append(_json.encode_noun(one))
    return found


def _bound_at(case: ModelCase, rates: Sequence[float] | np.ndarray) -> tuple[float, ...]:
    return () if case.allowed is None else tuple(case.allowed(float(rate)) for rate in rates)


def read_found(held: Sequence[dict[str, Any]]) -> list[MembersFound]:
    """From a journal."""
    return [_json.decode_noun(MembersFound, one) for one in held]


def choose_columns(epsilons: Sequence[float]) -> list[float]:
    """The epsilons at which it is worth to attack: about 1, the largest, and without noise."""
    finite = [epsilon for epsilon in epsilons if epsilon < math.inf]
    some = {min(finite, key=lambda one: abs(math.log(one))), max(finite)} if finite else set()
    return [*sorted(some), math.inf]


def write_section(found: Sequence[MembersFound]) -> list[str]:
    """Markdown: a table, and what it shows; empty where nobody attacked."""
    if not found:
        return []
    units = {(one.published[0].count, one.published[0].of) for one in found}
    shown = ", ".join(f"{count} {of}" for count, of in sorted(units))
    return [
        "### Membership: found at 1 % false alarms, in per cent",
        _write_table(found),
        write_list(
            [
                f"{found[0].shadows} shadow models of each row, half of {shown} in each; every "
                "one is attacked by the others. Brackets are 95 % intervals over whole units.",
                "The ceiling is a model that was trained on few of them without noise and for "
                "long; the floor are models that never saw whom they were asked for.",
                f"Top-1 is of {len(found[0].top_1)} models that learned from the same halves as "
                f"attacked ones did, on {found[0].tested} recordings or windows of other people.",
                _write_refuted(found),
            ]
        ),
    ]


def _write_table(found: Sequence[MembersFound]) -> str:
    names = list(dict.fromkeys(one.attacker for one in found))
    heading = ["trained by", "epsilon", "what is protected", *names, "epsilon allows"]
    heading += [f"AUC, {_MAIN}", "Top-1 of the attacked"]
    rows = []
    for row, epsilon in dict.fromkeys((one.row, one.epsilon) for one in found):
        own = {one.attacker: one for one in found if (one.row, one.epsilon) == (row, epsilon)}
        main = own[_MAIN]
        words = [_format_span(own[name].published[0]) for name in names]
        most = f"{100 * main.allowed[0]:.1f}" if main.allowed else "anything"
        shown = "no noise" if epsilon is None else _round_up(epsilon)
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
            [name, "", "", *(_format_span(one[0]) for one in figures), "", f"{area.value:.2f}", ""]
        )
    return write_table(heading, rows)


def _round_up(epsilon: float) -> str:
    """Three digits, never less than it is."""
    return _formatting.format_rounded_up(epsilon, 3)


def _format_span(figure: MeasuredRate) -> str:
    value, low, high = (100 * each for each in (figure.value, figure.low, figure.high))
    return f"{value:.1f} ({low:.1f} to {high:.1f})"


def _write_refuted(found: Sequence[MembersFound]) -> str:
    wrong = [f"{one.row} at {one.epsilon:g}" for one in found if one.is_refuted and one.epsilon]
    if wrong:
        return f"More is found than epsilon allows: {', '.join(dict.fromkeys(wrong))}."
    return "Nowhere is more found than epsilon allows."


def draw_curves(found: Sequence[MembersFound]) -> str:
    """The curves of LiRA on logarithmic axes, each beside what its guarantee allows."""
    lines = [plots.PlotLine(name="guessing", x=_LEVELS[[0, -1]], y=_LEVELS[[0, -1]], is_faint=True)]
    for colour, one in enumerate(_pick_main(found)):
        x, y = np.array(one.alarms), np.array(one.hits)
        shown = x >= _LEVELS[0]  # below, a handful of guesses decide
        lines.append(plots.PlotLine(name=one.named, x=x[shown], y=y[shown], colour=colour))
        if one.bound:
            most = np.array(one.bound)
            lines.append(
                plots.PlotLine(name="   allowed", x=_LEVELS, y=most, colour=colour, is_faint=True)
            )
    axes = plots.PlotAxes(
        title="Who was learned from, by LiRA, and what epsilon allows",
        x_label="false alarms",
        y_label="found",
        is_log=True,
    )
    return plots.draw_lines(lines, axes)


def draw_frontier(
    found: Sequence[MembersFound], *, this: tuple[str, float | None] | None = None
) -> str:
    """What models are good for against what LiRA finds in them, with the frontier.

    Args:
        found: the models that were attacked.
        this: the row and the epsilon of one to mark.
    """
    dots = [
        plots.FrontierDot(
            name=one.named,
            given_away=100 * one.published[0].value,
            low=100 * one.published[0].low,
            high=100 * one.published[0].high,
            kept=100 * one.use.mean,
            spread=100 * one.use.spread if len(one.top_1) > 1 else 0.0,
            is_proved=one.epsilon is not None,
            is_this=(one.row, one.epsilon) == this,
        )
        for one in _pick_main(found)
    ]
    axes = plots.PlotAxes(
        title="What is kept against who is found",
        x_label="found by LiRA at 1 % false alarms, % (less is better; 1 is guessing)",
        y_label="Top-1 of the attacked, %",
    )
    return plots.draw_frontier(dots, axes)


def _pick_main(found: Sequence[MembersFound]) -> list[MembersFound]:
    return [one for one in found if one.attacker == _MAIN]
