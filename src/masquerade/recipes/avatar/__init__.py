"""Avatars: what is learned from films whose people were replaced, beside real ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from masquerade import _check
from masquerade._torch import torch
from masquerade.collection import Collection
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput
from masquerade.recipes import bench
from masquerade.recipes.avatar import page as pages
from masquerade.recipes.avatar import run as runs
from masquerade.recipes.avatar.rows import AvatarFound
from masquerade.recipes.mask_dp import MaskDpTables
from masquerade.recipes.released import films as released
from masquerade.result import Answer


@dataclass(frozen=True, kw_only=True)
class AvatarTable:
    """Learn activities without noise from films and from what avatars leave of them.

    Films of Stage are released by avatar, which takes some two seconds a film on one core, and kept
    in the cache, 3 MB each; a run that is stopped goes on where it was. Rows: original films,
    figures alone, places alone, and avatars in their places [schneider2024, Table 3]; each is
    tested on films in the same way and on original ones.

    Args:
        out: folder for the results; it is made.
        page: page of the docs to which a section is added.
        network: which one.
        weights: public weights for it.
        part: what is trained of it.
        epochs: of every run.
        batch: films in a batch, on average.
        learning_rate: at its highest.
        seeds: runs of each row.
        device: where it is trained; films are released on the processor.
        jobs: processes; 0 for one a core.
        quick: 108 films, 36 of them to test on, and two runs of each row.
    """

    ENTRIES: ClassVar[tuple[tuple[str, ...], ...]] = (("data", "datasets", "stage"),)

    out: Path = Path("out/avatar")
    page: Path | None = None
    network: Literal["mvit_small", "mvit_v1_b", "mvit_v2_s"] = "mvit_small"
    weights: Path | None = None
    part: Literal["head", "last_norms", "norms", "all"] = "head"
    epochs: float = 20.0
    batch: int = 128
    learning_rate: float = 1.0
    seeds: int | None = None
    device: Literal["cpu", "cuda"] = "cpu"
    jobs: int = 0
    quick: bool = False

    def __post_init__(self) -> None:
        _check.count(batch=self.batch)
        _check.positive(epochs=self.epochs, learning_rate=self.learning_rate)
        _check.not_negative(jobs=self.jobs)
        if self.seeds is not None:
            _check.count(seeds=self.seeds)

    @property
    def repeats(self) -> int:
        """Of each row."""
        return self.seeds or (2 if self.quick else 5)

    @property
    def learning(self) -> MaskDpTables:
        """How every row learns: as the row DP of MaskDP's tables, where there is no noise."""
        return MaskDpTables(
            network=self.network,
            weights=self.weights,
            part=self.part,
            epochs=self.epochs,
            batch=self.batch,
            clean_learning_rate=self.learning_rate,
            device=self.device,
            jobs=self.jobs,
        ).settled()

    def run(self, data: Collection[Any]) -> Answer:
        """Release, learn, test."""
        journal = bench.Journal.of(self, data)
        with bench.telling() as told:
            found = self.measure(data, journal=journal, told=told)
        return self.results(found).publish(self, data, journal)

    def results(self, found: AvatarFound) -> bench.Results:
        """What was found, for machines and for people."""
        return bench.Results(
            title=pages.TITLE,
            text=pages.markdown(found),
            data=pages.plain(found),
            plots=pages.plots(found),
        )

    def measure(
        self, data: Collection[Any], *, journal: bench.Journal, told: bench.Told = bench.quiet
    ) -> AvatarFound:
        """Every row; needs nothing that reads video files, keeps ledgers or draws on a screen."""
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("Expected a GPU for device=cuda, found none; use device=cpu.")
        if not isinstance(data, Stage):
            raise BadInput(
                f"Expected --data stage, got {data.ABOUT.title}: films that are released here are "
                "kept, which is for films of nobody alone."
            )
        films = released.AvatarFilms.of(released.sized(data, is_quick=self.quick))
        return runs.measure(self, films, journal=journal, told=told)


EXAMPLE = AvatarTable()
