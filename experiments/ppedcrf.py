"""PPEDCRF's tables: where a film was taken, before and after, by attackers who also adapt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from experiments import ppedcrf_attackers as attackers
from experiments import ppedcrf_films as films
from experiments.claims import Cells, Claim, Runs, compare_runs, format_percent, write_sentences
from experiments.engine import Experiment, Run, Settings, check_settings
from experiments.pages import Page, make_bars, make_curves, write_list, write_table
from experiments.ppedcrf_attackers import Activities, Attackers, Oracle, PlaceCell
from experiments.ppedcrf_films import GLOBAL, OURS, Taken, Variant
from masquerade import _check, _json
from masquerade.attacks.place_matching import ViewSettings
from masquerade.attacks.rates import bootstrap_figure
from masquerade.collection import Collection
from masquerade.datasets.stage import Stage
from masquerade.io import devices
from masquerade.report import plots
from masquerade.vision.place_features import PlaceFeatures

# --- settings

TAUGHT = ("efficientnet_lite0", "efficientnet_lite1", "alexnet")  # whom map and patterns have met
UNMET = ("mobilenet_v2", "efficientnet_lite2", "vgg16")
_LEARNING = 54  # other places that an attacker learns from, at most
_QUICK = {"candidates": 16, "pairs": 4, "galleries": (4, 8), "seeds": 1, "film_frames": 4}
_QUICK_ACTED = 24


@dataclass(frozen=True, kw_only=True)
class PpedcrfSettings(Settings):
    """Release films, look for their places among others, and compare with other ways to hide them.

    The tables and figures of [ma2026], with a map that selects, and what it lacks: means of frames,
    denoising, an attacker who has learned from releases. A run that is stopped goes on where it
    was. With --quick 4 pairs, 2 attackers, one run, fewer rows.
    """

    out: Path = Path("out/ppedcrf")  # folder for the results; it is made
    candidates: int = 120  # places among which pairs are looked for
    pairs: int = 12  # places that are asked for
    galleries: tuple[int, ...] = (12, 24, 48, 500)  # how many pictures a gallery has
    seeds: int = 3  # runs of each row, each with noise of its own
    film_frames: int = 8  # of a film; its middle one is attacked
    sigmas: tuple[float, ...] = (8.0, 16.0, 24.0, 32.0)  # of Table 4 and Figure 3
    psnrs: tuple[float, ...] = (36.0, 33.0, 30.0)  # dB at which rows are compared
    # attackers that neither map nor patterns have met; the first is that of Tables 3, 4 and 6
    networks: tuple[str, ...] = UNMET
    taught: tuple[str, ...] = TAUGHT  # attackers that they have met
    anchor: str = "efficientnet_lite0"  # the network that pairs and chooses distractors
    averaged: tuple[int, ...] = (4, 8)  # frames that an attacker averages
    # recordings of Stage whose activities are named before and after; 0 for none
    acted: int = 240
    jobs: int = 1  # processes that release films
    device: Literal["cpu", "cuda"] = "cpu"  # where attackers look

    def __post_init__(self) -> None:
        check_settings(self, count=("candidates", "pairs", "seeds", "film_frames", "jobs"))
        _check.not_negative(acted=self.acted)
        if not self.networks or not self.galleries or not self.psnrs or not self.sigmas:
            raise ValueError(
                "Expected at least one of networks, galleries, psnrs and sigmas, got none."
            )
        check_settings(self, positive=("sigmas", "psnrs"), count=("galleries",))
        for size in self.galleries:
            _check.at_least(self.pairs, "A gallery holds all that is asked for.", galleries=size)

    def settle(self, data: Collection[Any] | None = None) -> PpedcrfSettings:
        """As they are run."""
        if not self.quick:
            return self
        few: dict[str, Any] = dict(_QUICK)
        few |= {"networks": self.networks[:1], "taught": self.taught[:1]}
        few |= {"sigmas": self.sigmas[:1], "psnrs": self.psnrs[-1:], "averaged": (2,)}
        few |= {"acted": min(self.acted, _QUICK_ACTED), "quick": False}
        return replace(self, **few)

    @property
    def tight(self) -> float:
        """The PSNR at which attackers do more."""
        return 33.0 if 33.0 in self.psnrs else self.psnrs[0]


# --- what is measured

MATCHED = (*films.GRID, films.GLOBAL_ROW, *films.FORMAL)
COMPARED = tuple(  # by attackers who do more, each row once
    {
        row.name: row for row in (films.OUR_ROW, films.EVEN_ROW, films.BEHIND_ROW, films.GLOBAL_ROW)
    }.values()
)
NAIVE, LEARNED = "one frame", "has learned from releases"
_LOOKERS = 2  # networks of attackers who do more
Strong = Mapping[tuple[str, float], Variant]  # variants at their strengths, by name and PSNR


@dataclass(frozen=True, kw_only=True)
class MapSummary:
    """What maps are like, over all films."""

    coverage: float  # mean sensitivity of the background
    spread: float  # its standard deviation within a frame
    entropy: float  # mean bits of a pixel's yes or no
    overlap: float  # of what neighbouring frames' maps cover, over what either does


@dataclass(frozen=True, kw_only=True)
class Adapted:
    """An attacker who does more than compare one raw frame."""

    name: str  # of the variant
    network: str  # who looks
    how: str  # what the attacker does
    shares: tuple[float, ...]  # Top-1 in the gallery, one a run


def choose_gallery(sizes: Sequence[int]) -> int:
    """The one of Tables 3, 4 and 6: the paper's largest, or the largest there is."""
    return max((size for size in sizes if size <= 48), default=sizes[0])


