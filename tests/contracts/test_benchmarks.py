"""The benchmarks: the data they read, the files they write, the numbers they print."""

import json
import shutil
from argparse import Namespace

import pytest

from benchmarks import locomo, prompts, sync
from benchmarks.conversations import conversations, pages, read
from tests.support.cases import at_night

SAMPLE = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Ada",
        "speaker_b": "Ben",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ada", "dia_id": "D1:1", "text": "My cat is called Pluto."},
            {"speaker": "Ben", "dia_id": "D1:2", "text": "Lovely!", "blip_caption": "a sunset"},
        ],
        "session_2_date_time": "9:05 am on 9 June, 2023",
        "session_2": [
            {"speaker": "Ben", "dia_id": "D2:1", "text": "I climbed a mountain in Peru."},
        ],
    },
    "observation": {"session_1_observation": {"Ada": [["Ada has a cat, Pluto.", "D1:1"]]}},
    "qa": [
        {"question": "What is Ada's cat called?", "evidence": ["D1:01"], "category": 4},
        {"question": "Where did Ben climb?", "evidence": ["D2:1; D1:2"], "category": 1},
        {"question": "Where did Ada climb?", "evidence": ["D2:1"], "category": 5},
        {"question": "Who knows?", "evidence": ["D7:1"], "category": 4},
    ],
}
OTHERS = {"Lucy": {"history": {"2023-05-01": [{"query": "I saw a cat.", "response": "Nice."}]}}}


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.json"
    path.write_text(json.dumps([SAMPLE]), encoding="utf-8")
    (tmp_path / "others.json").write_text(json.dumps(OTHERS), encoding="utf-8")
    return path


def run(monkeypatch, capsys, *args):
    monkeypatch.setattr("sys.argv", ["locomo", *map(str, args), "--json"])
    locomo.main()
    return json.loads(capsys.readouterr().out)


def test_the_numbers_have_these_names(data, monkeypatch, capsys):
    made = run(monkeypatch, capsys, data, "--distractors", data.with_name("others.json"))
    assert made.keys() == {"grep", "lexical", "build_s", "lines", "build_s_per_1000_lines"}
    assert made["lines"] == 2 + 1 + 2
    lexical = made["lexical"]
    assert lexical.keys() >= {"cats1_4", "all", "turns", "turns_adversarial", "ms_p50", "build_s"}
    assert lexical["cats1_4"].keys() == {"r5", "r10", "mrr", "n"}
    assert lexical["turns"].keys() == {"r5", "r10", "any10", "n"}
    assert lexical["cats1_4"]["n"] == 2
    assert lexical["turns_adversarial"]["n"] == 1


def test_any10_counts_a_question_of_which_one_turn_was_found(data, monkeypatch, capsys):
    turns = run(monkeypatch, capsys, data)["lexical"]["turns"]
    assert turns["any10"] == 1.0
    assert turns["r10"] <= 1.0


def test_a_session_file_is_titled_as_the_writer_titles_it(data):
    files = pages(read(data)[0]).files
    assert files["sessions/conv-1/2023-05-08-afternoon.md"] == (
        "# 2023-05-08, afternoon\n\n**Ada:** My cat is called Pluto.\n"
        "\n**Ben:** Lovely! [shares a sunset]\n"
    )


def test_a_summary_has_bullets_that_name_their_turns(data):
    made = pages(read(data)[0], summaries=True)
    told, chosen, ada, ben = made.files.values()
    assert told.endswith("- Ada has a cat, Pluto. <!-- turns 1 -->\n")
    assert chosen.endswith("- I climbed a mountain in Peru (Ben) <!-- turns 3 -->\n")
    assert (ada, ben) == ("# Ada\n", "# Ben\n")
    assert [turns for [(_, _, turns)] in made.places.values()] == [((1, 1),), ((2, 1),)]


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "data.json"
    path.write_text('[{"conversation": {"session_1": [1]}}]', encoding="utf-8")
    with pytest.raises(SystemExit, match="not in LoCoMo's or MemoryBank's format"):
        read(path)


@at_night
@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git program")
def test_sync_is_measured_against_git(tmp_path, monkeypatch, capsys):
    small = ["--files", "30", "--commits", "10", "--changed", "3", "--dir", str(tmp_path)]
    small += ["--lines", "1000", "--large-bytes", "10000"]
    monkeypatch.setattr("sys.argv", ["sync", *small, "--json"])
    monkeypatch.setattr(sync, "TIMES", 1)
    sync.main()
    made = json.loads(capsys.readouterr().out)
    names = {"clone_1", "clone_4", "idle", "one_edit", "many_files"}
    assert made["costs"].keys() == names
    assert all(pair.keys() == {"ours", "git"} for pair in made["costs"].values())
    assert made["costs"]["clone_1"]["ours"]["connections"] == 1
    assert made["files"].keys() >= {"merge_list_ratio", "receive_large_ratio"}


def test_a_prompt_of_an_imported_chat_holds_what_its_person_asks_for() -> None:
    (made,) = conversations([SAMPLE])
    options = Namespace(model="lexical", window=8192, chat=True, summaries=False, heard=0)
    assert [row.found for row in prompts.measure(made, options, 1_200)] == [1, 1]
