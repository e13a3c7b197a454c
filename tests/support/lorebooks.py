"""Lorebooks to test with, and the way through the memory and back."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from familiar_cli.imports.export_lorebook import export_book
from familiar_cli.imports.import_lorebook import import_lorebook
from familiar_cli.imports.lorebook import DEFAULTS
from familiar_cli.imports.reading import read_book

INTO = "lore/imported"


def through_json(value):
    """Return `value` as another program would read it from a file."""
    return json.loads(json.dumps(value))


def world(*entries, **frame):
    return {"entries": {str(n): {"uid": n, **entry} for n, entry in enumerate(entries)}, **frame}


def lore(title, content="Text.", keys=("key",), **more):
    """Return a World Info entry."""
    return {"comment": title, "content": content, "key": list(keys), **more}


def book_entry(name, content="Text.", keys=("key",), **more):
    """Return an entry of a `character_book`."""
    return {
        "id": 1,
        "name": name,
        "keys": list(keys),
        "content": content,
        "enabled": True,
        "insertion_order": 10,
        "use_regex": False,
        "extensions": {},
        "secondary_keys": [],
        **more,
    }


def bring(store, data, *, origin="world.json", **options):
    """Import the JSON value `data`, unless told otherwise right into `INTO`."""
    return import_lorebook(store, read_book(data, origin=origin), **{"into": INTO, **options})


def file_of(store, title):
    """Return the path of the one file whose H1 is `title`."""
    walk = store.walk()
    found = [
        entry.rel_path
        for entry in walk.files
        if entry.rel_path.endswith(".md")
        and store.read_file(entry.rel_path).startswith(f"# {title}\n")
    ]
    assert len(found) == 1, found
    return found[0]


def edit(store, path, old, new):
    """Edit a file as a person would, outside the program."""
    text = (store.root / path).read_bytes().decode()
    assert old in text
    (store.root / path).write_bytes(text.replace(old, new).encode())


def exported(store, book_format="worldinfo", **options):
    return export_book(store, book_format=book_format, **options)


def full(entry):
    """Return a World Info entry with what it has where it says nothing."""
    return {**DEFAULTS, **entry}


texts = st.text(max_size=30) | st.sampled_from(
    (
        "",
        " ",
        "a, b",
        "/x,y{1,2}/i",
        "- dash",
        "-",
        '"quoted"',
        "`code`",
        "`` ` ``",
        "line\nbreak",
        "carriage\r\nreturn\r",
        "trailing  ",
        "# heading",
        "**Disabled**",
        "disabled",
        "\ud83d half",
        "\x00\x1b[31m",
        "\u2028\u2029\x85",
        "\u202egnp.exe",
        "日本語　城",
        "İstanbul ẞ ﬁ",
        "con",
        "<!-- lorebook entry 0123456789ab -->",
        "@@depth 4",
        "@@depth 4\n@@@scan_depth 2\n\ntext",
        "{{// note}}{{char}}",
        "\ufeffmark",
    )
)
numbers = st.integers(-(10**6), 10**6) | st.floats(allow_nan=False, allow_infinity=False, width=32)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
_NULLABLE = ("scanDepth", "caseSensitive", "matchWholeWords", "useGroupScoring", "sticky", "role")
_unknown = st.dictionaries(st.from_regex(r"my[A-Z][a-z]{1,5}", fullmatch=True), values, max_size=2)

world_entries = st.builds(
    lambda entry, more: {**entry, **more},
    st.fixed_dictionaries(
        {"key": st.lists(texts, max_size=4), "comment": texts, "content": texts},
        optional={
            "keysecondary": st.lists(texts, max_size=3),
            "disable": st.booleans(),
            "constant": st.booleans(),
            "selective": st.booleans(),
            "selectiveLogic": st.integers(0, 3),
            "useProbability": st.booleans(),
            "probability": st.integers(0, 100),
            "order": numbers,
            "position": st.integers(0, 7),
            "depth": st.integers(0, 99),
            "delayUntilRecursion": st.booleans() | st.integers(0, 5),
            "group": texts,
            "outletName": texts,
            "triggers": st.lists(texts, max_size=2),
            "characterFilter": values.filter(lambda value: value is not None),
            "extensions": st.dictionaries(
                texts | st.sampled_from(("depth", "role")), values, max_size=3
            ),
            **{name: st.none() | st.integers(0, 2) for name in _NULLABLE},
        },
    ),
    _unknown,
)
worlds = st.builds(
    lambda entries, frame: {
        **frame,
        "entries": {str(n): {"uid": n, **entry} for n, entry in enumerate(entries)},
    },
    st.lists(world_entries, min_size=1, max_size=4),
    st.fixed_dictionaries({}, optional={"name": texts, "originalData": values, "myRoot": values}),
)

book_entries = st.builds(
    lambda entry, more: {**entry, **more},
    st.fixed_dictionaries(
        {
            "keys": st.lists(texts, max_size=4),
            "content": texts,
            "enabled": st.booleans(),
            "insertion_order": numbers,
            "use_regex": st.booleans(),
            "extensions": st.dictionaries(
                texts | st.sampled_from(("depth", "position", "exclude_recursion", "world_info")),
                values,
                max_size=3,
            ),
        },
        optional={
            "name": texts,
            "comment": texts,
            "id": texts,
            "priority": numbers,
            "constant": st.booleans(),
            "selective": st.booleans(),
            "secondary_keys": st.lists(texts, max_size=3),
            "case_sensitive": st.booleans(),
            "position": st.sampled_from(("before_char", "after_char", "", None)),
        },
    ),
    _unknown,
)
books = st.builds(
    lambda entries, frame: {
        "spec": "lorebook_v3",
        "data": {"extensions": {}, **frame, "entries": entries},
    },
    st.lists(book_entries, min_size=1, max_size=4),
    st.fixed_dictionaries(
        {},
        optional={
            "name": texts,
            "description": texts,
            "scan_depth": st.integers(0, 50),
            "token_budget": st.integers(0, 4000),
            "recursive_scanning": st.booleans(),
            "extensions": st.dictionaries(texts, values, max_size=3),
            "myRoot": values,
        },
    ),
)