@dataclass(frozen=True, kw_only=True, eq=False)
class PlaceFound:
    """All that was measured."""

    settings: PpedcrfSettings  # how
    sizes: tuple[int, ...]  # of galleries
    likeness: tuple[float, float]  # of pairs and of the first distractors
    raw: Any  # hits of films as they are, by network and gallery
    # by table: "sigma 8" and the like, "33 dB" and the like, and "support"
    tables: Mapping[str, Cells[PlaceCell]]
    maps: MapSummary  # what the maps are like
    adapted: Cells[Adapted]  # attackers who do more
    moved_px: dict[str, float]  # by how much joints move, by variant: mean over films and joints
    oracles: tuple[Oracle, ...] = ()  # Top-1 where noise goes by the attacker's own gradients
    # how often activities are named, before and after; None where that is not known
    activities: Activities | None = None
    panels: str = ""  # Figure 6, of a film of nobody

    @property
    def gallery(self) -> int:
        """The one of Tables 3, 4 and 6."""
        return choose_gallery(self.sizes)

    @property
    def films(self) -> int:
        """That are asked for."""
        return len(next(iter(next(iter(self.raw.values())).values())))

    def find_runs(self, table: str, name: str) -> list[PlaceCell]:
        """The runs of a variant."""
        return self.tables[table].find_all(name=name)

    def list_runs(self, *tables: str) -> list[tuple[str, list[PlaceCell]]]:
        """Their variants in order, each with its runs."""
        names = [(t, name) for t in tables for name in self.tables[t].list_values("name")]
        return [(name, self.find_runs(table, name)) for table, name in names]

    def list_shares(
        self, cells: Sequence[PlaceCell], networks: Sequence[str], first: int = 1
    ) -> list[float]:
        """One a run: the share of films whose place is named, mean over networks."""
        return [
            float(np.mean([cell.top(name, self.gallery, first) for name in networks]))
            for cell in cells
        ]

    def make_runs(self, table: str, name: str, networks: Sequence[str]) -> Runs:
        """Top-1 of a variant, mean over networks."""
        shares = self.list_shares(self.find_runs(table, name), networks)
        return Runs(tuple(shares), tested=self.films)

    def find_raw(self, networks: Sequence[str], gallery: int, column: int = 0) -> float:
        """The share of films as they are."""
        rows = [[hit[column] for hit in self.raw[name][str(gallery)]] for name in networks]
        return float(np.mean(rows))


def name_sigma(sigma: float) -> str:
    """The name of a table."""
    return f"sigma {sigma:g}"


def name_psnr(psnr: float) -> str:
    """The name of a table."""
    return f"{psnr:g} dB"


def measure_tables(run: Run) -> PlaceFound:
    """Pair, release, attack; the six panels of a film only of one that nobody private is in."""
    plan, data = run.settings, run.data
    wanted = films.Wanted(
        candidates=plan.candidates,
        pairs=plan.pairs,
        gallery=max(plan.galleries),
        frames=plan.film_frames,
        learning=_LEARNING,
    )
    names = dict.fromkeys((*plan.networks, *plan.taught))
    networks = {name: PlaceFeatures(backbone=name) for name in names}
    with devices.use_device(plan.device):
        anchor = PlaceFeatures(backbone=plan.anchor)
        scenes = films.pair_places(data, wanted, anchor.embed, run.progress)
        sizes = tuple(sorted({min(size, len(scenes.gallery)) for size in plan.galleries}))
        found = measure_attacks(run, Attackers(scenes=scenes, networks=networks, sizes=sizes))
    is_public = isinstance(data, Stage)
    return replace(found, panels=films.draw_panels(scenes.queries[0])) if is_public else found


