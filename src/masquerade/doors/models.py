"""Publish a model or a student: it reads before anything is owed, and learns when it is written."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from masquerade import catalog
from masquerade.collection import Collection
from masquerade.doors.billing import NoRunBill, bill_for, cost_of, cost_of_votes
from masquerade.doors.publish import Place, final_name, placed, publish
from masquerade.doors.splits import public_part_of
from masquerade.ledger import Ledger
from masquerade.mechanism import Shapes
from masquerade.nets.network import Network
from masquerade.noise import Noise
from masquerade.receipt import Promise, Release
from masquerade.recordings import Signal
from masquerade.train import learner, model_file
from masquerade.train.ensemble import teach
from masquerade.train.ensemble.method import Ensemble
from masquerade.train.ensemble.teach import School
from masquerade.train.learner import Reading, Tell, Ways
from masquerade.train.method import Method


@dataclass(frozen=True, kw_only=True)
class Order:
    """A model that is wanted.

    Args:
        target: its file, .safetensors.
        noise: where noise and batches come from; by default the operating system.
        ledger: that is charged, once, also if the run is stopped and ordered again.
        tell: called with what is done, how far, and of how much.
    """

    target: Path
    noise: Noise = field(default_factory=Noise)
    ledger: Ledger | None = None
    tell: Tell = lambda what, done, total: None


def make_method(name: str, /, **fields: Any) -> Any:
    """The training method or ensemble of that name with these fields.

    Example:
        >>> make_method("dp_sgd", epsilon=1, unit="video").met.value
        'zero_out'
    """
    return type(catalog.example("train", name))(**fields)


def train_file(
    collection: Collection[Any],
    order: Order,
    method: Method,
    network: Network,
    *,
    public: Collection[Any] | Sequence[Signal] = (),
    ways: Ways | None = None,
) -> Release[Path]:
    """Train, and write the model as safetensors with its receipt beside it.

    Under a ledger everyone whose recordings are learned from is charged before the first step. A
    run that was stopped and is called again is charged once.

    Args:
        collection: the private training recordings.
        order: what is wanted, and who pays.
        method: how it is trained.
        network: what is trained.
        public: recordings of other people, used without noise; for worn sensors alone.
        ways: how the work is done.

    Raises:
        BudgetExceeded: if somebody cannot afford it.
        FileExistsError: if a model stands there.
    """
    with _begun(order) as (place, bill):
        ways = ways or Ways()
        with learner.read(
            bill.watch(collection),
            method,
            network,
            public=bill.watch(public, is_public=True),
            ways=replace(ways, work=replace(ways.work, name=bill.run_id)),
            tell=order.tell,
        ) as reading:
            bill.owe(cost_of(method, [reading.plan], reading.promise.fields()), reading.units)
            model = _Model(run=reading, network=network, of=collection, bill=bill)
            return publish(model, place, noise=order.noise, bill=bill)


def teach_file(
    private: Collection[Any],
    public: Collection[Any],
    order: Order,
    method: Ensemble,
    *,
    device: str = "cpu",
) -> Release[Path]:
    """Teach a student, and write it as safetensors with its receipt beside it.

    Under a ledger everyone whose recordings are learned from is charged before the first teacher
    learns; a run that was stopped and is called again is charged once, and its noise drawn once.

    Args:
        private: the recordings to protect.
        public: recordings of other people, whose windows are asked and learned from.
        order: what is wanted, and who pays.
        method: how it is taught.
        device: where teachers and student learn.

    Raises:
        BudgetExceeded: if somebody cannot afford it.
        FileExistsError: if a model stands there.
    """
    with _begun(order) as (place, bill):
        watched = bill.watch(private), bill.watch(public, is_public=True)
        school = teach.read(*watched, method, device=device, tell=order.tell)
        bill.owe(cost_of_votes(method, school.reach), school.units)
        student = _Model(run=school, network=school.network, of=private, bill=bill)
        return publish(student, place, noise=order.noise, bill=bill)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Model:
    """What learns when it is written.

    Args:
        run: that can begin.
        network: what is trained.
        of: what it learns from.
        bill: which keeps the labels that votes gave.
    """

    saved: ClassVar[Mapping[str, Any]] = {}  # there is one way to write it

    run: Reading | School
    network: Network
    of: Collection[Any]
    bill: NoRunBill

    @property
    def promise(self) -> Promise:
        return self.run.promise

    @property
    def shapes(self) -> Shapes:
        return self.run.shapes

    def write(self, stream: BinaryIO, noise: Noise) -> None:
        learned: dict[str, Any] = {"learned": public_part_of(self.of)}
        if isinstance(self.run, Reading):
            net = self.run.learn(noise)
            learned = {"part": self.run.method.part} | learned
        else:
            net = self._taught(self.run, noise)
        stream.write(model_file.encoded(net, self.network, self.of.activities, learned))

    def _taught(self, school: School, noise: Noise) -> Any:
        """A student; labels that were drawn before the run was stopped are drawn no more."""
        labels = self.bill.kept(school.queries)
        if labels is None:
            labels = school.labels(school.votes(), noise)
            self.bill.keep(labels, school.queries)
        school.tell("votes", len(labels), len(labels))
        return school.student(labels)


def refuse_standing(target: Path) -> None:
    """Raise if a model stands there."""
    if target.exists():
        raise FileExistsError(f"{target} stands already; training again would spend again.")


@contextlib.contextmanager
def _begun(order: Order) -> Iterator[tuple[Place, NoRunBill]]:
    """The model's place, and a bill; when the run is stopped, say what is owed for it."""
    target = final_name(Path(order.target), order.noise)
    if target.suffix != ".safetensors":
        raise ValueError(f"Expected the output to end in .safetensors, got {target}.")
    with placed(order.target, noise=order.noise) as place:
        refuse_standing(target)
        bill = bill_for(order.ledger, target, order.noise)
        try:
            yield place, bill
        except Exception:
            bill.abandon()
            raise
        except KeyboardInterrupt as stop:
            bill.abandon()
            if target.exists():
                raise
            said = f"Interrupted; no model was written. {bill.spent}".strip()
            raise type(stop)(said) from stop
        bill.forget()
