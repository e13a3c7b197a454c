"""German."""

from familiar_cli.languages.table import Language

TABLE = Language(
    code="de",
    months=(
        *("januar|jänner|jan", "februar|feber|feb", "märz|maerz|mär", "april|apr", "mai"),
        *("juni|jun", "juli|jul", "august|aug", "september|sept|sep", "oktober|okt"),
        *("november|nov", "dezember|dez"),
    ),
    weekdays=(
        *("montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag|sonnabend"),
        "sonntag",
    ),
    seasons=("frühling|frühjahr", "sommer", "herbst", "winter"),
    near={
        -3: "vorvorgestern",
        -2: "vorgestern",
        -1: "gestern|letzte nacht",
        0: "heute",
        1: "morgen",
        2: "übermorgen",
    },
    ways={
        -1: "letzten|letzter|letztes|letztem|letzte|vergangenen|vergangener|vergangenes|vergangene"
        "|vorigen|voriger|voriges|vorige",
        0: "diesen|dieser|dieses|diesem|diese",
        1: "nächsten|nächster|nächstes|nächstem|nächste|kommenden|kommender|kommendes|kommende",
    },
    units={
        "minute": "minute|minuten",
        "hour": "stunde|stunden",
        "day": "tag|tage|tagen",
        "week": "woche|wochen",
        "weekend": "wochenende|wochenenden",
        "month": "monat|monate|monaten",
        "year": "jahr|jahre|jahren",
    },
    numbers=(
        *("einem|einen|einer|eine|ein", "zwei", "drei|ein paar", "vier", "fünf", "sechs"),
        *("sieben", "acht", "neun", "zehn", "elf", "zwölf"),
    ),
    ago="vor",
    ahead="in",
    forms=(
        r"{day}\.? ?{month}\.? {year}",
        r"{month} {year}",
        r"{season} {year}",
        r"{day}\. ?{month}",
        r"(?<!am )(?<!jeden )(?<!guten )(?<!diesen )(?<!heute )(?<!gestern ){near}",
        r"{way} {unit} (?:am )?{weekday}",
        r"{weekday} {way} {unit}",
        r"{way} {weekday}",
        r"{way} {number} {unit}",
        r"{way} {unit}",
        r"{way} {season}",
        r"{way} {month}",
        r"{ago} {number} {unit}",
        r"{ahead} {number} {unit}",
        r"(?:im|vom|zum|den|der) {season}",
        r"(?:im|ende|anfang|mitte|seit|bis) {month}",
        r"am {weekday}",
    ),
    alone=(r"{weekday}", r"(?:am )?{day}\. ?{month_number}\.", r"(?:am )?{day}\. ?{month}"),
    clocks=(
        r"(?:um )?{hour}[:.]{minute}(?: uhr)?",
        r"(?:um )?{hour} ?uhr(?: {minute})?",
        r"um {hour}",
    ),
)
