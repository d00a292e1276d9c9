"""The five papers: every figure of the analysis, reproduced."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from scipy.integrate import quad
from scipy.stats import chi

from experiments.papers import write_page
from masquerade.accounting import votes
from masquerade.accounting.published import (
    FeatureProjectiveClaim,
    MaskDpClaim,
    TempdiffClaim,
    VideoDprpClaim,
)
from masquerade.accounting.verdict import Verdict
from masquerade.tradeoff import gaussian_delta, gaussian_epsilon


@pytest.mark.parametrize(
    ("epsilon", "sigma_1", "sigma_2", "value", "sixteen", "frame"),
    [
        (2, 13.8477, 88.9090, 239.8, 9.08e3, 4.29e7),
        (5, 6.1484, 56.2310, 1038, 4.55e4, 2.18e8),
        (8, 4.1891, 44.4545, 2146, 9.78e4, 4.69e8),
    ],
)
def test_video_dprp(
    epsilon: float, sigma_1: float, sigma_2: float, value: float, sixteen: float, frame: float
) -> None:
    verdict = VideoDprpClaim(epsilon=epsilon).judge_claim()
    assert verdict.valid is False
    assert verdict.figures["sigma_1"] == pytest.approx(sigma_1, abs=1.01e-4)
    assert verdict.figures["sigma_2"] == pytest.approx(sigma_2, abs=1.01e-4)
    expected = {"value": value, "pixels(16)": sixteen, "frame": frame}
    assert verdict.true_epsilon == pytest.approx(expected, rel=2.5e-3)


def test_the_true_epsilon_of_a_projection_is_a_mean_over_its_stretch() -> None:
    claim = VideoDprpClaim()
    epsilon = claim.true_epsilon(255.0)
    mu, k = 255.0 / claim.sigma_1(), claim.columns

    def weighted(c: float) -> float:
        return float(chi.pdf(c, k) * gaussian_delta(epsilon, mu * c / math.sqrt(k)))

    delta = quad(weighted, chi.ppf(1e-14, k), chi.isf(1e-14, k), epsabs=1e-12, limit=500)[0]
    assert delta == pytest.approx(1e-4, rel=1e-2) and delta <= 1e-4


@pytest.mark.parametrize(
    ("epsilon", "z", "apart_zero", "apart_replaced", "zero", "replaced"),
    [
        (0.5, 15.4143, 0.4551, 0.9686, 5.0565, 11.6921),
        (1, 8.16111, 0.9148, 1.9562, 10.8846, 26.8974),
        (5, 2.04629, 4.6203, 9.7929, 73.2847, 226.3189),
    ],
)
def test_mask_dp(
    epsilon: float,
    z: float,
    apart_zero: float,
    apart_replaced: float,
    zero: float,
    replaced: float,
) -> None:
    verdict = MaskDpClaim(epsilon=epsilon).judge_claim()
    assert verdict.figures["noise_multiplier"] == pytest.approx(z, rel=1e-5)
    assert verdict.figures["independent_zero_out"] == pytest.approx(apart_zero, rel=3e-3)
    assert verdict.figures["independent_replace_one"] == pytest.approx(apart_replaced, rel=3e-3)
    assert verdict.true_epsilon["record/zero_out"] == pytest.approx(zero, rel=1e-4)
    assert verdict.true_epsilon["record/replace_one"] == pytest.approx(replaced, rel=1e-4)


@pytest.mark.parametrize(
    ("epsilon", "z", "zero", "replaced", "shared_zero", "shared_replaced"),
    [
        (0.2, 4.3756, 0.1807, 0.3768, 4.97, 11.7),
        pytest.param(0.4, 2.3892, 0.3629, 0.7306, 10.47, 26.7, marks=pytest.mark.slow),
        pytest.param(0.6, 1.7230, 0.5454, 1.0529, 16.07, 43.3, marks=pytest.mark.slow),
        (0.8, 1.3952, 0.7278, 1.3462, 21.44, 60.2),
    ],
)
def test_feature_projective(
    epsilon: float,
    z: float,
    zero: float,
    replaced: float,
    shared_zero: float,
    shared_replaced: float,
) -> None:
    verdict = FeatureProjectiveClaim(epsilon=epsilon).judge_claim()
    assert verdict.valid is None
    assert verdict.figures["noise_multiplier"] == pytest.approx(z, abs=1e-4)
    assert verdict.true_epsilon["record/zero_out"] == pytest.approx(zero, rel=3e-3)
    assert verdict.true_epsilon["record/replace_one"] == pytest.approx(replaced, rel=3e-3)
    assert verdict.figures["same_batch_zero_out"] == pytest.approx(shared_zero, rel=1e-3)
    assert verdict.figures["same_batch_replace_one"] == pytest.approx(shared_replaced, rel=5e-3)


def test_ppedcrf(verdicts: dict[str, Any]) -> None:
    verdict = verdicts["ppedcrf"]
    assert set(verdict.true_epsilon.values()) == {None}
    assert verdict.figures["uniform_noise_value"] == pytest.approx(643.0, abs=0.1)
    assert verdict.figures["half_noise_value"] == pytest.approx(2303, abs=1)
    assert verdict.figures["uniform_noise_pixel"] == pytest.approx(1759, abs=1)
    said = " ".join(verdict.arithmetic)
    assert "4.8448" in said and "0.6056" in said


def test_tempdiff(verdicts: dict[str, Any]) -> None:
    verdict = verdicts["tempdiff"]
    assert verdict.valid is False
    assert verdict.true_epsilon["shard"] == pytest.approx(134.7, rel=4e-4)
    assert verdict.figures["shard_at_least"] == pytest.approx(81.70, abs=0.01)
    assert verdict.values == (
        "between two bounds: shard: 81.704 to 134.66; subject: 243.12 to 397.51"
    )
    assert verdict.figures["accountant_floor"] == 1.4391
    little = TempdiffClaim(gamma=0.001, printed=1.4).judge_claim()
    assert little.valid is True, "with enough noise the number would hold"


def test_the_docs_page_is_the_one_that_the_code_writes(verdicts: dict[str, Any]) -> None:
    page = Path(__file__).parents[2] / "docs" / "papers.md"
    assert page.read_text() == write_page(list(verdicts.values())), "run: make docs"


def test_no_printed_epsilon_is_below_the_one_that_holds(verdicts: dict[str, Verdict]) -> None:
    lines = " ".join(verdicts["ppedcrf"].arithmetic)
    figures = verdicts["ppedcrf"].figures
    printed = [float(found) for found in re.findall(r"(?:epsilon|pixel) ([\d.]+\d)", lines)]
    exact = [gaussian_epsilon(255 * shift / 8, 1e-5) for shift in (1, math.sqrt(3), 2)]
    assert len(printed) == len(exact) == len(figures)
    assert all(above >= true for above, true in zip(printed, exact, strict=True))
    bounds = votes.lnmax_bounds(0.3, queries=1000, delta=1e-5)
    subject = votes.lnmax_bounds(0.3, queries=1000, delta=1e-5, shards_per_subject=2)
    lines = "\n".join(verdicts["tempdiff"].arithmetic)
    for name, value in bounds.items():
        found = re.search(rf"^{name}, an upper bound: ([\d.e+]+)$", lines, re.M)
        assert found is not None and float(found[1]) >= value, name
    found = re.search(r"2 teachers: .* at most ([\d.]+)", lines)
    assert found is not None and float(found[1]) >= min(subject.values())
    at_least = votes.lnmax_at_least(0.3, queries=1000, teachers=50, delta=1e-5)
    found = re.search(r"at least ([\d.]+) is lost", lines)
    assert found is not None and float(found[1]) <= at_least
