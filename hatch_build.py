"""What the build adds to a wheel: man pages, completions, and the commit it was made from."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):
    """Makes the files in a scratch directory; an editable installation gets none of them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files to a wheel that is about to be built."""
        if version == "editable":
            return
        self._scratch = TemporaryDirectory()
        root, made = Path(self.root), Path(self._scratch.name)
        sys.path.insert(0, str(root))
        from familiar_cli.cli.app import find_commit  # noqa: PLC0415  # it is what is being built
        from tools.shell_files import write_shell_files  # noqa: PLC0415

        for path in write_shell_files(made):
            build_data["shared_data"][str(made / path)] = path
        if commit := find_commit(root):
            (made / "commit.txt").write_text(commit, encoding="ascii")
            build_data["force_include"][str(made / "commit.txt")] = "familiar_cli/commit.txt"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the scratch directory, once the wheel is written."""
        del build_data, artifact_path
        if version != "editable":
            self._scratch.cleanup()
