"""The ChaCha20 keystream [rfc8439], addressed: the same key and place always give the same bits."""

from __future__ import annotations

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

CHUNK = 1 << 15  # words at a time: the work on them fits the cache
EXTRA_BITS = 128
_ZEROS = bytes(8 * CHUNK)


def keystream(key: bytes, *, lane: bytes, block: int, num_bytes: int) -> bytes:
    """ChaCha20 keystream bytes from ``block`` on; ``lane`` is the 96-bit nonce."""
    cipher = Cipher(algorithms.ChaCha20(key, block.to_bytes(4, "little") + lane), mode=None)
    zeros = _ZEROS if num_bytes == len(_ZEROS) else bytes(num_bytes)
    return cipher.encryptor().update(zeros)


def extra_bits(key: bytes, index: int, turn: int) -> int:
    """The ``turn``-th 128 further bits of number ``index``: lane 1, addressed by the index."""
    lane = (1).to_bytes(4, "little") + index.to_bytes(8, "little")
    return int.from_bytes(keystream(key, lane=lane, block=turn, num_bytes=16), "little")
