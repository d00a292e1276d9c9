"""A folder of networks in diffusers' layout: tiny, of random weights, made without a net."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

SIDE = 32
_WIDTHS = (32, 64)


def built(folder: Path) -> Path:
    """All parts that `release.avatar.diffusion` reads."""
    torch = pytest.importorskip("torch")
    diffusers = pytest.importorskip("diffusers")
    transformers = pytest.importorskip("transformers")
    importlib.import_module("masquerade.networks.weight_files")  # also where it has no CUDA
    torch.manual_seed(5)
    unet = diffusers.UNet2DConditionModel(
        sample_size=SIDE // 2,
        block_out_channels=_WIDTHS,
        layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=32,
        attention_head_dim=8,
    )
    unet.save_pretrained(folder / "base/unet")
    diffusers.AutoencoderKL(
        block_out_channels=_WIDTHS,
        down_block_types=["DownEncoderBlock2D"] * 2,
        up_block_types=["UpDecoderBlock2D"] * 2,
        latent_channels=4,
    ).save_pretrained(folder / "base/vae")
    diffusers.MotionAdapter(
        block_out_channels=_WIDTHS, motion_layers_per_block=1, motion_num_attention_heads=2
    ).save_pretrained(folder / "motion")
    for part in ("depth", "pose", "face"):
        net = diffusers.ControlNetModel.from_unet(
            unet, conditioning_embedding_out_channels=(16, 32)
        )
        net.save_pretrained(folder / part)
    diffusers.DDIMScheduler().save_pretrained(folder / "base/scheduler")
    words = _tokenizer(folder / "base/tokenizer")
    config = transformers.CLIPTextConfig(
        vocab_size=words,
        hidden_size=32,
        intermediate_size=37,
        num_attention_heads=4,
        num_hidden_layers=2,
        bos_token_id=words - 2,
        eos_token_id=words - 1,
        pad_token_id=words - 1,
    )
    transformers.CLIPTextModel(config).save_pretrained(folder / "base/text_encoder")
    return folder


def _tokenizer(folder: Path) -> int:
    """Letters alone are its words; how many there are."""
    folder.mkdir()
    letters = "abcdefghijklmnopqrstuvwxyz,"
    names = [*letters, *(f"{letter}</w>" for letter in letters)]
    names += ["<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({name: at for at, name in enumerate(names)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    settings = {"tokenizer_class": "CLIPTokenizer", "model_max_length": 77}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return len(names)
