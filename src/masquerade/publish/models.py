"""Publish a model or a student: it reads before anything is owed, and learns when it is written.

What the weights that a run begins with have learned: nobody is laundered through them.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np

from masquerade import catalog
from masquerade._optional import require_extra
from masquerade.collection import Collection
from masquerade.errors import BadInput
from masquerade.events import DpEvent
from masquerade.guarantee import GuaranteeKind
from masquerade.io import atomic, signatures
from masquerade.io.video import write as writer
from masquerade.ledger import Ledger
from masquerade.mechanism import Plan, Shapes
from masquerade.networks.network import Network, find_network_class
from masquerade.noise import Noise
from masquerade.publish.bills import NoRunBill, make_run_bill, make_run_cost, make_votes_cost
from masquerade.publish.collections import describe_public_part, is_of_made_up
from masquerade.publish.learned import write_training_list
from masquerade.publish.receipts import read_checked
from masquerade.publish.spine import OutputPlace, final_name, hold_place, publish_output
from masquerade.receipt import Promise, Receipt, Release, receipt_path
from masquerade.recordings import Signal
from masquerade.training import learner, teach
from masquerade.training.ensemble import Ensemble
from masquerade.training.learner import (
    ComputeSettings,
    ProgressCallback,
    TrainingRun,
    read_model_fields,
)
from masquerade.training.method import FIRST_WEIGHTS, ORIGINS, Method, promise_from, with_public
from masquerade.training.teach import EnsembleRun
from masquerade.training.units import outputs_of


@dataclass(frozen=True, kw_only=True)
class FirstWeights:
    """The weights that a run begins with.

    Args:
        path: of the file; none where they are random.
        marks: what the receipt says of them.
        receipt: of a model with a guarantee.
    """

    path: Path | None = None
    marks: dict[str, Any] = field(default_factory=dict)
    receipt: Receipt | None = None

    @property
    def origin(self) -> str | None:
        """Where they come from: one of `ORIGINS`; none where they are random."""
        found: str | None = self.marks.get(FIRST_WEIGHTS, {}).get("origin")
        return found

    def list_owed_events(self, ledger: Ledger | None) -> list[DpEvent]:
        """What a run has to pay for them: all that this ledger was not charged with.

        Where it was, those paid whom the model learned from. What that began with in its turn may
        have learned from others, who pay for it now.
        """
        receipt = self.receipt
        if receipt is None or ledger is None:
            return []
        if not _is_paid(receipt, ledger):
            return [receipt.dp_event]
        before = receipt.fields.get(FIRST_WEIGHTS, {})
        if before.get("origin") != "protected":
            return []
        shapes = tuple(tuple(shape) for shape in before["shapes"])
        return [promise_from(before["mechanism"], before["fields"]).plan(shapes).event]

    def check_same(self) -> None:
        """Refuse a file that was changed since it was looked at."""
        if (
            self.path is not None
            and _hash_weights(self.path) != self.marks[FIRST_WEIGHTS]["sha256"]
        ):
            raise BadInput(
                f"Expected {self.path} to stay as it is while a run begins with it; it was "
                "changed. Try again with a copy of it."
            )


def find_first_weights(
    network: Network,
    methods: Sequence[Method],
    *,
    ledger: Ledger | None = None,
    is_accepted: bool = False,
) -> FirstWeights:
    """What is known of the weights of a network that is about to be trained.

    Args:
        network: that begins with them.
        methods: that go on with them.
        ledger: that pays for it.
        is_accepted: whether somebody knows that weights without a guarantee leave nothing promised.

    Raises:
        ValueError: if they would make the promise of a run untrue: if they learned without a
            guarantee, with one of another unit, or from public parts that no account knows of.
    """
    found = _find_weights(network, ledger)
    for method in methods:
        _check_first_weights(
            found, method, ledger, is_accepted=is_accepted or method.epsilon == math.inf
        )
    return found


def _find_weights(network: Network, ledger: Ledger | None) -> FirstWeights:
    path = network.first_weights
    if path is None:
        return FirstWeights()
    if not path.is_file():
        raise BadInput(f"Expected weights at {path}, got nothing; check the name.")
    mark: dict[str, Any] = {"sha256": _hash_weights(path)}
    receipt = None
    if network.has_own_weights:
        origin = "shipped"
    else:
        origin, receipt = _find_origin(path, ledger)
    mark["origin"] = origin
    if receipt is not None:
        shapes = [list(shape) for shape in receipt.shapes]
        mark |= {"mechanism": receipt.mechanism, "fields": receipt.fields, "shapes": shapes}
    return FirstWeights(path=path, marks={FIRST_WEIGHTS: mark}, receipt=receipt)


def _hash_weights(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _find_origin(path: Path, ledger: Ledger | None) -> tuple[str, Receipt | None]:
    """Of a file that somebody gave; the receipt, if it has a guarantee that somebody vouches for.

    A receipt alone proves nothing: it is this ledger's, or signed by whoever goes on with it.
    """
    said: dict[str, Any] | None = None
    with contextlib.suppress(BadInput):
        said = read_model_fields(path)
    if said is None and not receipt_path(path).is_file():
        return "given", None
    receipt = _read_trusted_receipt(path, ledger)
    if said is not None and is_of_made_up(said):
        return "given" if receipt is None else "made_up", None
    if said is not None and said.get(FIRST_WEIGHTS) == "given":
        if is_of_made_up(said | {FIRST_WEIGHTS: "random"}):
            return "given", None  # and then from people who never lived
    if receipt is not None and receipt.guarantee.epsilon is not None:
        return "protected", receipt
    return "unprotected", None


def _read_trusted_receipt(path: Path, ledger: Ledger | None) -> Receipt | None:
    """The receipt of a model, if this ledger has its spend or a key of one's own has signed it."""
    with contextlib.suppress(BadInput):
        checked = read_checked(path)
        receipt, signed = checked.receipt, checked.signature
        is_own = (
            signed is not None and signed.is_verified and signatures.is_own_key(signed.key_sha256)
        )
        return receipt if is_own or _is_paid(receipt, ledger) else None
    return None


