"""Draw what Video-DPRP's releases keep against what attackers tell, from the page that stands.

    PYTHONPATH=. python benchmarks/looks_plots.py [docs/results/video_dprp.md]

The experiment draws these plots itself. This reads the tables of a page that it wrote
before (means, spreads, intervals; nothing is measured), reckons each row's true epsilon again from
its mechanism, and writes one plot a table beside the page.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from experiments.claims import Runs
from experiments.video_dprp_page import LOOKS_TITLE, draw_looks, name_release
from experiments.video_dprp_rows import (
    Choices,
    Looks,
    ResultRow,
    Spec,
    list_rows,
    state_release,
)
from masquerade.scores import AttackResult, MeasuredRate

PAGE = Path(__file__).parents[1] / "docs/results/video_dprp.md"
SHAPE = (20, 64, 64, 3)
TESTED, PEOPLE = 1008, 90
CHOICES = Choices(
    epsilons=(2.0, 5.0, 8.0),
    delta=1e-4,
    ks=(1200, 2304, 3072, 7500, 15360),
    bs=(0.2, 0.4, 0.5, 0.6, 0.8),
)
_RUNS = re.compile(r"([\d.]+) ± ([\d.]+)")
_SPAN = re.compile(r"([\d.]+) \(([\d.]+) to ([\d.]+)\)")


def table(page: str, heading: str) -> list[list[str]]:
    """Cells of the first table below a heading, its own heading first."""
    below = page.partition(f"### {heading}")[2].partition("\n### ")[0]
    lines = [line for line in below.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [cells[0], *cells[2:]]


def use_of(page: str) -> dict[tuple[int, str, float], Runs]:
    """Top-1 on raw tests, by table, row or line, and epsilon, k or b."""
    found = {(1, cells[0], 0.0): _runs(cells[1]) for cells in table(page, "Table 1")[1:]}
    top, *rows = table(page, "Table 2")
    for name, _, *values in rows:
        for column, value in zip(top[2:], values, strict=True):
            found[2, name, float(column.removeprefix("epsilon "))] = _runs(value)
    for number in (3, 4):
        top, *rows = table(page, f"Table {number}")
        for at, *values in rows:
            for line, value in zip(top[1:], values, strict=True):
                found[number, line, float(at)] = _runs(value)
    return {key: runs for key, runs in found.items() if runs is not None}


def _runs(cell: str) -> Runs | None:
    """Three runs of that mean and spread; each of them stands nowhere any more."""
    if not (match := _RUNS.fullmatch(cell)):
        return None
    mean, spread = (float(part) / 100 for part in match.groups())
    return Runs((mean - spread, mean, mean + spread), tested=TESTED)


def looks_of(page: str) -> dict[str, Looks]:
    """Both attackers' cMAP, by release."""
    top, *rows = table(page, LOOKS_TITLE)
    ends = {cells[0]: cells for cells in rows}
    raw, floor = ends.pop("raw recordings"), ends.pop("random data")
    return {
        name: Looks(
            attacks=tuple(
                AttackResult(
                    attack="attribute_inference",
                    attacker=top[at],
                    published=(_figure(cells[at]),),
                    ceiling=(_figure(raw[at]),),
                    floor=(_figure(floor[at]),),
                )
                for at in (1, 2)
            )
        )
        for name, cells in ends.items()
    }


def _figure(cell: str) -> MeasuredRate:
    value, low, high = (float(part) / 100 for part in _SPAN.fullmatch(cell).groups())
    return MeasuredRate(measure="cMAP", value=value, low=low, high=high, count=PEOPLE, of="people")


def rows_of(page: str) -> Iterator[ResultRow]:
    """Every release whose people were looked at, with what it is good for."""
    uses, looks = use_of(page), looks_of(page)
    named = dict[str, Looks]()  # by release: rows of several tables may share one
    for spec in list_rows(SHAPE, CHOICES, is_quick=False):
        if (mechanism := spec.build_mechanism()) is None:
            continue
        row = ResultRow(
            spec=spec,
            promise=state_release(mechanism, [SHAPE]),
            raw=uses.get((spec.table, *_place(spec))),
        )
        told = looks.get(name_release(row))
        if told is not None:
            named.setdefault(repr(mechanism), told)
        yield ResultRow(
            spec=spec, promise=row.promise, raw=row.raw, looks=named.get(repr(mechanism))
        )


def _place(spec: Spec) -> tuple[str, float]:
    return (spec.line if spec.table > 2 else spec.name, spec.at)


def main(path: Path) -> None:
    """Write the plots beside the page."""
    for name, text in draw_looks(list(rows_of(path.read_text(encoding="utf-8")))).items():
        (path.parent / f"{name}.svg").write_text(text + "\n", encoding="utf-8")
        print(path.parent / f"{name}.svg", text.count("<title>"), "releases")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else PAGE)
