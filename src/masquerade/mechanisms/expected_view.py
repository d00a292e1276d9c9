"""What a release will be good for, said before it is made: what there is to see, or noise alone.

It follows from mechanism, unit, epsilon and size alone. The bounds between the words were chosen
by looking at releases of generated clips beside `Plan.visible_share`; docs/video.md has the table.
A number is noise alone if its noise is wider than the public range: a guess is as good. Where rows
are protected one by one, means of many may be wanted, and ten times as much passes.

How much of a picture a release leaves to see, from public knowledge alone.

Only what varies within a frame counts: brightness alone is a plane of one grey. Pictures are taken
to be as the public prior expects them (`masquerade.mechanisms.prior`), so nothing here depends on a
recording. docs/video.md has what was measured beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from enum import StrEnum
from typing import Any

import numpy as np

from masquerade._formatting import format_count
from masquerade.guarantee import WHOLE_FILE
from masquerade.mechanism import Mechanism, Plan, Shapes
from masquerade.mechanisms import prior
from masquerade.mechanisms.prior import Size

ENCODING_ERROR = 1.5  # of that, by rounding to bytes and an encoder
_CHANNEL_VARIANCE = 41.0**2  # variance of a channel within frames, by the prior


def compute_denoised_share(size: Size, spectrum: np.ndarray, fidelity: np.ndarray | float) -> float:
    """Share that is left by the best linear guess from coefficients with noise.

    One of prior variance P that was released with noise of variance 1/L keeps P L / (1 + P L).

    Args:
        size: T, H, W of the chunk.
        spectrum: P of each released coefficient of luma; 0 for brightness, which does not count.
        fidelity: L of each.
    """
    whole, brightness = prior.compute_prior_energy(size)
    total = whole - brightness
    gain = spectrum * fidelity
    return float(np.sum(spectrum * gain / (1 + gain))) / total if total > 0 else 0.0


def compute_raw_share(variance: float, *, projected: float = 1.0) -> float:
    """Share of what is shown that is the picture, where noise is shown with it.

    Args:
        variance: of the noise on each number; three of them make one luma.
        projected: share of a frame's directions that are kept; what a random projection mixes in
            of the others looks like noise as well.

    Example:
        >>> round(compute_raw_share(0.0), 2), round(compute_raw_share(240.0**2), 2)
        (1.0, 0.08)
        >>> round(compute_raw_share(0.0, projected=1 / 75), 2)
        0.04
    """
    seen = projected * _CHANNEL_VARIANCE
    return seen / (seen + ((1 - projected) * _CHANNEL_VARIANCE + variance) / 3)


def measure_stray_detail(frames: Sequence[np.ndarray], high: np.ndarray, wide: np.ndarray) -> float:
    """The most of a frame's grey that no output can show, root mean square; a hint that one is not.

    Args:
        frames: (H, W, 3), of a film that is said to be an output.
        high: columns of which those of every output are made, (H, G).
        wide: the same of its rows, (W, K).
    """
    high, wide = np.linalg.qr(high)[0], np.linalg.qr(wide)[0]
    most = 0.0
    for frame in frames:
        grey = frame.mean(axis=2)
        rest = grey - high @ (high.T @ grey @ wide) @ wide.T
        most = max(most, float(np.sqrt(np.mean(rest**2))))
    return most


_MIN_SHAPE_SHARE = 0.1  # share of a picture's variation below which nothing of it was to be seen
_MIN_SCENE_SHARE = 0.7  # above which people and things could be told
_MAX_NOISE_RANGES = 1.0  # public ranges that noise on a number may be wide,
_MAX_AVERAGED_RANGES = 10.0  # if many rows can be averaged
_SUGGESTED_UNITS = ("frame", "value")  # that are tried instead, the widest first
_MAX_DOUBLINGS = 14  # so often an epsilon is doubled,
_MAX_SUGGESTED_EPSILON = 20.0  # up to where it still protects something


class ExpectedView(StrEnum):
    """What is left to see."""

    GREY = "plain grey or noise"
    SHAPES = "blurred shapes or noisy ones"
    SCENE = "a readable scene"
    NOISE = "numbers that are noise alone"


USELESS_VIEWS = (ExpectedView.GREY, ExpectedView.NOISE)  # not written unasked


def predict_view(plan: Plan, shapes: Shapes, *, is_video: bool) -> ExpectedView | None:
    """What to expect of a release; None where there is nothing to say."""
    if not is_video:
        return ExpectedView.NOISE if _is_noise(plan, shapes) else None
    share = plan.visible_share
    if share is None:
        return None
    if share < _MIN_SHAPE_SHARE:
        return ExpectedView.GREY
    return ExpectedView.SHAPES if share < _MIN_SCENE_SHARE else ExpectedView.SCENE


def _is_noise(plan: Plan, shapes: Shapes) -> bool:
    is_whole = plan.guarantee.unit.name in WHOLE_FILE
    is_averaged = not is_whole and max(shape[0] for shape in shapes) > 1
    return _ranges_off(plan) > (_MAX_AVERAGED_RANGES if is_averaged else _MAX_NOISE_RANGES)


def _ranges_off(plan: Plan) -> float:
    """The noise's standard deviation on a number, in public ranges; 0 where nobody can say."""
    unit, error = plan.guarantee.unit, plan.expected_error
    if error is None or unit.low is None or unit.high is None:
        return 0.0
    return error / (unit.high - unit.low)


