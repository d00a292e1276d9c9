"""Who pays for what is published: nobody, the accounts of a recording, or those of a training run.

Charge a training run to a ledger once, also when it is killed and taken up again.

A slip beside the output names the run before anything is charged, so whatever is cut off, the same
command finds the same entry. A charge is settled with the hash of one model before that model gets
its name, and is never good for another one. The slip is removed when the model stands.

Who pays for what is published: nobody, or the accounts that hold a recording.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from masquerade import ledger as ledgers
from masquerade.collection import Collection
from masquerade.errors import BadInput, BudgetExceeded
from masquerade.events import ComposedDpEvent, DpEvent, NoOpDpEvent
from masquerade.guarantee import Relation
from masquerade.io import atomic
from masquerade.ledger import Ledger, Run
from masquerade.ledger.content import Content
from masquerade.ledger.damage import OutOfReach
from masquerade.mechanism import Mechanism, Value
from masquerade.noise import Noise
from masquerade.progress import make_progress_bars, make_reporter
from masquerade.receipt import Receipt
from masquerade.recordings import Photo, Video
from masquerade.training import views
from masquerade.training.ensemble import Ensemble
from masquerade.training.method import Method
from masquerade.training.methods import Featured
from masquerade.training.plan import TrainingPlan
from masquerade.training.units import owner_of, private_item, units_of


@dataclass
class NoBill:
    """There is no ledger: nothing is owed, and nobody can tell what was paid for before."""

    ledger_fields: dict[str, Any] = field(default_factory=dict, init=False)
    spending_note: str = field(default="", init=False)

    def reserve_budget(self) -> None:
        """Nothing."""

    def is_paid_by(self, receipt: Receipt) -> None:
        """Nobody can tell."""

    def settle_charge(self, receipt: Receipt) -> None:
        """Nothing."""


@dataclass(kw_only=True)
class RecordingBill:
    """What is owed for one recording under a mechanism.

    Args:
        ledger: that is charged.
        content: of the recording, computed when it is asked for.
        mechanism: what is done.
        with_sound: whether the sound of a video leaves with it.
    """

    ledger: ledgers.Ledger
    content: Callable[[], Content]
    mechanism: Mechanism
    with_sound: bool
    ledger_fields: dict[str, Any] = field(default_factory=dict, init=False)
    spending_note: str = field(default="", init=False)

    def reserve_budget(self) -> None:
        """Charge every account that holds the recording; the spend is on disk afterwards."""
        content = self.content()
        self.spending_note = "What was reserved for it is spent."
        found = self.ledger.reserve_release(content, self.mechanism, with_sound=self.with_sound)
        self.ledger_fields = {"ledger_sequence": found.sequence, "ledger_head": found.head}

    def is_paid_by(self, receipt: Receipt) -> bool:
        """Whether the receipt's spend was recorded here, for this very recording."""
        return self.ledger.has_spend_for(receipt, self.content())

    def settle_charge(self, receipt: Receipt) -> Exception | None:
        """Record the output; where the ledger cannot be told, that may wait: the spend is in it."""
        try:
            self.ledger.record_output(receipt)
        except (BadInput, OSError) as error:
            if isinstance(error, ledgers.WrongReceipt):
                raise
            return error
        return None


def refuse_rehearsal(ledger: ledgers.Ledger | None, noise: Noise) -> None:
    """A rehearsal protects nothing, so nothing is charged for it."""
    if ledger is not None and noise.is_rehearsal:
        raise ValueError(
            "Expected live noise under a ledger, got a rehearsal; leave out the seed or the ledger."
        )


def make_recording_bill(
    ledger: ledgers.Ledger | None,
    noise: Noise,
    content: Callable[[], Content],
    mechanism: Mechanism,
    *,
    with_sound: bool = False,
) -> NoBill | RecordingBill:
    """The ledger's, or one of nothing."""
    if ledger is None:
        return NoBill()
    refuse_rehearsal(ledger, noise)
    return RecordingBill(ledger=ledger, content=content, mechanism=mechanism, with_sound=with_sound)


_SLIP_SUFFIX = ".private-run"
_PHOTO_MASK = b"photo"  # has no mask, and psi of it is its own
_RELATIONS = (Relation.ZERO_OUT, Relation.REPLACE_ONE)
Cost: TypeAlias = Callable[..., Run]  # a run, but for its name and its recordings


