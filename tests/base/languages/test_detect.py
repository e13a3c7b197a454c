"""The language of a text is known by its scripts and commonest words; English when in doubt."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.languages import CODES, ENOUGH_CHARS, language_in, language_of
from tests.support.cases import each

GERMAN = "Hallo, ich bin Anna und wohne mit meiner Katze in Oslo. Gestern war ich beim Arzt. "
JAPANESE = "こんにちは。アンナです。オスロで猫のモカと暮らしています。昨日は病院に行きました。"
ENGLISH = "Hello, I am Anna and I live in Oslo with my cat. Yesterday I went to the doctor. "


@each(
    ("code", "text"),
    [
        ("en", ENGLISH),
        ("de", GERMAN),
        ("ja", JAPANESE),
        ("ja", "東京駅前図書館：本日休館日のため閲覧室は利用できません。"),
        ("zh", "你好，我叫安娜，我和我的猫住在奥斯陆。昨天我去看了医生，一切都好。"),
        ("ar", "مرحبا، أنا آنا وأعيش في أوسلو مع قطتي. ذهبت أمس إلى الطبيب."),
        ("ar", "أَنَا أُحِبُّ الْقَهْوَةَ كَثِيرًا، وَأَشْرَبُهَا كُلَّ صَبَاحٍ فِي الْحَدِيقَةِ."),
        ("es", "Hola, soy Ana y vivo en Oslo con mi gato. Ayer fui al médico porque estaba mal."),
        ("fr", "Bonjour, je suis Anna et j’habite à Oslo avec mon chat. Hier j’ai vu le médecin."),
    ],
)
def test_a_language_with_a_table_is_known(code, text) -> None:
    assert language_of(text) == code


@each(
    "text",
    [
        "Olá, eu sou a Ana e moro em Lisboa com o meu gato. Ontem não me sentia muito bem.",
        "Ciao, sono Anna e vivo a Roma con il mio gatto. Ieri non stavo bene, ma oggi è meglio.",
        "Hoi, ik ben Anna en ik woon in Utrecht met mijn kat. Gisteren was ik niet zo lekker.",
        "Привет, меня зовут Анна, и я живу в Осло с моей кошкой по имени Мокко.",
        "سلام، من آنا هستم و با گربه‌ام در اسلو زندگی می‌کنم. دیروز پیش دکتر رفتم",
        "안녕하세요, 저는 안나이고 오슬로에서 고양이와 살고 있어요. 어제는 병원에 다녀왔어요.",
        "def main(): return [row for row in table if row.value and not row.hidden]",
    ],
)
def test_a_language_without_a_table_is_as_good_as_english(text) -> None:
    assert language_of(text) == "en"


@each("text", ["", "ok", "🙂🙂🙂", "12:30 15:45 2026-04-07", "はい"])
def test_a_few_letters_say_nothing(text) -> None:
    assert language_of(text) is None


@given(st.text(max_size=400))
def test_every_text_has_one_answer(text) -> None:
    assert language_of(text) in {None, *CODES}
    assert language_of(text) == language_of(text)


def test_a_character_speaks_before_anything_is_said() -> None:
    assert language_in([], lambda: [JAPANESE]) == ("ja", False)
    assert language_in([], list) == ("en", False)


def test_a_character_without_words_speaks_as_it_is_spoken_to() -> None:
    assert language_in([GERMAN], lambda: ["Ada"]) == ("de", False)


def test_once_enough_was_said_the_first_turns_decide_for_good() -> None:
    first = [GERMAN] * (ENOUGH_CHARS // len(GERMAN) + 5)
    settled = ("de", True)
    assert language_in(first, lambda: [ENGLISH]) == settled
    assert language_in([*first, *[JAPANESE] * 500], lambda: [ENGLISH]) == settled


def test_what_somebody_pastes_does_not_decide() -> None:
    pasted = ENGLISH * 100
    assert language_in([pasted, *[GERMAN] * 20], list)[0] == "de"