def measure_attacks(run: Run, known: Attackers) -> PlaceFound:
    """Every cell, noted as it is measured."""
    plan, journal = run.settings, run.journal
    facts = _json.decode_noun(MapSummary, journal.measure_once("maps", partial(sum_maps, known)))
    strong = find_strengths(run, known)
    tables = {name_sigma(sigma): list_rows(plan, sigma, facts) for sigma in plan.sigmas}
    tables["support"] = [*films.BLURS, *films.MOSAICS]
    for psnr in plan.psnrs:
        tables[name_psnr(psnr)] = [strong[row.name, psnr] for row in MATCHED]
    return PlaceFound(
        settings=plan,
        sizes=known.sizes,
        likeness=known.scenes.likeness,
        raw=journal.measure_once("raw", known.attack_raw),
        tables=measure_cells(run, known, tables),
        maps=facts,
        adapted=Cells(measure_adapted(run, known, strong)),
        moved_px=measure_joints(run, known, strong),
        oracles=tuple(measure_oracles(run, known)),
        activities=measure_activities(run, strong),
    )


def sum_maps(known: Attackers) -> MapSummary:
    """What the maps of all films are like."""
    facts, overlaps = [], []
    for film in known.scenes.queries:
        facts += [one.facts for one in films.map_frames(film)]
        covered = films.find_support(film)
        both, either = covered[1:] & covered[:-1], covered[1:] | covered[:-1]
        overlaps.append(both.sum() / max(1, either.sum()))
    means = {
        name: float(np.mean([getattr(one, name) for one in facts]))
        for name in ("coverage", "spread", "entropy")
    }
    return MapSummary(**means, overlap=float(np.mean(overlaps)))


def list_rows(plan: PpedcrfSettings, sigma: float, facts: MapSummary) -> list[Variant]:
    """The rows of Tables 3 and 4; a random mask covers as much as the maps do."""
    chosen = [films.OUR_ROW, films.SELECTIVE_ROW, *films.ABLATIONS]
    if sigma == plan.sigmas[0]:
        share = films.mask_randomly(round(facts.coverage, 3))
        chosen += [*films.GRID, films.PUBLISHED_ROW, share]
    rows = {row.name: row for row in (*chosen, films.GLOBAL_ROW)}
    return [row.with_sigma(sigma) for row in rows.values()]


def find_strengths(run: Run, known: Attackers) -> Strong:
    """Every variant at every PSNR, at the strength that leaves so many dB."""
    pairs = [(row, psnr) for psnr in run.settings.psnrs for row in MATCHED]
    tasks = {
        f"strength of {row.name} at {psnr:g} dB": partial(
            films.match_psnr, row, known.scenes.queries, psnr
        )
        for row, psnr in pairs
    }
    found = run.measure_cells(
        "strengths", tasks, jobs=run.settings.jobs, finish=lambda name, made: made.sigma
    )
    return {
        (row.name, psnr): row.with_sigma(float(sigma))
        for (row, psnr), sigma in zip(pairs, found.values(), strict=True)
    }


def measure_cells(
    run: Run, known: Attackers, tables: Mapping[str, Sequence[Variant]]
) -> dict[str, Cells[PlaceCell]]:
    """Every row of every table in every run; what is not random has one."""
    wanted = {
        f"{table}, {row.name}, run {seed}": (table, row, seed)
        for table, rows in tables.items()
        for row in rows
        for seed in range(run.settings.seeds)
        if row.sigma is not None or not seed
    }
    tasks = {
        name: partial(films.take_middle, known.scenes.queries, row, seed)
        for name, (_, row, seed) in wanted.items()
    }

    def attack(name: str, made: Taken) -> PlaceCell:
        table, row, seed = wanted[name]
        return known.attack_taken(row, seed, made, choose_lookers(run.settings, table, row))

    held = run.measure_cells("tables", tasks, jobs=run.settings.jobs, finish=attack)
    found = {name: _json.decode_noun(PlaceCell, each) for name, each in held.items()}
    return {
        table: Cells(found[name] for name, (own, _, _) in wanted.items() if own == table)
        for table in tables
    }


