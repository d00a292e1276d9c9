"""A video diffusion of the user's: Stable Diffusion, AnimateDiff, ControlNets for figures.

Everything is read from one folder, in diffusers' own layout; nothing is downloaded, and only
safetensors are read, so that no code comes with the weights. The latents of all frames lie in
memory (64 KiB a frame of 512 x 512); a set of frames at a time goes through the networks, and what
they say is averaged (`list_frame_sets`) before each step.

Sets of frames that a network of short films sees in turn, so that a film can have any length.

After [schneider2024, Sec. 3]: sets at several strides overlap, and what the network says of a frame
in each of them is averaged. Near frames keep movement smooth; far ones keep a figure who they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from masquerade import _check
from masquerade._optional import lazy_module
from masquerade.errors import BadInput

torch = lazy_module("torch", extra="refine")

diffusers = lazy_module("diffusers", extra="refine")

transformers = lazy_module("transformers", extra="refine")


STRIDES = (1, 2, 4)


def list_frame_sets(
    count: int, *, length: int, strides: Sequence[int] = STRIDES
) -> list[np.ndarray]:
    """Numbers of frames, a set at a time: each frame is in one set of each stride, at least.

    A stride is used only while half of it does not see the whole film at once.

    Args:
        count: frames of the film.
        length: frames that the network sees at a time, at most.
        strides: between the frames of a set; the first is 1.

    Example:
        >>> [each.tolist() for each in list_frame_sets(5, length=4, strides=(1, 2))]
        [[0, 1, 2, 3], [1, 2, 3, 4], [0, 2, 4], [1, 3]]
    """
    _check.count(count=count, length=length)
    if not strides or strides[0] != 1:
        raise ValueError(f"Expected strides that begin with 1, got strides={tuple(strides)}.")
    found = []
    for stride in strides:
        if stride > 1 and count <= length * stride // 2:
            continue
        for first in range(stride):
            line = np.arange(first, count, stride)
            last = max(0, len(line) - length)
            starts = [*range(0, last, max(1, length // 2)), last]
            found += [line[start : start + length] for start in starts if len(line)]
    return found


def compute_frame_shares(sets: Sequence[np.ndarray], count: int) -> list[np.ndarray]:
    """How much each set says of each of its frames; over all sets that is 1 for every frame.

    A frame in the middle of a set has more around it than one at its ends, and counts for more.
    """
    raw = [np.minimum(np.arange(len(one)), np.arange(len(one))[::-1]) + 1.0 for one in sets]
    total = np.zeros(count)
    for one, weight in zip(sets, raw, strict=True):
        total[one] += weight
    if not total.all():
        raise ValueError("Expected sets that hold every frame, got a frame that is in none.")
    return [weight / total[one] for one, weight in zip(sets, raw, strict=True)]


def average_sets(said: Iterable[np.ndarray], sets: Sequence[np.ndarray], count: int) -> np.ndarray:
    """(T, ...) float32: the mean of what was said of each frame.

    Args:
        said: (frames of the set, ...) for each set; taken one at a time.
        sets: as `list_frame_sets` gives them.
        count: frames of the film.
    """
    total: np.ndarray | None = None
    for one, share, values in zip(sets, compute_frame_shares(sets, count), said, strict=True):
        if total is None:
            total = np.zeros((count, *values.shape[1:]))
        total[one] += values * share.reshape(-1, *[1] * (values.ndim - 1))
    assert total is not None  # a film has a frame
    return total.astype(np.float32)


CONTROLS = ("depth", "pose", "face")
_NETWORKS = {  # each part of the folder, and the class in diffusers that reads it
    "base/unet": "UNet2DConditionModel",
    "base/vae": "AutoencoderKL",
    "motion": "MotionAdapter",
    **dict.fromkeys(CONTROLS, "ControlNetModel"),
}
_FILES = {
    **{part: "config.json" for part in (*_NETWORKS, "base/text_encoder")},
    "base/tokenizer": "tokenizer_config.json",
    "base/scheduler": "scheduler_config.json",
}
_LENGTH = 16  # frames that AnimateDiff sees at a time
_STEPS, _STRENGTH = 20, 0.5  # of which half are taken: the figure stays who and where it is
_GUIDANCE = 7.5
_POSITIVE_PROMPT = "photo of a person, natural skin, detailed clothes"
_NEGATIVE_PROMPT = "drawing, render, deformed, blurred"
_AS_TRAINED = {"beta_schedule": "linear", "clip_sample": False, "steps_offset": 1}  # AnimateDiff


@dataclass(frozen=True, kw_only=True, eq=False)
class FigureCrop:
    """A frame of a figure and what guides its refinement, each (S, S, 3) uint8.

    Args:
        image: the figure as it was drawn.
        controls: one picture for each of ``CONTROLS``.
    """

    image: np.ndarray
    controls: tuple[np.ndarray, ...]


Look: TypeAlias = Callable[[int], FigureCrop]


class FigureDiffusion:
    """Networks from a folder.

    Args:
        folder: that holds base (Stable Diffusion), motion (AnimateDiff's adapter), depth, pose and
            face (ControlNets).

    Raises:
        BadInput: if a part is missing or cannot be read; the message names it.
        MissingExtra: if diffusers, transformers or torch is not installed.
    """

    def __init__(self, folder: Path) -> None:
        _check_parts(folder)
        for package in (torch, diffusers, transformers):
            _ = package.__version__
        from masquerade.networks import weight_files as torchvision  # noqa: F401  # before transformers imports it

        with _silence_diffusers():
            self._load_networks(folder)

    def _load_networks(self, folder: Path) -> None:
        is_fast = torch.cuda.is_available()
        self._device = "cuda" if is_fast else "cpu"
        self._dtype = torch.float16 if is_fast else torch.float32
        nets = {
            part: self._load_network(getattr(diffusers, name), folder, part)
            for part, name in _NETWORKS.items()
        }
        self._vae = nets["base/vae"]
        self._controls = [nets[part] for part in CONTROLS]
        flat, motion = nets["base/unet"], nets["motion"]
        self._unet = _load_part(
            lambda: diffusers.UNetMotionModel.from_unet2d(flat, motion), "motion"
        )
        self._unet = self._unet.to(self._device, self._dtype).eval()
        self._length = min(_LENGTH, motion.config.motion_max_seq_length)
        self.side = flat.config.sample_size * 2 ** (len(self._vae.config.block_out_channels) - 1)
        self._scheduler = _load_part(
            lambda: diffusers.DDIMScheduler.from_pretrained(
                folder / "base/scheduler", local_files_only=True, **_AS_TRAINED
            ),
            "base/scheduler",
        )
        self._words = self._encode_prompts(folder)

    def _load_network(self, kind: Any, folder: Path, part: str) -> Any:
        """A network, ready to be used."""
        net = _load_part(
            lambda: kind.from_pretrained(
                folder / part, local_files_only=True, use_safetensors=True
            ),
            part,
        )
        return net.to(self._device, self._dtype).eval().requires_grad_(False)

    def _encode_prompts(self, folder: Path) -> Any:
        """(2, N, D): what is not wanted, and what is, as the text network has it."""
        tokenizer = _load_part(
            lambda: transformers.CLIPTokenizer.from_pretrained(
                folder / "base/tokenizer", local_files_only=True
            ),
            "base/tokenizer",
        )
        text = self._load_network(transformers.CLIPTextModel, folder, "base/text_encoder")
        ids = tokenizer(
            [_NEGATIVE_PROMPT, _POSITIVE_PROMPT],
            padding="max_length",
            max_length=text.config.max_position_embeddings,
            truncation=True,
            return_tensors="pt",
        ).input_ids
        with torch.inference_mode():
            return text(ids.to(self._device))[0]

    def refine_figure(
        self, count: int, look: Look, rng: np.random.Generator
    ) -> Iterator[np.ndarray]:
        """(S, S, 3) uint8 for each frame of a figure.

        Args:
            count: frames.
            look: gives one of them; it is asked for each of them many times.
            rng: of the noise that the diffusion begins with.
        """
        latents = np.concatenate(
            [self._encode_image(look(number).image) for number in range(count)]
        )
        scheduler, sets = self._scheduler, list_frame_sets(count, length=self._length)
        scheduler.set_timesteps(_STEPS)
        times = scheduler.timesteps[round(_STEPS * (1 - _STRENGTH)) :]
        noise = rng.normal(size=latents.shape).astype(np.float32)
        start = [torch.from_numpy(each) for each in (latents, noise)]
        latents = scheduler.add_noise(*start, times[:1]).numpy()
        for time in times:
            said = (self._predict_noise(latents[one], one, look, time) for one in sets)
            noise = average_sets(said, sets, count)
            both = [torch.from_numpy(each) for each in (noise, latents)]
            latents = scheduler.step(both[0], time, both[1]).prev_sample.numpy()
        for one in latents:
            yield self._decode_latent(one)

    def _encode_image(self, image: np.ndarray) -> np.ndarray:
        """(1, C, h, w): a picture in the space of the diffusion."""
        with torch.inference_mode():
            values = self._make_batch([image]) * 2 - 1
            found = self._vae.encode(values).latent_dist.mode() * self._vae.config.scaling_factor
            return np.asarray(found.float().cpu().numpy())

    def _decode_latent(self, latent: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            values = torch.from_numpy(latent[None]).to(self._device, self._dtype)
            seen = self._vae.decode(values / self._vae.config.scaling_factor).sample[0]
            seen = seen.float().cpu().permute(1, 2, 0).numpy()
        return np.asarray(np.rint(np.clip(seen * 127.5 + 127.5, 0, 255)), np.uint8)

    def _predict_noise(
        self, latents: np.ndarray, frames: np.ndarray, look: Look, time: Any
    ) -> np.ndarray:
        """(frames, C, h, w): the noise that the networks see in a set of frames."""
        crops = [look(int(number)) for number in frames]
        with torch.inference_mode():
            once = torch.from_numpy(latents).to(self._device, self._dtype)
            once = self._scheduler.scale_model_input(once, time)
            twice = torch.cat([once, once])
            words = self._words.repeat_interleave(len(frames), dim=0)
            downs: list[Any] = []
            middle: Any = 0
            for place, net in enumerate(self._controls):
                picture = self._make_batch([crop.controls[place] for crop in crops])
                down, mid = net(
                    twice,
                    time,
                    encoder_hidden_states=words,
                    controlnet_cond=torch.cat([picture, picture]),
                    return_dict=False,
                )
                downs = [a + b for a, b in zip(downs, down, strict=True)] if downs else [*down]
                middle = middle + mid
            film = twice.unflatten(0, (2, len(frames))).transpose(1, 2)  # (2, C, T, h, w)
            said = self._unet(
                film,
                time,
                encoder_hidden_states=words,
                down_block_additional_residuals=downs,
                mid_block_additional_residual=middle,
            ).sample
            without, wanted = said.transpose(1, 2).float().cpu().numpy()
        return np.asarray(without + _GUIDANCE * (wanted - without))

    def _make_batch(self, images: list[np.ndarray]) -> Any:
        """(N, 3, S, S) from 0 to 1."""
        values = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)
        return values.to(self._device, self._dtype) / 255


@contextmanager
def _silence_diffusers() -> Iterator[None]:
    """Advice to developers and bars of progress do not reach those who release a film."""
    logs = [package.utils.logging for package in (diffusers, transformers)]
    before = [log.get_verbosity() for log in logs]
    try:
        for log in logs:
            log.set_verbosity_error()
            log.disable_progress_bar()
        yield
    finally:
        for log, level in zip(logs, before, strict=True):
            log.set_verbosity(level)
            log.enable_progress_bar()


def _check_parts(folder: Path) -> None:
    missing = [part for part, file in _FILES.items() if not (folder / part / file).is_file()]
    if missing:
        raise BadInput(
            f"Expected the parts {', '.join(_FILES)} in {folder}, in diffusers' layout; "
            f"missing there: {', '.join(missing)}. Nothing is downloaded: put them there."
        )


def _load_part(read: Callable[[], Any], part: str) -> Any:
    """What ``read`` gives, or an error that names the part."""
    try:
        return read()
    except (OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
        raise BadInput(
            f"Expected a part {part} that diffusers can read (safetensors): {error}"
        ) from error
