"""The row of public weights alone: what a network knows before anybody private is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from masquerade.datasets.stage import Stage
from masquerade.recipes import public_alone, seen
from masquerade.recipes.verdict import Runs
from masquerade.recipes.video_dprp.films import Kept
from masquerade.recipes.video_dprp.promises import RowPromise
from masquerade.recipes.video_dprp.results import ResultRow
from masquerade.recipes.video_dprp.rows import Spec
from masquerade.training.rows import Rows

if TYPE_CHECKING:
    from masquerade.recipes.video_dprp import VideoDprpTables


def known(plan: VideoDprpTables, test: Kept, raw: Rows) -> dict[str, Any]:
    """What public weights know without anybody private; only Stage has public examples."""
    data = test.origin
    if not isinstance(data, Stage):
        return {"missing": "not available: this data set has no public examples of its activities"}
    shown, network = public_alone.examples(data), plan.begun
    handfuls = [
        public_alone.handful(shown, each=public_alone.EACH, seed=seed)
        for seed in range(plan.repeats)
    ]
    numbers = sorted({number for some in handfuls for number in some})
    met = public_alone.features(network, shown, numbers, device=plan.device)
    if plan.part == "head":
        slots = seen.middle(raw.slots, 1)[:, 0]
        values, targets = (part[slots].cpu().numpy() for part in (raw.private, raw.targets))
        asked = public_alone.Features(values=values, targets=targets)
    else:
        asked = public_alone.features(network, data, test.numbers, device=plan.device)
    places = [[numbers.index(number) for number in some] for some in handfuls]
    return {"shares": list(public_alone.nearest(met, places, asked).shares)}


def row(spec: Spec, held: Mapping[str, Any], tested: int) -> ResultRow:
    """The row of the tables."""
    if "missing" in held:
        promise = RowPromise(said="not measured")
        return ResultRow(spec=spec, promise=promise, missing=held["missing"])
    promise = RowPromise(said="nobody private is read")
    return ResultRow(spec=spec, promise=promise, raw=Runs(tuple(held["shares"]), tested))
