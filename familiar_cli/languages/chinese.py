"""Chinese, in both kinds of characters."""

from familiar_cli.languages.table import Language

TABLE = Language(
    code="zh",
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
    weekdays=("一", "二", "三", "四", "五", "六", "日|天"),
    seasons=("春天|春季|春", "夏天|夏季|夏", "秋天|秋季|秋", "冬天|冬季|冬"),
    near={
        -2: "前天|前日",
        -1: "昨天|昨日|昨晚|昨夜",
        0: "今天|今日|今晚|今早",
        1: "明天|明日|明晚",
        2: "后天|後天",
    },
    ways={
        -1: "上|上个|上個|上一个|上一個|去",
        0: "这|这个|這|這個|本|今",
        1: "下|下个|下個|下一个|下一個|明",
    },
    units={
        "minute": "分钟|分鐘",
        "hour": "小时|小時|个小时|個小時",
        "day": "天|日",
        "week": "星期|个星期|個星期|礼拜|个礼拜|禮拜|個禮拜|周|週",
        "weekend": "周末|週末",
        "month": "月|个月|個月",
        "year": "年",
    },
    numbers=(
        *("一", "二|两|兩", "三|几|幾", "四", "五", "六", "七", "八", "九", "十", "十一", "十二"),
    ),
    ago="前|以前|之前",
    ahead="后|後|以后|以後|之后|之後",
    forms=(
        r"{year}年{month}{day}[日号號]",
        r"{year}年{month}",
        r"{year}年的?{season}",
        r"{month}{day}[日号號]",
        r"{year}年",
        r"{near}",
        r"{number}{unit}{ago}",
        r"{number}{unit}{ahead}",
        r"{way}{unit}{weekday}",
        r"{way}{unit}的?{season}",
        r"{way}{unit}",
        r"(?<![\d一二三四五六七八九十]){month}(?![前后後])",
        r"(?:星期|礼拜|禮拜|周|週){weekday}",
        r"(?:在|的){season}",
    ),
    alone=(r"(?:下)?(?:星期|礼拜|禮拜|周|週){weekday}",),
    clocks=(
        r"的?(?:{am}|{pm})?{hour}(?:点|點|时|時)(?:{minute}分?|{half})?",
        r"的?(?:{am}|{pm})?{hour}:{minute}",
    ),
    am="上午|早上|凌晨",
    pm="下午|晚上|中午",
    half="半",
    spaced=False,
)
