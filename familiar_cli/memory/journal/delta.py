"""Describe a text by what it shares with another at its beginning and end, as git's packs do.

A memory grows by lines, and a directory changes by one name at a time; so the shared beginning and
end are nearly everything, and finding them takes one pass, however large the text.
"""

from __future__ import annotations

_COPY = 0x80
_MOST_COPIED = 0xFFFF  # in one instruction; every reader of packs knows this length
_MOST_INSERTED = 0x7F
_STEP = 4096


def delta(base: bytes, target: bytes) -> bytes:
    """Return instructions that make `target` out of `base`."""
    head = shared(base, target)
    tail = shared_end(base, target, min(len(base), len(target)) - head)
    middle = target[head : len(target) - tail]
    return b"".join(
        (
            _size(len(base)),
            _size(len(target)),
            _copy(0, head),
            _insert(middle),
            _copy(len(base) - tail, tail),
        )
    )


def shared(one: bytes, other: bytes) -> int:
    """Return how many bytes are the same at the beginning of both."""
    most = min(len(one), len(other))
    at = 0
    step = _STEP
    while step:  # in ever smaller steps, each compared at once
        while at < most and one[at : at + step] == other[at : at + step]:
            at += step
        step //= 4
    return min(at, most)


def shared_end(one: bytes, other: bytes, most: int) -> int:
    """Return how many bytes are the same at the end of both, `most` at most."""
    at = 0
    step = _STEP
    while step:
        while at < most and _before_end(one, at, step, most) == _before_end(other, at, step, most):
            at += step
        step //= 4
    return min(at, most)


def _before_end(content: bytes, at: int, step: int, most: int) -> bytes:
    end = len(content) - at
    return content[end - min(step, most - at) : end]


def _size(number: int) -> bytes:
    out = bytearray()
    while number > _MOST_INSERTED:
        out.append(number & _MOST_INSERTED | _COPY)
        number >>= 7
    return bytes([*out, number])


def _copy(begin: int, length: int) -> bytes:
    """Return instructions to copy; an instruction leaves out those bytes of a number that are 0."""
    out = bytearray()
    while length:
        part = min(length, _MOST_COPIED)
        place = [(begin >> shift) & 0xFF for shift in (0, 8, 16, 24)]
        size = [(part >> shift) & 0xFF for shift in (0, 8)]
        flags = sum(1 << n for n, byte in enumerate(place + size) if byte)
        out += bytes([_COPY | flags, *(byte for byte in place + size if byte)])
        begin, length = begin + part, length - part
    return bytes(out)


def _insert(content: bytes) -> bytes:
    parts = (content[at : at + _MOST_INSERTED] for at in range(0, len(content), _MOST_INSERTED))
    return b"".join(bytes([len(part)]) + part for part in parts)
