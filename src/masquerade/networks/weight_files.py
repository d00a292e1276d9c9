"""Files of weights: read with every fault named, written all or nothing.

torchvision, also where torch was built without CUDA, and what we take from it.

The wheels of the package index link against CUDA's libraries; with a CPU build of torch their
compiled part is not loaded, and the import stops at a missing operator. Two schemas without an
implementation are all that it asks for. Nothing here calls them: networks are plain torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from masquerade._optional import require_extra
from masquerade._torch import Tensor, nn, torch
from masquerade.errors import BadInput
from masquerade.io import atomic

safetensors = require_extra("safetensors", extra="train")

files = require_extra("safetensors.torch", extra="train")


_MISSING = "operator torchvision::nms does not exist"
_SCHEMAS = tuple(
    f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor" for name in ("nms", "qnms")
)


def _import_torchvision() -> tuple[ModuleType, torch.library.Library | None]:
    """The package, and the schemas it needed, if any."""
    try:
        return require_extra("torchvision", extra="train"), None
    except RuntimeError as error:
        if _MISSING not in str(error):
            raise
    library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in _SCHEMAS:
        library.define(schema)
    return require_extra("torchvision", extra="train"), library


torchvision, _LIBRARY = _import_torchvision()  # the schemas go when nobody holds them any more
_mvit_module = require_extra("torchvision.models.video.mvit", extra="train")

# Any: blocks are taken apart by names that torchvision's types do not carry.
MViT: Any = _mvit_module.MViT
BlockSetting: Any = _mvit_module.MSBlockConfig
mvit_v1_b: Any = _mvit_module.mvit_v1_b
mvit_v2_s: Any = _mvit_module.mvit_v2_s

HEAD = ("head.1.weight", "head.1.bias")
_COUNT = ".num_batches_tracked"


def load_weights(net: nn.Module, path: Path, *, keep_head: bool = False) -> bool:
    """Put the weights of a file into the network; all of them must fit.

    Args:
        net: from `masquerade.networks.mvit_layers.make_mvit`.
        path: a safetensors file, or torch's own with nothing but tensors in it, such as
            torchvision's Kinetics-400 weights.
        keep_head: refuse a head for another number of classes, rather than leave it out.

    Returns:
        Whether its head was put there too; one for another number of classes is left out.

    Raises:
        BadInput: if the file is not whole, or not this network's.
    """
    found, name = read_tensors(path)
    wanted = net.state_dict()
    if name not in (None, net.name):
        raise BadInput(f"Expected the weights of {net.name}, got those of {name}: {path}.")
    _check_keys(found, wanted, str(net.name), path)
    other = [key for key in wanted if found[key].shape != wanted[key].shape]
    is_swapped = not keep_head and _is_head_of_other_classes(found, wanted, other)
    if other and not is_swapped:
        shapes = f"{tuple(found[other[0]].shape)}, not {tuple(wanted[other[0]].shape)}"
        raise BadInput(
            f"Expected the weights of {net.name} for {len(wanted[HEAD[0]])} classes, got {path} "
            f"with other shapes of {_format_key_list(other)}: {shapes}."
        )
    _check_finite(found, path)
    kept = {key: wanted[key] for key in HEAD} if is_swapped else {}
    net.load_state_dict(found | kept, strict=True)
    return not is_swapped


def fill_weights(net: nn.Module, found: Mapping[str, Tensor], *, name: str, path: Path) -> None:
    """Put the tensors of a file into a network of others; all of them must fit.

    How many batches a norm has seen plays no part, and older files do not say it.

    Raises:
        BadInput: if they are not this network's.
    """
    wanted = net.state_dict()
    counts = {key: value for key, value in wanted.items() if key.endswith(_COUNT)}
    found = {key: value for key, value in found.items() if not key.endswith(_COUNT)} | counts
    _check_keys(found, wanted, name, path)
    other = [key for key in wanted if found[key].shape != wanted[key].shape]
    if other:
        shapes = f"{tuple(found[other[0]].shape)}, not {tuple(wanted[other[0]].shape)}"
        raise BadInput(
            f"Expected the weights of {name}, got {path} with other shapes of "
            f"{_format_key_list(other)}: "
            f"{shapes}."
        )
    _check_finite(found, path)
    net.load_state_dict(found, strict=True)


def _check_finite(found: Mapping[str, Tensor], path: Path) -> None:
    bad = [key for key, value in found.items() if not torch.isfinite(value).all()]
    if bad:
        raise BadInput(
            f"Expected finite weights, got {path} with others in {_format_key_list(bad)}."
        )


def _check_keys(
    found: Mapping[str, Tensor], wanted: Mapping[str, Tensor], name: str, path: Path
) -> None:
    strange = [key for key in found if key not in wanted]
    missing = [key for key in wanted if key not in found]
    if strange or missing:
        raise BadInput(
            f"Expected the weights of {name}, got {path} with {_format_key_list(strange)} too many "
            f"and {_format_key_list(missing)} missing."
        )


def _is_head_of_other_classes(
    found: Mapping[str, Tensor], wanted: Mapping[str, Tensor], other: list[str]
) -> bool:
    weight, bias = (found[key] for key in HEAD)
    is_head = weight.shape[1:] == wanted[HEAD[0]].shape[1:] and weight.shape[:1] == bias.shape
    return set(other) == set(HEAD) and is_head


def count_head_classes(path: Path) -> int:
    """How many classes the head of a file has."""
    found, _ = read_tensors(path)
    if HEAD[0] not in found or found[HEAD[0]].ndim == 0:
        raise BadInput(f"Expected a head in {path}, got a file without {HEAD[0]}.")
    return len(found[HEAD[0]])


def _format_key_list(keys: list[str]) -> str:
    more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
    return f"{len(keys)} tensors ({', '.join(keys[:3])}{more})" if keys else "none"


def read_tensors(path: Path) -> tuple[dict[str, Tensor], str | None]:
    """The tensors of a file, and the network's name where the file says it.

    Raises:
        BadInput: if the file is not whole, or holds anything else.
    """
    try:
        with path.open("rb") as stream:
            is_safe = stream.read(9)[8:] == b"{"  # after the length of the header
        if is_safe:
            with safetensors.safe_open(path, framework="pt") as held:
                name = (held.metadata() or {}).get("name")
            return files.load_file(path), name
        found = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # a damaged pickle or archive makes torch raise almost anything
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if "weights_only" in first:  # torch advises to run what stands in the file
            first = "no tensors can be read from it, and what else is in it is not run."
        raise BadInput(f"Expected a whole file of weights, got {path}: {first}") from error
    if not (isinstance(found, Mapping) and all(map(_is_plain, found, found.values()))):
        raise BadInput(f"Expected tensors by name, got {path} with {type(found).__name__} in it.")
    return dict(found), None


def _is_plain(name: object, value: object) -> bool:
    """Whether it is a dense tensor of real numbers under a name."""
    return bool(
        isinstance(name, str)
        and torch.is_tensor(value)
        and value.layout is torch.strided
        and value.device.type == "cpu"
        and not (value.is_quantized or value.is_complex())
    )


def save_weights(net: nn.Module, path: Path) -> None:
    """Write the weights as safetensors, all or nothing, with the network's name and classes."""
    tensors = {key: value.detach().cpu().contiguous() for key, value in net.state_dict().items()}
    said = {"name": net.name, "classes": str(len(tensors[HEAD[0]]))}
    atomic.write_whole(path, files.save(tensors, metadata=said))
