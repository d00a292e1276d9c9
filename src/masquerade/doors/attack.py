"""Attack what was published: who is it, what do people look like, where was it?"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tyro.conf import Positional

from masquerade import _check, _json, catalog
from masquerade._printed import counted
from masquerade.attack.attack import Attack, silent
from masquerade.attack.case_model import ModelAttack
from masquerade.collection import Collection
from masquerade.compute import device as devices
from masquerade.compute.progress import bars, teller
from masquerade.doors import Answer
from masquerade.doors.attack_case import Knowledge, of_files, of_mechanism
from masquerade.errors import BadInput
from masquerade.files import atomic
from masquerade.mechanism import Mechanism
from masquerade.scores import Attacked, Success
from masquerade.sight import embedding_cache

_PRIVATE = (
    "PRIVATE: computed from the originals; covered by no epsilon; do not publish. A low figure is "
    "no proof: another attacker may do better."
)
Tell = Callable[[str, int, int], None]


def make_attack(name: str, /, **fields: Any) -> Attack | ModelAttack:
    """The attack of that name with these fields."""
    attack: Attack | ModelAttack = type(catalog.example("attack", name))(**fields)
    return attack


def attack_files(
    attack: Attack | ModelAttack,
    published: Path | str | Sequence[Path | str],
    collection: Collection[Any],
    *,
    holds: int | None = None,
    seed: int = 0,
    progress: Tell = silent,
) -> tuple[Attacked, ...]:
    """Attack published files; what comes out is private.

    Nothing is published, charged or changed. Where receipts stand beside the files, an attacker who
    adapts releases recordings of their own in the same way, in memory.

    Args:
        attack: which; see `make_attack`.
        published: files or folders, named as the recordings of the data set; or one model.
        collection: the data set; the attacker holds recordings of it that were not published.
        holds: how many of them at most; all if None.
        seed: of everything random in the attack.
        progress: called with what is done, how far, and of how much.

    Raises:
        BadInput: if a file cannot be read, or belongs to no recording.
    """
    several = [published] if isinstance(published, Path | str) else published
    paths = [Path(each) for each in several]
    if isinstance(attack, ModelAttack):
        from masquerade.doors.attack_model import model_case  # torch: not for recordings

        model = model_case(_only_model(paths), collection, seed=seed, told=progress)
        return attack.run(model, told=progress)
    data = _of_its_kind(attack, collection)
    case = of_files(paths, data, _knowledge(attack, holds, seed))
    return attack.run(case, told=progress)


def attack_mechanism(
    attack: Attack | ModelAttack,
    mechanism: Mechanism,
    collection: Collection[Any],
    *,
    holds: int | None = None,
    seed: int = 0,
    progress: Tell = silent,
) -> tuple[Attacked, ...]:
    """Attack a data set's test part as a mechanism would release it: in memory, without files.

    The arguments are those of `attack_files`.
    """
    if isinstance(attack, ModelAttack):
        raise ValueError(
            f"Expected a model (.safetensors) for {catalog.name_of(attack)}, got a mechanism, "
            "which releases recordings."
        )
    data = _of_its_kind(attack, collection)
    case = of_mechanism(mechanism, data, _knowledge(attack, holds, seed))
    return attack.run(case, told=progress)


def _only_model(paths: Sequence[Path]) -> Path:
    if len(paths) != 1 or paths[0].suffix != ".safetensors":
        listed = ", ".join(map(str, paths))
        raise BadInput(f"Expected one model (.safetensors) with its receipt, got {listed}.")
    return paths[0]


def _knowledge(attack: Attack, holds: int | None, seed: int) -> Knowledge:
    return Knowledge(whose=attack.KNOWN, holds=holds, seed=seed)


def _of_its_kind(attack: Attack, data: Collection[Any]) -> Collection[Any]:
    """The data set as recordings that the attack can be run on."""
    if data.kind in attack.ON:
        return data
    for kind in attack.ON:
        if kind in data.kinds:
            return data.of_kind(kind)
    wanted = " or ".join(str(kind) for kind in attack.ON)
    raise BadInput(f"Expected a data set of {wanted}, got {data.ABOUT.title}.")


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
        ("data", "data", None),
        ("mechanism", "release", None),
        ("", "attack", None),
    )
    PREFIXES: ClassVar[dict[str, str]] = {"release": "mechanism", "attack": "attack"}

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
    ) -> Answer:
        """Attack, or list the attacks."""
        if self.forget:
            return _forgotten()
        if attack is None:
            return _listed()
        if data is None:
            listed = ", ".join(catalog.names("data"))
            raise ValueError(f"Expected --data NAME, whose recordings they are; one of {listed}.")
        if (mechanism is None) == (not self.published):
            raise ValueError(
                "Expected published files, or --mechanism NAME to release in memory, and not both."
            )
        if self.out is not None:
            _check_out(self.out, self.published)
        with bars() as progress, devices.on(self.device):
            found = self._attacked(attack, data, mechanism, teller(progress))
        answer = _answer(catalog.name_of(attack), found)
        if self.out is not None:
            text = json.dumps(answer.data, indent=1, allow_nan=False) + "\n"
            atomic.write_whole(self.out, text.encode(), is_private=True)
            answer.lines.append(f"Wrote {self.out}, which is private.")
        return answer

    def _attacked(
        self,
        attack: Attack | ModelAttack,
        data: Collection[Any],
        mechanism: Mechanism | None,
        tell: Tell,
    ) -> tuple[Attacked, ...]:
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


def _forgotten() -> Answer:
    count = embedding_cache.forget()
    said = f"Removed what was kept of {counted(count, 'picture')} in the private cache."
    return Answer(data={"forgotten": count}, lines=[said])


def _listed() -> Answer:
    found = {name: catalog.summary("attack", name) for name in catalog.names("attack")}
    width = max(map(len, found), default=0)
    return Answer(
        data={"attacks": found},
        lines=[
            *(f"{name:{width}}  {said}" for name, said in found.items()),
            "masquerade attack NAME --help lists the flags.",
        ],
    )


def _answer(name: str, found: Sequence[Attacked]) -> Answer:
    said = [
        {**_json.encode(each), "verdict": each.verdict, "is_telling": each.is_telling}
        for each in found
    ]
    shared = [note for note in found[0].notes if all(note in each.notes for each in found)]
    lines = [_PRIVATE]
    for each in found:
        lines += _lines(each)
        lines += [f"  {note}" for note in each.notes if note not in shared]
    lines += [f"Note: {note}" for note in shared]
    return Answer(data={"private": True, "attack": name, "attackers": said}, lines=lines)


def _lines(found: Attacked) -> list[str]:
    """The headline with its verdict in one line, and a line for each other measure."""
    rows = list(zip(found.published, found.ceiling, found.floor, strict=True))
    first, *others = (_line(*row) for row in rows)
    return [
        f"{found.attacker}: {first}. {found.verdict}",
        *(f"  {line}" for line in others),
    ]


def _line(published: Success, ceiling: Success, floor: Success) -> str:
    chance = "" if published.chance is None else f", guessing {published.chance:.3g}"
    return (
        f"{published.measure} {_interval(published)}, n = {published.count} {published.of}; raw "
        f"{_interval(ceiling)}, random {_interval(floor)}{chance}"
    )


def _interval(figure: Success) -> str:
    return f"{figure.value:.3f} ({figure.low:.3f} to {figure.high:.3f})"


COMMAND = RunAttack
