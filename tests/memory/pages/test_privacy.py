from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from familiar_cli.memory.pages.privacy import private_channel, private_heading, visible_in

SECRET = private_heading("DM:anna", "dm-1")
TEXT = (
    f"# Anna\n\n## Facts\n\n- open\n\n{SECRET}\n\n- secret\n\n### more\n\n- too\n"
    "\n## After\n\n- open\n"
)


@settings(max_examples=80)
@given(channel=st.text(min_size=1, max_size=20), label=st.text(max_size=20))
def test_a_heading_names_its_channel_whatever_it_is_called(channel, label) -> None:
    heading = private_heading(label, channel)
    assert private_channel(heading) == channel
    assert "\n" not in heading
    assert heading.partition("<!--")[2].count("--") == 1  # the comment ends once


def test_a_private_section_is_seen_in_its_channel_only() -> None:
    assert visible_in(TEXT, "dm-1") == TEXT
    for elsewhere in (None, "cli", "dm-2"):
        seen = visible_in(TEXT, elsewhere)
        assert "secret" not in seen
        assert "too" not in seen
        assert seen.count("open") == 2


def test_what_looks_like_a_heading_in_code_ends_nothing() -> None:
    text = f"{SECRET}\n```\n## not one\n```\nsecret\n"
    assert visible_in(text, None) == ""


def test_a_text_without_secrets_is_all_there() -> None:
    assert visible_in("# A\n\n## B\r\n", None) == "# A\n\n## B\r\n"
