"""What was counted is not counted again."""

from __future__ import annotations

from familiar_cli.context.budget import MOST_CHARS, MOST_TEXTS, RememberingCounter


class Counting:
    name = "letters"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def count(self, text: str) -> int:
        self.asked.append(text)
        return len(text)


def test_a_text_is_counted_once() -> None:
    counting = Counting()
    counter = RememberingCounter(counting)

    assert [counter.count("abc"), counter.count("abc"), counter.name] == [3, 3, "letters"]
    assert counting.asked == ["abc"]


def test_it_remembers_only_so_many() -> None:
    counting = Counting()
    counter = RememberingCounter(counting)
    for number in range(MOST_TEXTS + 1):
        counter.count(str(number))
    counter.count("0")

    assert counting.asked.count("0") == 2


def test_a_very_long_text_is_not_held() -> None:
    counting = Counting()
    counter = RememberingCounter(counting)
    long = "x" * (MOST_CHARS + 1)

    assert counter.count(long) == counter.count(long) == len(long)
    assert len(counting.asked) == 2


def test_of_an_endless_text_a_sample_is_counted() -> None:
    counting = Counting()
    endless = "Anna keeps bees. " * 100_000

    assert abs(RememberingCounter(counting).count(endless) / len(endless) - 1) < 0.01
    assert sum(map(len, counting.asked)) <= 100_000