def choose_lookers(plan: PpedcrfSettings, table: str, row: Variant) -> Sequence[str]:
    """Who looks: everybody in Tables 5 and 6, elsewhere the first network."""
    is_table_5 = table == name_sigma(plan.sigmas[0]) and row.name == OURS
    is_table_6 = table.endswith("dB") or table == "support"
    return () if is_table_5 or is_table_6 else plan.networks[:1]


def list_ways(plan: PpedcrfSettings) -> dict[str, ViewSettings]:
    """What attackers do who have learned nothing."""
    ways = {NAIVE: ViewSettings()}
    for count in plan.averaged:
        ways[f"mean of {count} frames"] = ViewSettings(frames=count, motion="still")
    ways["denoised"] = ViewSettings(denoise=True)
    most = max(plan.averaged, default=1)
    ways[f"mean of {most}, denoised"] = ViewSettings(frames=most, motion="still", denoise=True)
    return ways


def measure_adapted(run: Run, known: Attackers, strong: Strong) -> Iterator[Adapted]:
    """Attackers who average, clean or have learned, against variants of equal PSNR."""
    plan, queries = run.settings, known.scenes.queries
    size, lookers = str(choose_gallery(known.sizes)), plan.networks[:_LOOKERS]
    rows = [strong[base.name, plan.tight] for base in COMPARED]

    def compare(name: str, pictures: np.ndarray) -> dict[str, float]:
        hits = {each: known.find_hits(each, pictures)[size] for each in lookers}
        return {each: float(np.mean([hit[0] for hit in rows])) for each, rows in hits.items()}

    def learn(name: str, made: tuple[np.ndarray, ...]) -> dict[str, float]:
        shown, *released = made
        return {each: known.adapt(each, shown, tuple(released))[size] for each in lookers}  # type: ignore[arg-type]

    ways: dict[str, tuple[Callable[[str, Any], Any], Callable[..., Any]]] = {
        how: (compare, partial(films.take_clean, queries, looking=looking))
        for how, looking in list_ways(plan).items()
    }
    ways[LEARNED] = learn, partial(films.take_lesson, queries, known.lesson)
    found: dict[str, Any] = {}
    for how, (finish, take) in ways.items():
        tasks = {
            f"{how}, {row.name}, run {seed}": partial(take, variant=row, seed=seed)
            for row in rows
            for seed in range(plan.seeds)
        }
        found |= run.measure_cells(how, tasks, jobs=plan.jobs, finish=finish)
    for row in rows:
        for how in ways:
            for network in lookers:
                names = [f"{how}, {row.name}, run {seed}" for seed in range(plan.seeds)]
                shares = tuple(found[name][network] for name in names)
                yield Adapted(name=row.name, network=network, how=how, shares=shares)


def measure_joints(run: Run, known: Attackers, strong: Strong) -> dict[str, float]:
    """By how much joints move, at the lowest PSNR."""
    found = {}
    for base in COMPARED:
        variant = strong[base.name, min(run.settings.psnrs)]
        moved = run.journal.measure_once(
            f"joints, {base.name}",
            partial(attackers.measure_moves, known.scenes.queries, variant),
        )
        if moved is not None:
            found[base.name] = float(moved)
    return found


def measure_oracles(run: Run, known: Attackers) -> Iterator[Oracle]:
    """Noise by the attackers' own gradients."""
    plan, size = run.settings, choose_gallery(known.sizes)
    pairs = [(name, psnr) for name in plan.networks[:_LOOKERS] for psnr in plan.psnrs]
    for number, (network, psnr) in enumerate(pairs):
        run.progress("noise by an attacker's own gradients", number, len(pairs))
        held = run.journal.measure_once(
            f"own gradients, {network}, {psnr:g} dB",
            partial(attackers.measure_oracle, known, network, psnr, plan.seeds, size),
        )
        yield _json.decode_noun(Oracle, held)


def measure_activities(run: Run, strong: Strong) -> Activities | None:
    """Whether activities are still named, at the lowest PSNR."""
    plan, psnr = run.settings, min(run.settings.psnrs)
    if not plan.acted:
        return None
    rows = [strong[base.name, psnr] for base in COMPARED]
    held = run.journal.measure_once(
        "activities", partial(attackers.name_activities, plan, rows, psnr)
    )
    return None if held is None else _json.decode_noun(Activities, held)


