"""torch with its types; where it is missing, the line that installs it."""

from __future__ import annotations

from masquerade._optional import require_extra

try:
    import torch
    from torch import Tensor, nn
except ImportError:
    require_extra("torch", extra="train")
    raise


__all__ = ["Tensor", "nn", "torch"]