def _is_paid(receipt: Receipt, ledger: Ledger | None) -> bool:
    """Whether this ledger was charged for a model."""
    has_entry = ledger is not None and receipt.ledger_sequence is not None
    return bool(has_entry and ledger and not ledger.find_strangers([receipt]))


def _check_first_weights(
    first: FirstWeights, method: Method, ledger: Ledger | None, *, is_accepted: bool
) -> None:
    is_charged = ledger is not None
    if first.origin == "unprotected" and (is_charged or not is_accepted):
        where = " under a ledger" if is_charged else ""
        other = "" if is_charged else ", or --accept-unprotected-weights, and no epsilon is stated"
        raise ValueError(
            f"Expected first weights that are public or have a guarantee{where}, got {first.path}, "
            f"{ORIGINS['unprotected']}: whoever begins with them still shows from whom they "
            f"learned. Use public weights or --from-scratch{other}."
        )
    if first.receipt is not None:
        before = first.receipt.guarantee
        if (
            ledger
            and before.kind is GuaranteeKind.FORMAL_RELAXED
            and not _is_paid(first.receipt, ledger)
        ):
            raise ValueError(
                f"Expected first weights that this ledger was charged for, got {first.path}, which "
                "used a part of its recordings without noise: no account was asked whether that "
                "is public. Train it under this ledger first."
            )
        wanted = (str(method.unit), method.target_relation)
        if (str(before.unit), before.relation) != wanted:
            raise ValueError(
                f"Expected first weights whose guarantee is for one {wanted[0]}, "
                f"{wanted[1].value}, as this run's, got {first.path} for one {before.unit}, "
                f"{before.relation.value}; two such cannot be added up. Train both for the same."
            )


SHEET_SUFFIX = ".public.png"  # after a model's name: public pictures that it learned from


def make_method(name: str, /, **fields: Any) -> Any:
    """The training method or ensemble of that name with these fields.

    Example:
        >>> make_method("dp_sgd", epsilon=1, unit="video").target_relation.value
        'zero_out'
    """
    return type(catalog.make_example("training", name))(**fields)


def make_network(name: str, /, **fields: Any) -> Network:
    """The network of that name, before it is trained, with these fields.

    Example:
        >>> make_network("lstm", window=64).length
        64
    """
    return find_network_class(name)(**fields)


