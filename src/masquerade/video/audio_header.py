"""The part of a sound's header that a decoder needs, without what a person or camera wrote there.

A header travels with copied sound whatever else is dropped. In Vorbis it holds comments (names,
places, dates); in others, bytes that no decoder reads. What is not known here is refused.
"""

from __future__ import annotations

import struct

from masquerade.errors import BadInput

# The bytes of the header that decoders read; where there are more, the rest is left out.
_LENGTHS = {"alac": 36, "adpcm_ms": 32, "adpcm_ima_wav": 2, "wmav1": 4, "wmav2": 10, "gsm_ms": 2}
_NEEDLESS = ("mp1", "mp2", "mp3", "ac3", "eac3", "pcm_", "amrnb", "amrwb", "libopencore", "dca")
_AAC_BYTES = 8  # longer ones hold a table of channels, which has room for a comment
_NO_COMMENTS = b"\x03vorbis" + bytes(8) + b"\x01"


def clean(codec: str, header: bytes) -> bytes:
    """The header without anything that only a person would read.

    Args:
        codec: FFmpeg's name of the decoder.
        header: what FFmpeg calls extradata.

    Raises:
        BadInput: if it is damaged, or its parts cannot be told apart.

    Example:
        >>> clean("mp3float", b"Ada"), clean("alac", bytes(36) + b"Ada") == bytes(36)
        (b'', True)
    """
    if not header or codec.startswith(_NEEDLESS):
        return b""
    if codec in ("vorbis", "libvorbis"):
        return _vorbis(header)
    if codec in ("opus", "libopus"):
        return _opus(header)
    if codec == "flac":
        return _flac(header)
    if codec.startswith("aac") and len(header) <= _AAC_BYTES:
        return header
    if codec in _LENGTHS:
        return header[: _LENGTHS[codec]]
    raise BadInput(
        f"Expected sound whose header is known to hold nothing but sound, got {len(header)} bytes "
        f"of {codec}; convert the sound to AAC with one or two channels, or leave it out."
    )


def _vorbis(header: bytes) -> bytes:
    """The first and the third of its three packets, and between them no comments."""
    first, _, setup = _three(header)
    if (first[:7], setup[:7]) != (b"\x01vorbis", b"\x05vorbis"):
        raise BadInput(_damaged("vorbis"))
    laced = bytes([2, len(first[:30]), len(_NO_COMMENTS)])
    return laced + first[:30] + _NO_COMMENTS + setup


def _three(header: bytes) -> tuple[bytes, bytes, bytes]:
    """Both ways of FFmpeg: each length in two bytes before its packet, or Xiph's lacing."""
    found: list[bytes] = []
    if header[:2] == b"\x00\x1e":
        place = 0
        while place + 2 <= len(header) and len(found) < 3:
            length = struct.unpack_from(">H", header, place)[0]
            found.append(header[place + 2 : place + 2 + length])
            place += 2 + length
    elif header[:1] == b"\x02":
        place, lengths = 1, [0, 0]
        for number in range(2):
            while header[place : place + 1] == b"\xff":
                lengths[number] += 255
                place += 1
            lengths[number] += sum(header[place : place + 1])
            place += 1
        middle, end = place + lengths[0], place + sum(lengths)
        found = [header[place:middle], header[middle:end], header[end:]]
    if len(found) != 3:
        raise BadInput(_damaged("vorbis"))
    return found[0], found[1], found[2]


def _opus(header: bytes) -> bytes:
    """OpusHead: 19 bytes, and a table of channels where there are more than two (RFC 7845)."""
    if header[:8] != b"OpusHead" or len(header) < 19:
        raise BadInput(_damaged("opus"))
    return header[:19] if header[18] == 0 else header[: 21 + header[9]]


def _flac(header: bytes) -> bytes:
    """STREAMINFO, less the number of samples and the digest of the whole sound (RFC 9639)."""
    if header[:4] == b"fLaC":
        header = header[8:]
    if len(header) < 34:
        raise BadInput(_damaged("flac"))
    return header[:13] + bytes([header[13] & 0xF0]) + bytes(20)


def _damaged(codec: str) -> str:
    return f"Expected a whole header of {codec}, got a damaged one; leave the sound out."
