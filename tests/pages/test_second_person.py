"""Facts about the reader are said to the reader."""

from __future__ import annotations

from familiar_cli.pages.second_person import in_second_person
from tests.support.cases import each


@each(
    ("said", "expected"),
    [
        ("Robin adopted Leo in May.", "You adopted Leo in May."),
        ("Robin paints boats.", "You paint boats."),
        ("Robin is 44.", "You are 44."),
        ("Robin was ill.", "You were ill."),
        ("Robin also likes tea.", "You also like tea."),
        ("Robin studies law.", "You study law."),
        ("Robin watches birds.", "You watch birds."),
        ("Robin's sister is Bo.", "Your sister is Bo."),
        ("Robin runs her own shop.", "You run your own shop."),
        ("Robin Ames lives in Oslo.", "You live in Oslo."),
        (
            "Robin swam and is tired, but now likes tea.",
            "You swam and are tired, but now like tea.",
        ),
        ("Robin paints her boat and sells the oars.", "You paint your boat and sell the oars."),
        ("Robin likes cats and dogs.", "You like cats and dogs."),
        ("Robin has a cat that is old and is ill.", "You have a cat that is old and is ill."),
        ("Robin said it gave her courage.", "You said it gave you courage."),
        ("Robin's trip was long and she slept.", "Your trip was long and you slept."),
        ("Robin got her boat on a Friday.", "You got your boat on a Friday."),
        (
            "Robin sold it on Friday and is glad of her day.",
            "You sold it on Friday and are glad of your day.",
        ),
        ("Robin met Anna and her dog.", "Robin met Anna and her dog."),
        ("Robin's sister sold her boat.", "Robin's sister sold her boat."),
        ("Robin met a pilot; he flies jets.", "Robin met a pilot; he flies jets."),
        ("Robin has a puppy and feeds him.", "Robin has a puppy and feeds him."),
        ("Robin sold their boat.", "Robin sold their boat."),
        ("Robin swims in the morning in her lake.", "You swim in the morning in your lake."),
        ("Robinson lives in Oslo.", "Robinson lives in Oslo."),
        ("Robin Hood lives in a forest.", "Robin Hood lives in a forest."),
        ("The boat of Robin is red.", "The boat of Robin is red."),
    ],
)
def test_it_is_said_to_the_reader(said, expected) -> None:
    assert in_second_person(said, ["Robin", "Robin Ames"]) == expected
