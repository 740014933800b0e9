"""Rankings from several source languages, and which of them to use (Ma et al., 2021, §5.2).

- `MD`: one ranking from the pooled examples of all languages.
- `SD`: one ranking from the sum of the languages' matrices.
- `EC`: the ranking of each language in turn. The paper keeps the best one on test data. `judge_rankings` chooses on dev
  data, and shows the best on test data beside it.
"""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from headwise.engine import ExampleSet
from headwise.engine.evaluation import MaskJudge
from headwise.errors import FieldError, HeadwiseError
from headwise.methods import Problem
from headwise.runs import Journal
from headwise.scores import HeadScores
from headwise.scores.sources import sum_sources
from headwise.scoring.plan import ScoringPlan
from headwise.scoring.problems import make_problems
from headwise.scoring.run import score_languages
from headwise.scoring.setting import Setting
from headwise.tasks.causal import Perplexity

Sources = Literal["MD", "SD", "EC"]


@dataclass(frozen=True)
class JudgedRanking:
    """The metric of a model without the lowest-ranked players of a ranking.

    Attributes:
        ranking: Name of the ranking: `MD`, `SD` or a language.
        removed: Number of players removed.
        dev: The metric on dev data.
        test: The metric on test data.
    """

    ranking: str
    removed: int
    dev: float
    test: float


@dataclass(frozen=True)
class RankingChoice:
    """The results of several rankings and numbers of removed players.

    Attributes:
        results: All results.
        higher_is_better: Whether a larger metric is better.

    Example:
        >>> choice = RankingChoice((JudgedRanking("en", 4, 70.0, 68.0), JudgedRanking("ar", 4, 69.0, 69.5)))
        >>> choice.best_on_dev.ranking, choice.best_on_dev.test, choice.best_on_test.ranking, choice.best_on_test.test
        ('en', 68.0, 'ar', 69.5)
    """

    results: tuple[JudgedRanking, ...]
    higher_is_better: bool = True

    @property
    def best_on_dev(self) -> JudgedRanking:
        """The result to report: chosen on dev data. Of equal ones, the first."""
        return self._best("dev")

    @property
    def best_on_test(self) -> JudgedRanking:
        """The best on test data, as the paper reports it: chosen on the data that it is measured on, so too high."""
        return self._best("test")

    def _best(self, split: str) -> JudgedRanking:
        sign = 1 if self.higher_is_better else -1
        return max(self.results, key=lambda each: sign * float(getattr(each, split)))


def rank_sources(
    plan: ScoringPlan, how: Sources, setting: Setting | None = None, journal: Journal | None = None
) -> dict[str, HeadScores]:
    """Rankings of players from several source languages.

    Args:
        plan: The scoring plan of the source languages. For `MD`, its budget is for all languages together.
        how: `MD`, `SD` or `EC`.
        setting: The model and data of the plan; loaded by default.
        journal: Stores the rounds, so that the same call resumes; None to store nothing.

    Returns:
        The rankings by name: one for `MD` and `SD`, and one per language for `EC`.

    Raises:
        HeadwiseError: The plan is invalid, or it has a single language.
    """
    if how not in get_args(Sources):
        raise FieldError("how", f"must be one of {', '.join(get_args(Sources))}, not {how!r}")
    problems, _ = make_problems(plan, setting)
    if len(problems) < 2:
        raise FieldError("languages", f"rankings of several sources need at least 2 languages, not {len(problems)}")
    if how == "MD":
        pooled = pool_problems(problems)
        problems = {str(pooled.language): pooled}
    scored = dict(score_languages(plan, problems, journal))
    found = {language: scored[language].scores for language in problems}
    match how:
        case "MD":
            return {"MD": next(iter(found.values()))}
        case "SD":
            return {"SD": sum_sources(found)}
    return found


def pool_problems(problems: Mapping[str, Problem]) -> Problem:
    """One problem with the examples of several languages.

    Values that are means over examples, such as Shapley values, become the means of the languages' values weighted by
    their numbers of examples. `gradient` and other methods that normalise do so after pooling.

    Args:
        problems: The problem of each language, of one model, game and task.

    Raises:
        HeadwiseError: The problems differ in more than their examples.
    """
    first, *others = problems.values()
    shared = [each.name for each in dataclasses.fields(Problem) if each.name not in ("examples", "language", "data")]
    for each in others:
        same = all(_same(getattr(first, name), getattr(each, name)) for name in shared)
        if not same or each.examples.task != first.examples.task:
            raise HeadwiseError(f"{first.language} and {each.language} differ in more than their examples")
    encoded = tuple(example for each in problems.values() for example in each.examples.encoded)
    cut = sum(each.examples.cut for each in problems.values())
    examples = ExampleSet(first.examples.task, encoded, first.examples.pad_id, cut)
    data = hashlib.sha256(" ".join(str(each.data) for each in problems.values()).encode()).hexdigest()[:16]
    return dataclasses.replace(first, examples=examples, language="+".join(problems), data=data)


def _same(one: object, other: object) -> bool:
    return one is other or one == other


def judge_rankings(
    rankings: Mapping[str, HeadScores], removed: Sequence[int], dev: MaskJudge, test: MaskJudge
) -> RankingChoice:
    """Measure a model on dev and test data after removing the lowest-ranked players of each ranking.

    Args:
        rankings: The rankings by name, such as those of `rank_sources`.
        removed: The numbers of players to remove.
        dev: Measures masks on dev data, to choose by.
        test: Measures masks on test data.
    """
    tried = [(name, count) for name in rankings for count in removed]
    masks = [rankings[name].mask(count=count) for name, count in tried]
    values = [
        [float(judge.metric.value(each.sum(0))) for each in judge.measure(masks).statistics] for judge in (dev, test)
    ]
    results = (
        JudgedRanking(name, count, on_dev, on_test)
        for (name, count), on_dev, on_test in zip(tried, *values, strict=True)
    )
    return RankingChoice(tuple(results), higher_is_better=not isinstance(dev.metric, Perplexity))
