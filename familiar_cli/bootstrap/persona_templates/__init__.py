"""Personas to begin with: folders with the parts of a persona, read as any other is."""

from __future__ import annotations

from importlib import resources
from typing import Final

from familiar_cli.bootstrap.folders.reading import Folder
from familiar_cli.bootstrap.personas import PARTS

NAMES: Final[dict[str, str]] = {"keeper": "Tamsin", "workmate": "Juniper"}
"""Each template, and what its persona is called when the user gives no name."""


def template_folder(template: str) -> Folder:
    """Return the files of a template.

    Args:
        template: One of `NAMES`.
    """
    here = resources.files(__package__) / template
    return Folder({part: (here / part).read_bytes() for part in PARTS})
