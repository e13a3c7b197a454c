"""Pages that set a familiar up: from a card or template, with a model, its key, and a name."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from email.parser import BytesParser
from email.policy import HTTP
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from familiar_cli.actions.health import start
from familiar_cli.actions.health.start import ModelTest, check_key
from familiar_cli.base.config.edit import parse_value, set_values
from familiar_cli.base.config.home import cache_dir
from familiar_cli.base.config.schema import LLMSettings
from familiar_cli.base.config.settings import find_setting
from familiar_cli.base.errors import FamiliarError, FetchError, UsageError
from familiar_cli.base.text import slugify
from familiar_cli.familiar import Familiar
from familiar_cli.imports.cards import Card
from familiar_cli.imports.create import create_familiar, template_card
from familiar_cli.imports.reading import read_card
from familiar_cli.llm.models.catalog import CATALOG, Model
from familiar_cli.llm.models.store import path_of
from familiar_cli.llm.slots import PRESETS, resolve_slot
from familiar_cli.servers.web.asking import PageRequest, PageView, Redirect, WebPage, read_form

if TYPE_CHECKING:
    from email.message import MIMEPart

    from familiar_cli.llm.models.fetch import Progress

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


MODELS: Final = {
    "local": "a small model inside this program; nothing leaves the machine",
    "ollama": "Ollama on this machine",
    "lmstudio": "LM Studio on this machine",
    "llamacpp": "a llama.cpp server on this machine",
    "openrouter": "OpenRouter, with a key",
    "openai": "OpenAI, with a key",
    "custom": "another server with the same API, such as KoboldCpp, at the address below",
}
SETTINGS: Final = {"preset": "llm.preset", "model": "llm.model", "base_url": "llm.base_url"}
"""The settings of a model by their fields."""

KEY: Final = "key"
"""The field of a key, which is never shown again."""

_USE: Final = "use"
_SMALL_EMBEDDER: Final = "minilm-l6-v2"
_SMALL_OF_OLLAMA: Final = "llama3.2:3b"
_STARTS: Final = {  # what to do on this page, where the commands name another one
    "local": "The chat page downloads it with one click.",
    "ollama": "Open the app Ollama, and test again.",
    "lmstudio": "Open LM Studio, start its server under Developer, and test again.",
    "llamacpp": "Start its server with a model, and test again.",
    "custom": "Start it, or correct its address below, and test again.",
}
_PATIENCE_S: Final = 0.3  # a server on this machine that works answers at once
_SEPARATOR: Final = "\t"


def model_values(
    fields: Mapping[str, str], tested: start.ModelTest | None = None
) -> dict[str, Any]:
    """Return the template values of the form, with what was typed before."""
    typed = {name: fields.get(name, "") for name in SETTINGS}
    has_key = False
    with suppress(FamiliarError):
        has_key = typed["preset"] in PRESETS and bool(resolve_slot(_settings_of(typed)).api_key)
    served, embedders = asyncio.run(_find_served())
    return {
        "chosen": {**typed, "pulled": typed["model"] or _SMALL_OF_OLLAMA},
        "models": MODELS,
        "offers": [(one, _pack_model(one)) for one in served],
        "embedders": [(one, _pack_model(one)) for one in embedders],
        "has_key": has_key,
        "tested": tested,
    }


def _pack_model(one: start.ServedModel) -> str:
    return _SEPARATOR.join((one.preset, one.base_url, one.model))


async def _find_served() -> tuple[list[start.ServedModel], list[start.ServedModel]]:
    try:
        both = asyncio.gather(start.find_models(), start.find_embedders())
        return await asyncio.wait_for(both, _PATIENCE_S)
    except TimeoutError:
        return [], []


def embedder_values(familiar: Familiar) -> dict[str, Any]:
    """Return the template values about search by meaning."""
    choice, target = familiar.finder.embedder, familiar.config.embedding.model
    may_pull = choice.embedder is None and target == "auto"
    return {
        "embedder": choice.embedder.model if choice.embedder else "",
        "missing_embedder": CATALOG[_SMALL_EMBEDDER] if may_pull else None,
    }


def keep_embedder(config: Path, packed: str) -> str:
    """Use a server on this machine for embeddings; return a sentence that says so."""
    preset, base_url, model = [*packed.split(_SEPARATOR), "", ""][:3]
    if preset not in PRESETS or not model:
        raise UsageError("That is not a model of the server; nothing was changed")
    url = base_url or PRESETS[preset].base_url
    set_values(config, {"embedding.base_url": url, "embedding.model": model})
    return f"{model} will find memories by meaning once it has indexed them in the background."


def missing_model(familiar: Familiar) -> Model | None:
    """Return the chat model if it has yet to be downloaded, or None."""
    slot = familiar.models.slot()
    is_missing = slot.preset == "local" and slot.model in CATALOG
    return CATALOG[slot.model] if is_missing and not path_of(slot.model, cache_dir()) else None


def spare_model(familiar: Familiar) -> Model | None:
    """Return the model that replies inside this program, if another one is chosen."""
    is_chosen = familiar.config.llm.preset == "local"
    return None if is_chosen else CATALOG[PRESETS["local"].model]


def read_model_fields(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of a model, checked; a click on a found one takes their place.

    Raises:
        UsageError: A field is invalid.
    """
    typed = {name: fields.get(name, "").strip() for name in SETTINGS}
    if fields.get(_USE):
        preset, base_url, model = [*fields[_USE].split(_SEPARATOR), "", ""][:3]
        typed = {"preset": preset, "base_url": base_url, "model": model}
    for name, text in typed.items():
        if text:
            parse_value(find_setting(SETTINGS[name]), text)
    if typed["preset"] == "custom" and not typed["base_url"]:
        raise UsageError("A server of your own needs its address, e.g. http://127.0.0.1:5000/v1")
    return typed


