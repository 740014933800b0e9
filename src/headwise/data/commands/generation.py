"""Generates the data set of one language: assigns its templates to splits and writes sentences for each split."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headwise.data.commands.digest import NamedDraws, fingerprint
from headwise.data.commands.lexicon import DOMAINS, LISTS, read_lexicon
from headwise.data.commands.matcher import Matcher
from headwise.data.commands.sentences import SLOTS, Utterance, Writer
from headwise.data.commands.slot_labels import labelled
from headwise.data.commands.template_splits import SPLITS, deal
from headwise.data.commands.templates import Template, Usable, read_grammar

#: The languages, and their codes in the package.
LANGUAGES = {
    "ar": "ar", "bg": "bg", "cs": "cs", "de": "de", "el": "el", "en": "en", "es": "es", "fr": "fr", "he": "he",
    "hi": "hi", "it": "it", "ko": "ko", "nl": "nl", "pl": "pl", "pt": "pt-BR", "ru": "ru", "sv": "sv", "th": "th",
    "vi": "vi", "zh": "zh-CN",
}  # fmt: skip

#: The languages without spaces between words; every character is a word.
UNSPACED = ("th", "zh")

#: The intents for which all these languages have enough templates for three splits.
INTENTS = (
    "HassCancelAllTimers", "HassCancelTimer", "HassClimateGetTemperature", "HassClimateSetTemperature",
    "HassGetCurrentDate", "HassGetWeather", "HassLightSet", "HassMediaNext", "HassMediaPause", "HassMediaUnpause",
    "HassStartTimer", "HassTimerStatus", "HassTurnOff", "HassTurnOn", "HassVacuumCleanArea",
)  # fmt: skip

#: Maximum number of sentences for each intent.
SIZES = {"train": 80, "dev": 15, "test": 45}

#: Maximum number of templates for each intent.
TEMPLATES = 40

#: Number of failed draws after which a template is not used further: before and after its first sentence.
PATIENCE, LATE_PATIENCE = 250, 200


@dataclass(frozen=True)
class Command:
    """A sentence of the data set.

    Attributes:
        id: Its id, which never changes.
        split: `train`, `dev` or `test`.
        template: The template from which it was written.
        intent: Its intent.
        text: Its text.
        words: Its words.
        labels: The slot of each word in IOB2.
        frame: The text with the names of slots instead of their values.
    """

    id: str
    split: str
    template: str
    intent: str
    text: str
    words: tuple[str, ...]
    labels: tuple[str, ...]
    frame: str


def generate(language: str, data: dict[str, Any]) -> list[Command]:
    """Generate the sentences of a language.

    Args:
        language: Its code.
        data: The package's JSON for it.
    """
    return list(_Generator(language, data).commands())


class _Generator:
    def __init__(self, language: str, data: dict[str, Any]) -> None:
        self._language = language
        self._spaced = language not in UNSPACED
        lexicon = read_lexicon(language, self._spaced)
        usable = Usable(frozenset(LISTS), frozenset(DOMAINS), lexicon.unsaid, self._spaced)
        self._grammar = read_grammar(data, INTENTS, usable)
        self._matcher = Matcher(self._grammar, lexicon)
        # One half of the words is for training, the other for dev and test.
        self._writers = {
            split: Writer(self._grammar, lexicon, half, self._spaced)
            for split, half in (("train", 0), ("dev", 1), ("test", 1))
        }
        self._said: set[str] = set()
        self._split_of: dict[str, str] = {}
        self._clarity: dict[tuple[str, str], bool] = {}

    def commands(self) -> Iterator[Command]:
        """Generate all sentences, in an order that mixes the intents."""
        dealt = deal(self._some_templates(), SLOTS, self._gives_sentences)
        found = [command for intent in INTENTS for command in self._fill_splits(intent, dealt)]
        yield from sorted(found, key=lambda command: fingerprint(command.id))

    def _some_templates(self) -> Iterator[Template]:
        """Return at most `TEMPLATES` templates of each intent: some languages have hundreds, and each takes time."""
        for intent in INTENTS:
            templates = [template for template in self._grammar.templates if template.intent == intent]
            yield from sorted(templates, key=lambda template: template.id)[:TEMPLATES]

    def _gives_sentences(self, template: Template) -> bool:
        """Return whether a template produces sentences with both halves of the words."""
        return all(
            any(self._write(template, split, draws) for _ in range(PATIENCE))
            for split in ("train", "test")
            for draws in [NamedDraws(self._language, template.id, "probe", split)]
        )

    def _fill_splits(self, intent: str, dealt: dict[str, list[Template]]) -> Iterator[Command]:
        """Generate sentences of one intent; the splits take turns, because no sentence may be in two splits."""
        sources = {
            split: self._sentences(split, [template for template in dealt[split] if template.intent == intent])
            for split in SPLITS
        }
        counts = dict.fromkeys(SPLITS, 0)
        while sources:
            split = min(sources, key=lambda split: counts[split] / SIZES[split])
            command = next(sources[split], None)
            if command is not None:
                yield command
                counts[split] += 1
            if command is None or counts[split] == SIZES[split]:
                del sources[split]

    def _sentences(self, split: str, templates: list[Template]) -> Iterator[Command]:
        """Generate sentences of the templates in turn, until there are no new ones."""
        sources = {template: NamedDraws(self._language, template.id, split) for template in templates}
        while sources:
            for template, draws in list(sources.items()):
                command = self._next(template, split, draws)
                if command is None:
                    del sources[template]
                else:
                    yield command

    def _next(self, template: Template, split: str, draws: NamedDraws) -> Command | None:
        """Return a new sentence in a frame that no other split uses; None if none is found."""
        for _ in range(LATE_PATIENCE):
            sentence = self._write(template, split, draws)
            if sentence is None or sentence.text in self._said:
                continue
            if self._split_of.setdefault(sentence.frame, split) != split:
                continue
            self._said.add(sentence.text)
            name = f"{self._language}-{template.intent}-{fingerprint(sentence.text)}"
            words, labels = labelled(sentence, self._spaced)
            return Command(name, split, template.id, template.intent, sentence.text, words, labels, sentence.frame)
        return None

    def _write(self, template: Template, split: str, draws: NamedDraws) -> Utterance | None:
        """Return a sentence that can only have the intent of its template; None if the draw does not give one."""
        sentence = self._writers[split].write(template.tree, draws)
        if sentence is None:
            return None
        # Sentences with the same frame have the same possible intents.
        key = (sentence.frame, template.intent)
        if key not in self._clarity:
            self._clarity[key] = self._matcher.means_only(sentence.text, template.intent)
        return sentence if self._clarity[key] else None
