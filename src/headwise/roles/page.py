"""Tables and plots of roles as a page of Markdown."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from headwise.files import check_page, write_bytes
from headwise.masks import HeadMask
from headwise.roles.compare import compare_roles
from headwise.roles.joins import RoleValue, role_values, separator_test, shared_heads
from headwise.roles.plots import (
    RELATIONS,
    plot_layers,
    plot_relations,
    plot_retained,
    plot_separators,
    relation_name,
)
from headwise.roles.summaries import (
    RetainedRoles,
    alignment_heads,
    best_heads,
    retained_roles,
    role_stability,
    roles_by_layer,
    statistic_stability,
)
from headwise.roles.table import HeadRoles
from headwise.scores import HeadScores


@dataclass(frozen=True)
class Joined:
    """What roles are joined with on a page; everything is optional.

    Attributes:
        scores: Scores by language, with the baseline `zero`.
        mean_scores: Scores by language, with the baseline `mean`.
        masks: Masks that keep some heads.
        other: Roles of the same heads on other data or after other tuning.
    """

    scores: Mapping[str, HeadScores] = field(default_factory=dict)
    mean_scores: Mapping[str, HeadScores] = field(default_factory=dict)
    masks: Sequence[HeadMask] = ()
    other: HeadRoles | None = None


def write_page(roles: HeadRoles, path: str | os.PathLike[str], joined: Joined | None = None) -> None:
    """Write the tables and plots of roles: `page.md`, and `page-layers.svg` and so on beside it.

    Args:
        roles: The roles.
        path: The Markdown file; an existing one is replaced.
        joined: What to compare the roles with.

    Raises:
        MissingPackageError: matplotlib is not installed.
        HeadwiseError: The roles and what they are joined with do not fit each other, or the file exists and its name
            does not end in `.md`.
    """
    file = Path(path)
    check_page(file, ".md")
    write_bytes(file, page_text(roles, file, joined).encode())


def page_text(roles: HeadRoles, file: Path, joined: Joined | None = None) -> str:
    """The text of a page that has this name; its plots are written beside the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    joined, about = joined or Joined(), roles.about
    languages = ", ".join(f"{key} ({each.examples})" for key, each in roles.items())
    units = sum(each.units for each in roles.values())
    parts = [
        f"## {about.get('model', 'model')} on {about.get('data', 'data')}\n",
        f"{len(roles.heads)} heads; languages (sentences): {languages}; split {about.get('split', '')}; "
        f"{units:,.0f} units. {' '.join(about.get('notes', ()))}\n",
        "### Number of heads with each role\n",
        _table(*roles.summary()),
        *_layers(roles, file),
        *_relations(roles, file),
        *_stability(roles),
        *_alignment(roles),
        *_scores(roles, joined, file),
        *_masks(roles, joined, file),
        *_comparison(roles, joined),
    ]
    return "\n".join(parts)


def relation_table(roles: HeadRoles, relations: Sequence[str] = RELATIONS) -> str:
    """The best head against the most frequent offset, in percent, for each language (Voita et al., 2019, table 1).

    Args:
        roles: The roles, measured on treebanks.
        relations: The relations.

    Returns:
        A Markdown table with rows `head → nsubj`, `nsubj → head` and so on; empty without such relations.

    Example:
        >>> from headwise.roles.statistics.base import Column
        >>> from headwise.roles.table import LanguageRoles
        >>> one = LanguageRoles(("encoder.0.0", "encoder.0.1"), (Column("syntax:nsubj:head", True, 0.35),),
        ...                     np.array([[0.2], [0.52]]), np.zeros((2, 1)), np.full((2, 1), 400), 100, 0, 100.0)
        >>> print(relation_table(HeadRoles({"de": one}, {})))
        | relation | de |
        |---|---|
        | nsubj → head | 52 / 35 |
        <BLANKLINE>
    """
    best = {
        (row.relation, row.direction, language): row for language, each in roles.items() for row in best_heads(each)
    }
    languages = [language for language in roles if any(key[2] == language for key in best)]
    rows = []
    for relation in relations:
        for direction in ("dependent", "head"):
            cells = [best.get((relation, direction, language)) for language in languages]
            if any(cells):
                shown = (f"{100 * each.value:.0f} / {100 * each.baseline:.0f}" if each else "" for each in cells)
                rows.append([relation_name(relation, direction), *shown])
    return _table(["relation", *languages], rows) if rows else ""


