"""Digests of JSON values, equal when the values are equal in meaning."""

from __future__ import annotations

import hashlib
import json


def digest(value: object) -> str:
    """Return the SHA-256 of `value` as JSON; the order of an object's members does not count."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def sha256(text: str) -> str:
    """Return the SHA-256 of `text` as the memory store writes it."""
    return hashlib.sha256(text.encode()).hexdigest()