# --- what is said of the cells: what PPEDCRF set out to do, and how far it came

_HALF, _GAIN, _JOINTS_PX, _POINTS = 0.5, 0.10, 2.0, 1.0


def divide_shares(found: PlaceFound, table: str, other: str) -> tuple[float, float, float]:
    """Top-1 of ours over another row's, with the ends of its 95 % interval over places."""
    ours, theirs = (
        np.mean(
            [
                [hit[0] for hit in cell.hits[network][str(found.gallery)]]
                for cell in found.find_runs(table, name)
                for network in found.settings.networks
            ],
            axis=0,
        )
        for name in (OURS, other)
    )  # one a place: the mean over runs and networks

    def divide(rows: np.ndarray) -> float:
        below = float(theirs[rows].mean())
        return float(ours[rows].mean()) / below if below else np.nan

    one = bootstrap_figure("ratio", divide, range(len(ours)), of="places", seed=0)
    return one.value, one.low, one.high


def write_matched(found: PlaceFound) -> Iterator[str]:
    """Against global noise at equal PSNR, and against the same noise behind people."""
    networks, behind = found.settings.networks, films.BEHIND_ROW.name
    for psnr in found.settings.psnrs:
        table = name_psnr(psnr)
        ours, other = (found.make_runs(table, name, networks) for name in (OURS, GLOBAL))
        above = [
            name
            for name in networks
            if found.make_runs(table, OURS, [name]).mean
            > found.make_runs(table, GLOBAL, [name]).mean
        ]
        word = compare_runs(ours, other)
        told = {"ahead": "more is told than with global noise", "behind": "less is told"}
        ratio, low, high = divide_shares(found, table, GLOBAL)
        aim = "reached" if ratio <= _HALF else f"missed by {ratio - _HALF:.2f}"
        worse = f"; above it for {', '.join(above)}" if above else "; above it for none"
        said = (
            f"At {psnr:g} dB: Top-1 {ours} with PPEDCRF, {other} with global noise, {ratio:.2f} of "
            f"it ({low:.2f} to {high:.2f}, 95 % over places; {told.get(word, word)}; n = "
            f"{len(ours.shares)} runs of {ours.tested:g} films{worse}). The aim of half is {aim}."
        )
        if behind != OURS and found.find_runs(table, behind):
            equal, low, high = divide_shares(found, table, behind)
            said += (
                " White noise that leaves people as they are, too: "
                f"{found.make_runs(table, behind, networks)}; {equal:.2f} of it ({low:.2f} to "
                f"{high:.2f})."
            )
        yield said


def find_gain(found: PlaceFound, name: str) -> tuple[float, ...]:
    """Per cent that the naive attacker names, and the one who has learned."""
    ways = [found.adapted.find_all(name=name, how=how) for how in (NAIVE, LEARNED)]
    return tuple(100 * float(np.mean([s for one in some for s in one.shares])) for some in ways)


def judge_gain(found: PlaceFound) -> str:
    """Whether who has learned gains little."""
    naive, learned = find_gain(found, OURS)
    return "reached" if learned - naive < 100 * _GAIN else "missed"


def judge_loss(lost: float, error: float) -> str:
    """Whether it is less than a point."""
    if lost + 2 * error < _POINTS:
        return "reached"
    return "not told" if lost - 2 * error < _POINTS else "missed"


def write_activities(found: PlaceFound) -> Iterator[str]:
    """How often activities are still named, by who learned from raw and from released films."""
    one = found.activities
    if one is None:
        return
    lost, error = one.find_loss(one.after[OURS])
    before, after = (100 * float(np.mean(each)) for each in (one.before, one.after[OURS]))
    said = (
        f"A frozen public network names {before:.1f} % of activities before and {after:.1f} % "
        f"after, at {one.psnr:g} dB: {lost:+.1f} points lost, standard error {error:.1f} (n = "
        f"{len(one.before)} recordings, by the means of {one.learned} raw ones). The aim of less "
        f"than 1 point is {judge_loss(lost, error)}."
    )
    if OURS in one.anew:
        lost, error = one.find_loss(one.anew[OURS])
        said += (
            f" By the means of {one.learned} released ones, as who has nothing but the "
            f"publication learns: {100 * float(np.mean(one.anew[OURS])):.1f} %, {lost:+.1f} "
            f"points lost, standard error {error:.1f}: {judge_loss(lost, error)}."
        )
    yield said


