"""Claim: under the lock, one more spend after 1,000 others takes at most 1 s.

That is one `reserve` in SQLite: the balance and the entries since are verified, the filter decides,
and the entry is on disk (`growth_accounts.py` goes on to a million). Peer: recomposing the same
events as a privacy loss distribution, which is what a ledger without a filter would do, and which
would not even be a valid rule. Both for an account of Gaussian releases and for one of sampled
training. A minute and a half, most of it to write the 2,000 spends and to recompose.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from masquerade import accounting
from masquerade.events import ComposedDpEvent, DpEvent, GaussianDpEvent, PoissonSampledDpEvent
from masquerade.guarantee import Relation, Unit, UnitName
from masquerade.ledger import Ledger
from masquerade.ledger.filter import FilterName
from masquerade.mechanisms.gaussian_noise import GaussianNoise

SPENDS, REPEATS, TARGET_S = 1000, 5, 1.0
EPSILON, DELTA = 8.0, 1e-5
VALUE = np.zeros((4, 3))


@dataclass(frozen=True, kw_only=True)
class Spend(GaussianNoise):
    """A release that costs a given event."""

    noise_multiplier: float = 1.0
    sampling_prob: float = 1.0

    def event_for(self, shape: object, unit: object) -> DpEvent:
        """The event, whatever the shape."""
        one = GaussianDpEvent(self.noise_multiplier)
        return one if self.sampling_prob == 1 else PoissonSampledDpEvent(self.sampling_prob, one)


def spend(place: int, sampling_prob: float) -> Spend:
    """All different, so that no peer can merge them."""
    noise = (200.0 if sampling_prob == 1 else 4.0) * (1 + place / SPENDS)
    given = {"epsilon": 1.0, "delta": DELTA, "unit": "frame", "low": 0.0, "high": 1.0}
    return Spend(**given, noise_multiplier=noise, sampling_prob=sampling_prob)


def fastest(work: Callable[[], object], repeats: int) -> float:
    """The least seconds by the clock: a lock is held for as long as the disk takes, too."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def ledger_with(spends: list[Spend], rule: FilterName, path: Path) -> Ledger:
    ledger = Ledger(path)
    ledger.open_account(
        "ward",
        Unit(name=UnitName.FRAME),
        epsilon=EPSILON,
        delta=DELTA,
        relation=Relation.ZERO_OUT,
        rule=rule,
    )
    ledger.add_content("ward", VALUE)
    for one in spends:
        ledger.reserve_release(VALUE, one)
    return ledger


def main() -> None:
    print(f"seconds after {SPENDS} spends, SQLite, one thread; ratio is peer / ours")
    print("account             peer                         peer s  ours s  ratio  target")
    for label, rule, q, peer in (
        ("Gaussian releases", FilterName.GAUSSIAN, 1.0, "account.epsilon, closed form"),
        ("sampled training", FilterName.RENYI, 0.01, "account.epsilon, PLD"),
    ):
        spends = [spend(place, q) for place in range(SPENDS)]
        events = ComposedDpEvent([one.event_for(None, None) for one in spends])
        with tempfile.TemporaryDirectory() as folder:
            ledger = ledger_with(spends, rule, Path(folder) / "budget.db")
            ours = fastest(partial(ledger.reserve_release, VALUE, spends[-1]), REPEATS)
        recompose = partial(
            accounting.compute_epsilon, events, delta=DELTA, relation=Relation.ZERO_OUT
        )
        theirs = fastest(recompose, REPEATS if q == 1 else 1)
        verdict = f"<= {TARGET_S:g} s: {'pass' if ours <= TARGET_S else 'miss'}"
        print(f"{label:<20}{peer:<29}{theirs:>6.3f}{ours:>8.3f}{theirs / ours:>7.1f}  {verdict}")


if __name__ == "__main__":
    main()
