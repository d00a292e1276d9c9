"""Train a model on sensitive videos, with noise where it is needed, and publish it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from tyro.conf import Positional

from masquerade import _json
from masquerade.collection import Collection
from masquerade.doors import outputs, training
from masquerade.doors.answer import Answer
from masquerade.doors.lessons import Memory, split_of
from masquerade.doors.progress import bars
from masquerade.errors import BadInput
from masquerade.guarantee import explain
from masquerade.noise import Noise
from masquerade.train.loop import Work
from masquerade.train.method import Method


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train a model and write it with its receipt.

    Args:
        target: the model, a .safetensors file.
        network: mvit_v1_b, mvit_v2_s or mvit_small.
        weights: public weights to begin with; for mvit_small ours if left out.
        from_scratch: begin with random weights instead.
        keep_head: begin with the head of the public weights too, if its classes are the same.
        device: cpu or cuda.
        physical: units whose gradients are computed at once.
        cache_mb: of activations held in memory; more goes to a private file.
        keep_cache: leave that file; it is as private as the recordings.
        checkpoint_every: steps between two checkpoints beside the target; 0 for none.
        dry_run: print the guarantee and write nothing.
        rehearsal_seed: seeded noise that protects nothing.
    """

    ENTRIES: ClassVar[tuple[tuple[str, str], ...]] = (("method", "train"), ("data", "data"))

    target: Positional[Path]
    network: Literal["mvit_small", "mvit_v1_b", "mvit_v2_s"] = "mvit_small"
    weights: Path | None = None
    from_scratch: bool = False
    keep_head: bool = False
    device: Literal["cpu", "cuda"] = "cpu"
    physical: int = 16
    cache_mb: int = 4096
    keep_cache: bool = False
    checkpoint_every: int = 0
    dry_run: bool = False
    rehearsal_seed: int | None = None

    def run(self, method: Method, data: Collection[Any]) -> Answer:
        """Plan, learn, write."""
        private = split_of(data, "train")
        if self.dry_run:
            return self._preview(method, private)
        noise = Noise(seed=self.rehearsal_seed)
        with bars() as progress:
            tasks: dict[str, Any] = {}

            def tell(what: str, done: int, total: int) -> None:
                if what not in tasks:
                    tasks[what] = progress.add_task(what, total=total)
                progress.update(tasks[what], completed=done)

            done = training.train_file(
                private,
                self.target,
                method,
                self._network(),
                noise=noise,
                ways=self._ways(noise),
                progress=tell,
            )
        self._checkpoint(noise).unlink(missing_ok=True)
        return Answer(
            data={
                "model": str(done.value),
                "receipt": str(outputs.receipt_path(done.value)),
                "guarantee": _json.encode(done.receipt.guarantee),
            },
            lines=[f"Wrote {done.value} and its receipt.", *explain(done.receipt.guarantee)],
        )

    def _preview(self, method: Method, private: Collection[Any]) -> Answer:
        units = len(private)
        if method.unit == "subject":
            people = {labels.subject for labels in private.labels}
            if None in people:
                raise BadInput("Expected to know who is in every recording for --unit subject.")
            units = len(people)
        plan = method.plan(units)
        lines = [
            f"{units} units of the split {getattr(private, 'split', 'all')}, "
            f"{plan.sampler.expected} in a batch on average, {plan.steps} steps, "
            f"noise multiplier {plan.noise_multiplier:.4g}; nothing was written.",
            *explain(method.guarantee(plan)),
        ]
        data = {
            "units": units,
            "steps": plan.steps,
            "noise_multiplier": plan.noise_multiplier,
            "guarantee": _json.encode(method.guarantee(plan)),
        }
        return Answer(data=data, lines=lines)

    def _network(self) -> training.Network:
        return training.Network(
            network=self.network,
            weights=self.weights,
            from_scratch=self.from_scratch,
            keep_head=self.keep_head,
        )

    def _checkpoint(self, noise: Noise) -> Path:
        final = outputs.final_name(self.target, noise)
        return final.with_name(f"{final.name}.private-checkpoint")

    def _ways(self, noise: Noise) -> training.Ways:
        checkpoint = self._checkpoint(noise) if self.checkpoint_every else None
        return training.Ways(
            memory=Memory(most_mb=self.cache_mb, is_kept=self.keep_cache, device=self.device),
            work=Work(
                physical=self.physical, checkpoint=checkpoint, every=max(1, self.checkpoint_every)
            ),
        )


COMMAND = Train
