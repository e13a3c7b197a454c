"""French."""

from familiar_cli.languages.table import Language

TABLE = Language(
    code="fr",
    months=(
        *("janvier|janv", "février|févr", "mars", "avril|avr", "mai", "juin"),
        *("juillet|juil", "août", "septembre|sept", "octobre|oct", "novembre|nov"),
        "décembre|déc",
    ),
    weekdays=("lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche"),
    seasons=("printemps", "été", "automne", "hiver"),
    near={
        -2: "avant-hier",
        -1: "hier|la nuit dernière",
        0: "aujourd'hui|ce soir|ce matin|cet après-midi",
        1: "demain",
        2: "après-demain",
    },
    ways={
        -1: "dernier|dernière|passé|passée|précédent|précédente",
        0: "ce|cet|cette",
        1: "prochain|prochaine",
    },
    units={
        "minute": "minute|minutes",
        "hour": "heure|heures",
        "day": "jour|jours",
        "week": "semaine|semaines",
        "weekend": "week-end|week-ends|weekend|weekends",
        "month": "mois",
        "year": "an|ans|année|années",
    },
    numbers=(
        *("un|une", "deux", "trois|quelques", "quatre", "cinq", "six", "sept", "huit", "neuf"),
        *("dix", "onze", "douze"),
    ),
    ago="il y a",
    ahead="dans",
    forms=(
        r"{day}(?:er)? {month} {year}",
        r"{month} {year}",
        r"{season} {year}",
        r"{day}(?:er)? {month}",
        r"{near}",
        r"{weekday} de la {unit} {way}",
        r"{weekday} {way}",
        r"{way} {weekday}",
        r"{unit} {way}",
        r"{way} {unit}",
        r"{season} {way}",
        r"{way} {season}",
        r"{month} {way}",
        r"{ago} {number} {unit}",
        r"{ahead} {number} {unit}",
        r"(?:en|au|l['’]|cet) ?{season}",
        r"(?:en|de|depuis|début|fin|mi) {month}",
        r"le {weekday}",
    ),
    alone=(r"(?:le )?{weekday}", r"(?:le )?{day}(?:er)? {month}"),
    clocks=(
        r"(?:à )?{hour} ?(?:h|:|heures?) ?{minute}(?: du (?:{am}|{pm}))?",
        r"(?:à )?{hour} ?(?:h|heures?)(?: et {half})?(?: (?:du |de l['’])(?:{am}|{pm}))?",
    ),
    am="matin",
    pm="soir|après-midi",
    half="demie",
)