def _layers(roles: HeadRoles, file: Path) -> list[str]:
    parts = ["### Roles by layer\n", "Number of heads, mean over languages.\n"]
    for stack, (names, table) in roles_by_layer(roles).items():
        rows = [[name, *(f"{cell:.1f}" for cell in row)] for name, row in zip(names, table, strict=True)]
        parts.append(_table([stack, *map(str, range(table.shape[1]))], rows))
    plot_layers(roles, _beside(file, "layers"))
    return [*parts, _image(file, "layers", "number of heads with each role in each layer")]


def _relations(roles: HeadRoles, file: Path) -> list[str]:
    table = relation_table(roles)
    if not table:
        return []
    plot_relations(roles, _beside(file, "relations"))
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for each in roles.values():
        for row in best_heads(each):
            if row.count >= 20:
                found.setdefault((row.relation, row.direction), []).append((row.value, row.baseline))
    rows = []
    for (relation, direction), pairs in sorted(found.items()):
        value, baseline = np.array(pairs).T
        above = int((value - baseline >= 0.1).sum())
        rows.append([relation_name(relation, direction), f"{100 * value.mean():.0f}", f"{100 * baseline.mean():.0f}",
                     f"{above} of {len(pairs)}"])  # fmt: skip
    return [
        "### Best head of each relation / most frequent offset, %\n",
        table,
        _image(file, "relations", "best head of each relation against the most frequent offset"),
        "All relations with at least 20 words, mean over languages:\n",
        _table(["relation", "best head", "offset", "languages at least 10 points above"], rows),
    ]


def _stability(roles: HeadRoles) -> list[str]:
    if len(roles) < 2:
        return []
    rows = [
        [each.role, str(len(each.any_language)), str(len(each.all_languages)), _number(each.jaccard, 2)]
        for each in role_stability(roles)
        if each.any_language
    ]
    correlations = [f"{name} {rho:.2f}" for name, rho in statistic_stability(roles).items() if ":" not in name]
    return [
        "### Stability across languages\n",
        _table(["role", "heads in any language", "heads in all languages", "mean Jaccard index"], rows),
        f"Mean rank correlation of heads between languages: {', '.join(correlations) or 'none'}.\n",
    ]


def _alignment(roles: HeadRoles) -> list[str]:
    rows = [
        [each.pair, each.direction, each.head, f"{100 * each.link:.0f} [{100 * each.low:.0f}, {100 * each.high:.0f}]",
         f"{100 * each.baseline:.0f}", f"{each.weight:.3f}", f"{each.shuffled:.3f}", str(each.count), str(each.heads)]
        for each in alignment_heads(roles)
    ]  # fmt: skip
    if not rows:
        return []
    columns = ("pair", "direction", "best head", "linked, %", "diagonal, %", "weight", "weight, random word", "words",
               "alignment heads")  # fmt: skip
    return ["### Alignment heads\n", _table(columns, rows)]


def _scores(roles: HeadRoles, joined: Joined, file: Path) -> list[str]:
    parts = []
    if joined.scores:
        rows = [
            [each.language, str(each.harmful), str(each.others), _number(each.harmful_mean, 3),
             _number(each.others_mean, 3), _number(each.superiority, 2), _p_value(each.p_value),
             "yes" if each.significant else "no"]
            for each in separator_test(roles, joined.scores)
        ]  # fmt: skip
        columns = ("language", "harmful heads", "other heads", "harmful mean", "other mean", "superiority", "p-value",
                   "significant")  # fmt: skip
        plot_separators(roles, joined.scores, _beside(file, "separators"))
        parts += ["### Attention to separators: harmful and other heads\n", _table(columns, rows)]
        parts += [_image(file, "separators", "attention of harmful and other heads to separators")]
        parts += _shared(roles, joined.scores)
    values = [row for each in (joined.scores, joined.mean_scores) if each for row in role_values(roles, each)]
    if values:
        parts += ["### What roles are worth\n", _values(values)]
    return parts


