"""`familiar start`: from nothing to a first reply, by commands that it shows."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from msgspec import Struct, field

from familiar_cli.base.config.home import cache_dir, find_familiar, list_familiars
from familiar_cli.base.errors import FamiliarError, NotFoundError, UsageError
from familiar_cli.base.text import typed
from familiar_cli.cli.commands._base import App, globals_of, home_of, output, run_async
from familiar_cli.familiar import Familiar
from familiar_cli.llm.slots import PRESETS, check_usable
from familiar_cli.pages import emit

if TYPE_CHECKING:
    from familiar_cli.actions.health.start import ServedModel

app = App()

_HOSTED = ("openrouter", "openai")
_MOST_CHOICES = 12


@app.command()
def start(
    ctx: typer.Context,
    *,
    card: str | None = None,
    template: str | None = None,
    preset: str | None = None,
    url: str | None = None,
    model: str | None = None,
    name: str | None = None,
    say: str | None = None,
) -> None:
    """Set up a familiar step by step, and talk to it.

    It asks for a card, a model, your name, and chats or memories from elsewhere, skips what an
    option or a setting already answers, and shows each command that it runs. Without a terminal it
    asks nothing.

    \b
    familiar start
    familiar start --card mira.png --name Anna
    familiar start --template companion --say Hello

    Args:
        card (FILE|DIR): Card, or SillyTavern's data folder.
        template (NAME): Template in place of a card: companion, …
        preset (NAME): Kind of server: ollama, openrouter, …
        url (URL): Address of another server, up to /v1.
        model (M): Name of the model.
        name (NAME): What you are called.
        say (TEXT): Send this message and exit; default: chat.
    """
    if card and template:
        raise UsageError("--card and --template cannot be combined", hint="Use only one.")
    wizard = _Wizard(ctx, output(ctx), home_of(ctx))
    try:
        wizard.choose_familiar(card, template)
        wizard.choose_model(preset, url, model)
        wizard.offer_embedder()
        wizard.choose_name(name)
        wizard.offer_import()
        wizard.offer_small_embedder()
    except (KeyboardInterrupt, EOFError):
        wizard.out.note("\nStopped. Finished steps are kept; `familiar start` continues from here.")
        raise typer.Exit(130) from None
    wizard.talk(say)


class _Wizard(Struct):
    """Asks for missing parts, and sets them up by running commands.

    Args:
        ctx: The command line.
        out: The command's output.
        home: The directory of the familiars.

    Attributes:
        familiar_id: The familiar, once it is known.
        is_new: Whether it was made here.
        done: The commands that were run.
    """

    ctx: typer.Context
    out: emit.Output
    home: Path
    familiar_id: str = ""
    is_new: bool = False
    done: list[str] = field(default_factory=list)

    def choose_familiar(self, card: str | None, template: str | None) -> None:
        """Use the existing familiar, or make one."""
        value = globals_of(self.ctx).familiar
        if not (card or template):
            try:
                self.familiar_id = find_familiar(self.home, value).id
            except NotFoundError:
                if value:
                    raise
            else:
                self.out.note(f"Continuing with {self.familiar_id}; --card makes another familiar.")
                return
        if not (card or template or emit.is_terminal()):
            raise UsageError(
                "A card is required, but there is no terminal to ask for it",
                hint="Add `--card FILE`, `--card DIR` (SillyTavern's folder) or "
                "`--template companion`.",
            )
        while not self.familiar_id:
            try:
                self._make_familiar(card, template)
            except FamiliarError as error:
                if card or template:
                    raise
                self._tell(error)

    def _make_familiar(self, card: str | None, template: str | None) -> None:
        from familiar_cli.cli.terminal.prompts import ask_line
        from familiar_cli.imports.create import CARD_TEMPLATES
        from familiar_cli.imports.personas import PERSONA_TEMPLATES

        templates = (*CARD_TEMPLATES, *PERSONA_TEMPLATES)
        if not (card or template):
            self.out.note("Who do you want to talk to?")
            self.out.note("  A character card (PNG, CHARX, JSON, YAML): its path; or drop it here.")
            self.out.note("  SillyTavern's data folder: its path.")
            self.out.note(f"  A template: {', '.join(templates)}.")
            answer = ask_line("Card, folder or template", templates[0]).strip("'\" ")
            if answer in templates or (answer.isalpha() and not Path(answer).exists()):
                template = answer.lower()
            else:
                card = answer.replace("\\ ", " ")
        before = set(list_familiars(self.home))
        wanted = [globals_of(self.ctx).familiar] if globals_of(self.ctx).familiar else []
        if template:
            self._do("init", *filter(None, wanted), "--template", template)
        elif card and Path(card).expanduser().is_dir():
            self._do("import-sillytavern", card)
        else:
            self._do("init", *filter(None, wanted), "--from-card", card or "")
        self._take_new(before)

    def _take_new(self, before: set[str]) -> None:
        """Choose one of the new familiars."""
        every = list_familiars(self.home)
        new = [one for one in every if one not in before] or [*every]
        if not new:
            raise NotFoundError("There is no character in that folder; nothing was changed")
        target = globals_of(self.ctx).familiar
        self.familiar_id = target if target in every else self._choose("Which one?", new, new)
        self.is_new = True
        if len(every) > 1 and not target:
            self._do("use", self.familiar_id)

    def choose_model(self, preset: str | None, url: str | None, model: str | None) -> None:
        """Configure a model, unless one is configured."""
        if preset == "custom" and not url:
            raise UsageError("--preset custom requires --url", hint="Add `--url URL`.")
        if preset or url or model:
            self._set_model(preset or ("custom" if url else ""), url or "", model or "")
        elif self._has_model():
            self.out.note("A model is set already: `familiar model test` tries it.")
        elif emit.is_terminal() or not self._is_hosted():
            self._look_for_model()
        self._check_model(may_download=emit.is_terminal() or preset == "local")

    def _has_model(self) -> bool:
        with self._open() as familiar:
            try:
                slot = familiar.models.slot()
                check_usable(slot)
            except FamiliarError:
                return False
            return slot.preset != "local" or "preset" in familiar.config.llm.written

    def _is_hosted(self) -> bool:
        """Tell whether a preset with a key was chosen; then no other model answers instead."""
        with self._open() as familiar:
            return PRESETS[familiar.config.llm.preset].key_needed

    def _look_for_model(self) -> None:
        from familiar_cli.actions.health.start import SERVERS, find_models

        self.out.note(f"Looking for {', '.join(SERVERS)} on this machine…")
        models = run_async(find_models())[:_MOST_CHOICES]
        words = [f"{one.server}: {one.model}" for one in models]
        if not models:
            self.out.note("None of them responds.")
        if not emit.is_terminal():
            if models:
                self._set_served(models[0])
            else:
                self.out.note("The small model that comes with familiar answers.")
            return
        others = ["a hosted model, with a key", "another server, by its address"]
        built_in = "the small model that comes with familiar: no setup, but weak"
        from familiar_cli.cli.terminal.prompts import ask_number

        number = ask_number(
            "Which model should answer?", [*words, *others, built_in], takes_url=True
        )
        if isinstance(number, str):
            self._set_at(number)
        elif number < len(models):
            self._set_served(models[number])
        elif number == len(models):
            self._ask_hosted()
        elif number == len(models) + 1:
            self._ask_server()
        else:
            self._do("config", "set", "llm.preset", "local")

    def _ask_hosted(self) -> None:
        from familiar_cli.cli.terminal.prompts import ask_line

        preset = self._choose("Where?", ["OpenRouter", "OpenAI"], _HOSTED)
        usual = {"openrouter": "openrouter/auto", "openai": "gpt-4o-mini"}[preset]
        self._set_model(preset, "", ask_line("Name of the model", usual))

    def _ask_server(self) -> None:
        from familiar_cli.cli.terminal.prompts import ask_line

        self._set_at(ask_line("Address, up to /v1", "http://127.0.0.1:8000/v1"))

    def _set_at(self, url: str) -> None:
        """Use the server at an address; ask again where nothing answers, or where it is wrong."""
        from familiar_cli.actions.health.start import models_at
        from familiar_cli.cli.terminal.prompts import ask_line

        while True:
            try:
                models = run_async(models_at(url))
                again = url
                if not models:
                    self.out.note(f"Nothing responds at {url} yet.")
                    again = ask_line("Another address (Enter: keep this one)", url)
                if again == url:
                    names = [one.model for one in models]
                    model = self._choose("Which model?", names, names) if names else ""
                    self._set_model("custom", url, model or ask_line("Name of the model", ""))
                    return
                url = again
            except FamiliarError as error:
                self._tell(error)
                url = ask_line("Address, up to /v1", "http://127.0.0.1:8000/v1")

    def _set_served(self, served: ServedModel) -> None:
        self._set_model(served.preset, served.base_url, served.model)

    def _set_model(self, preset: str, url: str, model: str) -> None:
        from familiar_cli.actions.health.start import find_models

        if preset and not model and not url:
            served = [one for one in run_async(find_models()) if one.preset == preset]
            model = served[0].model if served else ""
        for key, value in (("preset", preset), ("base_url", url), ("model", model)):
            if value:
                self._do("config", "set", f"llm.{key}", value)
        self._ask_key()

    def _ask_key(self) -> None:
        """Ask for the key of a hosted model if there is none."""
        from familiar_cli.actions.health.start import keep_key
        from familiar_cli.cli.terminal.prompts import ask_hidden

        with self._open() as familiar:
            slot = familiar.models.slot()
        if not PRESETS[slot.preset].key_needed or slot.api_key or not emit.is_terminal():
            return
        while True:
            key = ask_hidden(f"Key ({slot.api_key_env}; it is not shown)")
            try:
                path = keep_key(slot.api_key_env, key)
            except UsageError as error:
                self._tell(error)
            else:
                self.out.note(f"Saved in {path}, which only you can read.")
                return

    def _check_model(self, *, may_download: bool) -> None:
        """Download the built-in model if it was chosen; otherwise check the model server."""
        from familiar_cli.llm.models.store import path_of

        with self._open() as familiar:
            slot = familiar.models.slot()
        if slot.preset == "local" and not path_of(slot.model, cache_dir()):
            if not may_download:
                self.out.note(f"It is not downloaded yet: `familiar model pull {slot.model}`")
                return
            self._do("model", "pull", slot.model)
        check_usable(slot)

    def offer_embedder(self) -> None:
        """Say which server on this machine could find memories by meaning, if nothing does yet."""
        from familiar_cli.actions.health.start import embedding_commands, find_embedders

        with self._open() as familiar:
            if familiar.finder.embedder.embedder or familiar.config.embedding.model == "none":
                return
        for served in run_async(find_embedders())[:1]:
            first, second = embedding_commands(served)
            self.out.note(
                f"{served.server} can find memories by meaning, with {served.model}: "
                f"`familiar {first}`, `familiar {second}`"
            )

    def choose_name(self, name: str | None) -> None:
        """Set the person's name, unless it is known."""
        from familiar_cli.cli.terminal.prompts import ask_line

        if name is None:
            with self._open() as familiar:
                known = familiar.me().name
            if known or not emit.is_terminal():
                return
            name = ask_line("What is your name? (Enter: none)", "")
        if name.strip():
            self._do("me", "--name", name.strip())

    def offer_import(self) -> None:
        """Ask a new familiar's owner for chats and memories with another companion or assistant."""
        from familiar_cli.cli.terminal.prompts import ask_line

        if not (self.is_new and emit.is_terminal()):
            return
        self.out.note(
            "Have you been using another companion or assistant? Chats and memories of "
            "ChatGPT, Claude, Gemini, SillyTavern and others can be imported."
        )
        with suppress(EOFError):
            while answer := ask_line("File or folder (Enter: nothing more)", "").strip("'\" "):
                if answer.lower() in {"n", "no"}:
                    break
                try:
                    self._do("import", answer.replace("\\ ", " "), "--yes", shown=True)
                except FamiliarError as error:
                    self._tell(error)
                except typer.Exit:  # the command has said what is missing
                    continue

    def offer_small_embedder(self) -> None:
        """Offer the model that searches by meaning, if none does yet."""
        from familiar_cli.cli.terminal.prompts import ask_line

        with self._open() as familiar:
            target = familiar.config.embedding.model
            if familiar.finder.embedder.embedder or target != "auto" or not emit.is_terminal():
                return
        self.out.note(
            "So far, memories are found only by their words. A small model (23 MB, runs here) also "
            "finds them by meaning: “my dog” finds Biscuit."
        )
        try:
            if ask_line("Download it? (y/n)", "y").lower() in {"y", "yes"}:
                self._do("model", "pull", "minilm-l6-v2")
        except EOFError:
            return
        except FamiliarError as error:
            self._tell(error)

    def talk(self, say: str | None) -> None:
        """Chat, or send one message; without a terminal and a message, say how."""
        reply: dict[str, Any] = {}
        if say is not None:
            if self.out.as_json:
                reply = json.loads(self._do("ask", say, "--json"))["data"]
            else:
                self._do("ask", say, shown=True)
        elif emit.is_terminal() and not self.out.as_json:
            self._do("chat", shown=True)
            return
        else:
            self.out.note("Next: `familiar chat`")
        data = {"familiar": self.familiar_id, "commands": self.done, "reply": reply.get("reply")}
        self.out.answer(data, None)

    def _choose(self, question: str, words: Sequence[str], values: Sequence[Any]) -> Any:  # noqa: ANN401
        """Ask for a choice; take the first one if it is the only one, or if nobody can be asked."""
        from familiar_cli.cli.terminal.prompts import ask_number

        if len(words) == 1 or not emit.is_terminal():
            return values[0]
        return values[int(ask_number(question, words))]

    def _open(self) -> Familiar:
        return Familiar.load_from_disk(self.home, self.familiar_id, self.out.warn)

    def _do(self, *words: str, shown: bool = False) -> str:
        """Show and run a command; return its output unless it was shown."""
        options = globals_of(self.ctx)
        where = ["--home", options.home] if options.home else []
        # A person's name applies to all familiars.
        about = ["--familiar", self.familiar_id] if self.familiar_id and words[0] != "me" else []
        parts = [*words, *where, *(about if options.familiar else [])]
        command = " ".join(["familiar", *map(typed, parts)])
        self.out.note(f"$ {command}")
        root, printed = self.ctx.find_root(), io.StringIO()
        args = [*words, *where, *about, *([] if shown else ["--quiet"])]
        try:
            with (
                root.command.make_context(root.info_name, args) as result,
                nullcontext() if shown else redirect_stdout(printed),
            ):
                root.command.invoke(result)
        except typer.Exit as ended:
            if ended.exit_code:
                raise
        self.done.append(command)
        return printed.getvalue()

    def _tell(self, error: Exception) -> None:
        self.out.note(f"{error}")
        if hint := getattr(error, "hint", None):
            self.out.note(f"{hint}")
