"""How far two neighbours can be apart, for arrays, block means and projections.

Everything here follows from the shape and the unit alone. Videos have values from 0 to r = 255.
Distances are L2 and for replace_one; zero_out is half of the array's.
"""

from __future__ import annotations

import math

from masquerade import _check
from masquerade._optional import optimize, stats
from masquerade.guarantee import WHOLE_FILE, Relation, Unit, UnitName


def count_changed_coordinates(unit: Unit, shapes: tuple[tuple[int, ...], ...]) -> int:
    """How many numbers of the file one unit can touch.

    Axis 0 is time; the last axis is channels if there is more than one axis. Several arrays are
    one joint release: m sites are m in all of them together, and a frame is one index of each.

    Example:
        >>> count_changed_coordinates(Unit(name=UnitName.FRAME), ((16, 240, 320, 3),))
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


def array_sensitivity(unit: Unit, shape: tuple[int, ...]) -> float:
    """Distance of two neighbouring videos (T, H, W, C) themselves."""
    _check_film(shape)
    return 255.0 * math.sqrt(count_changed_coordinates(unit, (shape,)))


def _check_film(shape: tuple[int, ...]) -> None:
    frames, height, width, channels = shape
    _check.count(frames=frames, height=height, width=width, channels=channels)


def block_means_sensitivity(
    unit: Unit, shape: tuple[int, ...], *, block: int, length: int
) -> float:
    """Distance of the means over blocks of ``block`` x ``block`` sites and ``length`` frames.

    Sums are divided by the nominal volume V even at ragged borders. With n_i changed sites in
    block i the squared distance is r^2 C sum (n_i / V)^2, convex in n, so the worst change fills
    whole blocks and puts the rest into one more.

    Example:
        >>> sixteen, shape = Unit(name=UnitName.PIXELS, sites=16), (16, 240, 320, 3)
        >>> round(block_means_sensitivity(sixteen, shape, block=16, length=1), 6)
        27.60456
    """
    _check_film(shape)
    _check.count(block=block, length=length)
    frames, height, width, channels = shape
    area, volume = block**2, block**2 * length
    colour, m = 255.0**2 * channels, unit.sites or 1
    sites = frames * height * width
    match unit.name:
        case UnitName.VALUE:
            return 255.0 / volume
        case UnitName.PIXELS:
            return math.sqrt(colour * _fill_distance(min(m, sites), volume))
        case UnitName.TUBE:
            blocks = math.ceil(frames / length)
            return math.sqrt(colour * blocks * _fill_distance(min(m, height * width), area))
        case UnitName.FRAME:
            return math.sqrt(colour * height * width) / (block * length)
        case _ if unit.name in WHOLE_FILE:
            return math.sqrt(colour * sites / volume)
    raise ValueError(f"Expected a unit inside one file, got unit={unit.name.value}.")


def _fill_distance(sites: int, volume: int) -> float:
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
    return math.sqrt(float(stats.chi2.isf(tail, columns)) / columns)


def grid_projection_factor(columns: int, *, tail: float, rounding_tail: float) -> float:
    """The same for any number of rows and for an R drawn on a grid of 2^-14.

    sqrt(y) with (k/2)(y - 1 - ln y) = ln(1/tail) bounds the ideal part (Chernoff, convex in the
    rows' weights); rounding R by at most 2^-15 adds 2^-15 sqrt(k + 2 sqrt(k x) + 2 x) at most,
    x = ln(1/rounding_tail) [laurent2000, Lemma 1]. Both tails count towards delta.
    """
    _check.count(columns=columns)
    _check.delta(tail=tail, rounding_tail=rounding_tail)
    goal = 2 * math.log(1 / tail) / columns
    y = float(
        optimize.brentq(lambda y: y - 1 - math.log(y) - goal, 1.0, 4.0 + 2 * goal, xtol=1e-14)
    )
    return (math.sqrt(y) + grid_stretch(columns, rounding_tail=rounding_tail)) * (1 + 1e-12)


def grid_stretch(columns: int, *, rounding_tail: float) -> float:
    """What rounding R to a grid of 2^-14 can add to |u R| / |u|, but for ``rounding_tail``."""
    x = math.log(1 / rounding_tail)
    return 2.0**-15 * math.sqrt(columns + 2 * math.sqrt(columns * x) + 2 * x)
