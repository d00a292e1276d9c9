"""Train a model on sensitive recordings, with noise where it is needed, and publish it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from masquerade import _check, _json, catalog
from masquerade._formatting import format_rounded_up
from masquerade._optional import lazy_module
from masquerade.cli.flags import Positional
from masquerade.collection import Collection, Medium
from masquerade.ledger import Ledger
from masquerade.networks.network import Network, find_network_class
from masquerade.noise import Noise
from masquerade.progress import make_progress_bars, make_reporter
from masquerade.publish import bills
from masquerade.publish.collections import (
    select_guides,
    select_photos,
    select_signals,
    select_split,
)
from masquerade.publish.learned import training_list_path
from masquerade.publish.masks import MARGIN_PX, SEGMENTER, THRESHOLD, MaskedVideos, with_masks
from masquerade.publish.models import find_first_weights
from masquerade.publish.receipts import check_receipt
from masquerade.publish.spine import final_name
from masquerade.receipt import Release, receipt_path, sidecar_path
from masquerade.recordings import Signal
from masquerade.result import CommandResult
from masquerade.training import units
from masquerade.training.ensemble import Ensemble
from masquerade.training.learner import read_model_fields
from masquerade.training.method import (
    Method,
    Precision,
    check_pairing,
    make_training_plan,
    with_public,
)
from masquerade.training.methods import Masked
from masquerade.training.units import count_units
from masquerade.wording import explain

if TYPE_CHECKING:
    from masquerade.networks import lstm
    from masquerade.publish import models
    from masquerade.training import learner, loop, teach, worn
    from masquerade.training import learner as memory
else:  # what a run costs needs none of them
    models, lstm = lazy_module("masquerade.publish.models"), lazy_module("masquerade.networks.lstm")
    learner, loop = (
        lazy_module("masquerade.training.learner"),
        lazy_module("masquerade.training.loop"),
    )
    memory, worn = (
        lazy_module("masquerade.training.learner"),
        lazy_module("masquerade.training.worn"),
    )
    teach = lazy_module("masquerade.training.teach")


_NETWORK_FLAGS = tuple("weights from_scratch keep_head smoothing lstm_window lstm_hidden".split())


class _TrainingInputs(NamedTuple):
    """What is learned from, what is public beside it, and what learns."""

    private: Collection[Any]
    public: Collection[Any] | Sequence[Signal]
    network: Network


if TYPE_CHECKING:
    NetworkName = str
else:
    NetworkName = Literal[catalog.list_entries("networks")]  # the choices of the command line
Task = Literal["activity", "pose"]
_DEFAULT_NETWORKS = {
    Medium.VIDEOS: "mvit_small",
    Medium.SIGNALS: "lstm",
    Medium.PHOTOS: "tiny_vit_small",
}


def choose_network(
    data: Collection[Any], *, task: Task | None, network: str | None
) -> tuple[str, type[Network]]:
    """The network's name and class.

    Args:
        data: what is learned from.
        task: what is learned; what the data set has first if None.
        network: its name, if it was given.
    """
    medium = Medium.PHOTOS if task == "pose" else data.kind
    name = network or _DEFAULT_NETWORKS[medium]
    kind = find_network_class(name)
    if task is not None and (task == "pose") != (kind.KIND is Medium.PHOTOS):
        raise ValueError(f"Expected a network for --task {task}, got {name}; leave one out.")
    return name, kind


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train a model and write it with its receipt.

    Example:
        masquerade train model.safetensors --method dp_sgd --data stage
            --unit video --epsilon 4 --delta 1e-5

    Args:
        target: the model, a .safetensors file.
        task: what is learned: activity, in videos and signals, or pose, joints in photos; by
            default what the data set has first.
        network: mvit_small, mvit_v1_b or mvit_v2_s for videos, lstm for worn sensors, tiny_vit_*
            for joints in photos; by default mvit_small, lstm or tiny_vit_small. For lstm,
            --segments 32 --part all is sensible, and --recordings as many as a person has.
        weights: public weights to begin with; for mvit_small and tiny_vit_small ours if left out.
        accept_unprotected_weights: begin with --weights of a model that learned without a
            guarantee; then nothing is promised, and no ledger takes it.
        from_scratch: begin with random weights instead.
        keep_head: begin with the head of the public weights too, if its classes are the same.
        device: cpu or cuda.
        precision: of the forward pass; bfloat16 on a GPU alone. The guarantee is the same.
        physical: units whose gradients are computed at once.
        cache_mb: of activations held in memory; more goes to a private file.
        keep_cache: leave that file; it is as private as the recordings.
        checkpoint_every: steps between two checkpoints beside the target; 0 for none.
        ledger: a path, or postgresql://...; everyone whose recordings are learned from is charged.
        grid: several runs, such as "learning_rate=0.1,0.5 clip_norm=0.5,1", each charged and
            written as TARGET-1, TARGET-2, ...; needs --ledger.
        dry_run: print the guarantee and write nothing; with --ledger, whether it can be afforded.
        rehearsal_seed: seeded noise that protects nothing.
        public_subjects: for worn sensors: people whose signals are public, with commas, where the
            data set has no public split.
        test_subjects: people who are left out for testing, likewise.
        masks: for methods with a public part: a folder of masks, each found by its recording's
            name (NAME.masks.npz, NAME.npz, a folder NAME of PNG files, or a video), the word
            table (those in a manifest's column mask), or the word segmenter: public networks then
            make them from the recordings.
        mask_threshold: for --masks segmenter: how sure it must be of a pixel that is to be public.
        mask_margin: for --masks segmenter: pixels by which the public side is made smaller.
        smoothing: for tiny_vit_*: standard deviation of a joint's target, in half pixels; 4 for
            Human-Art.
        lstm_window: for --network lstm: samples that it sees at once.
        lstm_hidden: for --network lstm: size of its state.
    """

    ENTRIES: ClassVar[tuple[tuple[str, str], ...]] = (("method", "training"), ("data", "datasets"))

    target: Positional[Path]
    task: Task | None = None
    network: NetworkName | None = None
    weights: Path | None = None
    accept_unprotected_weights: bool = False
    from_scratch: bool = False
    keep_head: bool = False
    device: Literal["cpu", "cuda"] = "cpu"
    precision: Precision = "float32"
    physical: int = 16
    cache_mb: int = 4096
    keep_cache: bool = False
    checkpoint_every: int = 0
    ledger: str | None = None
    grid: str | None = None
    dry_run: bool = False
    rehearsal_seed: int | None = None
    public_subjects: str = ""
    test_subjects: str = ""
    masks: str | None = None
    mask_threshold: float = THRESHOLD
    mask_margin: int = MARGIN_PX
    smoothing: float = 3.0
    lstm_window: int = 128
    lstm_hidden: int = 64

    def __post_init__(self) -> None:
        _check.not_negative(checkpoint_every=self.checkpoint_every)
        if self.accept_unprotected_weights and self.weights is None:
            raise ValueError("Expected --weights with --accept-unprotected-weights, got none.")

    def run(self, method: Method | Ensemble, data: Collection[Any]) -> CommandResult:
        """TrainingPlan, learn, write."""
        if isinstance(method, Ensemble):
            return self._train_ensemble(method, data)
        inputs = self._choose_inputs(data, method)
        check_pairing(method, inputs.network, self.precision)
        if self.grid is not None and self.ledger is None:
            raise ValueError(
                "Expected --ledger with --grid: every run is paid for, and whoever chooses between "
                "them has seen them all. Without a ledger, train once."
            )
        is_asked = self.ledger is not None and (self.dry_run or self.grid is not None)
        if is_asked and inputs.network.KIND is Medium.SIGNALS:  # read once for all that follows
            inputs = inputs._replace(public=worn.public_signals(inputs.public, inputs.network))
        if self.grid is not None:
            return self._train_grid(units.methods_of(method, self.grid), inputs)
        if self.dry_run:
            return self._preview_runs([method], inputs)
        return self._format_trained(self._train_model(self.target, method, inputs), inputs.private)

    def _train_grid(
        self, chosen: list[tuple[dict[str, Any], Method]], inputs: _TrainingInputs
    ) -> CommandResult:
        """Every run of a grid; those that stand already, of this very grid, are kept."""
        targets = [units.target_of(self.target, number + 1) for number in range(len(chosen))]
        pairs = list(zip(targets, [each for _, each in chosen], strict=True))
        stand = {target: self._find_trained(target, each, inputs.network) for target, each in pairs}
        for target in targets:
            if stand[target] is None:
                models.refuse_existing_model(target)
        missing = [each for target, each in pairs if stand[target] is None]
        if missing or self.dry_run:
            answer = self._preview_runs(missing or [each for _, each in chosen], inputs)
            if self.dry_run:
                return answer
        done = [stand[target] or self._train_model(target, each, inputs) for target, each in pairs]
        return _format_grid([fields for fields, _ in chosen], done)

    def _find_trained(self, target: Path, method: Method, network: Network) -> Release[Path] | None:
        """A model that this run has made before, of this network, charged to this ledger."""
        if not target.is_file() or self.ledger is None:
            return None
        receipt = check_receipt(target)
        is_its = method.has_fields(receipt.fields)
        is_its = is_its and receipt.mechanism == method.name
        is_its = is_its and network.file_fields.items() <= read_model_fields(target).items()
        is_its = is_its and receipt.ledger_sequence is not None
        if not is_its or Ledger(self.ledger).find_strangers([receipt]):
            return None
        return Release(value=target, receipt=receipt)

    def _train_ensemble(self, method: Ensemble, data: Collection[Any]) -> CommandResult:
        if self.grid is not None:
            raise ValueError("Expected no --grid with a teacher ensemble; train it once.")
        if self.network != "lstm":
            self._refuse_flags("network", why="votes, whose student is an LSTM")
        self._refuse_flags("task", "smoothing", why="votes, which are about signals")
        self._refuse_flags("weights", "from_scratch", "keep_head", why=lstm.LstmNetwork.IN_WORDS)
        self._refuse_flags("lstm_window", "lstm_hidden", why="votes: choose --windows and --hidden")
        self._refuse_flags("precision", "checkpoint_every", why="votes, which know nothing of it")
        self._refuse_flags("masks", "mask_threshold", "mask_margin", why="votes, which use none")
        parts = select_signals(data, public=self.public_subjects, test=self.test_subjects)
        if self.dry_run:
            return self._preview_ensemble(method, parts["train"], parts["public"])
        with make_progress_bars() as progress:
            done = models.teach_file(
                parts["train"],
                parts["public"],
                self.target,
                method,
                device=self.device,
                progress=make_reporter(progress),
                **self._make_payment_terms(),
            )
        return self._format_trained(done, parts["train"])

    def _preview_ensemble(
        self, method: Ensemble, private: Collection[Any], public: Collection[Any]
    ) -> CommandResult:
        reach, ledger = teach.reach_of(private, method), self._make_payment_terms()["ledger"]
        cost = bills.make_votes_cost(method, reach, method.encode_fields())
        is_afforded = bills.quote_cost(ledger, private, cost, unit="subject", public=public)
        guarantee, ballot = method.guarantee(reach), method.make_ballot(reach)
        said = (
            f"{method.num_teachers} teachers, of which one person reaches at most {reach}; noise "
            "of "
            f"scale {ballot.scale:.4g} on the votes of {method.queries} queries; nothing was "
            "written."
        )
        data = {
            "teachers": method.num_teachers,
            "max_teachers_per_subject": reach,
            "scale": ballot.scale,
            "guarantee": _json.encode_noun(guarantee),
        }
        afforded = ["The ledger affords it."] * is_afforded
        return CommandResult(data=data, lines=[*afforded, said, *explain(guarantee)])

    def _train_model(self, target: Path, method: Method, inputs: _TrainingInputs) -> Release[Path]:
        final = final_name(target, Noise(seed=self.rehearsal_seed))
        checkpoint = final.with_name(f"{final.name}.private-checkpoint")
        with make_progress_bars() as progress:
            done = models.train_file(
                inputs.private,
                target,
                method,
                inputs.network,
                public=inputs.public,
                ways=self._make_compute_settings(checkpoint if self.checkpoint_every else None),
                accept_unprotected_weights=self.accept_unprotected_weights,
                progress=make_reporter(progress),
                **self._make_payment_terms(),
            )
        checkpoint.unlink(missing_ok=True)
        return done

    def _make_payment_terms(self) -> dict[str, Any]:
        """Whose noise, and who pays."""
        ledger = None if self.ledger is None else Ledger(self.ledger)
        return {"noise": Noise(seed=self.rehearsal_seed), "ledger": ledger}

    def _format_trained(self, done: Release[Path], learned: Collection[Any]) -> CommandResult:
        notes = learned.list_mask_notes() if isinstance(learned, MaskedVideos) else []
        notes = [*notes, *done.signing_notes]
        said = [f"Wrote {done.value} and its receipt.", *notes]
        for suffix in done.receipt.along:
            sheet = sidecar_path(done.value, suffix)
            said.append(f"Look at {sheet}: everything in there is treated as public.")
        if (held := training_list_path(done.value)).exists():
            said.append(f"{held} is private: evaluate knows by it what the model learned from.")
        return CommandResult(
            data={
                "model": str(done.value),
                "receipt": str(receipt_path(done.value)),
                "guarantee": _json.encode_noun(done.receipt.guarantee),
                "ledger_sequence": done.receipt.ledger_sequence,
                "signed_by": done.signed_by,
                "notes": notes,
            },
            lines=[*said, *explain(done.receipt.guarantee)],
        )

    def _preview_runs(self, methods: list[Method], inputs: _TrainingInputs) -> CommandResult:
        """What the runs would promise; under a ledger, raise if they cannot be afforded."""
        for method in methods:
            check_pairing(method, inputs.network, self.precision)
        private, unit = inputs.private, str(methods[0].unit)
        units = count_units(private, unit)
        plans = [make_training_plan(method, units) for method in methods]
        ledger, is_accepted = self._make_payment_terms()["ledger"], self.accept_unprotected_weights
        first = find_first_weights(inputs.network, methods, ledger=ledger, is_accepted=is_accepted)
        cost = bills.make_run_cost(
            methods[0], plans, {}, owed=first.list_owed_events(ledger) * len(plans)
        )
        is_afforded = bills.quote_cost(ledger, private, cost, unit=unit, public=inputs.public)
        lines = [f"The ledger affords it: {len(plans)} runs."] * is_afforded
        if private.mask_source:
            lines.append(f"Taken as public: {private.mask_source}.")
        marks = ({"class_source": source} if (source := private.class_source) else {}) | first.marks
        runs = []
        for method, plan in zip(methods, plans, strict=True):
            promise = with_public(method, marks).plan(((units,),)).guarantee
            lines += [
                f"{units} units of the split {private.part_name}, "
                f"{plan.sampler.expected} in a batch on average, {plan.steps} steps, "
                f"noise multiplier {plan.noise_multiplier:.4g}; nothing was written.",
                *explain(promise),
            ]
            runs.append(
                {
                    "units": units,
                    "steps": plan.steps,
                    "noise_multiplier": plan.noise_multiplier,
                    "guarantee": _json.encode_noun(promise),
                }
            )
        return CommandResult(data=runs[0] if len(runs) == 1 else {"runs": runs}, lines=lines)

    def _choose_inputs(self, data: Collection[Any], method: Method) -> _TrainingInputs:
        name, kind = choose_network(data, task=self.task, network=self.network)
        if kind.KIND is Medium.SIGNALS:
            self._refuse_flags("masks", "mask_threshold", "mask_margin", why=kind.IN_WORDS)
            parts = select_signals(data, public=self.public_subjects, test=self.test_subjects)
            return _TrainingInputs(
                parts["train"], parts["public"], self._make_own_network(name, kind)
            )
        if self.public_subjects or self.test_subjects:
            raise ValueError(
                "Expected --public-subjects and --test-subjects with worn sensors alone, got a "
                "network for pictures; leave them out, or use --network lstm."
            )
        if kind.KIND is Medium.PHOTOS:
            self._refuse_flags("masks", "mask_threshold", "mask_margin", why=kind.IN_WORDS)
            private = select_photos(data, "train")
            return _TrainingInputs(
                private, select_guides(private, method), self._make_own_network(name, kind)
            )
        private = self._add_masks(select_split(data, "train"), method)
        return _TrainingInputs(
            private, select_guides(data, method), self._make_own_network(name, kind)
        )

    def _add_masks(self, private: Collection[Any], method: Method) -> Collection[Any]:
        """The recordings with the masks that were asked for."""
        if not isinstance(method, Masked):
            why = f"{method.name}, which uses no masks"
            self._refuse_flags("masks", "mask_threshold", "mask_margin", why=why)
            return private
        if self.masks != SEGMENTER:
            why = "masks that no segmenter makes"
            self._refuse_flags("mask_threshold", "mask_margin", why=why)
        if self.masks is None:
            return private
        return with_masks(
            private,
            self.masks,
            private=method.private,
            threshold=self.mask_threshold,
            margin_px=self.mask_margin,
        )

    def _make_own_network(self, name: str, kind: type[Network]) -> Network:
        """Made by its own flags: a field's name, or that after its network's; others do nothing."""
        own = {each.name: each.name for each in fields(kind)}  # type: ignore[arg-type]
        own |= {each: f"{name}_{each}" for each in own if hasattr(self, f"{name}_{each}")}
        others = [flag for flag in _NETWORK_FLAGS if flag not in own.values()]
        self._refuse_flags(*others, why=kind.IN_WORDS)
        return kind(**{each: getattr(self, flag) for each, flag in own.items()})

    def _refuse_flags(self, *names: str, why: str) -> None:
        """Flags that would do nothing here."""
        for name in names:
            if getattr(self, name) != type(self).__dataclass_fields__[name].default:
                flag, value = name.replace("_", "-"), getattr(self, name)
                shown = "" if value is True else f", got {value}"
                raise ValueError(f"Expected no --{flag} with {why}{shown}; leave it out.")

    def _make_compute_settings(self, checkpoint: Path | None) -> learner.ComputeSettings:
        return learner.ComputeSettings(
            memory=memory.MemorySettings(
                most_mb=self.cache_mb,
                is_kept=self.keep_cache,
                device=self.device,
                precision=self.precision,
            ),
            work=loop.Workload(
                physical=self.physical,
                checkpoint=checkpoint,
                every=max(1, self.checkpoint_every),
                precision=self.precision,
            ),
        )


def _format_grid(chosen: list[dict[str, Any]], done: list[Release[Path]]) -> CommandResult:
    """The models of a grid and what each was trained with."""
    lines, runs = [], []
    for given, release in zip(chosen, done, strict=True):
        words = ", ".join(f"{name} {value}" for name, value in given.items())
        spent = format_rounded_up(release.receipt.guarantee.epsilon or math.inf)
        lines.append(f"{release.value}: {words}, epsilon {spent}")
        sequence = release.receipt.ledger_sequence
        runs.append({"model": str(release.value), "fields": given, "ledger_sequence": sequence})
    said = f"{len(done)} runs, each charged to the ledger: choose between them as you like. Each "
    said += "receipt states its own run; what all of them cost stands in the ledger."
    notes = sorted({note for release in done for note in release.signing_notes})
    return CommandResult(data={"runs": runs}, lines=[*lines, said, *notes])


COMMAND = Train
