"""Search by meaning in German and Spanish, against words.

`python -m benchmarks.languages [--json]` puts 50 lines of each language, ten to a page, into one
memory, and asks 50 questions of each that say the same in other words. It uses the model that the
environment names (`FAMILIAR_EMBEDDING_BASE_URL`, `FAMILIAR_EMBEDDING_MODEL`), else the one on disk.
R@1 and R@5 are of lines.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from familiar_cli.base.config.home import cache_dir
from familiar_cli.base.config.schema import EmbeddingSettings
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.store.search import server_embedder
from familiar_cli.store.search.build import EmbeddingIndex
from familiar_cli.store.search.finding import choose_embedder
from familiar_cli.store.search.search import search_memory
from familiar_cli.store.search.types import SearchOptions

PAIRS = {
    "de": """
Miriam arbeitet nachts in einer Klinik.|Wer ist Krankenschwester?
Jonas hat sich das Bein gebrochen.|Wer hatte einen Unfall?
Opa repariert gern alte Uhren.|Welches Hobby hat der Großvater?
Die Katze schläft auf dem Klavier.|Wo ruht das Haustier?
Lena zieht im Herbst nach Bremen.|Wohin wechselt sie den Wohnort?
Tim verträgt keine Milch.|Wer hat eine Unverträglichkeit?
Nora lernt seit Mai Geige.|Welches Instrument übt sie?
Paul ist von seiner Frau getrennt.|Wessen Ehe ist gescheitert?
Der Wagen springt morgens nicht an.|Was ist mit dem Auto?
Eva hat ihre Stelle verloren.|Wer ist arbeitslos?
Karl kocht sonntags für alle.|Wer bereitet das Essen zu?
Im Keller steht das Wasser.|Was ist überschwemmt?
Ida fürchtet sich vor Gewittern.|Wovor hat sie Angst?
Max hat den Schlüssel verlegt.|Was sucht er vergeblich?
Ruth wird im Juni sechzig.|Wann hat sie Geburtstag?
Die Nachbarn feiern bis tief in die Nacht.|Wer ist zu laut?
Otto spart auf ein Segelboot.|Wofür legt er Geld zurück?
Mia kann schlecht einschlafen.|Wer leidet unter Schlaflosigkeit?
Hanna hat Zwillinge bekommen.|Wer ist Mutter geworden?
Felix wandert jeden Sommer in den Alpen.|Wo macht er Urlaub?
Die Heizung ist seit Tagen kaputt.|Warum ist es in der Wohnung kalt?
Greta isst kein Fleisch.|Wer lebt vegetarisch?
Onkel Bernd raucht nicht mehr.|Wer hat ein Laster aufgegeben?
Leo hat die Prüfung nicht bestanden.|Wer ist durchgefallen?
Sara malt am liebsten das Meer.|Welches Motiv mag die Künstlerin?
Der Hund hört nur auf Pfiffe.|Wie ruft man das Tier?
Anton liest vor dem Zubettgehen Krimis.|Welche Bücher mag er?
Vera hat ihr Fahrrad verkauft.|Wovon hat sie sich getrennt?
Die Rosen blühen dieses Jahr spät.|Was wächst im Garten?
Clara spricht fließend Polnisch.|Welche Fremdsprache beherrscht sie?
Emil sammelt Briefmarken aus Afrika.|Was trägt er zusammen?
Das Dach muss neu gedeckt werden.|Was ist am Haus zu tun?
Frieda trägt seit Montag eine Brille.|Wer sieht schlecht?
Gustav hat im Lotto gewonnen.|Wer hatte Glück im Spiel?
Helga pflegt ihre kranke Mutter.|Wer kümmert sich um Angehörige?
Ivo fährt mit dem Zug ins Büro.|Wie kommt er zur Arbeit?
Julia hat einen neuen Freund.|Wer ist verliebt?
Kurt schnarcht furchtbar.|Wer stört beim Schlafen?
Lotte gibt Kindern Schwimmunterricht.|Was bringt sie den Kleinen bei?
Moritz hat sich mit seinem Chef gestritten.|Mit wem hatte er Ärger?
Nele geht zweimal die Woche joggen.|Welchen Sport treibt sie?
Oskar ist gegen Nüsse allergisch.|Was darf er nicht essen?
Petra bäckt zum Fest immer Lebkuchen.|Was gibt es an Weihnachten?
Rolf hat den Flug verpasst.|Wer kam zu spät zum Flughafen?
Silke wählt nun doch den blauen Teppich.|Welche Farbe bekommt der Fußboden?
Theo war nie beim Militär.|Wer hat nicht gedient?
Ulla vermisst ihre Heimat.|Wer hat Sehnsucht?
Viktor hat den Vertrag unterschrieben.|Wer hat zugestimmt?
Wanda züchtet Bienen.|Woher kommt der Honig?
Xaver kann nicht tanzen.|Wer ist auf dem Parkett ungeschickt?
""",
    "es": """
