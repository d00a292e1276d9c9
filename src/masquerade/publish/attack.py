"""Attack what was published: who is it, what do people look like, where was it?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from masquerade import catalog
from masquerade.attacks.attack import Attack, ModelAttack, silent
from masquerade.collection import Collection
from masquerade.errors import BadInput
from masquerade.mechanism import Mechanism
from masquerade.publish.attacked import Knowledge, of_files, of_mechanism
from masquerade.scores import Attacked

Tell = Callable[[str, int, int], None]


def make_attack(name: str, /, **fields: Any) -> Attack | ModelAttack:
    """The attack of that name with these fields."""
    attack: Attack | ModelAttack = type(catalog.example("attacks", name))(**fields)
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
        from masquerade.publish.attacked import model_case  # torch: not for recordings

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
