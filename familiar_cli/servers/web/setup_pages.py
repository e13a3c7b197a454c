"""The page that creates a familiar from a card or template, a model, and a name."""

from __future__ import annotations

from collections.abc import Mapping
from email.parser import BytesParser
from email.policy import HTTP
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.actions.health.start import ModelTest, check_key
from familiar_cli.base.config.edit import set_values
from familiar_cli.base.errors import UsageError
from familiar_cli.base.text import slugify
from familiar_cli.familiar import Familiar
from familiar_cli.imports.cards import Card
from familiar_cli.imports.create import create_familiar, template_card
from familiar_cli.imports.reading import read_card
from familiar_cli.servers.web.asking import read_form
from familiar_cli.servers.web.model_form import KEY, keep_choice, model_values, read_model_fields

if TYPE_CHECKING:
    from email.message import MIMEPart


TEMPLATES: Final = {
    "companion": "keeps you company, remembers, asks about it later",
    "assistant": "works with you and keeps track of what was decided",
    "narrator": "tells an open story with you as its hero",
}
_MOST_NAME: Final = 80


def setup_values(
    fields: Mapping[str, str], problem: str = "", hint: str = "", tested: ModelTest | None = None
) -> dict[str, Any]:
    """Return the template values of the page, with what was typed before."""
    typed = {"template": "companion", "preset": "local", **fields}
    return {
        "typed": {name: typed.get(name, "") for name in ("name", "you", "template", "move_in")},
        "templates": TEMPLATES,
        "problem": problem,
        "hint": hint,
        **model_values(typed, tested),
    }


def read_upload(content_type: str, body: bytes) -> tuple[dict[str, str], list[tuple[str, bytes]]]:
    """Parse a form, which may contain files.

    Returns:
        The fields, and the name and content of each file.

    Raises:
        UsageError: It is not a form.
    """
    if not content_type.lower().startswith("multipart/form-data"):
        return {name: values[-1].strip() for name, values in read_form(body).items()}, []
    head = f"Content-Type: {content_type}\r\n\r\n".encode("latin-1", "replace")
    form = BytesParser(policy=HTTP).parsebytes(head + body)
    if not form.is_multipart():
        raise UsageError("The form cannot be read; nothing was changed")
    fields, files = {}, []
    for part in form.iter_parts():
        name, file_name = _names_of(part)
        content = part.get_payload(decode=True)
        content = content if isinstance(content, bytes) else b""
        if file_name is None:
            fields[name] = content.decode("utf-8", "replace").strip()
        elif content:
            files.append((file_name, content))
    return fields, files


def _names_of(part: MIMEPart) -> tuple[str, str | None]:
    name = part.get_param("name", "", header="content-disposition")
    return str(name), part.get_filename()


def make_familiar(home: Path, fields: Mapping[str, str], raw: bytes, origin: str) -> str:
    """Create a familiar, set its model and owner, and return its id.

    Args:
        home: Where the familiars live.
        fields: The form fields.
        raw: The card file; empty to use the chosen template.
        origin: Name of that file.

    Raises:
        FamiliarError: A field is invalid; no familiar was created.
    """
    from familiar_cli.actions.people.me import change_me, place_of_me

    chosen, key = read_model_fields(fields), fields.get(KEY, "")
    key = check_key(key) if key else ""
    name = fields.get("name", "")[:_MOST_NAME]
    report = create_familiar(
        home,
        _read_card(fields, name, raw, origin),
        lambda paths: Familiar(paths).memory,
        familiar_id=slugify(name) or None if raw else None,
    )
    if raw and name:
        set_values(home / report.id / "character.toml", {"name": name})
    if any(chosen.values()):
        keep_choice(home / report.id / "character.toml", chosen, key)
    if fields.get("you"):
        change_me(None, place_of_me(home, None), {"name": fields["you"][:_MOST_NAME]})
    return report.id


def _read_card(fields: Mapping[str, str], name: str, raw: bytes, origin: str) -> Card:
    if raw:
        return read_card(raw, origin=origin)
    return template_card(fields.get("template", "") or next(iter(TEMPLATES)), name=name)
