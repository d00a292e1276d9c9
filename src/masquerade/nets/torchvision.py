"""torchvision, also where torch was built without CUDA, and what we take from it.

The wheels of the package index link against CUDA's libraries; with a CPU build of torch their
compiled part is not loaded, and the import stops at a missing operator. Two schemas without an
implementation are all that it asks for. Nothing here calls them: networks are plain torch.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from masquerade._optional import require
from masquerade._torch import torch

_MISSING = "operator torchvision::nms does not exist"
_SCHEMAS = tuple(
    f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor" for name in ("nms", "qnms")
)


def _imported() -> tuple[ModuleType, torch.library.Library | None]:
    """The package, and the schemas it needed, if any."""
    try:
        return require("torchvision", extra="train"), None
    except RuntimeError as error:
        if _MISSING not in str(error):
            raise
    library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in _SCHEMAS:
        library.define(schema)
    return require("torchvision", extra="train"), library


torchvision, _LIBRARY = _imported()  # the schemas go when nobody holds them any more
_home = require("torchvision.models.video.mvit", extra="train")

# Any: blocks are taken apart by names that torchvision's types do not carry.
MViT: Any = _home.MViT
BlockSetting: Any = _home.MSBlockConfig
mvit_v1_b: Any = _home.mvit_v1_b
mvit_v2_s: Any = _home.mvit_v2_s