CLAIMS = (
    Claim(
        text="{f.films} films, each of another place; pairs are alike by {f.likeness[0]:.2f} "
        "(cosine), the first distractors by {f.likeness[1]:.2f}. Networks that nothing was learned "
        "on: {unmet}.",
        values={"unmet": lambda found: ", ".join(found.settings.networks)},
    ),
    Claim(
        text="The mask covers {f.maps.coverage:.2f} of the background on average, with a spread of "
        "{f.maps.spread:.2f} and {f.maps.entropy:.2f} bits a pixel{end}",
        values={
            "end": lambda found: ": THE MASK IS CONSTANT." if found.maps.spread < 0.01 else "."
        },
    ),
    write_matched,
    Claim(
        text="Who has learned from releases names {ours[1]:.1f} % instead of {ours[0]:.1f} % with "
        "PPEDCRF (with global noise {other[1]:.1f} instead of {other[0]:.1f} %). The aim of less "
        "than 10 points more is {aim}.",
        values={
            "ours": lambda found: find_gain(found, OURS),
            "other": lambda found: find_gain(found, GLOBAL),
            "aim": judge_gain,
        },
    ),
    Claim(
        text="The pose network is not there: whether joints move was not measured.",
        when=lambda found: OURS not in found.moved_px,
    ),
    Claim(
        text="People's joints move by {moved:.2f} pixels on average at {psnr:g} dB. "
        "The aim of less than 2 is {aim}.",
        when=lambda found: OURS in found.moved_px,
        values={
            "moved": lambda found: found.moved_px[OURS],
            "psnr": lambda found: min(found.settings.psnrs),
            "aim": lambda found: "reached" if found.moved_px[OURS] < _JOINTS_PX else "missed",
        },
    ),
    write_activities,
)

# --- tables, plots and the page

RAW = "raw"


def format_mean(cells: Sequence[PlaceCell], name: str, digits: int = 2) -> str:
    """The mean of a field over runs."""
    return f"{np.mean([getattr(cell, name) for cell in cells]):.{digits}f}"


def format_quality(cells: Sequence[PlaceCell]) -> list[str]:
    """PSNR and SSIM."""
    return [format_mean(cells, "psnr"), format_mean(cells, "ssim", 3)]


def format_ranks(found: PlaceFound, cells: Sequence[PlaceCell]) -> list[str]:
    """Top-1 and Top-5 of the first network."""
    network = found.settings.networks[:1]
    return [format_percent(found.list_shares(cells, network, first)) for first in (1, 5)]


def format_overlap(found: PlaceFound, name: str) -> str:
    """How much of the mask stays from frame to frame, where there is one of ours."""
    is_chosen = name == OURS and films.CHOSEN[1] == "even"
    if name in (GLOBAL, films.PUBLISHED) or name.endswith(films.MAPS["even"]) or is_chosen:
        return "mask is constant"
    if name == films.ABLATIONS[0].name or name.endswith(films.MAPS["evidence"]):
        return "-"  # their maps are others
    if name == "random mask":
        share = found.maps.coverage
        return f"{share / (2 - share):.3f}"
    return f"{found.maps.overlap:.3f}"


def format_strength(cells: Sequence[PlaceCell]) -> str:
    """Sigma, or the epsilon of a mechanism that has one; blur and mosaic have neither."""
    if cells[0].sigma is None:
        return "fixed"
    is_formal = any(cells[0].name == row.name for row in films.FORMAL)
    return f"epsilon {cells[0].sigma:.3g}" if is_formal else f"sigma {cells[0].sigma:.1f}"


def write_variants(found: PlaceFound, table: str) -> str:
    """Table 3: all variants."""
    network = found.settings.networks[:1]
    raw = [100 * found.find_raw(network, found.gallery, column) for column in (0, 1)]
    rows = [[RAW, *(f"{value:.1f}" for value in raw), "", "", ""]]
    for name, cells in found.list_runs(table, "support"):
        quality, overlap = format_quality(cells), format_overlap(found, name)
        rows.append([name, *format_ranks(found, cells), *quality, overlap])
    heading = [f"{network[0]}, gallery {found.gallery}", "Top-1", "Top-5", "PSNR, dB", "SSIM"]
    return write_table([*heading, "mask IoU"], rows)


