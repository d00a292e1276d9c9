"""How far two neighbours can be apart, for arrays, block means, projections and covariances.

Everything here follows from the shape, the unit and the public range r = high - low alone.
Distances are L2 and for replace_one; zero_out is half of the array's.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.stats import chi2

from masquerade import _check
from masquerade.guarantee import WHOLE_FILE, Relation, Unit, UnitName


def changed_coordinates(unit: Unit, shapes: tuple[tuple[int, ...], ...]) -> int:
    """How many numbers of the file one unit can touch.

    Axis 0 is time; the last axis is channels if there is more than one axis. Several arrays are
    one joint release: m sites are m in all of them together, and a frame is one index of each.

    Example:
        >>> changed_coordinates(Unit(name=UnitName.FRAME), ((16, 240, 320, 3),))
        230400
    """
    total = sum(math.prod(shape) for shape in shapes)
    channels = max(shape[-1] if len(shape) > 1 else 1 for shape in shapes)
    frames = max(shape[0] for shape in shapes)
    match unit.name:
        case UnitName.VALUE:
            return 1
        case UnitName.PIXELS:
            return min(channels * (unit.sites or 1), total)
        case UnitName.TUBE:
            return min(channels * (unit.sites or 1) * frames, total)
        case UnitName.FRAME:
            return sum(math.prod(shape[1:]) for shape in shapes)
        case UnitName.VIDEO | UnitName.RECORD | UnitName.SUBJECT:
            return total
        case _:
            raise ValueError(
                f"Expected a unit inside one file, got unit={unit.name.value}; a shard is the "
                "data of one teacher and has no meaning for a file that is released."
            )


def refuse_add_remove(relation: Relation) -> None:
    """Refuse a relation under which the size of the file would have to be secret."""
    if relation is Relation.ADD_REMOVE:
        raise ValueError(
            "Expected replace_one or zero_out, got relation=add_remove; the shape of a released "
            "array is public, so nothing can be added to it or removed from it."
        )


def of_array(unit: Unit, shape: tuple[int, ...], *, value_range: float = 255.0) -> float:
    """Distance of two neighbouring videos (T, H, W, C) themselves."""
    _check_film(shape, value_range)
    return value_range * math.sqrt(changed_coordinates(unit, (shape,)))


def _check_film(shape: tuple[int, ...], value_range: float) -> None:
    frames, height, width, channels = shape
    _check.count(frames=frames, height=height, width=width, channels=channels)
    _check.positive(value_range=value_range)


def of_block_means(
    unit: Unit, shape: tuple[int, ...], *, block: int, length: int, value_range: float = 255.0
) -> float:
    """Distance of the means over blocks of ``block`` x ``block`` sites and ``length`` frames.

    Sums are divided by the nominal volume V even at ragged borders. With n_i changed sites in
    block i the squared distance is r^2 C sum (n_i / V)^2, convex in n, so the worst change fills
    whole blocks and puts the rest into one more.

    Example:
        >>> sixteen, shape = Unit(name=UnitName.PIXELS, sites=16), (16, 240, 320, 3)
        >>> round(of_block_means(sixteen, shape, block=16, length=1), 6)
        27.60456
    """
    _check_film(shape, value_range)
    _check.count(block=block, length=length)
    frames, height, width, channels = shape
    area, volume = block**2, block**2 * length
    colour, m = value_range**2 * channels, unit.sites or 1
    sites = frames * height * width
    match unit.name:
        case UnitName.VALUE:
            return value_range / volume
        case UnitName.PIXELS:
            return math.sqrt(colour * _filled(min(m, sites), volume))
        case UnitName.TUBE:
            blocks = math.ceil(frames / length)
            return math.sqrt(colour * blocks * _filled(min(m, height * width), area))
        case UnitName.FRAME:
            return math.sqrt(colour * height * width) / (block * length)
        case _ if unit.name in WHOLE_FILE:
            return math.sqrt(colour * sites / volume)
    raise ValueError(f"Expected a unit inside one file, got unit={unit.name.value}.")


def _filled(sites: int, volume: int) -> float:
    whole, rest = divmod(sites, volume)
    return whole + (rest / volume) ** 2


def fresh_projection_factor(columns: int, *, tail: float) -> float:
    """c with P(|u R| > c |u|) <= tail for one fixed row u and R ~ N(0, 1/k), k = ``columns``.

    |u R|^2 / |u|^2 is chi^2_k / k exactly.

    Example:
        >>> round(fresh_projection_factor(3072, tail=4e-5), 6)
        1.050627
    """
    _check.count(columns=columns)
    _check.delta(tail=tail)
    return math.sqrt(float(chi2.isf(tail, columns)) / columns)


def grid_projection_factor(columns: int, *, tail: float, rounding_tail: float) -> float:
    """The same for any number of rows and for an R drawn on a grid of 2^-14.

    sqrt(y) with (k/2)(y - 1 - ln y) = ln(1/tail) bounds the ideal part (Chernoff, convex in the
    rows' weights); rounding R by at most 2^-15 adds 2^-15 sqrt(k + 2 sqrt(k x) + 2 x) at most,
    x = ln(1/rounding_tail) [laurent2000, Lemma 1]. Both tails count towards delta.
    """
    _check.count(columns=columns)
    _check.delta(tail=tail, rounding_tail=rounding_tail)
    goal = 2 * math.log(1 / tail) / columns
    y = float(brentq(lambda y: y - 1 - math.log(y) - goal, 1.0, 4.0 + 2 * goal, xtol=1e-14))
    return (math.sqrt(y) + grid_stretch(columns, rounding_tail=rounding_tail)) * (1 + 1e-12)


def grid_stretch(columns: int, *, rounding_tail: float) -> float:
    """What rounding R to a grid of 2^-14 can add to |u R| / |u|, but for ``rounding_tail``."""
    x = math.log(1 / rounding_tail)
    return 2.0**-15 * math.sqrt(columns + 2 * math.sqrt(columns * x) + 2 * x)


def of_covariance(distance: float, *, radius: float, relation: Relation) -> float:
    """Frobenius distance of p p^T and p' p'^T with |p|, |p'| <= radius and |p - p'| <= distance.

    |p p^T - p' p'^T|^2 = (a^2 - b^2)^2/2 + D^2 (a^2 + b^2) - D^4/2 is convex in (a^2, b^2), so
    the extremes are p' on the line of p, and |p| = |p'| = radius. zero_out: radius^2.

    Example:
        >>> round(of_covariance(1.0, radius=1.0, relation=Relation.REPLACE_ONE), 6)
        1.224745
    """
    _check.positive(distance=distance, radius=radius)
    if relation is Relation.ZERO_OUT:
        return radius**2
    refuse_add_remove(relation)
    if distance <= 2 * radius / 3:
        return distance * (2 * radius - distance)
    if distance <= math.sqrt(2) * radius:
        return distance * math.sqrt(2 * radius**2 - distance**2 / 2)
    return math.sqrt(2) * radius**2