def try_choice(typed: Mapping[str, str], key: str) -> start.ModelTest:
    """Ask the chosen model for a word; nothing is changed."""
    settings = _settings_of(typed)
    tested = asyncio.run(start.try_model(settings, key))
    is_missing = settings.preset == "local" and not tested.is_ok
    if is_missing or (tested.hint and tested.hint == PRESETS[settings.preset].start):
        tested = replace(tested, hint=_STARTS.get(settings.preset, tested.hint))
    slot = resolve_slot(settings)
    needs_key = PRESETS[settings.preset].key_needed and not (key or slot.api_key)
    is_rejected = bool(slot.api_key_env) and slot.api_key_env in tested.hint
    if (needs_key or is_rejected) and not tested.is_ok:
        told = tested.told.replace(f" in {slot.api_key_env!r}", "")
        hint = f"Put {'a valid' if key else 'the'} key into the field below, and test again."
        return replace(tested, told=told, hint=hint)
    return tested


def keep_choice(config: Path, typed: Mapping[str, str], key: str) -> list[str]:
    """Save a model's settings and its API key; return a sentence about each."""
    parts = []
    if key:
        variable = resolve_slot(_settings_of(typed)).api_key_env
        path = start.keep_key(variable or PRESETS["custom"].api_key_env, key)
        parts.append(f"The key is saved in {path}, which only you can read.")
    set_values(
        config, {SETTINGS[name]: text for name, text in typed.items() if text or name != "preset"}
    )
    model, server = typed["model"] or "the usual model", typed["preset"] or "the usual server"
    return [*parts, f"From now on {model} of {server} replies."]


def _settings_of(typed: Mapping[str, str]) -> LLMSettings:
    return LLMSettings(
        preset=typed.get("preset") or LLMSettings().preset,
        base_url=typed.get("base_url", ""),
        model=typed.get("model", ""),
    )


class ModelDownload:
    """A download in the background, with its progress."""

    def __init__(self, work: Callable[[Callable[[Progress], None]], object]) -> None:
        self.progress: Progress | None = None
        self.error: FamiliarError | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether it has succeeded or failed."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._work(self._note)
        except FamiliarError as error:
            self.error = error
        except Exception as error:  # noqa: BLE001  # shown, as nobody waits for this thread
            self.error = FetchError(f"The download failed: {type(error).__name__}: {error}")

    def _note(self, progress: Progress) -> None:
        self.progress = progress


# Downloads by server (empty: the model hub) and model.
_DOWNLOADS: Final[dict[tuple[str, str], ModelDownload]] = {}


def begin_download(request: PageRequest) -> Redirect:
    """Download a model in the background, unless the download is under way.

    With `use`, it is the small model inside this program, which replies from now on.
    """
    from familiar_cli.llm.models.fetch import pull

    name, base_url = request.sent("name").strip(), request.sent("base_url").strip()
    at = "ollama" if request.sent("at") == "ollama" else ""
    if "use" in request.query:
        chosen = {"preset": "local", "model": "", "base_url": ""}
        keep_choice(request.familiar.paths.config, chosen, "")
    download = _DOWNLOADS.get((at, name))
    if download is None or download.is_over:
        if at:
            url = base_url or PRESETS[at].base_url
            work: Callable[[Callable[[Progress], None]], object] = partial(_pull_now, url, name)
        elif name in CATALOG:
            work = partial(pull, name, cache_dir())
        else:
            raise UsageError(f"There is no model {name[:60]!r} to download")
        _DOWNLOADS[at, name] = ModelDownload(work)
    return Redirect(request.to("settings/download", name=name, at=at, base_url=base_url))


def _pull_now(base_url: str, name: str, note: Callable[[Progress], None]) -> None:
    asyncio.run(start.pull_at_ollama(base_url, name, note))


def show_download(request: PageRequest) -> PageView:
    """Show the progress of a download, or its result."""
    name = request.query.get("name", "")
    values = {key: request.query.get(key, "") for key in ("at", "base_url")}
    download = _DOWNLOADS.get((values["at"], name))
    return PageView("download", {"name": name, "download": download, **values})


PAGES: Final = (
    WebPage("/settings/download", show_download),
    WebPage("/settings/download", begin_download, "POST"),
)
