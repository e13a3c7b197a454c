"""Words that are also names, or could be: as a name, one alone does not say that a person is meant.

`will`, `rose` and `mark` stand in sentences about nobody. The list errs on the long side: a name in
it still counts where it is written like a name; see `memory.mentions`.
"""

from __future__ import annotations

from functools import cache
from typing import Final

# Names of people that are words of a language.
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

# The commonest words of English, which people also take for user names.
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

# What sentences are held together by, language by language.
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
    """Return all of them, as `memory.mentions` writes names."""
    from familiar_cli.folding import fold_letters

    return frozenset(fold_letters(f"{_NAMES} {_ENGLISH} {_OTHERS}").split())
