"""A greedy part-of-speech tagger: an averaged perceptron over words, affixes, shapes, neighbours and previous tags.

It does not use the models of headwise, so that its checks depend only on the published treebank.
"""

import random
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

Tagged = tuple[Sequence[str], Sequence[str]]
_EDGE = ("<s>", "</s>")
_EPOCHS = 8


@dataclass(frozen=True)
class Guess:
    """The prediction for one word.

    Attributes:
        tag: The best tag.
        scores: The score of every tag.
    """

    tag: str
    scores: dict[str, float]

    def margin(self, other: str) -> float:
        """The score of the best tag minus that of another tag."""
        return self.scores[self.tag] - self.scores.get(other, 0.0)


class Tagger:
    """An averaged perceptron; `train` makes one.

    Attributes:
        tags: The known tags.
        weights: Feature -> tag -> weight.
    """

    def __init__(self, tags: Sequence[str]) -> None:
        self.tags = tuple(tags)
        self.weights: dict[str, dict[str, float]] = {}

    def guess(self, features: Sequence[str]) -> Guess:
        """The best tag of a word with these features; the first of equal ones."""
        scores = dict.fromkeys(self.tags, 0.0)
        for feature in features:
            for tag, weight in self.weights.get(feature, {}).items():
                scores[tag] += weight
        return Guess(max(self.tags, key=scores.__getitem__), scores)

    def tag(self, words: Sequence[str]) -> list[Guess]:
        """One guess for each word of a sentence."""
        before, guesses = _EDGE, []
        for features in word_features(words):
            guesses.append(self.guess(features + history_features(features[0], before)))
            before = (before[1], guesses[-1].tag)
        return guesses


def word_features(words: Sequence[str]) -> list[list[str]]:
    """The features of each word that do not depend on previous tags; the first one is the word in lower case."""
    lower = [_EDGE[0], _EDGE[0], *(word.lower() for word in words), _EDGE[1], _EDGE[1]]
    found = []
    for place, word in enumerate(words):
        far_left, left, own, right, far_right = lower[place : place + 5]
        looks = f"shape={shape(word)}"
        features = [f"w={own}", "bias", f"form={word}", looks, f"first={place == 0},{looks}"]
        for size in range(1, 5):
            features += [f"prefix={own[:size]}", f"suffix={own[-size:]}"]
        features += [f"-2={far_left}", f"-1={left}", f"+1={right}", f"+2={far_right}"]
        features += [f"-1suffix={left[-3:]}", f"+1suffix={right[-3:]}", f"-1={left},w={own}", f"w={own},+1={right}"]
        found.append(features)
    return found


def history_features(own: str, before: tuple[str, str]) -> list[str]:
    """The features of a word that depend on the two tags before it."""
    return [f"-1tag={before[1]}", f"-2tag={before[0]}", f"tags={before[0]},{before[1]}", f"-1tag={before[1]},{own}"]


def shape(word: str) -> str:
    """The shape of a word: the Unicode categories of its characters, without repetitions.

    All punctuation has one category, so that marks that are missing in a treebank (؟ or “) are not unknown words.
    """
    kinds = [category if (category := unicodedata.category(sign))[0] == "L" else category[0] for sign in word]
    return "".join(kind for kind, _ in groupby(kinds))


def train(sentences: Sequence[Tagged], seed: int = 0) -> Tagger:
    """Train a tagger.

    Args:
        sentences: Words and tags of each sentence.
        seed: Seed of the order of the sentences.

    Returns:
        The tagger with weights averaged over all steps.
    """
    tagger = Tagger(sorted({tag for _, tags in sentences for tag in tags}))
    prepared = [(word_features(words), tags) for words, tags in sentences]
    # The mean of a weight is its last value minus every change times the share of steps before that change.
    late: dict[tuple[str, str], float] = defaultdict(float)
    order, step = random.Random(seed), 0
    for _ in range(_EPOCHS):
        order.shuffle(prepared)
        for rows, tags in prepared:
            before = _EDGE
            for features, gold in zip(rows, tags, strict=True):
                everything = features + history_features(features[0], before)
                guess = tagger.guess(everything).tag
                if guess != gold:
                    for feature in everything:
                        weights = tagger.weights.setdefault(feature, {})
                        for tag, change in ((gold, 1.0), (guess, -1.0)):
                            weights[tag] = weights.get(tag, 0.0) + change
                            late[feature, tag] += change * step
                before = (before[1], guess)
                step += 1
    for (feature, tag), sum_late in late.items():
        tagger.weights[feature][tag] -= sum_late / step
    return tagger
