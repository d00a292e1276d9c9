"""Blocks of MaskDP's tables: what a block learns from, and which films it is tested on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from masquerade.collection import Collection
from masquerade.datasets.stage import Stage
from masquerade.publish.collections import unmasked
from masquerade.recipes import bench

if TYPE_CHECKING:
    from masquerade.recipes.mask_dp import MaskDpTables


REAL, AVATARS = "original films", "avatars"
ACROSS = "avatars, tested on original films"


@dataclass(frozen=True, kw_only=True, eq=False)
class TableBlock:
    """Recordings that a block of the tables is measured on.

    Args:
        data: what is learned from, as its part for training.
        tested: whose parts for testing are asked, by what the tables call these films; None where
            there is one kind of films.
        correlation: of activities and places; None where the data decide.
    """

    data: Collection[Any]
    tested: Mapping[str | None, Collection[Any]]
    correlation: float | None = None

    @property
    def stage(self) -> Stage | None:
        """The made-up world that the recordings are of, if they are."""
        found = unmasked(self.data)
        return found if isinstance(found, Stage) else None

    def named(self, said: str, films: str | None) -> str:
        """A cell's name in the journal."""
        place = "" if self.correlation is None else f"place {self.correlation:g}, "
        return f"{place}{'' if films is None else f'{films}: '}{said}"


def blocks_of(
    plan: MaskDpTables, data: Collection[Any], told: bench.Told = bench.quiet
) -> tuple[TableBlock, ...]:
    """The data as they are; with other places; or as they were and released by avatar."""
    if plan.render and isinstance(data, Stage):
        from masquerade.recipes.released.films import AvatarFilms

        real = AvatarFilms.of(data)
        real.make(jobs=plan.jobs, told=told)
        drawn = real.as_shown("avatars")
        return (
            TableBlock(data=real, tested={REAL: real}),
            TableBlock(data=drawn, tested={AVATARS: drawn, ACROSS: real}),
        )
    if isinstance(data, Stage) and plan.correlations:
        placed = {chance: replace(data, correlation=chance) for chance in plan.correlations}
        return tuple(
            TableBlock(data=held, tested={None: held}, correlation=chance)
            for chance, held in placed.items()
        )
    return (TableBlock(data=data, tested={None: data}),)
