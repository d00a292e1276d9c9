"""Membership in the experiments: tables say what was found beside what epsilon allows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from experiments import mask_dp, membership, tempdiff
from experiments.engine import Run
from experiments.mask_dp import DP, MASK_DP, MaskDpSettings
from experiments.membership import AttackedRow, MembersFound
from experiments.signals import SignalParts
from experiments.tempdiff import TempdiffSettings
from masquerade import _json
from masquerade.attacks.membership import Membership
from masquerade.events import GaussianDpEvent
from masquerade.guarantee import Relation
from masquerade.publish.attacked import ShadowTraining
from masquerade.scores import MeasuredRate
from masquerade.tradeoff import compute_max_power
from masquerade.training import votes
from masquerade.training.rows import Rows

torch = pytest.importorskip("torch")

from few_signals import PRIVATE, PUBLIC  # noqa: E402

torch.set_num_threads(1)
PLAN = MaskDpSettings(quick=True, epochs=2.0, batch=12, mask_batch=12, jobs=1).settle()
RIGHT = np.arange(24) % 2


def figures(value: float, spread: float = 0.01) -> tuple[MeasuredRate, ...]:
    return tuple(
        MeasuredRate(
            measure=name,
            value=value,
            low=value - spread,
            high=value + spread,
            count=24,
            of="recordings",
        )
        for name in ("hits", "fewer", "AUC")
    )


def found(row: str, epsilon: float | None, value: float, allowed: float) -> MembersFound:
    return MembersFound(
        row=row,
        epsilon=epsilon,
        attacker="LiRA, with and without",
        published=figures(value),
        ceiling=figures(0.9),
        floor=figures(0.0),
        allowed=() if epsilon is None else (allowed, allowed),
        alarms=(0.001, 0.1, 1.0),
        hits=(0.01, 0.2, 1.0),
        shadows=8,
        protected="whole recording",
        bound=() if epsilon is None else (allowed,) * 16,
        top_1=(0.5, 0.6),
        tested=100,
    )


def test_a_table_shows_what_is_found_beside_what_epsilon_allows() -> None:
    rows = [found("DP", 1.0, 0.015, 0.02), found("DP", None, 0.3, 1.0)]
    text = "\n".join(membership.write_section(rows))
    assert "| DP | 1 | whole recording | 1.5 (0.5 to 2.5) | 2.0 |" in text
    assert "| DP | no noise | whole recording | 30.0 (29.0 to 31.0) | anything |" in text
    assert "Nowhere is more found than epsilon allows." in text
    assert "| 55.0 ± 7.1 |" in text
    assert membership.draw_curves(rows).count("allowed</text>") == 1, "without noise all is allowed"
    assert membership.write_section([]) == []
    again = membership.read_found([_json.encode_noun(one) for one in rows])
    assert again == rows


def test_the_frontier_goes_from_who_is_found_least_to_what_is_kept_most() -> None:
    strict, loose = found("DP", 1.0, 0.015, 0.02), found("DP", None, 0.3, 1.0)
    drawn = membership.draw_frontier([strict, replace(loose, top_1=(0.9, 0.9))])
    assert drawn.count("<circle") == 4 and "DP, eps 1: 1.5 given away, 55 kept" in drawn
    line = next(one for one in drawn.splitlines() if 'class="frontier"' in one)
    assert line.partition('points="')[2].partition('"')[0].count(",") == 3, "a step of two corners"
    worse = membership.draw_frontier([strict, replace(loose, top_1=(0.1, 0.1))])
    line = next(one for one in worse.splitlines() if 'class="frontier"' in one)
    assert line.partition('points="')[2].partition('"')[0].count(",") == 1, "it is not on the line"


def test_a_table_says_where_more_is_found_than_epsilon_allows() -> None:
    text = "\n".join(membership.write_section([found("DP", 1.0, 0.3, 0.02)]))
    assert "More is found than epsilon allows: DP at 1." in text


def test_what_is_allowed_is_the_curve_of_the_event_and_never_above_epsilon() -> None:
    most = membership.bound_hits(
        GaussianDpEvent(2.0), epsilon=4.0, delta=1e-5, relation=Relation.ZERO_OUT
    )
    assert most(0.01) == pytest.approx(0.0339, abs=1e-3)  # one half of a standard deviation apart
    loose = membership.bound_hits(GaussianDpEvent(0.1), epsilon=0.1, delta=1e-5)
    assert loose(0.01) == compute_max_power(0.01, epsilon=0.1, delta=1e-5, is_gaussian=False)


def test_attacks_are_run_near_one_at_the_largest_and_without_noise() -> None:
    assert membership.choose_columns((0.1, 1.0, 5.0, math.inf)) == [1.0, 5.0, math.inf]
    assert membership.choose_columns((8.0,)) == [8.0, math.inf]


def rows() -> Rows:
    rng = np.random.default_rng(0)
    values = rng.normal(0, 1, (24, 128)).astype(np.float32)
    return Rows(
        private=torch.from_numpy(values),
        public=torch.from_numpy(np.zeros_like(values)),
        targets=torch.from_numpy(RIGHT),
        slots=np.arange(24)[:, None],
    )


def test_a_shadow_model_knows_its_members_and_nobody_else() -> None:
    case = mask_dp.build_case(PLAN, DP, math.inf, rows(), 2)
    inside = np.arange(24) < 12
    outputs = case.overfit(inside, 0)
    right = outputs.argmax(axis=1) == RIGHT
    assert right[inside].all() and right[~inside].mean() < 0.95
    assert case.allowed is None
    assert case.learn(inside, 0).shape == (24, 2)


def test_whoever_is_no_member_keeps_the_public_view_where_a_method_has_one() -> None:
    case = mask_dp.build_case(PLAN, MASK_DP, 1.0, rows(), 2)
    assert isinstance(case.learn, ShadowTraining) and case.allowed is not None
    inside = np.arange(24) < 12
    learned = case.learn._select_rows(inside)
    assert learned.num_units == 24, "all stay in the run"
    assert (learned.private[~inside] == 0).all() and (learned.private[inside] != 0).any()
    assert (rows().private[~inside] != 0).any(), "the rows themselves are left alone"
    assert 0.01 < case.allowed(0.01) < 0.05


def test_an_attack_on_rows_that_are_learned_by_heart_succeeds_and_noise_stops_it() -> None:
    attack = Membership(shadows=6, few=24, jobs=1)
    told: list[MembersFound] = []
    for epsilon in (0.25, math.inf):
        case = mask_dp.build_case(PLAN, DP, epsilon, rows(), 2)
        if epsilon < math.inf:
            case = replace(case, overfit=case.learn)  # which is asked for below, once
        attacked = AttackedRow(
            name=DP,
            epsilon=None,
            protected="all",
            case=case,
            test=lambda inside, seed: float(inside.mean()),
            tested=24,
        )
        told += membership.read_found(membership.attack_row(attacked, attack=attack))
    quiet, loud = told[0], told[4]
    assert quiet.attacker == loud.attacker == "LiRA, with and without"
    assert loud.published[2].value > 0.6 and loud.ceiling[2].value > 0.8
    assert quiet.published[2].low < 0.55
    assert loud.top_1 == (0.5,) * 4 and loud.tested == 24, "tested are models of halves"


@pytest.mark.slow
def test_students_of_votes_are_attacked_by_teacher() -> None:
    tables = TempdiffSettings(
        sizes=(2, 4),
        gammas=(0.5,),
        queries=(20,),
        person_queries=10,
        epsilons=(2.0,),
        windows=(10, 20),
        teacher="nearest",
        hidden=4,
        seeds=1,
        num_processes=1,
        student_epochs=1,
        membership=6,
    )
    parts: dict[str, Any] = {"train": PRIVATE, "public": PUBLIC, "test": PUBLIC}
    examined = tempdiff.measure_world(Run(settings=tables.settle()), SignalParts.of(parts))
    shipped = [one for one in examined.members if one.protected == "one person"]
    assert {one.epsilon for one in shipped} == {2.0, None} and len(shipped) == 2 * 4
    published = [one for one in examined.members if one not in shipped]
    assert {one.row for one in published} == {"as published"} and len(published) == 4
    assert {one.protected for one in published} == {"one teacher's data, gamma 0.5"}
    true = votes.Ballot(aggregator="lnmax", queries=20, scale=2.0).compute_epsilon(1e-5)
    assert {one.epsilon for one in published} == {true}, "not what is claimed"
    assert all(one.allowed and one.bound for one in examined.members if one.epsilon)
    assert all(0 <= share <= 1 for one in examined.members for share in one.top_1)
    with pytest.raises(ValueError, match="even number"):
        _ = replace(tables, membership=7)