class NotedRecordings:
    """The very recordings of a collection, or of a list; each is noted when it is handed out."""

    def __init__(self, held: Any, note: Callable[[int, Any], None]) -> None:
        self._held, self._note = held, note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._held, name)

    def __len__(self) -> int:
        return len(self._held)

    def __getitem__(self, index: int) -> Any:
        recording = self._held[index]
        self._note(index, recording)
        return recording


class NoRunBill(NoBill):
    """There is no ledger: nothing is owed for the run."""

    run_id = ""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[int, tuple[Content, bytes]] = {}
        self._public: dict[int, Content] = {}

    @property
    def training_contents(self) -> list[Content]:
        """What the run learns from, private or public."""
        return [*(content for content, _ in self._seen.values()), *self._public.values()]

    def note_contents(self, recordings: Any, *, is_public: bool = False) -> Any:
        """The same recordings; the content of each is noted as it is handed out.

        Args:
            recordings: a collection, or a list.
            is_public: used without noise: nobody whom the ledger protects may be in them.
        """

        def note_recording(index: int, recording: Value) -> None:
            if is_public:
                self._public[index] = Content.from_value(recording)
            else:
                self._seen[index] = Content.from_value(recording), encode_mask(recording)

        return NotedRecordings(recordings, note_recording)

    def set_cost(self, cost: Cost, units: Sequence[int]) -> None:
        """What will be reserved: the cost of one unit, and the unit of each recording."""

    def draw_labels_once(
        self, draw: Callable[[], np.ndarray], query_windows: np.ndarray
    ) -> np.ndarray:
        """Labels of these public windows; a run that is taken up again draws no noise anew."""
        return draw()

    def abandon_run(self) -> None:
        """Forget a run that stopped before anybody was charged."""

    def forget_run(self) -> None:
        """The model stands: nothing is left to take up."""


class RunBill(NoRunBill):
    """What is owed for one run, from its first recording to its model.

    Args:
        ledger: that is charged.
        target: the model; the slip stands beside it.
    """

    def __init__(self, ledger: Ledger, target: Path) -> None:
        super().__init__()
        self._ledger = ledger
        self._cost: Cost
        self._units: tuple[int, ...]
        self._slip = target.with_name(f"{target.name}{_SLIP_SUFFIX}")
        self._labels = target.with_name(f"{target.name}{_SLIP_SUFFIX}-labels")
        self._is_new, self._is_asked = not self._slip.is_file(), False
        if self._is_new:
            atomic.write_whole(self._slip, secrets.token_hex(16).encode(), is_private=True)
        self.run_id = self._slip.read_text(encoding="ascii")

    def set_cost(self, cost: Cost, units: Sequence[int]) -> None:
        """By whoever's recordings were read."""
        self._cost, self._units = cost, tuple(units)

    def reserve_budget(self) -> None:
        """Charge everyone, once; the spend is on disk when this returns."""
        _refuse_protected(self._ledger, list(self._public.values()))
        seen = [self._seen[index] for index in sorted(self._seen)]
        run = self._cost(run_id=self.run_id, units=self._units, **_make_recording_fields(seen))
        self._is_asked = True  # whatever stops us from here on may come after the charge
        try:
            reservation = self._ledger.reserve_run(run)
        except OutOfReach:
            raise
        except (BudgetExceeded, ValueError) as error:
            self._is_asked = False  # it refused
            if self._is_new:
                self.abandon_run()
            elif isinstance(error, BadInput):
                raise BadInput(
                    f"{error} The run that was begun is named in {self._slip}; without that file "
                    "a new one begins, and is charged."
                ) from error
            raise
        self.ledger_fields = {
            "ledger_sequence": reservation.sequence,
            "ledger_head": reservation.head,
        }
        self.spending_note = (
            "What was reserved for it is spent; the same command goes on with the same run."
        )

    def draw_labels_once(
        self, draw: Callable[[], np.ndarray], query_windows: np.ndarray
    ) -> np.ndarray:
        """Kept in a private file beside the slip; other windows than before are refused."""
        mark = hashlib.sha256(np.ascontiguousarray(query_windows).tobytes()).hexdigest()
        held = json.loads(self._labels.read_bytes()) if self._labels.is_file() else {}
        if held.get("run") != self.run_id:
            labels = draw()
            said = {"run": self.run_id, "public": mark, "drawn": labels.tolist()}
            atomic.write_whole(self._labels, json.dumps(said).encode(), is_private=True)
            return labels
        if held.get("public") != mark:
            raise BadInput(
                "Expected the public windows that were asked before the run was stopped, got "
                f"others; give those, or delete {self._slip} to begin, and to be charged "
                "for, a new run."
            )
        return np.array(held["drawn"], dtype=np.int64)

    def abandon_run(self) -> None:
        """Remove the slip, unless it names a run that was charged."""
        if self._is_new and not self._is_asked:
            self._slip.unlink(missing_ok=True)

    def settle_charge(self, receipt: Receipt) -> None:
        """Record which model the charge is for, before it stands; another one is refused."""
        self._ledger.record_output(receipt)

    def forget_run(self) -> None:
        """Remove the slip and the labels."""
        self._slip.unlink(missing_ok=True)
        self._labels.unlink(missing_ok=True)


