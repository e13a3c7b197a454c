"""Find the names of people in running text, in any script."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from familiar_cli.text import fold_kana, fold_letters, fold_word, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

_AFTER: Final = (
    *("さん", "ちゃん", "くん", "君", "さま", "様", "たん", "先生", "先輩", "殿", "氏"),
    *("-san", "-chan", "-kun", "-sama", "小姐", "女士", "同学"),
    *("선생님", "님", "씨", "군", "양"),
)
_TITLES_BEFORE: Final = (
    *("أبو", "أبي", "أم", "السيد", "السيدة"),
    *("الأستاذ", "الأستاذة", "الدكتور", "الدكتورة"),
)


def without_honorific(name: str) -> str:
    """Return a folded name without its leading or trailing honorific; a lone one is kept."""
    folded = fold_word(one_line(name))
    for title in map(fold_word, _TITLES_BEFORE):
        if folded.startswith(title + " "):
            return folded[len(title) :].strip()
    for title in map(fold_word, _AFTER):
        if folded.endswith(title) and folded != title:
            return folded[: -len(title)].strip()
    return folded


# First names that are also ordinary words.
_NAMES: Final = """
abby ace aisle alba alma amber amity angel angelica angie april archer ash asher aster au august
aurora autumn bambi barb barry basil baron bay bea beau bee bell bella belle ben bill birch bishop
bill blade blake blaze bliss blossom blue bob bonnie booker boots bran brandy bray breeze brick
brock brook brooke brooks buck bud buddy bunny burt butch candy cane carol carter cash cat cedar
chance chandler chase chastity cherry chip christian chuck clay clem clement cliff clover cole
colt cooper coral cotton crew crystal daisy dale dan dash dawn deacon dean destiny dick dolly don
dot dove drake drew duke dusty earl easter eden elder em ember emerald eve ever fable faith fawn
felicity fern finch fisher flint flora fox frank frankie freedom ford garland gene genesis ginger
glen gloria gold grace grant gray grey griffin guy gypsy hale hank hap harmony harper haven hazel
heath heather henna herb holly honey honor hope hunter ivory ivy jack jade jasmine jasper jay jean
jewel jerry jersey jimmy joe john johns josh joy jude jules june juniper justice karma king kit
knight lacy lake lance land lane lark laurel lavender lee legend leo levi liberty lily lilac linden
lion lionel loch lois lotus love lucky lux mace major mandarin maple marina mark marsh martin mason
matt max maxim may meadow melody memory mercedes mercy merit merry mike miles miller misty modest
mona monday moon morgan moss myrtle nan ned nick nova oak ocean octavia olive opal oscar paige
pansy paris parker pat patience paul peace pearl peg penny pepper peter petunia phoenix piers pike
piper poppy porter precious prince princess prudence queen rain ralph randy raven ray read reed
reef reign remy rex rich rick ridge river rob robin rock rocky rod roman rook rory rose rosemary
rosy rowan roy royal ruby rue rusty sage sailor sally sandy sapphire sasha saul savannah sawyer
scarlet scout serenity shane shelby sherry sid sierra silver skip sky skye slate smith sol sonny
spencer spike spring star stella sterling stew stone storm sue sugar summer sunday sunny tab tad
tailor tanner tawny taylor teddy temple terry thorn tiger tim tom tommy trace trinity tucker tuesday
turner ty tyre valentine van velvet venus vera victor victory viola violet wade walker wally ward
warren wave wayne webb wednesday wendy west whitney will willow winner winter wolf wood woody wren
zen zephyr zip
art bert drew gale gus hal ike jo ken lee len les lot lou mo pip ram ted vic wes
вера надежда любовь роман лев мир слава роза лилия марк майя злата света заря
clemente consuelo dolores esperanza flor luz mar mercedes paz pilar rocio rosa sol soledad estrella
fleur marguerite pierre blanche claire aimé désiré reine victoire violette
wolf ernst felix jäger klaus rosa winter sommer
"""

# The most common English words, which people also use as user names.
_ENGLISH: Final = """
a about above across act action actually add after again against age ago agree air all almost alone
along already also although always am among an and angry animal another answer any anybody anyone
anything anyway apple are area arm around as ask at away baby back bad bag ball bank bar base bat be
bear beat beautiful because bed been beer before began begin behind being believe best better
between big bird bit bite black blood board boat body bone book boss both bottle bottom box boy
brain bread break breath bright bring broken brother brown bug build burn bus business but butter
buy by cake call came camp can car card care case castle catch cause center chair change chaos
cheap check cheese chicken child choice city class clean clear clever clock close cloud club coat
code coffee cold color come common cook cookie cool copy core corner could country couple course
court cover cow crazy cream cross crowd cry cup cut dad dance danger dark data date day dead deal
dear death deep deer desk devil did die different dinner dirty do doctor does dog doing done door
double doubt down dragon dream dress drink drive drop dry duck due dust each ear early earth east
easy eat echo edge egg eight either else empty end enemy energy enough enter error even evening
event every everybody everyone everything evil exactly eye face fact fair fall false family far farm
fast fat father fear feel feet few field fight file fill film final find fine fire first fish five
fix flag flat floor flow flower fly folk follow food fool foot for force forest forget form fortune
four free fresh friend from frog front fruit full fun funny future game garden gas gave get ghost
giant gift girl give glad glass go goat god goes going gone good got great green ground group grow
guard guess gun had hair half hall hand happen happy hard has hat hate have he head hear heart heat
heaven heavy hell hello help her here hero hers hey hi high hill him himself his hit hold hole home
horse hot hour house how however huge human hundred hungry hurt husband i ice idea if important in
inside instead into iron is island it its itself job join joke judge jump just keep key kid kill
kind kiss kitchen knew knife know lady last late laugh law lazy leaf learn least leave left leg less
let letter life light like line list listen little live lock lonely long look lord lose lost loud
low luck lunch machine mad made magic main make man many map market master match matter maybe me
mean meat meet men metal middle might milk mind mine minute mirror miss mister mom moment money
monster month more morning most mother mountain mouse mouth move movie much mud music must my myself
name near neck need neither never new news next nice night nine no nobody noise none nor north nose
not note nothing now number of off office often oh oil ok okay old on once one only onto open or
orange order other our ours out outside over own owl page pain paint paper park part party pass past
path pay pen people perfect perhaps person phone pick picture piece pig pilot pink pizza place plan
plant play player please point poor possible pot potato power pretty price problem pull pumpkin pure
purple push put question quick quiet quite rabbit race rat rather reach ready real really reason
record red rest return ride right ring rise road rocket roll roof room round rule run sad safe said
salt same sand sang save saw say school sea season second secret see seem seen self sell send sense
serious set seven several shade shadow shall shape shark share she shell ship shirt shoe shop short
should show shy sick side sign silent simple since sing sister sit six size skin sleep slow small
smart smile smoke snake snow so soft soldier some somebody someone something son song soon sorry
soul sound soup south space speak spirit spoon sport stand start state station stay steel step stick
still stop story strange street strong stuff such sun sure surprise sweet swim table take talk tall
taste tea teacher team tears tell ten test than thank thanks that the their them then there these
they thing think third this those though thought thousand three through throw thunder time tiny tip
tired to toast today together told tomorrow tonight too took top total touch toward town toy track
train travel tree tried trip trouble true trust truth try turn twice two type ugly uncle under
understand until up upon us use usually very view village visit voice wait walk wall want war warm
was wash waste watch water way we weak wear weather week weight well went were wet what wheel when
where whether which while white who whole whose why wide wife wild win wind window wine wing wise
wish witch with within without wizard woke woman wonder word work world worry worse would wow write
wrong year yellow yes yesterday yet you young your yours yourself zero zombie
monday tuesday wednesday thursday friday saturday sunday january february march april may june july
august september october november december
"""

# Function words, by language.
_OTHERS: Final = """
aber alle als also am an auch auf aus bei bin bis bist da damit dann das dass dein dem den der des
dich die dir doch du ein eine einem einen einer er es etwas euch für ganz gar gehen gut hab haben
hallo hat hatte hier ich ihm ihn ihr im immer in ist ja jetzt kann kein keine klein komm mal man
mehr mein mich mir mit muss nach nein nicht nichts noch nun nur ob oder ohne sein sehr sich sie sind
so soll über um und uns unter viel vom von vor war was weil wenn wer wie wieder wir wird wo zu zum
zur zwei art bald leben liebe mut rat stern sonne mond
ai alors après au aussi autre aux avant avec avoir beau bien bon bonne car ce cela ces cet cette
chez comme dans de des deux dire donc du elle elles en encore est et être eu fait faire il ils je la
là le les leur leurs lui ma mais me même mes moi moins mon ne ni nos notre nous on or ou où par pas
peu plus pour pourquoi qu quand que quel quelle qui rien sa sans se ses si son sont sous sur ta te
tes toi ton tous tout très trop tu un une va vers vos votre vous y oui non merci
al algo algún ante antes así aún bien cada casi como con contra cual cuando de del desde donde dos
el ella ellos en entre era es esa ese eso esta este esto fue ha hacer hasta hay hola la las le les
lo los más me mi mis mucho muy nada ni no nos o otra otro para pero poco por porque pues que qué
quien se ser si sí siempre sin sobre son soy su sus también tan tanto te ti todo tú tu un una uno y
ya yo gracias
anche ancora bene che chi ci ciao come con cosa così da dal dei del della di dove due e ed era fare
fra già gli grazie ha ho i il in io la le lei lo loro lui ma me mi mia mio molto ne nel nella noi
non o ora per perché più poi può prima quando quello questa questo qui se sei si sono solo su sua
suo tu tutti tutto un una uno va vi voi
ao aos as até bem com como da das de dele depois do dos e ela ele em entre era essa esse esta este
eu foi há isso já lá mais mas me mesmo meu minha muito na não nas nem no nos nossa nosso num o onde
os ou para pela pelo por porque quando que quem se sem ser só sua também te tem tudo um uma você
aan al alles als bij daar dan dat de deze die dit doch doen door dus een en er ge geen haar had heb
heeft hem het hier hij hoe hun ik in is ja je kan maar meer men met mij mijn moet na naar nee niet
nog nu of om omdat onder ons ook op over te tot u uit van veel voor want waren wat wel werd wie wij
zal ze zich zij zijn zo zonder zou
att av bara blev bli då de dem den denna det din du där efter eller en ett från för ha hade han har
hon hur här i icke inte jag kan kom man med men mig min mycket ni nu när och om oss på sig sin ska
som så till under upp ut vad var vi vid är även ikke jeg og også meg deg av på til fra hva hvor når
være vært mot bare mer nei ja takk ei ble blir dere noe noen
aby ale bardzo bez bo być by co czy dla do go ich i im jak jako jest jeszcze już kiedy kto która
który ma mi mnie moje może my na nad nie nic no o od on ona oni po pod przez się są ta tak także tam
te tego ten teraz to tu ty tylko w we wszystko z za ze że żeby
ama ben bir bu çok da daha de değil en gibi hem her için ile ise kadar ki mi mu ne neden o olan
olarak onu şey şu sen siz ve veya ya yok var biz evet hayır
а без более бы был была были было быть в вам вас весь во вот все всего всех вы где да даже для до
его ее если есть еще же за здесь и из или им их к как когда кто ли мне может мы на надо не него нее
нет ни но ну о об один он она они от по под после при про раз с сам себя со так такой там те тебя
тем то тоже только ты у уже хорошо чего чем что чтобы эта эти это этот я який та що як це є від
και το η ο να του με για σε από δεν που είναι θα αυτό τι εγώ εσύ όχι ναι
من في على إلى عن ما لا هذا هذه ذلك التي الذي هو هي هم أنا أنت نحن كان قد كل بعد قبل مع أو ثم إن أن
لم لن هل كيف متى أين نعم
של את על לא כן הוא היא אני אתה זה זאת מה מי כל גם אם או עם אבל רק כי יש אין היה
का की के को में से है हैं और यह वह मैं तुम हम नहीं क्या कि पर भी तो
그 이 저 나 너 우리 그리고 하지만 것 수 안 못 더 잘 왜 뭐 누구 여기 거기
これ それ あれ ここ そこ あそこ です ます する した いる ある ない から まで けど でも もう
はい いいえ なに 何 私 僕 俺 君 彼 彼女 あなた みんな ありがとう
我 你 他 她 它 我们 你们 他们 什么 怎么 这个 那个 没有 不是 可以 就是 因为 所以 但是 如果 谢谢 你好
"""


@cache
def common_words() -> frozenset[str]:
    """Return all of them as name keys."""
    return frozenset(fold_letters(f"{_NAMES} {_ENGLISH} {_OTHERS}").split())


MOST_CHARS: Final = 20_000  # maximum characters of a text to scan
MOST_WORDS: Final = 8  # maximum words of a name
MOST_NAME_CHARS: Final = 80
MOST_RUN_CHARS: Final = 32  # maximum characters of a name without spaces

_INVISIBLE: Final = "\u00ad\u200b\u200c\u200d\u2060\ufeff"  # ignored inside a word
_JOINERS: Final = "\u200d\ufe0f"
_SENTENCE_ENDS: Final = frozenset('.!?…:;\n\r"“”„«»‹›([{*#>。！？؟।')
_INSIDE_NAMES: Final = frozenset(" \t\u00a0\u3000-‐‑–.'’ʼ・·_&")
_LONGEST_INSIDE: Final = 3
_LONGEST_SHORTENED: Final = 3  # such as `Dr.` or an initial; a stop after more ends a sentence
# Korean attaches particles to a name; maximum length in syllables.
_KOREAN_AFTER: Final = frozenset(
    "은는이가을를의에와과도만아야여님씨랑하게한테께서으로로부터까지처럼군양"
)
_MOST_KOREAN_AFTER: Final = 3
# Arabic and Hebrew attach one-letter words to the front of a name.
_BEFORE: Final = frozenset("وفبلكובהלמשכ")
# Scripts without spaces: Thai, Lao; Myanmar; Khmer; kana; Han.
_WITHOUT_SPACES: Final = (
    (0x0E00, 0x0EFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x3005, 0x3007),
    (0x3040, 0x30FF),
    (0x31F0, 0x31FF),
    (0x3400, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)
_ASCII_WORD: Final = re.compile(r"\w+", re.ASCII)
_NO_KATAKANA: Final = "\u30fb"  # ・ separates names


class NamePrefix(NamedTuple):
    """Maximum length of names with this prefix, in words and in characters without spaces."""

    words: int
    chars: int


@dataclass(frozen=True, slots=True)
class Mention:
    """A name found in a text: its lookup key and position."""

    key: str
    start: int


@dataclass(frozen=True, slots=True)
class _Word:
    """A word, and whether its script has no spaces."""

    text: str
    start: int
    runs_on: bool
    before: str  # the text between the previous word and this one
    forms: tuple[str, ...] = ()
    begins_sentence: bool = False

    @property
    def is_called(self) -> bool:
        """Whether it follows an `@` that is not part of an e-mail address."""
        at = self.before[-1:] in {"@", "＠"}
        return at and (len(self.before) > 1 or self.start == 1)

    @property
    def is_capital(self) -> bool:
        """Whether it is capitalized where that is not required; words in all caps do not count."""
        shouted = len(self.text) > 1 and self.text.isupper()
        return self.text[:1].isupper() and not shouted and not self.begins_sentence


@lru_cache(maxsize=16_384)  # the same few names are looked up repeatedly
def key_of(name: str) -> str:
    """Return the lookup key of a name: its folded words, separated by single spaces.

    Words of scripts without spaces are joined. Empty if `name` cannot be a name.
    """
    words = _stamp_words(name.strip())
    key = fold_kana(_join_words(words))
    most = MOST_RUN_CHARS if any(word.runs_on for word in words) else MOST_NAME_CHARS
    return key if len(words) <= MOST_WORDS and len(key) <= most else ""


@lru_cache(maxsize=16_384)
def head_of(key: str) -> tuple[str, NamePrefix]:
    """Return the first characters of a key, and its length."""
    words = _stamp_words(key)
    first = words[0]
    if first.runs_on:
        return first.forms[0][0], NamePrefix(len(words), len(key))
    return first.forms[0], NamePrefix(len(words), 0)


def find_mentions(
    text: str,
    heads: Callable[[Collection[str]], Mapping[str, NamePrefix]],
    known: Callable[[Collection[str]], Collection[str]],
) -> list[Mention]:
    """Return the names in `text`, in order and without overlaps.

    Args:
        text: Text to scan; only its first `MOST_CHARS` are used.
        heads: Returns which of these heads start a name.
        known: Returns which of these keys are names.
    """
    words = _merge_spaced(_stamp_words(text[:MOST_CHARS]))
    starts = heads({head for word in words for head in _heads_in(word)})
    candidates = [
        found for at in range(len(words)) for found in _find_candidates(words, at, starts)
    ]
    names = known({candidate.key for candidate in candidates})
    return list(_longest_mentions(c for c in candidates if c.key in names and c.counts))


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A possible name: its range, and whether it would count."""

    key: str
    start: int
    end: int
    counts: bool = field(compare=False)


