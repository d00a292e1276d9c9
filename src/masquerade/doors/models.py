"""Publish a model or a student: it reads before anything is owed, and learns when it is written."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np

from masquerade import catalog
from masquerade.collection import Collection
from masquerade.doors.billing import NoRunBill, bill_for, cost_of, cost_of_votes
from masquerade.doors.first_weights import FirstWeights, find_first_weights
from masquerade.doors.learned import write_learned
from masquerade.doors.publish import Place, final_name, placed, publish
from masquerade.doors.splits import public_part_of
from masquerade.files import atomic
from masquerade.ledger import Ledger
from masquerade.mechanism import Shapes
from masquerade.nets.network import Network, network_class
from masquerade.noise import Noise
from masquerade.receipt import Promise, Release
from masquerade.recordings import Signal
from masquerade.train import learner, model_file
from masquerade.train.ensemble import teach
from masquerade.train.ensemble.method import Ensemble
from masquerade.train.ensemble.teach import School
from masquerade.train.learner import Reading, Tell, Ways
from masquerade.train.method import Method
from masquerade.train.promise import FIRST_WEIGHTS, with_public
from masquerade.train.units import outputs_of
from masquerade.video import write as writer

SHEET = ".public.png"  # after a model's name: public pictures that it learned from


def make_method(name: str, /, **fields: Any) -> Any:
    """The training method or ensemble of that name with these fields.

    Example:
        >>> make_method("dp_sgd", epsilon=1, unit="video").met.value
        'zero_out'
    """
    return type(catalog.example("train", name))(**fields)


def make_network(name: str, /, **fields: Any) -> Network:
    """The network of that name, before it is trained, with these fields.

    Example:
        >>> make_network("lstm", window=64).length
        64
    """
    return network_class(name)(**fields)


def train_file(
    collection: Collection[Any],
    target: Path | str,
    method: Method,
    network: Network,
    *,
    public: Collection[Any] | Sequence[Signal] = (),
    noise: Noise | None = None,
    ledger: Ledger | None = None,
    ways: Ways | None = None,
    accept_unprotected_weights: bool = False,
    progress: Tell = lambda what, done, total: None,
) -> Release[Path]:
    """Train, and write the model as safetensors with its receipt beside it.

    Under a ledger everyone whose recordings are learned from is charged before the first step. A
    run that was stopped and is called again is charged once.

    Args:
        collection: the private training recordings.
        target: the model, a .safetensors file.
        method: how it is trained.
        network: what is trained.
        public: recordings of other people, used without noise: by worn sensors, and by methods
            that learn in a subspace.
        noise: where noise and batches come from; by default the operating system.
        ledger: that is charged.
        ways: how the work is done.
        accept_unprotected_weights: begin with weights that learned without a guarantee; then
            nothing is promised.
        progress: called with what is done, how far, and of how much.

    Raises:
        BudgetExceeded: if somebody cannot afford it.
        FileExistsError: if a model stands there.
        ValueError: if the weights that it begins with would make its promise untrue.
    """
    ways, noise = ways or Ways(), noise or Noise()
    first = find_first_weights(
        network, [method], ledger=ledger, is_accepted=accept_unprotected_weights
    )
    with _begun(Path(target), noise, ledger) as (place, bill):
        with learner.read(
            bill.watch(collection),
            method,
            network,
            public=bill.watch(public, is_public=True),
            ways=replace(ways, work=replace(ways.work, name=bill.run_id)),
            tell=progress,
        ) as reading:
            first.check_same()
            promise = with_public(reading.promise, first.marks)
            cost = cost_of(method, [reading.plan], promise.fields(), owed=first.owed_to(ledger))
            bill.owe(cost, reading.units)
            model = _Model(
                run=reading,
                promise=promise,
                network=network,
                of=collection,
                bill=bill,
                first=first,
            )
            done = publish(model, place, noise=noise, bill=bill)
            return write_learned(done, bill.learned, collection, first=first)


def teach_file(
    private: Collection[Any],
    public: Collection[Any],
    target: Path | str,
    method: Ensemble,
    *,
    noise: Noise | None = None,
    ledger: Ledger | None = None,
    device: str = "cpu",
    progress: Tell = lambda what, done, total: None,
) -> Release[Path]:
    """Teach a student, and write it as safetensors with its receipt beside it.

    Under a ledger everyone whose recordings are learned from is charged before the first teacher
    learns; a run that was stopped and is called again is charged once, and its noise drawn once.

    Args:
        private: the recordings to protect.
        public: recordings of other people, whose windows are asked and learned from.
        target: the student, a .safetensors file.
        method: how it is taught.
        noise: of the votes; by default the operating system.
        ledger: that is charged.
        device: where teachers and student learn.
        progress: called with what is done, how far, and of how much.

    Raises:
        BudgetExceeded: if somebody cannot afford it.
        FileExistsError: if a model stands there.
    """
    noise = noise or Noise()
    with _begun(Path(target), noise, ledger) as (place, bill):
        watched = bill.watch(private), bill.watch(public, is_public=True)
        school = teach.read(*watched, method, device=device, tell=progress)
        source = private.class_source
        promise = with_public(school.promise, {"class_source": source} if source else {})
        bill.owe(cost_of_votes(method, school.reach, promise.fields()), school.units)
        student = _Model(run=school, promise=promise, network=school.network, of=private, bill=bill)
        done = publish(student, place, noise=noise, bill=bill)
        return write_learned(done, bill.learned, private)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Model:
    """What learns when it is written.

    Args:
        run: that can begin.
        promise: what the receipt is made from.
        network: what is trained.
        of: what it learns from.
        bill: which keeps the labels that votes gave.
        first: the weights that it begins with.
    """

    saved: ClassVar[Mapping[str, Any]] = {}  # there is one way to write it

    run: Reading | School
    promise: Promise
    network: Network
    of: Collection[Any]
    bill: NoRunBill
    first: FirstWeights = field(default_factory=FirstWeights)

    @property
    def shapes(self) -> Shapes:
        return self.run.shapes

    @property
    def along(self) -> tuple[str, ...]:
        """Public pictures to be looked at, where a method has some."""
        return () if self._sheet is None else (SHEET,)

    @property
    def _sheet(self) -> np.ndarray | None:
        return self.run.sheet if isinstance(self.run, Reading) else None

    def write_with(
        self, stream: BinaryIO, others: Mapping[str, BinaryIO], noise: Noise
    ) -> Mapping[str, int]:
        """Learn, and write the public pictures that were learned from."""
        assert self._sheet is not None  # or nothing went along
        self.write(stream, noise)
        writer.write(others[SHEET], [self._sheet], suffix=".png", rate=Fraction(1))
        return {}

    def write(self, stream: BinaryIO, noise: Noise) -> None:
        learned: dict[str, Any] = {"learned": public_part_of(self.of)}
        learned[FIRST_WEIGHTS] = self.first.origin or "random"
        run = self.run
        if isinstance(run, Reading):
            net = run.learn(noise)
            learned = {"part": run.method.part} | learned
        else:
            labels = self.bill.once(lambda: run.labels(run.votes(), noise), run.queries)
            run.tell("votes", len(labels), len(labels))
            net = run.student(labels)
        names = outputs_of(self.of, self.network.KIND)
        stream.write(model_file.encoded(net, self.network, names, learned))


def refuse_standing(target: Path) -> None:
    """Raise if a model stands there."""
    if target.exists():
        raise FileExistsError(f"{target} stands already; training again would spend again.")


@contextlib.contextmanager
def _begun(target: Path, noise: Noise, ledger: Ledger | None) -> Iterator[tuple[Place, NoRunBill]]:
    """The model's place, and a bill; when the run is stopped, say what is owed for it."""
    if target.suffix != ".safetensors":
        target = final_name(target, noise)
        raise ValueError(f"Expected the output to end in .safetensors, got {target}.")
    atomic.sweep(target.parent)
    with placed(target, noise=noise) as place:
        refuse_standing(place.target)
        bill = bill_for(ledger, place.target, noise)
        try:
            yield place, bill
        except Exception:
            bill.abandon()
            raise
        except KeyboardInterrupt as stop:
            bill.abandon()
            if place.target.exists():
                raise
            said = f"Interrupted; no model was written. {bill.spent}".strip()
            raise type(stop)(said) from stop
        bill.forget()
