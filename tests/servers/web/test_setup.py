"""The page that makes a familiar: from an empty home to one that can be talked to."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.actions.health import start
from familiar_cli.base.config.settings import load_config
from familiar_cli.familiar import Familiar
from familiar_cli.servers.web.setup_pages import read_upload
from tests.golden.record import EXAMPLES
from tests.support.browsing import looking
from tests.support.server import MODEL, ChatServer, Say, bad_key
from tests.support.world import home, live

SETUP = "/setup/persona"
CHOICES = {
    "template": "companion",
    "preset": "ollama",
    "model": "small:3b",
    "name": "Mira",
    "you": "Robin",
}


@pytest.fixture
def client():
    home().mkdir(parents=True, exist_ok=True)
    with looking() as found:
        yield found


def test_an_empty_home_asks_for_a_card_a_model_and_a_name(client) -> None:
    text = client.get("/").text
    assert f'action="{SETUP}"' in text
    for name in ("card", "template", "preset", "model", "name", "you"):
        assert f'name="{name}"' in text, name


def test_the_form_makes_a_familiar_with_its_model_and_owner(client) -> None:
    answer = client.post(SETUP, data=CHOICES)
    assert answer.status_code == 303
    page = client.get(answer.headers["location"])
    assert page.status_code == 200
    assert "mira is here" in page.text
    llm = load_config(home() / "mira" / "character.toml").llm
    assert (llm.preset, llm.model) == ("ollama", "small:3b")
    assert "Robin" in (home() / "me.toml").read_text("utf-8")


def test_a_card_that_is_uploaded_counts_instead_of_the_template(client) -> None:
    card = next((EXAMPLES / "cards").rglob("*.png"))
    files = {"card": (card.name, card.read_bytes(), "image/png")}
    answer = client.post(SETUP, data={**CHOICES, "name": "Mine"}, files=files)
    assert answer.status_code == 303, answer.text
    assert (home() / "mine" / "memory" / "self").is_dir()
    with Familiar.load_from_disk(home(), "mine") as familiar:
        assert familiar.name == "Mine"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"preset": "telepathy"}, "telepathy"),
        ({"preset": "custom"}, "needs its address"),
        ({"template": "nobody"}, "nobody"),
        ({"base_url": "ftp:/x"}, "base_url"),
        ({"key": "two words"}, "not a key"),
    ],
)
def test_what_cannot_be_used_is_said_and_nothing_is_made(client, wrong, said) -> None:
    answer = client.post(SETUP, data={**CHOICES, **wrong})
    assert answer.status_code >= 400
    assert said in answer.text
    assert 'value="small:3b"' in answer.text
    assert not (home() / "mira").exists()


def test_a_file_that_is_no_card_is_said(client) -> None:
    answer = client.post(SETUP, data=CHOICES, files={"card": ("x.png", b"GIF89a", "image/png")})
    assert answer.status_code >= 400
    assert not list(home().glob("*/memory"))


def test_the_same_name_twice_changes_nothing(client) -> None:
    client.post(SETUP, data=CHOICES)
    before = (home() / "mira" / "character.toml").read_bytes()
    answer = client.post(SETUP, data={**CHOICES, "template": "narrator", "model": "other"})
    assert answer.status_code == 409
    assert (home() / "mira" / "character.toml").read_bytes() == before


def test_a_home_with_a_familiar_begins_with_it(client) -> None:
    live("ada")
    assert SETUP not in client.get("/").text.partition("<main")[2].partition("</main>")[0]
    assert client.get(SETUP).status_code == 200


@given(
    st.binary(max_size=200), st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=20)
)
def test_a_file_arrives_to_the_byte(content, word) -> None:
    edge = "----edge7f3"
    head = f'--{edge}\r\nContent-Disposition: form-data; name="you"\r\n\r\n{word}\r\n--{edge}\r\n'
    head += 'Content-Disposition: form-data; name="card"; filename="a.png"\r\n'
    head += "Content-Type: image/png\r\n\r\n"
    body = head.encode() + content + f"\r\n--{edge}--\r\n".encode()
    fields, files = read_upload(f"multipart/form-data; boundary={edge}", body)
    assert fields["you"] == word.strip()
    assert files == ([("a.png", content)] if content else [])


@pytest.fixture
def keys(monkeypatch, tmp_path):
    path = tmp_path / "keys.toml"
    monkeypatch.setattr("familiar_cli.actions.health.start.keys_file", lambda: path)
    monkeypatch.setattr("familiar_cli.base.config.environment.keys_file", lambda: path)
    return path


@pytest.mark.parametrize("path", [SETUP, "/setup", "/settings"])
def test_a_model_is_chosen_with_a_key_and_a_test(client, path) -> None:
    live("ada")
    text = client.get(path).text
    assert '<input type="password" name="key"' in text
    assert 'value="test"' in text


def test_a_test_says_what_the_model_replied_and_makes_nothing(client, serve) -> None:
    serve("*Hello!*")
    answer = client.post(SETUP, data={**CHOICES, "model": "scripted-1", "do": "test"})
    assert "It works. scripted-1 says: <em>Hello!</em>" in answer.text
    assert 'value="Mira"' in answer.text
    assert not (home() / "mira").exists()


def test_a_server_that_is_not_there_is_a_failure_with_a_remedy(client) -> None:
    live("ada")
    form = {"preset": "custom", "base_url": "http://127.0.0.1:9/v1", "model": "a", "do": "test"}
    answer = client.post("/settings", data=form)
    assert "No reply:" in answer.text
    assert "Start it" in answer.text


def test_a_hosted_model_without_a_key_asks_for_it_on_the_page(client, keys, monkeypatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    live("ada")
    answer = client.post("/settings", data={"preset": "openai", "model": "m", "do": "test"})
    assert "Put the key into the field below" in answer.text


def test_a_rejected_key_is_asked_for_again_on_the_page(client, serve) -> None:
    live("ada")
    server = serve(bad_key())
    form = {"preset": "custom", "base_url": server.base_url, "model": MODEL, "key": "sk-bad"}
    answer = client.post("/settings", data={**form, "do": "test"})
    assert "rejected the key (401): Incorrect API key provided. Put a valid key into" in answer.text


def test_a_key_is_kept_in_a_file_of_its_own_and_never_shown(client, keys) -> None:
    root = live("ada")
    form = {"preset": "openai", "model": "gpt-x", "key": "sk-secret-1", "do": "keep"}
    page = client.post("/settings", data=form, follow_redirects=True)
    assert "sk-secret-1" not in page.text
    assert "sk-secret-1" in keys.read_text("utf-8")
    assert keys.stat().st_mode & 0o077 == 0
    assert "sk-secret-1" not in (root / "character.toml").read_text("utf-8")
    llm = load_config(root / "character.toml").llm
    assert (llm.preset, llm.model) == ("openai", "gpt-x")


def test_settings_that_people_change_are_controls(client) -> None:
    root = live("ada")
    client.post("/settings", data={"do": "controls", "timezone": "Europe/Oslo"})
    assert load_config(root / "character.toml").timezone == "Europe/Oslo"
    wrong = client.post("/settings", data={"do": "controls", "timezone": "Mars/Oslo"})
    assert (wrong.status_code >= 400, "Mars/Oslo" in wrong.text) == (True, True)
    assert load_config(root / "character.toml").timezone == "Europe/Oslo"


def test_controls_that_stay_as_they_are_are_not_written(client) -> None:
    root = live("ada")
    page = client.get("/settings").text.partition('value="keep"')[2]
    fields = dict(re.findall(r'<input name="([\w.]+)" value="([^"]*)"', page))
    client.post("/settings", data={**fields, "do": "controls", "timezone": "Europe/Oslo"})
    assert len(fields) > 1
    written = (root / "character.toml").read_text("utf-8")
    assert "Europe/Oslo" in written
    assert not [key for key in fields if key != "timezone" and key.rpartition(".")[2] in written]


OWN = {
    "Ollama": "ollama",
    "LM Studio": "lmstudio",
    "llama.cpp": "llamacpp",
    "KoboldCpp": "custom",
}


@pytest.mark.parametrize(("server", "preset"), [*OWN.items(), ("OpenAI", "openai")])
def test_each_preset_leads_to_a_reply_without_a_terminal(
    client, keys, monkeypatch, server, preset
) -> None:
    for name in ("LLM_BASE_URL", "LLM_MODEL"):
        monkeypatch.delenv(f"FAMILIAR_{name}", raising=False)
    live("ada")
    with ChatServer([Say("Hello, Robin!")]) as chat:
        found = {server: (preset, chat.base_url)} if server in OWN else {}
        monkeypatch.setattr(start, "SERVERS", found)
        form = {"preset": preset, "model": MODEL, "base_url": chat.base_url, "key": "sk-1"}
        if server in OWN:
            offer = re.search(r'name="use" value="([^"]*)"', client.get("/settings").text)
            form = {"use": unescape(offer[1])}
        tested = client.post("/settings", data={**form, "do": "test"}).text
        assert "It works." in tested
        typed = dict(re.findall(r'<input name="(model|base_url)" value="([^"]*)"', tested))
        kept = {**form, "use": "", "preset": preset, **typed, "do": "keep"}
        client.post("/settings", data=kept)
        page = client.post("/chat", data={"text": "Hi"}, follow_redirects=True)
        assert "Hello, Robin!" in page.text
        sent = chat.requests[-1].headers.get("authorization")
        assert sent == (None if server in OWN else "Bearer sk-1")


@pytest.mark.parametrize("preset", sorted(OWN.values()))
def test_a_server_that_is_not_started_is_mended_without_a_terminal(client, preset) -> None:
    live("ada")
    form = {"preset": preset, "base_url": "http://127.0.0.1:9/v1", "model": "a", "do": "test"}
    told = client.post("/settings", data=form).text.partition("callout failure")[2]
    assert "test again." in told.partition("</p>")[0]
    assert "`" not in told.partition("</p>")[0]
    assert ("Let Ollama download a" in told) == (preset == "ollama")


def wait_for_download(client, page):
    while 'http-equiv="refresh"' in page.text:
        page = client.get(page.url)
    return page


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (b'{"status": "success"}\n', "qwen is here."),
        (b'{"error": "no such model"}', "no such model"),
        (b"", "it ended too early"),
    ],
)
def test_ollama_downloads_a_model_after_one_click(client, last, said) -> None:
    live("ada")
    with ChatServer([Say()]) as chat:
        chat.posts["/api/pull"] = b'{"status": "pulling", "completed": 1, "total": 9}\n' + last
        form = {"name": "qwen", "at": "ollama", "base_url": chat.base_url}
        page = client.post("/settings/download", data=form, follow_redirects=True)
        assert said in wait_for_download(client, page).text
        assert chat.other_requests[-1].json() == {"model": "qwen"}


def test_the_small_model_is_downloaded_from_where_it_is_missing(client, monkeypatch) -> None:
    pulled = []
    monkeypatch.setattr("familiar_cli.llm.models.fetch.pull", lambda name, *_: pulled.append(name))
    live("ada")
    assert 'formaction="/settings/download" name="name" value="smollm2' in client.get("/chat").text
    form = {"name": "smollm2-135m-instruct"}
    page = client.post("/settings/download", data=form, follow_redirects=True)
    assert "smollm2-135m-instruct is here" in wait_for_download(client, page).text
    assert pulled == ["smollm2-135m-instruct"]
    assert "is here" not in client.get("/settings/download?name=nothing").text
    at_ollama = {**form, "at": "ollama", "base_url": "http://127.0.0.1:9/v1"}
    page = client.post("/settings/download", data=at_ollama, follow_redirects=True)
    assert "Ollama did not download" in wait_for_download(client, page).text
    assert client.post("/settings/download", data={"name": "nothing"}).status_code == 400


def test_a_model_that_cannot_reply_gives_way_to_the_small_one_after_one_click(
    client, monkeypatch
) -> None:
    monkeypatch.setattr("familiar_cli.llm.models.fetch.pull", lambda *_: None)
    settings = live("ada") / "character.toml"
    settings.write_text('[llm]\npreset = "openai"\nmodel = ""\n', "utf-8")
    button = re.search(r'formaction="([^"]*use=1)" name="name" value="([^"]*)"',
                       client.get("/chat").text)  # fmt: skip
    client.post(button[1], data={"name": button[2], "text": "Hi"})
    assert 'preset = "local"' in settings.read_text("utf-8")


def test_a_server_that_embeds_is_chosen_with_one_click(client, monkeypatch) -> None:
    root = live("ada")
    with ChatServer([Say()]) as chat:
        chat.models = ["nomic-embed-text"]
        monkeypatch.setattr(start, "SERVERS", {"Ollama": ("ollama", chat.base_url)})
        offer = re.search(r'name="embed" value="([^"]*)"', client.get("/settings").text)
        client.post("/settings", data={"embed": unescape(offer[1])})
        embedding = load_config(root / "character.toml").embedding
        assert (embedding.base_url, embedding.model) == (chat.base_url, "nomic-embed-text")