def train_file(
    collection: Collection[Any],
    target: Path | str,
    method: Method,
    network: Network,
    *,
    public: Collection[Any] | Sequence[Signal] = (),
    noise: Noise | None = None,
    ledger: Ledger | None = None,
    ways: ComputeSettings | None = None,
    accept_unprotected_weights: bool = False,
    progress: ProgressCallback = lambda what, done, total: None,
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
    ways, noise = ways or ComputeSettings(), noise or Noise()
    first = find_first_weights(
        network, [method], ledger=ledger, is_accepted=accept_unprotected_weights
    )
    with _begin_run(Path(target), noise, ledger) as (place, bill):
        with learner.read_recordings(
            bill.note_contents(collection),
            method,
            network,
            public=bill.note_contents(public, is_public=True),
            ways=replace(ways, work=replace(ways.work, name=bill.run_id)),
            tell=progress,
        ) as reading:
            first.check_same()
            promise = with_public(reading.promise, first.marks)
            cost = make_run_cost(
                method, [reading.plan], promise.encode_fields(), owed=first.list_owed_events(ledger)
            )
            bill.set_cost(cost, reading.units)
            model = _ModelOutput(
                run=reading,
                promise=promise,
                network=network,
                of=collection,
                bill=bill,
                first=first,
            )
            done = publish_output(model, place, noise=noise, bill=bill)
            return write_training_list(done, bill.training_contents, collection, first=first)


def teach_file(
    private: Collection[Any],
    public: Collection[Any],
    target: Path | str,
    method: Ensemble,
    *,
    noise: Noise | None = None,
    ledger: Ledger | None = None,
    device: str = "cpu",
    progress: ProgressCallback = lambda what, done, total: None,
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
    with _begin_run(Path(target), noise, ledger) as (place, bill):
        watched = bill.note_contents(private), bill.note_contents(public, is_public=True)
        school = teach.read_ensemble(*watched, method, device=device, tell=progress)
        source = private.class_source
        promise = with_public(school.promise, {"class_source": source} if source else {})
        bill.set_cost(make_votes_cost(method, school.reach, promise.encode_fields()), school.units)
        student = _ModelOutput(
            run=school, promise=promise, network=school.network, of=private, bill=bill
        )
        done = publish_output(student, place, noise=noise, bill=bill)
        return write_training_list(done, bill.training_contents, private)


@dataclass(frozen=True, kw_only=True, eq=False)
class _ModelOutput:
    """What learns when it is written.

    Args:
        run: that can begin.
        promise: what the receipt is made from.
        network: what is trained.
        of: what it learns from.
        bill: which keeps the labels that votes gave.
        first: the weights that it begins with.
    """

    saving_fields: ClassVar[Mapping[str, Any]] = {}  # there is one way to write it

    run: TrainingRun | EnsembleRun
    promise: Promise
    network: Network
    of: Collection[Any]
    bill: NoRunBill
    first: FirstWeights = field(default_factory=FirstWeights)

    @property
    def shapes(self) -> Shapes:
        return self.run.shapes

    @cached_property
    def plan(self) -> Plan:
        """What is promised for these."""
        return self.promise.plan(self.shapes)

    @property
    def companion_suffixes(self) -> tuple[str, ...]:
        """Public pictures to be looked at, where a method has some."""
        return () if self._public_sheet is None else (SHEET_SUFFIX,)

    @property
    def _public_sheet(self) -> np.ndarray | None:
        return self.run.sheet if isinstance(self.run, TrainingRun) else None

    def write(
        self, stream: BinaryIO, others: Mapping[str, BinaryIO], noise: Noise
    ) -> Mapping[str, int]:
        """Learn; beside the model are the public pictures that were learned from."""
        learned: dict[str, Any] = {"learned": describe_public_part(self.of)}
        learned[FIRST_WEIGHTS] = self.first.origin or "random"
        run = self.run
        if isinstance(run, TrainingRun):
            net = run.learn(noise)
            learned = {"part": run.method.part} | learned
        else:
            labels = self.bill.draw_labels_once(
                lambda: run.sample_labels(run.collect_votes(), noise), run.queries
            )
            run.tell("votes", len(labels), len(labels))
            net = run.train_student(labels)
        names = outputs_of(self.of, self.network.KIND)
        stream.write(learner.encode_model(net, self.network, names, learned))
        if self._public_sheet is not None:
            writer.write_video(
                others[SHEET_SUFFIX], [self._public_sheet], suffix=".png", rate=Fraction(1)
            )
        return {}


def refuse_existing_model(target: Path) -> None:
    """Raise if a model stands there."""
    if target.exists():
        raise FileExistsError(f"{target} stands already; training again would spend again.")


@contextlib.contextmanager
def _begin_run(
    target: Path, noise: Noise, ledger: Ledger | None
) -> Iterator[tuple[OutputPlace, NoRunBill]]:
    """The model's place, and a bill; when the run is stopped, say what is owed for it."""
    require_extra("torch", extra="train")  # before anything is read, or asked of a ledger
    if target.suffix != ".safetensors":
        target = final_name(target, noise)
        raise ValueError(f"Expected the output to end in .safetensors, got {target}.")
    atomic.remove_dead_files(target.parent)
    with hold_place(target, noise=noise) as place:
        refuse_existing_model(place.target)
        bill = make_run_bill(ledger, place.target, noise)
        try:
            yield place, bill
        except Exception:
            bill.abandon_run()
            raise
        except KeyboardInterrupt as stop:
            bill.abandon_run()
            if place.target.exists():
                raise
            said = f"Interrupted; no model was written. {bill.spending_note}".strip()
            raise type(stop)(said) from stop
        bill.forget_run()
