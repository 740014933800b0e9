"""Makes the data set of one language: deals its templates out and writes sentences until each split is full."""

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

#: The languages, and what the package calls them.
LANGUAGES = {
    "ar": "ar", "bg": "bg", "cs": "cs", "de": "de", "el": "el", "en": "en", "es": "es", "fr": "fr", "he": "he",
    "hi": "hi", "it": "it", "ko": "ko", "nl": "nl", "pl": "pl", "pt": "pt-BR", "ru": "ru", "sv": "sv", "th": "th",
    "vi": "vi", "zh": "zh-CN",
}  # fmt: skip

#: The languages that put no spaces between words; a word of theirs is a character.
UNSPACED = ("th", "zh")

#: The intents that all these languages have with templates enough for three splits.
INTENTS = (
    "HassCancelAllTimers", "HassCancelTimer", "HassClimateGetTemperature", "HassClimateSetTemperature",
    "HassGetCurrentDate", "HassGetWeather", "HassLightSet", "HassMediaNext", "HassMediaPause", "HassMediaUnpause",
    "HassStartTimer", "HassTimerStatus", "HassTurnOff", "HassTurnOn", "HassVacuumCleanArea",
)  # fmt: skip

#: At most so many sentences for each intent.
SIZES = {"train": 80, "dev": 15, "test": 45}

#: At most so many templates for each intent.
TEMPLATES = 40

#: NamedDraws that may lead nowhere before a template is given up: at first, and once it has given sentences.
PATIENCE, LATE_PATIENCE = 250, 200


@dataclass(frozen=True)
class Command:
    """A sentence of the data set.

    Attributes:
        id: Names it for good.
        split: `train`, `dev` or `test`.
        template: The template it was written from.
        intent: What it asks for.
        text: What is said.
        words: The text in words.
        labels: The slot of each word in IOB2.
        frame: The text with the slots' names in place of their values.
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
    """The sentences of a language.

    Args:
        language: Its code.
        data: The package's JSON of it.
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
        # Half of the words is for training, the other for both dev and test.
        self._writers = {
            split: Writer(self._grammar, lexicon, half, self._spaced)
            for split, half in (("train", 0), ("dev", 1), ("test", 1))
        }
        self._said: set[str] = set()
        self._split_of: dict[str, str] = {}
        self._clarity: dict[tuple[str, str], bool] = {}

    def commands(self) -> Iterator[Command]:
        """All sentences, in an order that mixes the intents."""
        dealt = deal(self._some_templates(), SLOTS, self._gives_sentences)
        found = [command for intent in INTENTS for command in self._fill_splits(intent, dealt)]
        yield from sorted(found, key=lambda command: fingerprint(command.id))

    def _some_templates(self) -> Iterator[Template]:
        """Templates enough of each intent: some languages have hundreds, and each takes time to try."""
        for intent in INTENTS:
            templates = [template for template in self._grammar.templates if template.intent == intent]
            yield from sorted(templates, key=lambda template: template.id)[:TEMPLATES]

    def _gives_sentences(self, template: Template) -> bool:
        """Whether sentences come of a template with either half of the words."""
        return all(
            any(self._write(template, split, draws) for _ in range(PATIENCE))
            for split in ("train", "test")
            for draws in [NamedDraws(self._language, template.id, "probe", split)]
        )

    def _fill_splits(self, intent: str, dealt: dict[str, list[Template]]) -> Iterator[Command]:
        """Sentences of one intent; the splits take turns, for what one has said the others may not say."""
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
        """Sentences of templates in turn, until nothing new comes."""
        sources = {template: NamedDraws(self._language, template.id, split) for template in templates}
        while sources:
            for template, draws in list(sources.items()):
                command = self._next(template, split, draws)
                if command is None:
                    del sources[template]
                else:
                    yield command

    def _next(self, template: Template, split: str, draws: NamedDraws) -> Command | None:
        """A sentence not yet said, in a frame that no other split uses."""
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
        """A sentence of a template that can mean nothing but its intent, if the draw leads to one."""
        sentence = self._writers[split].write(template.tree, draws)
        if sentence is None:
            return None
        # Sentences of one frame are alike in what they can mean.
        key = (sentence.frame, template.intent)
        if key not in self._clarity:
            self._clarity[key] = self._matcher.means_only(sentence.text, template.intent)
        return sentence if self._clarity[key] else None