def describe_view(sight: ExpectedView | None) -> list[str]:
    """The sentence, where there is one."""
    return [] if sight is None else [f"Expect {sight.value}."]


def summarise_views(sights: Iterable[ExpectedView | None]) -> list[str]:
    """The same of several files, the worst first."""
    found = Counter(sights)
    return [
        f"Expect {sight.value} in {format_count(found[sight], 'file')}."
        for sight in ExpectedView
        if found[sight]
    ]


def refuse_useless(mechanism: Mechanism, plan: Plan, shapes: Shapes, *, is_video: bool) -> None:
    """Stop before anything is spent on what would be grey, or noise alone.

    Raises:
        ValueError: if that is to be expected.
    """
    sight = predict_view(plan, shapes, is_video=is_video)
    if sight not in USELESS_VIEWS:
        return
    if sight is ExpectedView.NOISE:
        rule = "numbers that mean something"
        why = f"noise {_ranges_off(plan):.3g} times as wide as the public range"
        remedy = _suggest_settings(mechanism, shapes)
    else:
        rule = "a release in which something can be seen"
        why = f"about {100 * (plan.visible_share or 0.0):.2g} % of the picture is left"
        remedy = "Choose a smaller unit or a larger epsilon"
    raise ValueError(
        f"Expected {rule}, got {sight.value}: {why} for the unit {plan.guarantee.unit}. Nothing "
        f"was written or spent. {remedy} and try --dry-run, or write it all the same with --yes "
        "(in Python, accept_grey=True)."
    )


def _suggest_settings(mechanism: Any, shapes: Shapes) -> str:
    """Units and epsilons that would leave something of numbers."""

    def leaves_something(**changes: Any) -> bool:
        return not _is_noise(replace(mechanism, **changes).plan(shapes), shapes)

    known, found = {each.name for each in fields(mechanism)}, list[str]()
    if {"unit", "pixels"} <= known:
        units = (unit for unit in _SUGGESTED_UNITS if leaves_something(unit=unit, pixels=None))
        found += [f"--unit {unit}" for unit in units][:1]
    if "epsilon" in known:
        several = [mechanism.epsilon * 2**times for times in range(1, _MAX_DOUBLINGS)]
        found += [
            f"--epsilon {each:g}"
            for each in several
            if each <= _MAX_SUGGESTED_EPSILON and leaves_something(epsilon=each)
        ][:1]
    return f"Choose {' or '.join(found) or 'a smaller unit or a larger epsilon'}"
