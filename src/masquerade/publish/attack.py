"""Attack what was published: who is it, what do people look like, where was it?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from masquerade import catalog
from masquerade.attacks.attack import Attack, ModelAttack, ignore_progress
from masquerade.collection import Collection
from masquerade.errors import BadInput
from masquerade.mechanism import Mechanism
from masquerade.publish.attacked import AttackerKnowledge, make_file_case, make_mechanism_case
from masquerade.scores import AttackResult

Tell = Callable[[str, int, int], None]


def make_attack(name: str, /, **fields: Any) -> Attack | ModelAttack:
    """The attack of that name with these fields."""
    attack: Attack | ModelAttack = type(catalog.make_example("attacks", name))(**fields)
    return attack


def attack_files(
    attack: Attack | ModelAttack,
    published: Path | str | Sequence[Path | str],
    collection: Collection[Any],
    *,
    holds: int | None = None,
    seed: int = 0,
    progress: Tell = ignore_progress,
) -> tuple[AttackResult, ...]:
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
        from masquerade.publish.attacked import make_model_case  # torch: not for recordings

        model = make_model_case(_only_model(paths), collection, seed=seed, told=progress)
        return attack.run(model, told=progress)
    data = _check_kind(attack, collection)
    case = make_file_case(paths, data, _make_knowledge(attack, holds, seed))
    return attack.run(case, told=progress)


def attack_mechanism(
    attack: Attack | ModelAttack,
    mechanism: Mechanism,
    collection: Collection[Any],
    *,
    holds: int | None = None,
    seed: int = 0,
    progress: Tell = ignore_progress,
) -> tuple[AttackResult, ...]:
    """Attack a data set's test part as a mechanism would release it: in memory, without files.

    The arguments are those of `attack_files`.
    """
    if isinstance(attack, ModelAttack):
        raise ValueError(
            f"Expected a model (.safetensors) for {catalog.find_entry_name(attack)}, got a "
            "mechanism, "
            "which releases recordings."
        )
    data = _check_kind(attack, collection)
    case = make_mechanism_case(mechanism, data, _make_knowledge(attack, holds, seed))
    return attack.run(case, told=progress)


def _only_model(paths: Sequence[Path]) -> Path:
    if len(paths) != 1 or paths[0].suffix != ".safetensors":
        listed = ", ".join(map(str, paths))
        raise BadInput(f"Expected one model (.safetensors) with its receipt, got {listed}.")
    return paths[0]


def _make_knowledge(attack: Attack, holds: int | None, seed: int) -> AttackerKnowledge:
    return AttackerKnowledge(whose=attack.KNOWN, holds=holds, seed=seed)


def _check_kind(attack: Attack, data: Collection[Any]) -> Collection[Any]:
    """The data set as recordings that the attack can be run on."""
    if data.kind in attack.ON:
        return data
    for kind in attack.ON:
        if kind in data.kinds:
            return data.select_kind(kind)
    wanted = " or ".join(str(kind) for kind in attack.ON)
    raise BadInput(f"Expected a data set of {wanted}, got {data.ABOUT.title}.")
