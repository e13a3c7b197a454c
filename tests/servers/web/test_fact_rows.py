"""Facts about the reader are said to the reader."""

from __future__ import annotations

from familiar_cli.servers.web.fact_rows import in_second_person
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
        ("Robin doesn't smoke.", "You don't smoke."),
        ("Robin isn’t ill.", "You aren’t ill."),
        ("Robin smokes.", "You smoke."),
        ("Robin dies.", "You die."),
        ("Robin ties knots.", "You tie knots."),
        ("Robin Ames lives in Oslo.", "You live in Oslo."),
        ("Robin and Anna like tea.", "You and Anna like tea."),
        ("Robin likes bread and butter.", "You like bread and butter."),
        ("Robin's sister is Bo and likes tea.", "Your sister is Bo and likes tea."),
        ("Robin paints boats and sells oars.", "Robin paints boats and sells oars."),
        ("Robin is tired, but now sleeps.", "Robin is tired, but now sleeps."),
        ("Robin likes tea, but isn't well.", "Robin likes tea, but isn't well."),
        ("Robin has a boat that was old and is red.", "Robin has a boat that was old and is red."),
        ("Robin runs her own shop.", "Robin runs her own shop."),
        ("Robin's sister sold her boat.", "Robin's sister sold her boat."),
        ("Robin met a pilot; he flies.", "Robin met a pilot; he flies."),
        ("Robin sold their boat.", "Robin sold their boat."),
        ("Robinson lives in Oslo.", "Robinson lives in Oslo."),
        ("Robin Hood lives in a forest.", "Robin Hood lives in a forest."),
        ("The boat of Robin is red.", "The boat of Robin is red."),
    ],
)
def test_it_is_said_to_the_reader(said, expected) -> None:
    assert in_second_person(said, ["Robin", "Robin Ames"]) == expected
