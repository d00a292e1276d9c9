"""Attack what was published: who is it, what do people look like, where was it?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from masquerade import _check, _json, catalog
from masquerade._formatting import format_count
from masquerade.attacks.attack import Attack, ModelAttack
from masquerade.cli.flags import Positional
from masquerade.collection import Collection
from masquerade.io import atomic, devices
from masquerade.mechanism import Mechanism
from masquerade.progress import make_progress_bars, make_reporter
from masquerade.publish.attack import Tell, attack_files, attack_mechanism
from masquerade.result import CommandResult
from masquerade.scores import AttackResult, MeasuredRate
from masquerade.vision import embedding_cache

_PRIVATE_NOTE = (
    "PRIVATE: computed from the originals; covered by no epsilon; do not publish. A low figure is "
    "no proof: another attacker may do better."
)


@dataclass(frozen=True, kw_only=True)
class RunAttack:
    """Attack published recordings of a data set; every attacker stands between ceiling and floor.

    Without a name the attacks are listed. With --mechanism instead of files, the data set's test
    part is released in memory and attacked.

    Example:
        masquerade attack reidentify --data stage --mechanism pooled_gaussian
            --unit frame --epsilon 4 --delta 1e-6

    Args:
        published: files, or folders of them, named as the recordings of --data (release a folder
            with --keep-names), or one model; receipts beside them tell what was done.
        out: a private file for the answer, as JSON.
        holds: recordings that the attacker holds, at most; by default all that were not published.
        drawn_by: seed of everything random in the attack.
        device: cpu or cuda.
        forget: remove what attacks have kept in the private cache, and do nothing else.
    """

    ENTRIES: ClassVar[tuple[tuple[str | None, ...], ...]] = (
        ("data", "datasets", None),
        ("mechanism", "mechanisms", None),
        ("", "attacks", None),
    )
    PREFIXES: ClassVar[dict[str, str]] = {"mechanisms": "mechanism", "attacks": "attack"}

    published: Positional[tuple[Path, ...]] = ()
    out: Path | None = None
    holds: int | None = None
    drawn_by: int = 0
    device: str = "cpu"
    forget: bool = False

    def __post_init__(self) -> None:
        _check.not_negative(drawn_by=self.drawn_by)
        if self.holds is not None:
            _check.count(holds=self.holds)

    def run(
        self,
        data: Collection[Any] | None,
        mechanism: Mechanism | None,
        attack: Attack | ModelAttack | None,
    ) -> CommandResult:
        """Attack, or list the attacks."""
        if self.forget:
            return _forget_embeddings()
        if attack is None:
            return _list_attacks()
        if data is None:
            listed = ", ".join(catalog.list_entries("datasets"))
            raise ValueError(f"Expected --data NAME, whose recordings they are; one of {listed}.")
        if (mechanism is None) == (not self.published):
            raise ValueError(
                "Expected published files, or --mechanism NAME to release in memory, and not both."
            )
        if self.out is not None:
            _check_out(self.out, self.published)
        with make_progress_bars() as progress, devices.use_device(self.device):
            found = self._run_attack(attack, data, mechanism, make_reporter(progress))
        answer = _format_results(catalog.find_entry_name(attack), found)
        if self.out is not None:
            text = json.dumps(answer.data, indent=1, allow_nan=False) + "\n"
            atomic.write_whole(self.out, text.encode(), is_private=True)
            answer.lines.append(f"Wrote {self.out}, which is private.")
        return answer

    def _run_attack(
        self,
        attack: Attack | ModelAttack,
        data: Collection[Any],
        mechanism: Mechanism | None,
        tell: Tell,
    ) -> tuple[AttackResult, ...]:
        how: dict[str, Any] = {"holds": self.holds, "seed": self.drawn_by, "progress": tell}
        if mechanism is not None:
            return attack_mechanism(attack, mechanism, data, **how)
        return attack_files(attack, self.published, data, **how)


def _check_out(out: Path, published: Sequence[Path]) -> None:
    """The answer is private, so it does not stand among what is published."""
    for path in published:
        folder = path if path.is_dir() else path.parent
        if out.resolve().is_relative_to(folder.resolve()):
            raise ValueError(
                f"Expected a private place for the answer, got {out}, which stands among what is "
                "published; choose another folder."
            )


def _forget_embeddings() -> CommandResult:
    count = embedding_cache.clear_embeddings()
    said = f"Removed what was kept of {format_count(count, 'picture')} in the private cache."
    return CommandResult(data={"forgotten": count}, lines=[said])


def _list_attacks() -> CommandResult:
    found = {
        name: catalog.find_summary("attacks", name) for name in catalog.list_entries("attacks")
    }
    width = max(map(len, found), default=0)
    return CommandResult(
        data={"attacks": found},
        lines=[
            *(f"{name:{width}}  {said}" for name, said in found.items()),
            "masquerade attack NAME --help lists the flags.",
        ],
    )


def _format_results(name: str, found: Sequence[AttackResult]) -> CommandResult:
    said = [
        {**_json.encode_noun(each), "verdict": each.verdict, "is_telling": each.is_telling}
        for each in found
    ]
    shared = [note for note in found[0].notes if all(note in each.notes for each in found)]
    lines = [_PRIVATE_NOTE]
    for each in found:
        lines += _format_result(each)
        lines += [f"  {note}" for note in each.notes if note not in shared]
    lines += [f"Note: {note}" for note in shared]
    return CommandResult(data={"private": True, "attack": name, "attackers": said}, lines=lines)


def _format_result(found: AttackResult) -> list[str]:
    """The headline with its verdict in one line, and a line for each other measure."""
    rows = list(zip(found.published, found.ceiling, found.floor, strict=True))
    first, *others = (_format_measure(*row) for row in rows)
    return [
        f"{found.attacker}: {first}. {found.verdict}",
        *(f"  {line}" for line in others),
    ]


def _format_measure(published: MeasuredRate, ceiling: MeasuredRate, floor: MeasuredRate) -> str:
    chance = "" if published.chance is None else f", guessing {published.chance:.3g}"
    return (
        f"{published.measure} {_format_interval(published)}, n = {published.count} "
        f"{published.of}; raw "
        f"{_format_interval(ceiling)}, random {_format_interval(floor)}{chance}"
    )


def _format_interval(figure: MeasuredRate) -> str:
    return f"{figure.value:.3f} ({figure.low:.3f} to {figure.high:.3f})"


COMMAND = RunAttack