def _longest_mentions(candidates: Iterable[_Candidate]) -> Iterator[Mention]:
    end = 0
    for found in sorted(candidates, key=lambda c: (c.start, -c.end)):
        if found.start >= end:
            yield Mention(found.key, found.start)
            end = found.end


def _heads_in(word: _Word) -> Iterable[str]:
    return fold_kana(word.forms[0]) if word.runs_on else word.forms


def _find_candidates(
    words: list[_Word], at: int, starts: Mapping[str, NamePrefix]
) -> Iterator[_Candidate]:
    word = words[at]
    if word.runs_on:
        yield from _names_within(word, starts)
    for form in word.forms:
        head = starts.get(fold_kana(form[0]) if word.runs_on else form)
        if head:
            yield from _word_windows(words, at, form, head.words)


def _word_windows(words: list[_Word], at: int, first: str, most: int) -> Iterator[_Candidate]:
    """Yield candidate names of whole words starting at the word `at`, matching `first`."""
    word = words[at]
    if not word.runs_on:
        yield _Candidate(first, word.start, _word_end(word), _is_enough(word, first))
    window = [word]
    for following in words[at + 1 : at + min(most, MOST_WORDS)]:
        if not _belongs_to_name(following, window[-1]):
            return
        window.append(following)
        for last in following.forms:
            middle = [(w.forms[0], w.runs_on) for w in window[1:-1]]
            pieces = [(first, word.runs_on), *middle, (last, following.runs_on)]
            yield _Candidate(
                fold_kana(_join_spaced(pieces)), word.start, _word_end(following), counts=True
            )


