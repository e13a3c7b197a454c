"""One reply of the server as other people's clients read it, whole and streamed.

The clients are `openai`, `litellm`, `langchain-openai` and `llm`; they have to be installed where
this runs, and nothing of `familiar` has to be. The server's model should answer with text that is
hard to carry, such as U+2028. Prints the clients that did not get the expected text in some mode:
`python tests/clients/hostile_text.py http://127.0.0.1:8765/v1 ada "$EXPECTED"`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

ASKED = "Say it."


def by_openai(url: str, model: str) -> dict[str, str]:
    import openai

    client = openai.OpenAI(base_url=url, api_key="x")
    asked: list[Any] = [{"role": "user", "content": ASKED}]
    chat, make = client.chat.completions, client.responses.create
    streamed = chat.create(model=model, messages=asked, stream=True)
    events = make(model=model, input=ASKED, stream=True)
    return {
        "chat": chat.create(model=model, messages=asked).choices[0].message.content,
        "chat stream": "".join(one.choices[0].delta.content or "" for one in streamed),
        "responses": make(model=model, input=ASKED).output_text,
        "responses stream": "".join(
            one.delta for one in events if one.type == "response.output_text.delta"
        ),
    }


def by_litellm(url: str, model: str) -> dict[str, str]:
    import litellm

    how = {"model": f"openai/{model}", "api_base": url, "api_key": "x"}
    asked = [{"role": "user", "content": ASKED}]
    streamed = litellm.completion(messages=asked, stream=True, **how)
    return {
        "chat": litellm.completion(messages=asked, **how).choices[0].message.content,
        "chat stream": "".join(one.choices[0].delta.content or "" for one in streamed),
    }


def by_langchain(url: str, model: str) -> dict[str, str]:
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(model=model, base_url=url, api_key="x")
    return {
        "chat": chat.invoke(ASKED).content,
        "chat stream": "".join(one.content for one in chat.stream(ASKED)),
    }


def by_llm(url: str, model: str) -> dict[str, str]:
    from llm.default_plugins.openai_models import Chat

    chat = Chat(model_id=model, model_name=model, api_base=url)
    chat.key = "x"
    return {
        "chat": chat.prompt(ASKED, stream=False).text(),
        "chat stream": "".join(chat.prompt(ASKED, stream=True)),
    }


CLIENTS: dict[str, Callable[[str, str], dict[str, str]]] = {
    "openai": by_openai,
    "litellm": by_litellm,
    "langchain": by_langchain,
    "llm": by_llm,
}


def main(url: str, model: str, expected: str) -> int:
    wrong = {}
    for name, ask in CLIENTS.items():
        said = ask(url, model)
        sys.stderr.write(f"{name}: {', '.join(said)}\n")
        wrong |= {f"{name}, {mode}": text for mode, text in said.items() if text != expected}
    sys.stdout.write(f"{json.dumps(wrong, indent=1)}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
