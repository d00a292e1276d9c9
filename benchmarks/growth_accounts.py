"""How ledgers and accountants grow: seconds and memory against spends, events and steps.

A ledger of 1,000 files is filled with spends and their outputs (two entries each) in one
transaction. Then: the first session, which walks all of it and carries a balance forward; one
`reserve`, as the median and the worst of 40 in a row, and the CPU time of one; `show`;
`verify_entries`, which walks everything. The claim is that a `reserve` after a million spends takes
at most 50 ms by the clock, disk included.

Every point is a process of its own, so that memory is its own: the peak of the whole process, of
which about 150 MB are Python and its packages. Half an hour on a busy machine; ``--quick`` stops
early.

    python benchmarks/growth_accounts.py [--quick] [--postgres] [--plots FOLDER]
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import json
import math
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from masquerade import accounting, make_mechanism
from masquerade.accounting.compose import make_sampled_gaussian
from masquerade.events import ComposedDpEvent, GaussianDpEvent
from masquerade.guarantee import Unit, UnitName
from masquerade.ledger import Content, Ledger
from masquerade.report import plots
from masquerade.tradeoff import gaussian_epsilon, gaussian_mu

FILES, EACH, DELTA, RESERVES, TARGET_S = 1000, 0.05, 1e-5, 40, 0.05
BATCH, LIMIT_S = 10_000, 1800
MECHANISM = make_mechanism("gaussian_noise", epsilon=EACH, delta=DELTA, unit="frame", low=0, high=1)
Q, EPSILON = 0.01, 2.0


def value(place: int) -> np.ndarray:
    """A file of its own for each place."""
    return np.full((4, 3), place / FILES)


def fill(address: str, spends: int) -> None:
    """A ledger of many spends: the first is real, the others are its likes for other files."""
    ledger, most = Ledger(address), 2 * spends / FILES + 100
    cap = gaussian_epsilon(gaussian_mu(EACH, DELTA) * math.sqrt(most), DELTA)
    ledger.open_account("ward", Unit(name=UnitName.FRAME), epsilon=cap, delta=DELTA)
    files = [(Content.from_value(value(place)), None) for place in range(FILES)]
    members = ledger.add_contents("ward", files)
    tokens = {e.payload["member"]: e.payload["token"] for e in ledger.read_entries()[1:]}
    first = ledger.reserve_release(value(0), MECHANISM).payload
    [charge] = first["charges"]

    def entries(sequence: int, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
        for place in range(count):
            member = members[place % FILES]
            named = {"member": member, "token": tokens[member]}
            yield "reserve", first | named | {"charges": [charge | {"holder": member}]}
            output = {"reservation": sequence + 2 * place + 1, "output_sha256": f"{place:064x}"}
            yield "settle", output

    with ledger._store.open_ledger_session() as session:
        for start in range(0, spends, BATCH):
            session.append_entries(entries(session.sequence, min(BATCH, spends - start)))


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ledger_point(address: str, what: str) -> dict[str, float]:
    """One measurement in a process of its own."""
    ledger = Ledger(address)
    if what == "reserve":
        files = np.random.default_rng(7).integers(0, FILES, RESERVES)
        start = time.process_time()
        times = [seconds(lambda p=p: ledger.reserve_release(value(p), MECHANISM)) for p in files]
        cpu = (time.process_time() - start) / RESERVES
        return {"seconds": statistics.median(times), "worst": max(times), "cpu": cpu}
    works = {
        "first": ledger.read_book,
        "show": ledger.list_summaries,
        "verify": ledger.verify_entries,
    }
    return {"seconds": seconds(works[what])}


def accountant_point(what: str, count: int) -> dict[str, float]:
    """Epsilon of steps, of different events together, and the noise for a target."""
    goal = {"delta": DELTA, "relation": "zero_out"}
    noise = max(0.8, Q * math.sqrt(count))  # so that epsilon stays of the order of 1
    if what == "steps":
        event = make_sampled_gaussian(noise, sampling_prob=Q, steps=count)
        return {"seconds": seconds(lambda: accounting.compute_epsilon(event, **goal))}
    if what == "events":
        many = [GaussianDpEvent(math.sqrt(count) * (1 + p / count)) for p in range(count)]
        return {
            "seconds": seconds(lambda: accounting.compute_epsilon(ComposedDpEvent(many), **goal))
        }
    work = {"sampling_prob": Q, "steps": count}
    return {"seconds": seconds(lambda: accounting.find_noise_multiplier(EPSILON, **work, **goal))}


def measured(*words: object) -> dict[str, float]:
    """What a point says in a process of its own; nothing if it takes too long."""
    line = [sys.executable, __file__, "--point", *map(str, words)]
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    except subprocess.TimeoutExpired:
        return {"seconds": math.nan, "megabytes": math.nan}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def point(words: list[str]) -> dict[str, float]:
    """The work of a child, with the most memory that it held."""
    kind, what, which = words
    if kind == "fill":
        found = {"seconds": seconds(lambda: fill(what, int(which)))}
    elif kind == "ledger":
        found = ledger_point(what, which)
    else:
        found = accountant_point(what, int(which))
    return found | {"megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def place_for(spends: int, folder: str, is_server: bool) -> str:
    """Where a new ledger can be: a file, or a database of a server of our own."""
    if not is_server:
        return f"{folder}/budget.db"
    import pgserver

    os.environ["XDG_STATE_HOME"] = folder  # where the witness is
    server = pgserver.get_server(f"{folder}/postgres", cleanup_mode="delete")
    server.psql(f"CREATE DATABASE spends_{spends};")
    return str(server.get_uri(database=f"spends_{spends}"))


def ledgers(sizes: list[int], is_server: bool) -> dict[str, list[tuple[int, float, float]]]:
    """A row for each size; (spends, seconds, megabytes) of each command."""
    print("| spends | filled s | first s | reserve ms | worst | CPU | show s | verify s | MB |")
    print("|---|---|---|---|---|---|---|---|---|")
    found: dict[str, list[tuple[int, float, float]]] = {}
    for spends in sizes:
        with tempfile.TemporaryDirectory() as folder:
            where = place_for(spends, folder, is_server)
            filled = measured("fill", where, spends)
            row = {what: measured("ledger", where, what) for what in COMMANDS}
        for what, said in row.items():
            found.setdefault(what, []).append((spends, said["seconds"], said["megabytes"]))
        memory = ", ".join(f"{what} {said['megabytes']:.0f}" for what, said in row.items())
        print(
            f"| {spends:,} | {filled['seconds']:.1f} | {row['first']['seconds']:.2f} | "
            f"{1000 * row['reserve']['seconds']:.1f} | {1000 * row['reserve']['worst']:.1f} | "
            f"{1000 * row['reserve']['cpu']:.1f} | "
            f"{row['show']['seconds']:.2f} | {row['verify']['seconds']:.2f} | {memory} |",
            flush=True,
        )
    last = found["reserve"][-1][1]
    verdict = "pass" if last <= TARGET_S else "miss"
    print(f"one reserve after {sizes[-1]:,} spends: {last:.3f} s; <= {TARGET_S} s: {verdict}\n")
    return found


COMMANDS = ("first", "reserve", "show", "verify")


def accountants(most: dict[str, int]) -> dict[str, list[tuple[int, float, float]]]:
    """Seconds of each question for 1, 10, 100 ..."""
    print("| count | " + " | ".join(f"{what} s | MB" for what in most) + " |")
    print("|---|" + "---|---|" * len(most))
    found: dict[str, list[tuple[int, float, float]]] = {what: [] for what in most}
    for power in range(round(math.log10(max(most.values()))) + 1):
        cells = [f"{10**power:,}"]
        for what, top in most.items():
            if 10**power > top:
                cells += ["", ""]
                continue
            said = measured("accountant", what, 10**power)
            found[what].append((10**power, said["seconds"], said["megabytes"]))
            cells += [f"{said['seconds']:.3f}", f"{said['megabytes']:.0f}"]
        print("| " + " | ".join(cells) + " |", flush=True)
    return found


def draw(found: dict[str, list[tuple[int, float, float]]], title: str, x: str, out: Path) -> None:
    """Seconds and memory, each as a plot with logarithmic axes."""
    for column, label in ((1, "seconds"), (2, "megabytes")):
        lines = [
            plots.PlotLine(name=what, x=np.array(rows)[:, 0], y=np.array(rows)[:, column])
            for what, rows in found.items()
        ]
        axes = plots.PlotAxes(title=title, x_label=x, y_label=label, is_log=True)
        out.with_name(f"{out.name}_{label}.svg").write_text(plots.draw_lines(lines, axes) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--point", nargs=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--postgres", action="store_true", help="a server of its own, no file")
    parser.add_argument("--plots", type=Path, help="a folder for plots")
    given = parser.parse_args()
    if given.point:
        print(json.dumps(point(given.point)))
        return
    top = 3 if given.quick else 6
    spends = ledgers([10**power for power in range(2, top + 1)], given.postgres)
    most = {"steps": 10**9, "events": 10**5, "calibrate": 10**9}
    counts = accountants({what: 100 if given.quick else top for what, top in most.items()})
    if given.plots:
        draw(spends, "A ledger", "spends", given.plots / "ledger")
        draw(counts, "The accountant", "steps or events", given.plots / "accountant")


if __name__ == "__main__":
    main()
