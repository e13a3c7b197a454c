"""Japanese."""

from familiar_cli.languages.table import Language

TABLE = Language(
    code="ja",
    months=(
        *(
            "1月|01月|一月",
            "2月|02月|二月",
            "3月|03月|三月",
            "4月|04月|四月",
            "5月|05月|五月",
            "6月|06月|六月",
            "7月|07月|七月",
        ),
        *("8月|08月|八月", "9月|09月|九月", "10月|十月", "11月|十一月", "12月|十二月"),
    ),
    weekdays=("月", "火", "水", "木", "金", "土", "日"),
    seasons=("春", "夏", "秋", "冬"),
    near={
        -2: "一昨日|おととい",
        -1: "昨日|きのう|昨夜|昨晩|ゆうべ",
        0: "今日|きょう|本日|今朝|今夜|今晩",
        1: "明日|あした|あす",
        2: "明後日|あさって",
    },
    ways={-1: "先|昨|去|前", 0: "今|この", 1: "来|次"},
    units={
        "day": "日間|日",
        "week": "週間|週",
        "weekend": "週末",
        "month": "か月|ヶ月|ケ月|カ月|箇月|月",
        "year": "年間|年",
    },
    numbers=(*("一", "二", "三|数", "四", "五", "六", "七", "八", "九", "十", "十一", "十二"),),
    ago="前",
    ahead="後",
    forms=(
        r"{year}年の?{month}{day}日",
        r"{year}年の?{month}(?!間)",
        r"{year}年の?{season}",
        r"{month}{day}日",
        r"{year}年(?!間|前|後)",
        r"{near}",
        r"{number}{unit}{ago}",
        r"{number}{unit}{ahead}",
        r"{way}週の?{weekday}曜日?",
        r"{way}週末",
        r"{way}{unit}の?{season}",
        r"{way}{unit}",
        r"{way}の?{season}",
        r"(?<![\d一二三四五六七八九十]){month}(?![間前後])",
        r"{season}(?=に|の|は|、)",
        r"{weekday}曜日?(?=に|の|は|、)",
    ),
    spaced=False,
)
