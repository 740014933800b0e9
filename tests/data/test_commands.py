"""Voice commands generated from templates: the same everywhere, split by template, and never ambiguous."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hassil")
pytest.importorskip("home_assistant_intents")

from hassil.intents import Intents, SlotList, TextSlotList
from hassil.recognize import recognize_all
from home_assistant_intents import get_intents

import headwise.data.commands.store as store
from headwise.data.commands import INTENTS, LANGUAGES, SLOT_LABELS, SLOTS, open_commands
from headwise.data.commands.digest import NamedDraws, fingerprint
from headwise.data.commands.generation import SIZES, UNSPACED, Command, generate
from headwise.data.commands.lexicon import DOMAINS, FREE, LISTS, read_lexicon
from headwise.data.commands.matcher import Matcher
from headwise.data.commands.sentences import Utterance
from headwise.data.commands.slot_labels import labelled
from headwise.data.commands.template_splits import SPLITS, deal
from headwise.data.commands.templates import AnyOrder, Choice, Grammar, Literal, Node, Series, Slot, Template
from headwise.data.examples import TextExample, WordExample
from headwise.errors import HeadwiseError

#: Of different families, scripts and spacing, and quick to generate; the others are slow tests.
FEW = ("en", "he", "hi", "ko", "th", "zh")
EACH = [pytest.param(language, marks=() if language in FEW else pytest.mark.slow) for language in LANGUAGES]
each_language = pytest.mark.parametrize("language", EACH)


def package_data(language: str) -> dict[str, Any]:
    data = get_intents(LANGUAGES[language])
    assert data is not None
    return data


@pytest.fixture(scope="module")
def made() -> Callable[[str], list[Command]]:
    kept: dict[str, list[Command]] = {}

    def make(language: str) -> list[Command]:
        if language not in kept:
            kept[language] = generate(language, package_data(language))
        return kept[language]

    return make


def by_split(commands: list[Command]) -> dict[str, list[Command]]:
    return {split: [command for command in commands if command.split == split] for split in SPLITS}


def fillers(command: Command) -> set[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for word, label in zip(command.words, command.labels, strict=True):
        if label[0] == "B":
            found.append((label[2:], word))
        elif label[0] == "I":
            found[-1] = (label[2:], f"{found[-1][1]} {word}")
    return set(found)


# Determinism


def test_another_process_with_other_hashes_makes_the_same(made: Callable[[str], list[Command]]) -> None:
    code = (
        "from home_assistant_intents import get_intents\n"
        "from headwise.data.commands.generation import generate\n"
        "for command in generate('ko', get_intents('ko')): print(command.split, command.id, command.text)\n"
    )
    env = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONIOENCODING": "utf-8"}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [f"{one.split} {one.id} {one.text}" for one in made("ko")]


def test_draws_are_pinned() -> None:
    draws = NamedDraws("en", "HassTurnOn")
    assert [draws.pick("abcdefgh") for _ in range(8)] == list("abafadae")
    assert draws.shuffled("abcd") == list("badc")
    assert fingerprint("a", "b") != fingerprint("ab") == "fb8e20fc2e"


@pytest.mark.parametrize(("language", "expected"), [("ko", "8983fb56e6"), ("en", "5fcd87527a")])
def test_sentences_are_pinned(language: str, expected: str, made: Callable[[str], list[Command]]) -> None:
    # If this must change, count `RECIPE` up (unless a lexicon has changed), or old caches go on being read.
    assert fingerprint(*(f"{one.split} {one.id} {' '.join(one.labels)}" for one in made(language))) == expected


# Splits


@each_language
def test_splits_share_no_template_no_frame_and_no_words(language: str, made: Callable[[str], list[Command]]) -> None:
    splits = by_split(made(language))
    for one, other in [("train", "dev"), ("train", "test"), ("dev", "test")]:
        assert not {a.template for a in splits[one]} & {b.template for b in splits[other]}
        assert not {a.frame for a in splits[one]} & {b.frame for b in splits[other]}
    named = {
        split: {filler for command in commands for filler in fillers(command) if filler[0] in ("area", "name")}
        for split, commands in splits.items()
    }
    assert not named["train"] & (named["dev"] | named["test"])


@each_language
def test_what_is_said_of_rooms_and_devices_in_test_is_not_said_in_training(
    language: str, made: Callable[[str], list[Command]]
) -> None:
    lexicon = read_lexicon(language, language not in UNSPACED)
    kept = {form for key in ("area", *DOMAINS) if key not in FREE for entry in lexicon.entries[key][1::2]
            for form in entry.forms.values()}  # fmt: skip
    for command in by_split(made(language))["train"]:
        spoken = {*map(" ".join, zip(command.words, command.words[1:], strict=False)), *command.words}
        assert not spoken & kept, command.text


@each_language
def test_every_split_has_every_intent_and_every_slot(language: str, made: Callable[[str], list[Command]]) -> None:
    for split, commands in by_split(made(language)).items():
        counts = Counter(command.intent for command in commands)
        assert set(counts) == set(INTENTS), split
        assert max(counts.values()) <= SIZES[split]
        assert {label[2:] for command in commands for label in command.labels} - {""} == set(SLOTS), split
    assert len(by_split(made(language))["test"]) >= 300
    assert language != "en" or len(by_split(made(language))["train"]) >= 1000


# What is said


@each_language
def test_no_sentence_is_said_twice_or_badly_written(language: str, made: Callable[[str], list[Command]]) -> None:
    commands = made(language)
    assert len({command.text for command in commands}) == len({command.id for command in commands}) == len(commands)
    for command in commands:
        assert command.text == " ".join(command.text.split()).lower()
        assert not set(command.text) & set("‹›‸–{}()[]|<>?!.")


@each_language
def test_labels_are_iob2_over_the_words_of_the_text(language: str, made: Callable[[str], list[Command]]) -> None:
    for command in made(language):
        joint = "" if language in UNSPACED else " "
        assert joint.join(command.words) == command.text
        assert len(command.words) == len(command.labels)
        assert set(command.labels) <= set(SLOT_LABELS)
        for before, label in zip(("O", *command.labels), command.labels, strict=False):
            assert label[0] != "I" or before[2:] == label[2:], command


@each_language
def test_hassil_recognises_the_intent_and_no_other(language: str, made: Callable[[str], list[Command]]) -> None:
    data = package_data(language)
    data["intents"] = {name: data["intents"][name] for name in INTENTS}
    lexicon = read_lexicon(language, language not in UNSPACED)
    names = [(form, form, {"domain": domain}) for domain in DOMAINS for entry in lexicon.entries[domain]
             for form in dict.fromkeys(entry.forms.values())]  # fmt: skip
    lists: dict[str, SlotList] = {
        key: TextSlotList.from_strings({form for entry in lexicon.entries[key] for form in entry.forms.values()})
        for key in LISTS
    }
    unused = TextSlotList.from_strings(["unused"])
    lists |= {"name": TextSlotList.from_tuples(names), "floor": unused, "timer_command": unused}
    intents = Intents.from_dict(data)
    for command in made(language)[:60]:
        found = recognize_all(
            command.text, intents, slot_lists=lists, intent_context={"area": "here"}, language=LANGUAGES[language][:2]
        )
        assert {result.intent.name for result in found} == {command.intent}, command.text


# Lexicons


@pytest.mark.parametrize("language", LANGUAGES)
def test_lexicons_are_aligned_and_their_halves_differ(language: str) -> None:
    lexicon, english = (read_lexicon(code, code not in UNSPACED) for code in (language, "en"))
    assert {key: len(entries) for key, entries in lexicon.entries.items()} == {
        key: len(entries) for key, entries in english.entries.items()
    }
    halves: list[set[str]] = [
        {form for entries in lexicon.entries.values() for entry in entries[half::2] for form in entry.forms.values()}
        for half in (0, 1)
    ]
    assert not halves[0] & halves[1]
    assert all(form == form.strip().lower() != "" for half in halves for form in half)


# Pieces


def test_a_text_is_matched_with_the_whole_of_a_template() -> None:
    def produce(tree: Node, intent: str) -> Template:
        return Template(intent, intent, tree)

    stop = Choice((Literal("stop "), Literal("halt ")), optional=False)
    timer = Series((stop, Choice((Literal("the "),), optional=True), Slot("area", "area"), Literal(" timer")))
    order = AnyOrder((Literal(" now "), Literal(" stop "), Slot("number", "hours")))
    grammar = Grammar((produce(timer, "cancel"), produce(order, "order")), {}, {"number": range(5)})
    matcher = Matcher(grammar, read_lexicon("en", spaced=True))
    assert all(matcher.means_only(text, "cancel") for text in ("stop kitchen timer", "halt the living room timer"))
    assert all(matcher.means_only(text, "order") for text in ("stop 3 now", "now stop 12", "3 stop now"))
    for text in ("stop timer", "halt the kitchen", "stop the kitchen timers", "now stop", "stop now3"):
        assert not matcher.means_only(text, "cancel")
        assert not matcher.means_only(text, "order")
    both = Grammar((*grammar.templates, produce(timer, "pause")), {}, {})
    assert not Matcher(both, read_lexicon("en", spaced=True)).means_only("stop kitchen timer", "cancel")


def test_templates_are_opened_where_they_are_too_few() -> None:
    words = tuple(Literal(word) for word in ("stop", "cancel", "delete"))
    rare = Template("rare", "cancel", Series((Choice(words, optional=False), Literal(" it"))))
    many = [Template(f"m{index}", "start", Literal(str(index))) for index in range(20)]
    dead = Template("dead", "start", Literal("dead"))
    dealt = deal([rare, *many, dead], (), lambda template: template.id != "dead")
    assert {split: len(templates) for split, templates in dealt.items()} == {"train": 13, "dev": 4, "test": 6}
    opened = [template for split in SPLITS for template in dealt[split] if template.intent == "cancel"]
    assert [template.id for template in opened] == ["rare.3", "rare.1", "rare.2"]
    assert [str(template.tree).count("Choice") for template in opened] == [0, 0, 0]


def test_thai_signs_stay_with_their_letters() -> None:
    sentence = Utterance("เปิดไฟที่ห้องครัว", ((9, 17, "area"),), "")
    words, labels = labelled(sentence, spaced=False)
    assert words[:4] == ("เ", "ปิ", "ด", "ไ")
    assert [word for word, label in zip(words, labels, strict=True) if label != "O"] == ["ห้", "อ", "ง", "ค", "รั", "ว"]


# The data set


def test_both_tasks_have_the_same_sentences_and_the_second_time_is_quick(tmp_path: Path) -> None:
    intents = open_commands("intents", tmp_path).examples("he", "test")
    start = time.perf_counter()
    dataset = open_commands("slots", tmp_path)
    slots = dataset.examples("he", "test")
    assert time.perf_counter() - start < 1
    assert dataset.note == "generated from templates of home-assistant-intents"
    assert len(dataset.languages) >= 15
    for text, words in zip(intents, slots, strict=True):
        assert isinstance(text, TextExample)
        assert isinstance(words, WordExample)
        assert (text.id, text.text, text.label in INTENTS) == (words.id, " ".join(words.words), True)


def test_the_cache_is_read_and_what_is_not_ours_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWISE_CACHE", str(tmp_path))
    first = open_commands("intents").examples("ko", "dev")
    (path,) = tmp_path.rglob("*.jsonl")
    assert path.parent.parent == tmp_path / "commands"
    good = path.read_text(encoding="utf-8")
    header, *lines = good.splitlines()
    for broken in (
        "",
        "{}",
        good[:-100],
        "\n".join(lines),
        "\n".join([json.dumps({**json.loads(header), "key": "x"}), *lines]),
    ):
        path.write_text(broken, encoding="utf-8")
        assert open_commands("intents").examples("ko", "dev") == first
        assert path.read_text(encoding="utf-8") == good
    monkeypatch.setattr(store, "generate", lambda *_: pytest.fail("generated again"))
    assert open_commands("intents").examples("ko", "dev") == first


def test_a_file_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(HeadwiseError, match=r"ko\.jsonl: cannot be written: No space left on device"):
        open_commands("intents", tmp_path).examples("ko", "dev")
    assert not list(tmp_path.glob("*.jsonl"))


@pytest.mark.parametrize("package", ["hassil", "home_assistant_intents"])
def test_without_the_packages_the_error_says_what_to_install(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(HeadwiseError, match=r"pip install 'headwise\[offline\]'"):
        open_commands("intents")


def test_an_unknown_task_is_named() -> None:
    with pytest.raises(HeadwiseError, match="no task 'ner': it has intents, slots"):
        open_commands("ner")  # type: ignore[arg-type]
