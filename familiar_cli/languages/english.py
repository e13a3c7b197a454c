"""English."""

from familiar_cli.languages.table import Language

_IN = "(?:in|during|of|since|until|by|from|before|after|early|late|mid)"

TABLE = Language(
    code="en",
    months=(
        *("january|jan", "february|feb", "march|mar", "april|apr", "may", "june|jun"),
        *("july|jul", "august|aug", "september|sept|sep", "october|oct", "november|nov"),
        "december|dec",
    ),
    weekdays=(
        *("monday|mon", "tuesday|tues|tue", "wednesday|wednes|wed", "thursday|thurs|thur|thu"),
        *("friday|fri", "saturday|sat", "sunday|sun"),
    ),
    seasons=("spring", "summer", "autumn|fall", "winter"),
    near={
        -2: "day before yesterday",
        -1: "yesterday|last night|last evening",
        0: "today|tonight|this morning|this afternoon|this evening",
        1: "tomorrow",
        2: "day after tomorrow",
    },
    ways={-1: "last|past|previous", 0: "this", 1: "next|coming|upcoming"},
    units={
        "minute": "minute|minutes|min|mins",
        "hour": "hour|hours",
        "day": "day|days",
        "week": "week|weeks|wk|wks",
        "weekend": "weekend|weekends",
        "month": "month|months",
        "year": "year|years|yr|yrs",
    },
    numbers=(
        *("a|an|one", "two|a couple of|couple of", "three|a few|few", "four", "five", "six"),
        *("seven", "eight", "nine", "ten", "eleven", "twelve"),
    ),
    ago="ago|back|earlier",
    ahead="in",
    forms=(
        r"{day}(?:st|nd|rd|th)?(?: of)? {month}\.?,?(?: of)? {year}",
        r"{month}\.? {day}(?:st|nd|rd|th)?,? {year}",
        r"{month}\.?,?(?: of)? {year}",
        r"{season}(?: of|,)? {year}",
        r"{day}(?:st|nd|rd|th)?(?: of)? {month}",
        r"{month}\.? {day}(?:st|nd|rd|th)?",
        r"{near}",
        r"{way} {unit} (?:on )?{weekday}",
        r"{weekday} {way} {unit}",
        r"{way} {weekday}",
        r"{way} {number} {unit}",
        r"{way} {unit}",
        r"{way} {season}",
        r"{way} {month}",
        r"{number} {unit} {ago}",
        r"{ahead} {number} {unit}",
        rf"{_IN} (?:the )?{{season}}",
        r"(?<!for )the {season}",
        rf"{_IN} {{month}}",
        r"on {weekday}",
    ),
    alone=(r"{weekday}",),
    clocks=(r"(?:at )?{hour}[:.]{minute}",),
)