def _shared(roles: HeadRoles, scores: Mapping[str, HeadScores]) -> list[str]:
    rows = [
        [each.head, each.kind, each.language,
         "; ".join(f"{role} ({', '.join(sorted(where))})" for role, where in each.roles.items()),
         _number(each.separators, 2), _number(each.separators_elsewhere, 2), _number(each.separators_spread, 2)]
        for each in shared_heads(roles, scores)
    ]  # fmt: skip
    columns = ("head", "kind", "language", "roles", "separators", "elsewhere", "spread")
    return ["### Language-agnostic and language-specific heads\n", _table(columns, rows) if rows else "None.\n"]


def _values(values: Iterable[RoleValue]) -> str:
    rows = [
        [each.language, each.baseline, each.role, str(each.heads), f"{each.value:.3g}", f"{each.others_value:.3g}",
         _number(each.superiority, 2), _p_value(each.p_value), "yes" if each.significant else "no"]
        for each in values
    ]  # fmt: skip
    columns = ("language", "baseline", "role", "heads", "mean value", "other heads", "superiority", "p-value",
               "significant")  # fmt: skip
    return _table(columns, rows)


def _masks(roles: HeadRoles, joined: Joined, file: Path) -> list[str]:
    if not joined.masks:
        return []
    columns = retained_roles(roles, joined.masks)
    plot_retained(columns, _beside(file, "retained"))
    languages = dict.fromkeys(each.language for each in columns)
    tables = [retained_table([each for each in columns if each.language == language]) for language in languages]
    image = _image(file, "retained", "roles of the heads that masks keep")
    return ["### Roles of the heads that masks keep\n", *tables, image]


def retained_table(columns: Sequence[RetainedRoles]) -> str:
    """The roles of the heads that the masks of a language keep: a column for each mask (Voita et al., 2019, figure 8).

    Args:
        columns: What `retained_roles` returns for one language.

    Returns:
        A Markdown table.

    Example:
        >>> full, half = RetainedRoles("de", 2, 2, {"self": 1}, 1), RetainedRoles("de", 1, 2, {"self": 0}, 1)
        >>> print(retained_table([full, half]))
        | de: heads kept | 2 | 1 |
        |---|---|---|
        | self | 1 | 0 |
        | no role | 1 | 1 |
        <BLANKLINE>
    """
    rows = [[role, *(str(each.roles[role]) for each in columns)] for role in columns[0].roles]
    rows.append(["no role", *(str(each.none) for each in columns)])
    return _table([f"{columns[0].language}: heads kept", *(str(each.kept) for each in columns)], rows)


def _comparison(roles: HeadRoles, joined: Joined) -> list[str]:
    if joined.other is None:
        return []
    about = joined.other.about
    rows = [
        [each.language, f"{100 * each.same:.0f}", _number(each.median_correlation, 2),
         ", ".join(f"{row.role} {row.jaccard:.2f}" for row in each.roles)]
        for each in compare_roles(roles, joined.other)
    ]  # fmt: skip
    return [
        f"### Compared with {about.get('model', 'another model')} on {about.get('data', 'other data')}\n",
        _table(["language", "heads with the same roles, %", "median rank correlation", "Jaccard index of roles"], rows),
    ]


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    divider = f"|{'---|' * len(columns)}"
    return "\n".join([_line(columns), divider, *map(_line, rows)]) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _number(value: float, digits: int) -> str:
    return "" if np.isnan(value) else f"{value:.{digits}f}"


def _p_value(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.3g}"


def _beside(file: Path, name: str) -> Path:
    return file.with_name(f"{file.stem}-{name}.svg")


def _image(file: Path, name: str, text: str) -> str:
    return f"![{text}]({_beside(file, name).name})\n"
