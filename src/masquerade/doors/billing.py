"""Charge a training run to a ledger once, also when it is killed and taken up again.

A slip beside the output names the run before anything is charged, so whatever is cut off, the same
command finds the same entry. A charge is settled with the hash of one model before that model gets
its name, and is never good for another one. The slip is removed when the model stands.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from masquerade.collection import Collection
from masquerade.doors.faults import private_item
from masquerade.doors.owners import owner_of, units_of
from masquerade.errors import BadInput
from masquerade.events import ComposedDpEvent, DpEvent, NoOpDpEvent
from masquerade.files import atomic
from masquerade.guarantee import Relation
from masquerade.ledger import Content, Ledger, Run
from masquerade.mechanism import Value
from masquerade.noise import Noise
from masquerade.receipt import Receipt
from masquerade.recordings import Video
from masquerade.train import views
from masquerade.train.method import Method
from masquerade.train.plan import Plan

Progress = Callable[[int, int], None]
_SLIP = ".private-run"


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a run costs one of its units.

    Args:
        method: its name.
        fields: its public fields, as the receipt has them.
        events: for accounts of each relation.
        public: what of each recording it uses without noise.
    """

    method: str
    fields: dict[str, Any]
    events: Mapping[Relation, DpEvent]
    public: str = "nothing"


class Bill:
    """What is owed for one run, from its first recording to its model.

    Args:
        ledger: that is charged; without one nothing is owed.
        target: the model; the slip stands beside it.
        noise: refused under a ledger if it is a rehearsal's.
    """

    def __init__(self, ledger: Ledger | None, target: Path, noise: Noise) -> None:
        self._ledger = ledger
        self._contents: list[Content] = []
        self._masks: list[bytes] = []
        self._public: list[Content] = []
        self.charged: dict[str, Any] = {}  # what the receipt says of the ledger
        self.run_id = ""
        if ledger is None:
            return
        if noise.is_rehearsal:
            raise ValueError(
                "Expected live noise under a ledger, got a rehearsal; leave out the seed or the "
                "ledger."
            )
        self._slip = target.with_name(f"{target.name}{_SLIP}")
        self._is_new = not self._slip.is_file()
        if self._is_new:
            atomic.write_whole(self._slip, secrets.token_hex(16).encode(), is_private=True)
        self.run_id = self._slip.read_text(encoding="ascii")

    @property
    def owed(self) -> str:
        """What a stop in the middle leaves."""
        said = " What was reserved for it is spent; the same command goes on with the same run."
        return said if self.charged else ""

    def see(self, recording: Value) -> None:
        """The next recording."""
        if self._ledger is not None:
            self._contents.append(Content.of(recording))
            self._masks.append(mask_of(recording))

    def see_public(self, recording: Value) -> None:
        """A recording that is used without noise: nobody whom the ledger protects may be in it."""
        if self._ledger is not None:
            self._public.append(Content.of(recording))

    def keep(self, draw: Callable[[], np.ndarray], asked: np.ndarray) -> np.ndarray:
        """What was drawn before in this run, or what is drawn now and remembered: noise once.

        Args:
            draw: gives the answers.
            asked: the public windows that they answer.

        Raises:
            BadInput: if other windows were asked when it was drawn.
        """
        if self._ledger is None:
            return draw()
        path = self._slip.with_name(f"{self._slip.name}-labels")
        public = hashlib.sha256(np.ascontiguousarray(asked).tobytes()).hexdigest()
        if path.is_file():
            held = json.loads(path.read_text(encoding="utf-8"))
            if held["run"] == self.run_id and held.get("public") != public:
                raise BadInput(
                    "Expected the public windows that were asked before the run was stopped, got "
                    f"others; give those, or delete {self._slip} to begin, and to be charged "
                    "for, a new run."
                )
            if held["run"] == self.run_id:
                return np.array(held["drawn"], dtype=np.int64)
        drawn = draw()
        said = {"run": self.run_id, "public": public, "drawn": drawn.tolist()}
        atomic.write_whole(path, json.dumps(said).encode(), is_private=True)
        return drawn

    def reserve(self, cost: Cost, units: Sequence[int]) -> None:
        """Charge everyone, once; the spend is on disk when this returns.

        Args:
            cost: of one unit.
            units: the unit of each recording that was seen.
        """
        if self._ledger is None:
            return
        _refuse_protected(self._ledger, self._public)
        run = _run(self.run_id, cost, self._contents, self._masks, units)
        try:
            reservation = self._ledger.reserve_run(run)
        except Exception as error:
            if self._is_new:
                self.abandon()
            elif isinstance(error, BadInput):
                raise BadInput(
                    f"{error} The run that was begun is named in {self._slip}; without that file "
                    "a new one begins, and is charged."
                ) from error
            raise
        self.charged = {"ledger_sequence": reservation.sequence, "ledger_head": reservation.head}

    def abandon(self) -> None:
        """Remove the slip of a run that stopped before anybody was charged."""
        if self._ledger is not None and self._is_new and not self.charged:
            self._slip.unlink(missing_ok=True)

    def settle(self, receipt: Receipt) -> None:
        """Record which model the charge is for; another one is refused."""
        if self._ledger is not None:
            self._ledger.settle(receipt)

    def forget(self) -> None:
        """Remove the slip: the model stands."""
        if self._ledger is not None:
            self._slip.unlink(missing_ok=True)
            self._slip.with_name(f"{self._slip.name}-labels").unlink(missing_ok=True)


def cost_of(method: Method, plans: Sequence[Plan], fields: dict[str, Any]) -> Cost:
    """The cost of a method's runs, all of them together."""
    events = [method.event(plan) if method.HAS_PRIVATE else NoOpDpEvent() for plan in plans]
    event = events[0] if len(events) == 1 else ComposedDpEvent(events)
    return Cost(
        method=method.name,
        fields=fields,
        events={Relation.ZERO_OUT: event, Relation.REPLACE_ONE: event},
        public=method.public_side,
    )


def quote(
    ledger: Ledger,
    collection: Collection[Any],
    cost: Cost,
    *,
    unit: str,
    progress: Progress,
    public: Iterable[Value] = (),
) -> None:
    """Raise what charging a cost would raise, and spend nothing; recordings are read."""
    _refuse_protected(ledger, [Content.of(recording) for recording in public])
    contents, masks, owners = [], [], []
    for index in range(len(collection)):
        recording = private_item(collection, index)
        contents.append(Content.of(recording))
        masks.append(mask_of(recording))
        owners.append(owner_of(recording, index, unit, collection.labels[index].name))
        progress(index + 1, len(collection))
    ledger.quote_run(_run("quote", cost, contents, masks, units_of(owners)))


def _refuse_protected(ledger: Ledger, public: Sequence[Content]) -> None:
    """Nobody whom a ledger protects may be among what is used without noise."""
    protected = ledger.count_members(public)
    if protected:
        raise BadInput(
            f"Expected public recordings, got {protected} that are in an account of this "
            "ledger and so protected; leave them out."
        )


def mask_of(recording: Any) -> bytes:
    """A hash of what is public in a recording; empty where nothing is."""
    return views.mark(recording) if isinstance(recording, Video) else b""


def _run(
    run_id: str,
    cost: Cost,
    contents: Sequence[Content],
    masks: Sequence[bytes],
    units: Sequence[int],
) -> Run:
    return Run(
        run_id=run_id,
        method=cost.method,
        fields=cost.fields,
        events=cost.events,
        public=cost.public,
        contents=tuple(contents),
        masks=tuple(masks),
        units=tuple(units),
    )