def write_strengths(found: PlaceFound) -> str:
    """Table 4: strengths."""
    rows = []
    for sigma in found.settings.sigmas:
        for name in (OURS, *(row.name for row in films.ABLATIONS), GLOBAL):
            cells = found.find_runs(name_sigma(sigma), name)
            rows.append([f"{sigma:g}", name, *format_ranks(found, cells), *format_quality(cells)])
    return write_table(["sigma", "variant", "Top-1", "Top-5", "PSNR, dB", "SSIM"], rows)


def write_galleries(found: PlaceFound, table: str) -> str:
    """Table 5: networks and galleries."""
    rows, plan = [], found.settings
    cells = found.find_runs(table, OURS)
    for name in (*plan.networks, *plan.taught):
        met = "yes" if name in plan.taught else "no"
        for size in found.sizes:
            raw = found.find_raw([name], size)
            after = [cell.top(name, size) for cell in cells]
            change = f"{100 * (float(np.mean(after)) - raw):+.1f}"
            rows.append([name, met, str(size), f"{100 * raw:.1f}", format_percent(after), change])
    heading = ["network", "met in training", "gallery", "raw Top-1", "PPEDCRF Top-1", "change"]
    return write_table(heading, rows)


def write_equal(found: PlaceFound, psnr: float) -> str:
    """Table 6: equal PSNR."""
    rows, table, plan = [], name_psnr(psnr), found.settings
    names = [row.name for row in (*films.BLURS[1:2], *films.MOSAICS[2:3])]
    support = [(name, found.find_runs("support", name)) for name in names]
    for name, cells in (*found.list_runs(table), *support):
        groups = [[one] for one in plan.networks] + [plan.networks, plan.taught]
        shares = [format_percent(found.list_shares(cells, one)) if one else "-" for one in groups]
        rows.append([name, format_strength(cells), *shares, *format_quality(cells)])
    heading = [table, "strength", *plan.networks, "mean", "mean of those met", "PSNR, dB", "SSIM"]
    return write_table(heading, rows)


def write_grid(found: PlaceFound) -> str:
    """Shapes by maps at each PSNR, people as they are: the mean over networks not met."""
    plan, rows = found.settings, []
    tables = [name_psnr(psnr) for psnr in plan.psnrs]
    for shape in films.SHAPES:
        for unary, called in films.MAPS.items():
            name = films.shape_noise(shape, unary).name
            cells = [found.find_runs(table, name) for table in tables]
            each = [format_percent(found.list_shares(some, plan.networks)) for some in cells]
            rows.append([shape, called, *each])
    return write_table(["noise", "map", *tables], rows)


def write_time(found: PlaceFound, table: str) -> str:
    """Table 7: over time."""
    rows = []
    for name, cells in found.list_runs(table, "support"):
        numbers = [format_mean(cells, "flicker"), format_mean(cells, "stability", 3)]
        rows.append([name, *numbers, format_overlap(found, name)])
    return write_table(["variant", "flicker", "stability", "mask IoU"], rows)


def write_adapted(found: PlaceFound) -> str:
    """Attackers who do more."""
    every = found.adapted
    ways, rows = every.list_values("how"), []
    for name in every.list_values("name"):
        for network in every.list_values("network"):
            own = {one.how: one.shares for one in every.find_all(name=name, network=network)}
            rows.append([name, network, *(format_percent(own[how]) for how in ways)])
    return write_table(["variant", "network", *ways], rows)


def write_oracles(found: PlaceFound) -> str:
    """Noise by the attacker's own gradients."""
    rows = []
    for one in found.oracles:
        shares = map(format_percent, (one.by_map, one.by_map_patterns, one.by_steps))
        rows.append([one.network, name_psnr(one.psnr), *shares])
    heading = ["network", "PSNR", "white noise by its map", "patterns by its map", "its gradient"]
    return write_table(heading, rows)


def write_text(found: PlaceFound, sentences: Sequence[str]) -> str:
    """The tables, and what they show."""
    plan, first = found.settings, name_sigma(found.settings.sigmas[0])
    parts = [
        "### What it shows",
        write_list(sentences),
        f"### Table 3: all variants, {first}",
        write_variants(found, first),
        "### Table 4: strengths",
        write_strengths(found),
        f"### Table 5: networks and galleries, {first}",
        write_galleries(found, first),
        "### Table 6: equal PSNR",
        *(write_equal(found, psnr) for psnr in plan.psnrs),
        "### Which noise, on which map",
        write_grid(found),
        f"### Table 7: over time, {first}",
        write_time(found, first),
        "### Attackers who do more",
        write_adapted(found),
        "### Noise by the attacker's own gradients",
        write_oracles(found),
    ]
    return "\n\n".join(parts) + "\n"


