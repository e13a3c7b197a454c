"""The reference page of settings says what the schema says."""

from __future__ import annotations

from pathlib import Path

from familiar_cli.base.config.settings import all_settings

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "reference" / "settings.md"


def test_every_setting_is_on_the_page() -> None:
    page = PAGE.read_text("utf-8")
    for setting in all_settings().values():
        assert f"`{setting.key.rpartition('.')[2]}`" in page