def _names_within(word: _Word, starts: Mapping[str, NamePrefix]) -> Iterator[_Candidate]:
    """Yield candidate names inside a word of a script without spaces."""
    run = word.forms[0]
    for at, first in enumerate(run):
        head = starts.get(fold_kana(first))
        for end in range(at + 1, min(at + head.chars, len(run)) + 1) if head else ():
            key = run[at:end]
            if not (_goes_on(run, at) or _goes_on(run, end)):
                alone = end - at == len(run)
                counts = word.is_called or (
                    key not in common_words() and (len(key) > 1 or alone or _is_sign(key))
                )
                yield _Candidate(fold_kana(key), word.start + at, word.start + end, counts)


def _goes_on(run: str, at: int) -> bool:
    """Tell whether cutting `run` at `at` would split a unit such as a syllable."""
    if not 0 < at < len(run):
        return False
    before, after = run[at - 1], run[at]
    parted = _is_mark(after) or before in _JOINERS or after in _JOINERS
    return parted or (_is_katakana(before) and _is_katakana(after))


def _is_enough(word: _Word, form: str) -> bool:
    """Tell whether a single word is enough to identify a person."""
    if word.is_called:
        return True
    if len(form) == 1 or form.isdecimal():
        return False
    return form not in common_words() or word.is_capital