def draw_galleries(found: PlaceFound) -> str:
    """Figure 4: every network by the size of the gallery, raw thin, released thick."""
    plan = found.settings
    cells = found.find_runs(name_sigma(plan.sigmas[0]), OURS)
    sizes, lines = np.array(found.sizes, float), []
    for number, name in enumerate((*plan.networks, *plan.taught)):
        raw = [100 * found.find_raw([name], size) for size in found.sizes]
        after = [100 * np.mean([cell.top(name, size) for cell in cells]) for size in found.sizes]
        for what, values in ((name, after), (RAW, raw)):
            y, is_faint = np.array(values), what == RAW
            lines.append(plots.PlotLine(name=what, x=sizes, y=y, is_faint=is_faint, colour=number))
    title = f"Top-1 by size of gallery, {name_sigma(plan.sigmas[0])}"
    axes = plots.PlotAxes(title=title, x_label="pictures", y_label="Top-1, %")
    return plots.draw_lines(lines, axes)


def draw_frontier(found: PlaceFound) -> str:
    """Figure 3: what is named against what is left of the picture."""
    rows = (films.OUR_ROW, films.EVEN_ROW, films.SELECTIVE_ROW, films.BEHIND_ROW, films.GLOBAL_ROW)
    points = []
    for table in filter(lambda each: each.endswith("dB"), found.tables):
        for name in dict.fromkeys(row.name for row in rows):
            if cells := found.find_runs(table, name):
                left = float(np.mean([cell.psnr for cell in cells]))
                told = float(np.mean(found.list_shares(cells, found.settings.networks)))
                points.append((name, left, 100 * told))
    title = f"Top-1 among {found.gallery} places, networks not met in training"
    axes = plots.PlotAxes(title=title, x_label="PSNR, dB", y_label="Top-1, %")
    return plots.draw_lines(make_curves(points), axes)


def draw_networks(found: PlaceFound) -> str:
    """Figure 4: all networks, before and after at the lowest PSNR."""
    plan = found.settings
    names, table = (*plan.networks, *plan.taught), name_psnr(min(plan.psnrs))
    series = [make_bars(RAW, [[found.find_raw([name], found.gallery)] for name in names])]
    for variant in (GLOBAL, OURS):
        cells = found.find_runs(table, variant)
        groups = [[cell.top(name, found.gallery) for cell in cells] for name in names]
        series.append(make_bars(variant, groups))
    axes = plots.PlotAxes(title=f"Top-1 at {table}", x_label="", y_label="Top-1, %")
    return plots.draw_bars(series, names, axes, limits=(0.0, 100.0))


def draw_support(found: PlaceFound) -> str:
    """Figure 5: blur and mosaic on the same support, where they changed anything."""
    network = found.settings.networks[:1]
    points = [
        (cell.name.split(",")[0], cell.psnr, 100 * found.list_shares([cell], network)[0])
        for cell in found.tables["support"]
        if np.isfinite(cell.psnr)
    ]
    title = "Blur and mosaic where PPEDCRF puts noise"
    axes = plots.PlotAxes(title=title, x_label="PSNR, dB", y_label="Top-1, %")
    return plots.draw_lines(make_curves(points), axes)


def write_page(found: PlaceFound) -> Page:
    """What was found, for machines and for people."""
    sentences = list(write_sentences(found, CLAIMS))
    encoded = ("raw", "maps", "adapted", "moved_px", "oracles", "activities")
    kept = {name: _json.encode_noun(getattr(found, name)) for name in encoded}
    tables = {name: _json.encode_noun(cells) for name, cells in found.tables.items()}
    return Page(
        title="PPEDCRF: where a film was taken",
        text=write_text(found, sentences),
        data={
            "galleries": list(found.sizes),
            "likeness": list(found.likeness),
            "raw": kept.pop("raw"),
            "maps": kept.pop("maps"),
            "tables": tables,
            **kept,
            "sentences": sentences,
        },
        plots={
            "ppedcrf_frontier": draw_frontier(found),
            "ppedcrf_galleries": draw_galleries(found),
            "ppedcrf_networks": draw_networks(found),
            "ppedcrf_support": draw_support(found),
            **({"ppedcrf_panels": found.panels} if found.panels else {}),
        },
    )


EXPERIMENT = Experiment(settings=PpedcrfSettings, measure=measure_tables, write_page=write_page)
