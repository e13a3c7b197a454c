"""Spanish."""

from familiar_cli.languages.table import Language

TABLE = Language(
    code="es",
    months=(
        *("enero|ene", "febrero|feb", "marzo|mar", "abril|abr", "mayo", "junio|jun", "julio|jul"),
        *("agosto|ago", "septiembre|setiembre|sept|sep", "octubre|oct", "noviembre|nov"),
        "diciembre|dic",
    ),
    weekdays=(
        *("lunes", "martes", "miércoles", "jueves", "viernes", "sábado"),
        "domingo",
    ),
    seasons=("primavera", "verano", "otoño", "invierno"),
    near={
        -2: "anteayer|antier|antes de ayer",
        -1: "ayer|anoche",
        0: "hoy|esta noche|esta mañana|esta tarde",
        1: "mañana",
        2: "pasado mañana",
    },
    ways={
        -1: "pasado|pasada|último|última|anterior",
        0: "este|esta",
        1: "próximo|próxima|que viene|siguiente",
    },
    units={
        "minute": "minuto|minutos",
        "hour": "hora|horas",
        "day": "día|días",
        "week": "semana|semanas",
        "weekend": "fin de semana|fines de semana",
        "month": "mes|meses",
        "year": "año|años",
    },
    numbers=(
        *("un|una", "dos|un par de", "tres|unos|unas", "cuatro", "cinco", "seis", "siete"),
        *("ocho", "nueve", "diez", "once", "doce"),
    ),
    ago="hace",
    ahead="dentro de|en",
    forms=(
        r"{day} de {month},? (?:del? )?{year}",
        r"{month},? (?:del? )?{year}",
        r"{season} (?:del? )?{year}",
        r"{day} de {month}",
        r"(?<!la )(?<!por la )(?<!de la )(?<!esta )(?<!buena ){near}",
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
        r"(?:en|durante|desde)(?: el| la)? {season}",
        r"(?:en|de|desde|hasta) {month}",
        r"el {weekday}",
    ),
    alone=(r"(?:el )?{weekday}", r"(?:el )?{day} de {month}"),
    clocks=(
        r"(?:a las? )?{hour}[:.]{minute}(?: (?:de la )?(?:{am}|{pm}))?",
        r"a las? {hour}(?: y {half})?(?: (?:de la )?(?:{am}|{pm}))?",
    ),
    am="mañana",
    pm="tarde|noche",
    half="media",
)
