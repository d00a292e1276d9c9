"""MaskDP's settings by name: the paper's own, and the one that was chosen for Stage."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from masquerade import catalog
from masquerade.collection import Collection
from masquerade.recipes.preset import Preset

EPSILONS = (0.1, 0.25, 0.5, 0.75, 1.0, 5.0, math.inf)
_LONG = ("ucf101",)  # 300 epochs; 150 else [schneider2024, Sec. 5.2]
_STRICT = ("ntu_rgbd",)  # delta 1e-6; 1e-5 else

# Chosen on world 2000, never the tested one, by benchmarks/choose_mask_dp.py, once for each method.
STAGE = Preset(
    values={
        "network": "mvit_small",
        "part": "head",
        "view": "whole",
        "epsilons": EPSILONS,
        "delta": 1e-5,
        "clip_norm": 1.0,
        "batch": 128,
        "epochs": 20.0,
        "scratch_epochs": 20.0,
        "warmup_epochs": 2.0,
        "schedule": "cosine",
        "momentum": 0.9,
        "learning_rate": 0.02,
        "clean_learning_rate": 1.0,
        "mask_batch": 128,
        "mask_learning_rate": 0.005,
        "weight": 30.0,
        "public_batch": 128,
        "public_learning_rate": 0.1,
        "published_learning_rate": 0.1,  # plain descent: as far as 0.01 with momentum
        "seeds": 3,
        "copies": 1,
    },
    left_open=(
        "What could be chosen (rates, batches, lambda) was, once for each method, on Stage's world "
        "2000 with the background private and under replace_one; it was chosen anew neither for "
        "zero_out, where there is less noise at the same epsilon, nor for people private.",
    ),
)
_OPEN = (
    "The paper does not say which tokens are private: here those with any private pixel, a token "
    "being what the first layer takes in one stride.",
    "It does not say what stands in for tokens that are left out, where attention pools over a "
    "grid: here grey pixels.",
    "It prints no momentum: here none, as in its Algorithm 2.",
    "It does not name the augmentation of runs without privacy: here four copies of each "
    "recording, each cut to nine tenths and mirrored by chance.",
    "It does not say how many runs a number is the mean of: here three.",
    "It trains nothing from scratch; that row, if asked for, takes 300 epochs.",
    "Its people are avatars, drawn over the recordings; here they are as the data set has them.",
)


def presets(data: Collection[Any] | None) -> Mapping[str, Preset]:
    """The settings by name; the paper's epochs and delta follow the data set."""
    name = "" if data is None else catalog.name_of(data)
    paper = {
        "network": "mvit_v2_s",
        "part": "last_norms",
        "view": "private",
        "epsilons": EPSILONS,
        "delta": 1e-6 if name in _STRICT else 1e-5,
        "clip_norm": 1.0,
        "batch": 128,
        "epochs": 300.0 if name in _LONG else 150.0,
        "scratch_epochs": 300.0,
        "warmup_epochs": 20.0,
        "schedule": "cosine",
        "momentum": 0.0,
        "learning_rate": 0.01,
        "clean_learning_rate": 0.01,
        "mask_batch": 128,
        "mask_learning_rate": 0.01,
        "weight": 1.0,
        "public_batch": 128,
        "public_learning_rate": 0.01,
        "published_learning_rate": 0.01,
        "seeds": 3,
        "copies": 4,
    }
    return {"stage": STAGE, "paper": Preset(values=paper, left_open=_OPEN)}
