"""PPEDCRF's tables: where a film was taken, before and after, by attackers who also adapt."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from masquerade import _check
from masquerade.collection import Collection
from masquerade.datasets.stage import Stage
from masquerade.io import devices
from masquerade.recipes import bench
from masquerade.recipes.ppedcrf import figures, panels, scenes
from masquerade.recipes.ppedcrf import page as pages
from masquerade.recipes.ppedcrf.findings import PlaceFindings
from masquerade.recipes.ppedcrf.measured import PlaceRoom
from masquerade.recipes.ppedcrf.run import measure
from masquerade.result import Answer
from masquerade.vision.place_features import PlaceFeatures

TAUGHT = ("efficientnet_lite0", "efficientnet_lite1", "alexnet")  # whom map and patterns have met
UNMET = ("mobilenet_v2", "efficientnet_lite2", "vgg16")
_LEARNING = 54  # other places that an attacker learns from, at most
_QUICK = {"candidates": 16, "pairs": 4, "galleries": (4, 8), "seeds": 1, "film_frames": 4}
_QUICK_ACTED = 24


@dataclass(frozen=True, kw_only=True)
class PpedcrfTables:
    """Release films, look for their places among others, and compare with other ways to hide them.

    The tables and figures of [ma2026], with a map that selects, and what it lacks: means of frames,
    denoising, an attacker who has learned from releases. A run that is stopped goes on where it
    was.

    Args:
        out: folder for the results; it is made.
        page: a page of the docs that gets a section.
        candidates: places among which pairs are looked for.
        pairs: places that are asked for.
        galleries: how many pictures a gallery has.
        seeds: runs of each row, each with noise of its own.
        film_frames: of a film; its middle one is attacked.
        sigmas: of Table 4 and Figure 3.
        psnrs: dB at which rows are compared.
        networks: attackers that neither map nor patterns have met; the first is that of Tables 3,
            4 and 6.
        taught: attackers that they have met.
        anchor: the network that pairs and chooses distractors.
        averaged: frames that an attacker averages.
        acted: recordings of Stage whose activities are named before and after; 0 for none.
        quick: a tiny form: 4 pairs, 2 attackers, one run, fewer rows.
        jobs: processes that release films.
        device: cpu or cuda, where attackers look.
    """

    ENTRIES: ClassVar[tuple[tuple[str, ...], ...]] = (("data", "datasets", "stage"),)

    out: Path = Path("out/ppedcrf")
    page: Path | None = None
    candidates: int = 120
    pairs: int = 12
    galleries: tuple[int, ...] = (12, 24, 48, 500)
    seeds: int = 3
    film_frames: int = 8
    sigmas: tuple[float, ...] = (8.0, 16.0, 24.0, 32.0)
    psnrs: tuple[float, ...] = (36.0, 33.0, 30.0)
    networks: tuple[str, ...] = UNMET
    taught: tuple[str, ...] = TAUGHT
    anchor: str = "efficientnet_lite0"
    averaged: tuple[int, ...] = (4, 8)
    acted: int = 240
    quick: bool = False
    jobs: int = 1
    device: Literal["cpu", "cuda"] = "cpu"

    def __post_init__(self) -> None:
        _check.count(candidates=self.candidates, pairs=self.pairs, seeds=self.seeds)
        _check.count(film_frames=self.film_frames, jobs=self.jobs)
        _check.not_negative(acted=self.acted)
        if not self.networks or not self.galleries or not self.psnrs or not self.sigmas:
            raise ValueError(
                "Expected at least one of networks, galleries, psnrs and sigmas, got none."
            )
        for name in ("sigmas", "psnrs"):
            for value in getattr(self, name):
                _check.positive(**{name: value})
        for size in self.galleries:
            _check.count(galleries=size)
            _check.at_least(self.pairs, "A gallery holds all that is asked for.", galleries=size)

    def settled(self) -> PpedcrfTables:
        """The plan as it is run."""
        if not self.quick:
            return self
        few: dict[str, Any] = dict(_QUICK)
        few |= {"networks": self.networks[:1], "taught": self.taught[:1]}
        few |= {"sigmas": self.sigmas[:1], "psnrs": self.psnrs[-1:], "averaged": (2,)}
        few |= {"acted": min(self.acted, _QUICK_ACTED)}
        kept = {name: getattr(self, name) for name in ("out", "page", "anchor", "jobs", "device")}
        return PpedcrfTables(**kept, **few)

    def run(self, data: Collection[Any]) -> Answer:
        """Pair, release, attack."""
        journal = bench.Journal.of(self, data)
        with bench.telling() as told:
            found, shown = self.measure(data, journal=journal, told=told)
        results = bench.Results(
            title="PPEDCRF: where a film was taken",
            text=pages.markdown(found),
            data=pages.plain(found),
            plots=figures.plots(found) | ({"ppedcrf_panels": shown} if shown else {}),
        )
        return results.publish(self, data, journal)

    def measure(
        self, data: Collection[Any], *, journal: bench.Journal, told: bench.Told = bench.quiet
    ) -> tuple[PlaceFindings, str]:
        """Every cell; and the six panels of a film, of one that nobody private is in."""
        plan = self.settled()
        wanted = scenes.Wanted(
            candidates=plan.candidates,
            pairs=plan.pairs,
            gallery=max(plan.galleries),
            frames=plan.film_frames,
            learning=_LEARNING,
        )
        names = dict.fromkeys((*plan.networks, *plan.taught))
        networks = {name: PlaceFeatures(backbone=name) for name in names}
        with devices.on(plan.device):
            anchor = PlaceFeatures(backbone=plan.anchor)
            shown = scenes.found(data, wanted, anchor.embed, told)
            sizes = tuple(sorted({min(size, len(shown.gallery)) for size in plan.galleries}))
            room = PlaceRoom(scenes=shown, networks=networks, sizes=sizes)
            found = measure(plan, room, journal=journal, told=told)
        is_public = isinstance(data, Stage)
        return found, panels.drawn(shown.queries[0]) if is_public else ""


EXAMPLE = PpedcrfTables()
