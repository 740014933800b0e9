"""Compare the phrasebook's parts of speech with a tagger trained on the language's own treebank.

Usage: python -m tools.phrasebook.agreement --language de [--encoder] [--most 40]

The tagger is trained on 90% of the sentences of all treebanks of the language in the folder `ud` of the data folder
(HEADWISE_DATA). It is an averaged perceptron, which takes seconds, or with `--encoder` the multilingual encoder, which
takes minutes and also knows words that are not in the treebank. The output is its accuracy on the other 10%, its
agreement with the phrasebook, and the disagreements, most certain first. A disagreement in which the tagger follows a
convention of the treebank is an error in the phrasebook.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from headwise.data.conllu import read_conllu
from headwise.data.examples import Sentence
from headwise.data.folders import default_folder
from headwise.data.phrasebook import LANGUAGES, phrasebook_sentences
from tools.phrasebook.characters import traditional
from tools.phrasebook.encoder import EncoderTagger, train_encoder
from tools.phrasebook.tagger import Tagger, train

#: One sentence of every `_FOLD` is held out.
_FOLD = 10


@dataclass(frozen=True)
class Disagreement:
    """A word on whose tag the phrasebook and the tagger disagree.

    Attributes:
        sentence: The sentence.
        place: Index of the word in the sentence.
        guess: The tagger's tag.
        margin: Difference between the tagger's scores of its tag and of the phrasebook's tag.
    """

    sentence: Sentence
    place: int
    guess: str
    margin: float

    def __str__(self) -> str:
        words = list(self.sentence.words)
        words[self.place] = f"[{words[self.place]}]"
        gold = self.sentence.upos[self.place]
        return f"{self.margin:7.1f}  {gold} (tagger: {self.guess})  {self.sentence.id}: {' '.join(words)}"


def treebanks(folder: Path, language: str) -> list[Path]:
    """The files of a language's treebanks, UD 2 only."""
    return sorted((folder / "ud").glob(f"{language}_*-ud-*.conllu*"))


def compare(tagger: Tagger | EncoderTagger, sentences: Iterable[Sentence]) -> tuple[float, list[Disagreement]]:
    """The share of words with equal tags, and the disagreements, most certain first."""
    words, found = 0, []
    for sentence in sentences:
        words += len(sentence.words)
        for place, guess in enumerate(tagger.tag(sentence.words)):
            if guess.tag != sentence.upos[place]:
                found.append(Disagreement(sentence, place, guess.tag, guess.margin(sentence.upos[place])))
    return 1 - len(found) / words, sorted(found, key=lambda each: -each.margin)


def describe(
    tagger: Tagger | EncoderTagger, sentences: Sequence[Sentence], known: Set[str]
) -> tuple[str, list[Disagreement]]:
    """A description of the agreement on all words and on words seen in training, and the disagreements."""
    agreement, found = compare(tagger, sentences)
    seen = sum(word.lower() in known for sentence in sentences for word in sentence.words)
    missed = sum(each.sentence.words[each.place].lower() in known for each in found)
    return f"{agreement:.1%} ({1 - missed / seen:.1%} of the words seen in training)", found


def own_sentences(language: str) -> tuple[Sentence, ...]:
    """The phrasebook's sentences in the script of the treebanks: traditional characters for Chinese."""
    sentences = phrasebook_sentences(language)
    if language != "zh":
        return sentences
    return tuple(replace(sentence, words=tuple(map(traditional, sentence.words))) for sentence in sentences)


def skip_reason(language: str, folder: Path | None) -> str | None:
    """The reason why a language cannot be compared; None if it can."""
    if folder is None:
        return "no data folder: set HEADWISE_DATA"
    if not treebanks(folder, language):
        return f"{folder / 'ud'} has no treebank of this language"
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison.

    Returns:
        Always 0, even if there is no treebank.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tools.phrasebook.agreement", description="Compare UPOS tags with a treebank's tagger."
    )
    parser.add_argument("--language", required=True, choices=LANGUAGES)
    parser.add_argument("--encoder", action="store_true", help="tune e5-small-pos instead of a perceptron")
    parser.add_argument(
        "--most", type=int, default=40, help="maximum number of disagreements to print (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    folder = default_folder()
    reason = skip_reason(options.language, folder)
    if folder is None or reason:
        print(f"{options.language}: skipped: {reason}")
        return 0
    treebank = [sentence for path in treebanks(folder, options.language) for sentence in read_conllu(path)]
    rest = [sentence for place, sentence in enumerate(treebank) if place % _FOLD]
    tagger = train_encoder(rest) if options.encoder else train([(each.words, each.upos) for each in rest])
    known = {word.lower() for sentence in rest for word in sentence.words}
    accuracy, _ = describe(tagger, treebank[::_FOLD], known)
    agreement, disagreements = describe(tagger, own_sentences(options.language), known)
    print(f"{options.language}: held-out accuracy {accuracy}, agreement with the phrasebook {agreement}")
    for each in disagreements[: options.most]:
        print(each)
    return 0


if __name__ == "__main__":
    sys.exit(main())