def make_run_bill(ledger: Ledger | None, target: Path, noise: Noise) -> NoRunBill:
    """The ledger's, or one of nothing."""
    refuse_rehearsal(ledger, noise)
    return NoRunBill() if ledger is None else RunBill(ledger, target)


def make_run_cost(
    method: Method,
    plans: Sequence[TrainingPlan],
    fields: dict[str, Any],
    *,
    owed: Sequence[DpEvent] = (),
) -> Cost:
    """The cost of a method's runs, all of them together, with what is owed besides."""
    own = [method.event(plan) if method.HAS_PRIVATE else NoOpDpEvent() for plan in plans]
    events = [*own, *owed]
    event = events[0] if len(events) == 1 else ComposedDpEvent(events)
    cost: Cost = partial(
        Run,
        method=method.name,
        fields=fields,
        events=dict.fromkeys(_RELATIONS, event),
        public=method.public_side,
    )
    return partial(_with_features, cost, method) if isinstance(method, Featured) else cost


def _with_features(cost: Cost, method: Featured, **given: Any) -> Run:
    """What is public of each recording is decided by psi, whatever masks there are."""
    psi = method.make_psi()
    marks = tuple(psi.hash_rule(is_photo=mask == _PHOTO_MASK) for mask in given["masks"])
    return cost(**given | {"masks": marks})


def make_votes_cost(method: Ensemble, reach: int, fields: dict[str, Any]) -> Cost:
    """What a person pays: for all the teachers that they reach, whatever unit is promised."""
    ballot = replace(method.make_ballot(reach), teachers_per_subject=reach)
    events = {relation: ballot.event(relation) for relation in _RELATIONS}
    return partial(Run, method=method.name, fields=fields, events=events)


def quote_cost(
    ledger: Ledger | None,
    collection: Collection[Any],
    cost: Cost,
    *,
    unit: str,
    public: Iterable[Value] = (),
) -> bool:
    """Raise what charging a cost would raise, and spend nothing; recordings are read.

    Returns:
        Whether there is a ledger that was asked.
    """
    if ledger is None:
        return False
    _refuse_protected(ledger, [Content.from_value(recording) for recording in public])
    seen, owners = [], []
    with make_progress_bars() as progress:
        tell = make_reporter(progress)
        for index in range(len(collection)):
            recording = private_item(collection, index)
            seen.append((Content.from_value(recording), encode_mask(recording)))
            owners.append(owner_of(recording, index, unit, collection.labels[index].name))
            tell("asking the ledger", index + 1, len(collection))
    ledger.quote_run(cost(run_id="quote", units=units_of(owners), **_make_recording_fields(seen)))
    return True


def _refuse_protected(ledger: Ledger, public: Sequence[Content]) -> None:
    """Nobody whom a ledger protects may be among what is used without noise."""
    protected = ledger.count_members(public)
    if protected:
        raise BadInput(
            f"Expected public recordings, got {protected} that are in an account of this "
            "ledger and so protected; leave them out."
        )


def encode_mask(recording: Any) -> bytes:
    """A hash of what is public in a recording; empty where nothing is."""
    if isinstance(recording, Photo):
        return _PHOTO_MASK
    return views.hash_mask_source(recording) if isinstance(recording, Video) else b""


def _make_recording_fields(private_contents: Sequence[tuple[Content, bytes]]) -> dict[str, Any]:
    contents, masks = zip(*private_contents, strict=True) if private_contents else ((), ())
    return {"contents": contents, "masks": masks}