Marta da clases de química en un instituto.|¿Quién es profesora?
Luis se rompió el brazo esquiando.|¿Quién tuvo un accidente?
El abuelo arregla relojes antiguos.|¿Qué afición tiene el anciano?
El gato duerme encima del piano.|¿Dónde descansa la mascota?
Ana se muda a Valencia en otoño.|¿A qué ciudad se va a vivir?
Pedro no tolera la leche.|¿Qué le sienta mal?
Lucía aprende a tocar el violín.|¿Qué instrumento estudia?
Jorge se ha divorciado.|¿Quién ya no está casado?
El coche no arranca por las mañanas.|¿Qué vehículo está averiado?
Elena ha perdido su empleo.|¿Quién está en paro?
Raúl cocina los domingos para todos.|¿Quién prepara la comida?
El sótano está lleno de agua.|¿Qué se ha inundado?
Inés teme las tormentas.|¿A qué le tiene miedo?
Mario no encuentra las llaves.|¿Qué ha perdido?
Rosa cumple sesenta en junio.|¿Cuándo es su aniversario?
Los vecinos hacen fiestas hasta la madrugada.|¿Quién hace mucho ruido?
Óscar ahorra para un velero.|¿Para qué guarda dinero?
Nuria duerme muy mal.|¿Quién padece insomnio?
Carmen ha tenido gemelos.|¿Quién ha sido madre?
Félix camina cada verano por los Pirineos.|¿Dónde pasa las vacaciones?
La calefacción lleva días estropeada.|¿Por qué hace frío en casa?
Greta no come carne.|¿Quién es vegetariana?
El tío Bernardo ya no fuma.|¿Quién dejó un vicio?
Leo ha suspendido el examen.|¿Quién no aprobó?
Sara pinta sobre todo el mar.|¿Qué paisaje prefiere la artista?
El perro solo obedece a silbidos.|¿Cómo se llama al animal?
Antonio lee novelas policíacas en la cama.|¿Qué libros le gustan?
Vera vendió su bicicleta.|¿De qué se deshizo?
Los rosales florecen tarde este año.|¿Qué crece en el jardín?
Clara habla polaco con soltura.|¿Qué idioma extranjero domina?
Emilio colecciona sellos de África.|¿Qué reúne?
Hay que cambiar las tejas.|¿Qué obra necesita la casa?
Flora lleva gafas desde el lunes.|¿Quién ve mal?
A Gustavo le tocó la lotería.|¿Quién tuvo suerte en el juego?
Helena cuida de su madre enferma.|¿Quién atiende a un familiar?
Iván va en tren a la oficina.|¿Cómo se desplaza al trabajo?
Julia tiene novio nuevo.|¿Quién está enamorada?
Curro ronca muchísimo.|¿Quién no deja dormir?
Lola enseña a nadar a los niños.|¿Qué deporte aprenden los pequeños?
Mauricio discutió con su jefe.|¿Con quién tuvo problemas?
Noelia corre dos veces por semana.|¿Qué ejercicio hace?
Oriol es alérgico a los frutos secos.|¿Qué no puede comer?
Petra hace turrón por Navidad.|¿Qué dulce hay en las fiestas?
Rodolfo perdió el avión.|¿Quién llegó tarde al aeropuerto?
Silvia prefiere al final la alfombra azul.|¿De qué color será el suelo?
Teo nunca hizo la mili.|¿Quién no fue soldado?
Úrsula echa de menos su tierra.|¿Quién siente nostalgia?
Víctor ha firmado el contrato.|¿Quién aceptó el acuerdo?
Wanda cría abejas.|¿De dónde sale la miel?
Xavi baila fatal.|¿Quién es torpe en la pista?
""",
}
A_PAGE = 10
K = 5


def pairs(code: str) -> list[tuple[str, str]]:
    """Return the lines of a language, each with its question."""
    rows = (row.split("|") for row in PAIRS[code].strip().splitlines())
    return [(line, question) for line, question in rows]


def measure() -> dict[str, object]:
    """Ask all questions by words, and by words and meaning."""
    opened = choose_embedder(EmbeddingSettings(), cache_dir())
    server_embedder.QUESTION_S = 60.0  # a busy machine is not what is measured
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        for code in PAIRS:
            lines = [line for line, _ in pairs(code)]
            for at in range(0, len(lines), A_PAGE):
                text = "".join(f"\n- {line}\n" for line in lines[at : at + A_PAGE])
                (root / f"{code}-{at}.md").write_text(f"# {at}\n{text}", encoding="utf-8")
        index = EmbeddingIndex(MemoryStore(root))
        index.build_if_stale(opened.embedder)
        found: dict[str, object] = {"model": opened.embedder.model if opened.embedder else "none"}
        for code in PAIRS:
            for method in ("lexical", "auto"):
                ranks = []
                for line, question in pairs(code):
                    options = SearchOptions(k=K, method=method, lines=True, viewer=OWNER)
                    answer = search_memory(index, question, options, opened)
                    if method == "auto" and opened.embedder and answer.method != "hybrid":
                        sys.exit("; ".join(answer.notes))
                    hits = answer.hits
                    ranks.append(next((n for n, hit in enumerate(hits) if line in hit.text), K))
                found[f"{code} {method}"] = {
                    "r1": round(statistics.fmean(rank == 0 for rank in ranks), 3),
                    "r5": round(statistics.fmean(rank < K for rank in ranks), 3),
                }
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    found = measure()
    if options.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:12} {value}")


if __name__ == "__main__":
    main()
