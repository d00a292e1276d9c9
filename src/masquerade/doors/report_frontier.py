"""Where a release stands among what the same mechanism could have made of it."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from typing import Any

from masquerade import catalog
from masquerade.doors.receipt import promise_of
from masquerade.guarantee import WHOLE_FILE, Unit, UnitName
from masquerade.mechanism import Mechanism, Shapes, VideoMechanism
from masquerade.receipt import Receipt
from masquerade.report import choice, page
from masquerade.report.page import PagePart, Section

_EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_OF_FILMS: tuple[dict[str, Any], ...] = (
    {"unit": "pixels", "pixels": 16},
    {"unit": "pixels", "pixels": 256},
    {"unit": "frame", "pixels": None},
)
_OF_NUMBERS: tuple[dict[str, Any], ...] = (
    {"unit": "value", "pixels": None},
    {"unit": "frame", "pixels": None},
)
_LONG, _VERY_LONG = 256, 20_000  # frames; each point of a curve then takes a second or more
_OFF = 5.0  # times as far off as this release
_SAID = (
    "The more is protected, and the more surely, the less is left: that is the price, and every "
    "point of the curves could have been chosen. Further left is safer. Everything here follows "
    "from settings alone; no recording was looked at."
)


def section(receipt: Receipt, *, name: str = "") -> Section | None:
    """Curves of the mechanism for several units, this release marked; None where none is proved.

    Models have none: what is left of them depends on the data.

    Args:
        receipt: that was checked.
        name: of its file, where there are several.
    """
    promised = receipt.guarantee
    is_sound = promised.epsilon is not None and promised.published_claim is None
    if not is_sound or receipt.mechanism not in catalog.names("release"):
        return None
    mechanism, shapes = promise_of(receipt), receipt.shapes
    if _frames(mechanism, shapes) > _LONG and promised.unit.name in WHOLE_FILE:
        return None  # which takes minutes
    measured = _left(mechanism, shapes)
    if measured is None or "epsilon" not in mechanism.fields():
        return None
    is_seen = mechanism.visible(shapes) is not None
    most = math.inf if is_seen else _OFF * measured  # what is further off would flatten the rest
    curves = _curves(mechanism, shapes, most)
    if not curves:
        return None
    label = "left of the picture, %" if is_seen else "a number is off by about"
    noticed = 100 * receipt.guarantee.noticed
    drawn = choice.svg(curves, this=(noticed, measured), y_label=label)
    title = f"What could have been chosen{f': {name}' if name else ''}"
    said = [_SAID if is_seen else _SAID.replace("the less is left", "the further off is a number")]
    body = page.paragraphs(said) + page.captioned(drawn, "")
    return Section(title=title, body=body, part=PagePart.FRONTIER)


def _curves(mechanism: Any, shapes: Shapes, most: float) -> list[choice.ChoiceCurve]:
    """The release's own unit first, then others whose curves are not the same."""
    is_seen = mechanism.visible(shapes) is not None
    changes = _OF_FILMS if is_seen else _OF_NUMBERS
    has_others = {"unit", "pixels"} <= set(mechanism.fields())
    has_others = has_others and _frames(mechanism, shapes) <= _VERY_LONG
    others = [mechanism]
    for change in changes if has_others else ():
        with contextlib.suppress(ValueError):  # a unit that this mechanism does not have
            others.append(replace(mechanism, **change))
    found: list[choice.ChoiceCurve] = []
    for other in others:
        with contextlib.suppress(ValueError):  # or that this shape does not have
            is_own = other is mechanism
            curve = _curve(other, shapes, most, says=" (as here)" * is_own)
            if curve is not None and not any(_alike(curve, drawn) for drawn in found):
                found.append(curve)
    return found


def _curve(mechanism: Any, shapes: Shapes, most: float, *, says: str) -> choice.ChoiceCurve | None:
    """One mechanism at several epsilons, where it is no further off than ``most``."""
    points = []
    few = _frames(mechanism, shapes) > _LONG
    for epsilon in _EPSILONS[2::2] if few else _EPSILONS:
        one = replace(mechanism, epsilon=epsilon)
        left = _left(one, shapes)
        if left is not None and left <= most:
            points.append((100 * one.guarantee(shapes).noticed, left))
    if len(points) < 2:
        return None
    name = f"protected: {_named(mechanism.guarantee(shapes).unit)}{says}"
    noticed, left_of = zip(*points, strict=True)
    return choice.ChoiceCurve(name=name, noticed=noticed, left=left_of)


def _alike(one: choice.ChoiceCurve, other: choice.ChoiceCurve) -> bool:
    """One column of a table: a row is a number."""
    if len(one.left) != len(other.left):
        return False
    return all(math.isclose(a, b, rel_tol=1e-3) for a, b in zip(one.left, other.left, strict=True))


def _frames(mechanism: Mechanism, shapes: Shapes) -> int:
    """Of a film; numbers are quick however many there are."""
    return shapes[0][0] if isinstance(mechanism, VideoMechanism) else 1


def _left(mechanism: Mechanism, shapes: Shapes) -> float | None:
    """Share of a picture's variation, or the noise on a number."""
    share = mechanism.visible(shapes)
    return mechanism.expected_error(shapes) if share is None else 100 * share


def _named(unit: Unit) -> str:
    match unit.name:
        case UnitName.PIXELS:
            return f"any {unit.sites:,} dots (pixels)"
        case UnitName.TUBE:
            return f"a spot of {unit.sites:,} dots in every frame"
        case UnitName.FRAME:
            return "one frame, or one row"
        case UnitName.VALUE:
            return "one number"
        case _:
            return "the whole file"