def _belongs_to_name(word: _Word, last: _Word) -> bool:
    """Tell whether `word` may continue the name that the previous word belongs to."""
    between = word.before
    if len(between) > _LONGEST_INSIDE or not _INSIDE_NAMES.issuperset(between):
        return False
    return "." not in between or between == "." or len(last.text) <= _LONGEST_SHORTENED


def _stamp_words(written: str) -> list[_Word]:
    text = unicodedata.normalize("NFKC", written)
    spans = list(_word_spans(text))
    ends = [0, *(end for _, end, _ in spans)]
    made = [
        _make_word(text[start:end], start, runs_on, text[last:start], is_first=not last)
        for (start, end, runs_on), last in zip(spans, ends, strict=False)
    ]
    return [word for word in made if word.forms[0]]


def _make_word(text: str, start: int, runs_on: bool, before: str, *, is_first: bool) -> _Word:  # noqa: FBT001
    folded = _fold_name(text)
    forms = (folded,) if runs_on else (folded, *_without_particles(folded))
    begins = is_first or not _SENTENCE_ENDS.isdisjoint(before)
    return _Word(text, start, runs_on, before, forms, begins)


def _word_spans(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield the start and end of each word, and whether its script has no spaces."""
    if text.isascii():
        yield from ((*found.span(), False) for found in _ASCII_WORD.finditer(text))
        return
    kinds = [_character_kind(character) for character in text]
    for at, character in enumerate(text):
        if at and (_is_mark(character) or character in _INVISIBLE):
            kinds[at] = kinds[at - 1]  # a combining character belongs to the one before it
    edges = [0, *(at for at in range(1, len(kinds)) if kinds[at] != kinds[at - 1]), len(kinds)]
    for start, end in pairwise(edges):
        if start < len(kinds) and kinds[start]:
            yield start, end, kinds[start] == "r"


@lru_cache(maxsize=8192)
def _character_kind(character: str) -> str:
    """Return `w` for a letter, `r` for one of a script without spaces, else an empty string."""
    if character.isascii():
        return "w" if character.isalnum() or character == "_" else ""
    point = ord(character)
    if any(first <= point <= last for first, last in _WITHOUT_SPACES):
        return "" if character == _NO_KATAKANA else "r"
    if character.isalnum():
        return "w"
    return "r" if _is_sign(character) else ""


def _merge_spaced(words: list[_Word]) -> list[_Word]:
    """Return `words`, joining neighbours without spaces that are nevertheless separated by one."""
    made: list[_Word] = []
    for word in words:
        last = made[-1] if made else None
        if last and last.runs_on and word.runs_on and word.before in {" ", "\u3000", "・", "·"}:
            text, forms = last.text + word.before + word.text, (last.forms[0] + word.forms[0],)
            made[-1] = _Word(text, last.start, True, last.before, forms, last.begins_sentence)  # noqa: FBT003
        else:
            made.append(word)
    return made


def _join_words(words: list[_Word]) -> str:
    return _join_spaced([(word.forms[0], word.runs_on) for word in words])


def _join_spaced(pieces: list[tuple[str, bool]]) -> str:
    made = ""
    run_before = False
    for text, runs_on in pieces:
        made += text if not made or (run_before and runs_on) else f" {text}"
        run_before = runs_on
    return made


def _fold_name(text: str) -> str:
    if "\u200d" in text and _is_sign(text[0]):  # joins several characters into one
        return "\u200d".join(map(fold_letters, text.split("\u200d")))
    return fold_letters(text)


def _without_particles(word: str) -> Iterator[str]:
    """Yield `word` without attached prefixes or particles."""
    if "\uac00" <= word[:1] <= "\ud7a3":
        for end in range(len(word) - 1, max(len(word) - _MOST_KOREAN_AFTER, 2) - 1, -1):
            if word[end] not in _KOREAN_AFTER:
                return
            yield word[:end]
    elif word[:1] in _BEFORE and len(word) > 3:  # noqa: PLR2004  # a shorter one is a word itself
        yield word[1:]


def _word_end(word: _Word) -> int:
    return word.start + len(word.text)


def _is_mark(character: str) -> bool:
    if character < "\u0300":
        return False
    return unicodedata.category(character)[0] == "M" or "\U0001f3fb" <= character <= "\U0001f3ff"


def _is_sign(character: str) -> bool:
    """Tell whether it is an emoji or similar symbol, which some people use as a name."""
    return character[0] > "\u2000" and unicodedata.category(character[0]) == "So"


def _is_katakana(character: str) -> bool:
    return "\u30a1" <= character <= "\u30ff" and character != _NO_KATAKANA
