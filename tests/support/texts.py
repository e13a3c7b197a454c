"""Texts of many kinds, to count tokens on. All written for this project."""

from __future__ import annotations

_ENGLISH = """\
The lighthouse keeper's daughter learned to read the weather before she learned to read books. On
clear mornings she would climb the hundred and twelve steps, count the sails on the horizon, and
write the number on the wall with a piece of chalk. "Seven today," she'd say, although nobody had
asked. By the time she was twelve, the wall was covered in numbers, and her father -- who never
threw anything away -- could tell you what the sea had been like on any day since 1987.
"""
_MARKDOWN = """\
# Alice Whitfield

- **Nickname:** Al; prefers tea over coffee (2024-05-12).
- Lives in [Bergen](places/bergen.md), works nights at the harbour office.

## Recent

1. Her sister Nora visited in March; they went to see the *northern lights*.
2. Started learning the cello -- "it sounds like a sad door".
"""
_PYTHON = '''\
def merge_intervals(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the intervals with those that overlap joined together."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


class RateLimiter:
    def __init__(self, max_calls: int, period_s: float = 1.0) -> None:
        self._max_calls = max_calls
        self._timestamps: deque[float] = deque(maxlen=max_calls)
'''
_JAVASCRIPT = """\
export async function fetchUser(userId) {
  const response = await fetch(`/api/users/${encodeURIComponent(userId)}`);
  if (!response.ok) {
    throw new Error(`HTTP ${response.status}`);
  }
  return (await response.json()).data.map((x) => ({ ...x, isActive: true }));
}
"""
_JSON = """\
{"id": 4021, "name": "Marta", "tags": ["friend", "chess"], "position": {"lat": 59.9139,
"lon": 10.7522}, "active": true, "last_seen": "2025-11-03T18:22:41.120Z", "notes": null,
"scores": [12, 7, 331, 98, 4], "extensions": {"depth_prompt": {"depth": 4, "role": "system"}}}
"""
_JAPANESE = """\
港の灯台には、古い時計がひとつだけ残っている。毎朝六時になると、管理人の娘は階段をのぼり、ネジを巻いてから海を眺める。
「今日は風が強いね」と彼女は言う。誰も答えないけれど、カモメだけが鳴いている。夕方になればストーブに火を入れ、スープを温める。
"""
_CHINESE = """\
港口的灯塔里只剩下一座旧钟。每天早上六点，守塔人的女儿爬上楼梯，给钟上好发条，然后眺望大海。“今天风很大。”她说。
没有人回答，只有海鸥在叫。傍晚她生起炉火，把汤热好，等父亲从码头回来。
"""
_KOREAN = """\
항구의 등대에는 오래된 시계가 하나 남아 있다. 매일 아침 여섯 시가 되면 등대지기의 딸은 계단을 올라가
태엽을 감고 바다를 바라본다. "오늘은 바람이 세네." 그녀가 말한다. 아무도
대답하지 않지만 갈매기만 운다.
"""
_RUSSIAN = """\
В портовом маяке остались только старые часы. Каждое утро в шесть дочь смотрителя поднимается по
лестнице, заводит их и смотрит на море. «Сегодня сильный ветер», -- говорит она. Никто не отвечает,
только кричат чайки. Вечером она растапливает печь и греет суп.
"""
_GERMAN = """\
Im Leuchtturm am Hafen ist nur eine alte Uhr übrig geblieben. Jeden Morgen um sechs steigt die
Tochter des Wärters die Treppe hinauf, zieht sie auf und blickt über das Meer. »Heute ist der Wind
stark«, sagt sie. Niemand antwortet, nur die Möwen schreien. Abends heizt sie den Ofen an.
"""
_SPANISH = """\
En el faro del puerto sólo queda un reloj antiguo. Cada mañana, a las seis, la hija del farero sube
la escalera, le da cuerda y mira el mar. «Hoy hace mucho viento», dice. Nadie contesta; sólo gritan
las gaviotas. Por la noche enciende la estufa y calienta la sopa.
"""
_ARABIC = """\
لم يبق في منارة الميناء سوى ساعة قديمة. كل صباح في الساعة السادسة تصعد
ابنة الحارس الدرج وتنظر إلى البحر.
"""
_VOCALISED_ARABIC = """\
لَمْ يَبْقَ فِي مَنَارَةِ الْمِينَاءِ سِوَى سَاعَةٍ قَدِيمَةٍ. كُلَّ صَبَاحٍ فِي السَّاعَةِ السَّادِسَةِ تَصْعَدُ
ابْنَةُ الْحَارِسِ الدَّرَجَ وَتَنْظُرُ إِلَى الْبَحْرِ، ثُمَّ تَكْتُبُ عَدَدَ السُّفُنِ عَلَى الْجِدَارِ.
"""
_ARABIC_NUMBERS = """\
في ١٢ مارس ٢٠٢٤ عدّت ١٧ سفينة، وفي ٣٠ أبريل ٢٤٥. هاتف الحارس ٠٥٥١٢٣٤٥٦٧، والغرفة ٣٠٨،
والإيجار ١٬٢٥٠٫٥٠ درهم.
تاریخ: ۱۴۰۳/۰۷/۲۲، ساعت ۱۸:۴۵.
"""
_HEBREW = """\
במגדלור שבנמל נשאר רק שעון ישן אחד. בכל בוקר בשש עולה בתו של השומר במדרגות, מותחת את
הקפיץ ומביטה בים.
"היום יש רוח חזקה," היא אומרת. איש אינו עונה, רק השחפים צועקים. בערב היא
מדליקה את התנור ומחממת את המרק.
"""
_VOCALISED_HEBREW = """\
בַּמִּגְדַּלּוֹר שֶׁבַּנָּמֵל נִשְׁאַר רַק שָׁעוֹן יָשָׁן אֶחָד. בְּכָל בֹּקֶר בְּשֵׁשׁ עוֹלָה בִּתּוֹ שֶׁל הַשּׁוֹמֵר
בַּמַּדְרֵגוֹת וּמַבִּיטָה בַּיָּם.
"""
_HINDI = """\
बंदरगाह के प्रकाशस्तंभ में केवल एक पुरानी घड़ी बची है। हर सुबह छह बजे रखवाले की बेटी
सीढ़ियाँ चढ़ती है और समुद्र को देखती है।
"""
_THAI = """\
ประภาคารที่ท่าเรือเหลือนาฬิกาเก่าเพียงเรือนเดียว ทุกเช้าหกโมงลูกสาวของผู้ดูแลจะขึ้นบันไดไปดูทะเล
"""
_EMOJI = "So proud of you!! 🎉🎉 See you at the beach 🏖️ tomorrow? 😂👍🏽 love you ❤️ 👨‍👩‍👧\n"
_URLS = """\
https://www.example.org/archive/2024/11/harbour-lights?utm_source=newsletter&page=3&ref=b7f3c9
https://files.example.com/u/8f14e45f-ceea-467f-9c3a-1b2d3e4f5a6b/Bericht_final_v2%20(1).pdf
"""
_ROLEPLAY = """\
{{char}} *tilts her head, eyes narrowing* "You weren't supposed to come back, {{user}}..."
<START>
{{user}}: Hi!
{{char}}: *She laughs softly.* "Well. That makes two of us, doesn't it?"
"""

TEXTS: dict[str, str] = {
    "English": _ENGLISH,
    "Markdown": _MARKDOWN,
    "roleplay": _ROLEPLAY,
    "Python": _PYTHON,
    "JavaScript": _JAVASCRIPT,
    "JSON": _JSON,
    "Japanese": _JAPANESE,
    "Chinese": _CHINESE,
    "Korean": _KOREAN,
    "Russian": _RUSSIAN,
    "German": _GERMAN,
    "Spanish": _SPANISH,
    "Arabic": _ARABIC,
    "vocalised Arabic": _VOCALISED_ARABIC,
    "Arabic numbers": _ARABIC_NUMBERS,
    "Hebrew": _HEBREW,
    "vocalised Hebrew": _VOCALISED_HEBREW,
    "Hindi": _HINDI,
    "Thai": _THAI,
    "emoji": _EMOJI,
    "addresses": _URLS,
}
