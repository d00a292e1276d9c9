"""What was done, as values that any accountant can read.

Events are dp-accounting's ``DpEvent``; the few things that it cannot say are classes here.

Convention: noise_multiplier = sigma / C, where C bounds what one unit adds (zero_out, add_remove);
an accountant reads replace_one as twice that distance. For values clamped to a public range, C is
half the range: zero_out means "set to the middle".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import attr

from masquerade import _check, _optional

_optional.load_alone("dp_accounting.dp_event")  # its package takes a second to load
from dp_accounting.dp_event import (  # noqa: E402
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    MixtureOfGaussiansDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SelfComposedDpEvent,
)

__all__ = [
    "BoundedRangeDpEvent",
    "ComposedDpEvent",
    "DpEvent",
    "GaussianDpEvent",
    "LaplaceDpEvent",
    "MixtureOfGaussiansDpEvent",
    "NoGuaranteeDpEvent",
    "NoOpDpEvent",
    "NonPrivateDpEvent",
    "PoissonSampledDpEvent",
    "RandomizedResponseDpEvent",
    "RevealedSampledDpEvent",
    "SelfComposedDpEvent",
    "check_event",
    "event_from_json",
    "event_to_json",
]


@attr.s(frozen=True, slots=True, auto_attribs=True)
class RevealedSampledDpEvent(DpEvent):
    """A Poisson-sampled event whose batch membership the attacker sees.

    Nothing is amplified: with probability ``sampling_probability`` the attacker faces ``event``
    and knows it; otherwise it learns nothing.
    """

    sampling_probability: float
    event: DpEvent


@attr.s(frozen=True, slots=True, auto_attribs=True)
class BoundedRangeDpEvent(DpEvent):
    """The privacy loss lies in some interval of width ``bound``: an exponential mechanism.

    Weights exp(score) whose scores' changes span at most ``bound`` are that, and so is the class
    whose score plus Gumbel noise is largest [dong2020]. It is less than pure DP at the same
    number allows, where the loss spans twice as much. Under replace_one the span is 2 ``bound``.
    """

    bound: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class NoGuaranteeDpEvent(DpEvent):
    """Something was released for which nothing is proved: a heuristic, or a rehearsal."""

    reason: str


_CLASSES: dict[str, type[DpEvent]] = {
    name: globals()[name] for name in __all__ if name.endswith("DpEvent") and name != "DpEvent"
}


def event_to_json(event: DpEvent) -> dict[str, Any]:
    """Plain values for an event: its class and its fields.

    Example:
        >>> event_to_json(GaussianDpEvent(2.0))
        {'class_name': 'GaussianDpEvent', 'noise_multiplier': 2.0}
    """
    return dict(_encode_value(event))


def event_from_json(data: Mapping[str, Any]) -> DpEvent:
    """Rebuild an event; only the classes listed in this file are accepted.

    Example:
        >>> event_from_json({"class_name": "GaussianDpEvent", "noise_multiplier": 2.0})
        GaussianDpEvent(noise_multiplier=2.0)
    """
    if not isinstance(data, Mapping) or data.get("class_name") not in _CLASSES:
        raise ValueError(
            f"Expected an event with class_name among {', '.join(sorted(_CLASSES))}, got {data!r}."
        )
    fields = {name: _decode_value(value) for name, value in data.items() if name != "class_name"}
    try:
        event = _CLASSES[data["class_name"]](**fields)
    except TypeError as error:
        raise ValueError(f"Expected the fields of {data['class_name']}, got {data!r}.") from error
    check_event(event)
    return event


def check_event(event: DpEvent) -> None:
    """Refuse an event that could not have happened: a negative noise, a NaN, half a repetition."""
    for name, value in ((f.name, getattr(event, f.name)) for f in attr.fields(type(event))):
        if isinstance(value, DpEvent):
            check_event(value)
        elif isinstance(value, list | tuple):
            for part in value:
                if isinstance(part, DpEvent):
                    check_event(part)
                elif name in ("sensitivities", "sampling_probs"):
                    _check.not_negative(**{name: part})
        elif name in ("noise_multiplier", "noise_parameter", "standard_deviation", "bound"):
            _check.not_negative(**{name: value})
        elif name in ("count", "num_buckets"):
            _check.count(**{name: value})
        elif name == "sampling_probability":
            _check.probability(**{name: value})
    if isinstance(event, MixtureOfGaussiansDpEvent):
        _check_mixture(event)


def _check_mixture(event: MixtureOfGaussiansDpEvent) -> None:
    shifts, chances = event.sensitivities, event.sampling_probs
    is_law = len(shifts) == len(chances) and abs(math.fsum(chances) - 1) < 1e-9
    if not is_law or not list(shifts) == sorted(set(shifts)) or max(shifts) == 0:
        raise ValueError(
            "Expected sensitivities that rise, with chances that add up to one, got "
            f"sensitivities={list(shifts)}, sampling_probs={list(chances)}."
        )


def _encode_value(value: Any) -> Any:
    if isinstance(value, DpEvent):
        fields = {field.name: getattr(value, field.name) for field in attr.fields(type(value))}
        return {
            "class_name": type(value).__name__,
            **{k: _encode_value(v) for k, v in fields.items()},
        }
    if isinstance(value, list | tuple):
        return [_encode_value(item) for item in value]
    return value


def _decode_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return event_from_json(value)
    if isinstance(value, list):
        return [_decode_value(item) for item in value]
    return value
