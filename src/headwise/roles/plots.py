"""Plots of roles (extra `plots`), in colours that colour-blind readers can tell apart."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headwise.roles.joins import harmful_heads
from headwise.roles.summaries import RetainedRoles, best_heads, roles_by_layer
from headwise.roles.table import HeadRoles
from headwise.scores import HeadScores
from headwise.support.extras import require

#: Okabe and Ito's blue and orange.
BLUE, ORANGE = "#0072b2", "#d55e00"
#: Okabe and Ito's colours.
COLOURS = (BLUE, ORANGE, "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442", "#000000")
#: Relations of the paper's table 1: subject, object, adjectival and adverbial modifier.
RELATIONS = ("nsubj", "obj", "amod", "advmod")
FilePath = str | os.PathLike[str]


def plot_layers(roles: HeadRoles, path: FilePath) -> None:
    """Plot the number of heads with each role in each layer, as a mean over languages.

    Args:
        roles: The roles.
        path: The file, such as `layers.svg` or `layers.png`.

    Raises:
        MissingPackageError: matplotlib is not installed.
    """
    _save(layers_figure(roles), path)


def layers_figure(roles: HeadRoles) -> Any:
    """The figure of `plot_layers`."""
    found = roles_by_layer(roles)
    figure, panels = _subplots(1, len(found), figsize=(1.5 + 4.5 * len(found), 4), squeeze=False)
    largest = max(float(table.max()) for _, table in found.values()) or 1.0
    for panel, (stack, (names, table)) in zip(panels[0], found.items(), strict=True):
        image = panel.imshow(table, cmap="Blues", vmin=0, vmax=largest, aspect="auto")
        panel.set(title=f"{stack}: heads with a role", xlabel="layer", xticks=range(table.shape[1]))
        panel.set_yticks(range(len(names)), names)
        for row, column in zip(*np.nonzero(table), strict=True):
            value = table[row, column]
            colour = "white" if value > 0.6 * largest else "black"
            panel.text(column, row, f"{value:.1f}".removesuffix(".0"), ha="center", va="center", color=colour, size=7)
    figure.colorbar(image, ax=panels[0].tolist(), label="heads, mean over languages")
    return figure


def plot_relations(roles: HeadRoles, path: FilePath, relations: Sequence[str] = RELATIONS) -> None:
    """Plot the best head of each relation and direction against the most frequent offset, for each language.

    Args:
        roles: The roles, measured on treebanks.
        path: The file.
        relations: The relations.

    Raises:
        MissingPackageError: matplotlib is not installed.
    """
    best = {
        (row.relation, row.direction, language): row for language, each in roles.items() for row in best_heads(each)
    }
    languages = [language for language in roles if any(key[2] == language for key in best)]
    size = (2 + 0.45 * len(languages) * 2, 2.2 * len(relations))
    figure, panels = _subplots(len(relations), 2, figsize=size, sharex=True, sharey=True, squeeze=False)
    for relation, pair in zip(relations, panels, strict=True):
        for direction, panel in zip(("dependent", "head"), pair, strict=True):
            rows = [(place, best.get((relation, direction, each))) for place, each in enumerate(languages)]
            present = [(place, row) for place, row in rows if row is not None]
            x = [place for place, _ in present]
            y = np.array([[row.value, row.low, row.high, row.baseline] for _, row in present]).reshape(-1, 4).T
            panel.errorbar(x, y[0], [y[0] - y[1], y[2] - y[0]], fmt="o", color=BLUE, label="best head", ms=4)
            panel.plot(x, y[3], "_", color=ORANGE, label="most frequent offset", ms=10, mew=2)
            panel.set(title=relation_name(relation, direction), ylim=(0, 1))
            panel.set_xticks(range(len(languages)), languages, rotation=90)
            panel.grid(axis="y", alpha=0.3)
    panels[0][0].legend(fontsize="small")
    _save(figure, path)


def plot_separators(
    roles: HeadRoles, scores: Mapping[str, HeadScores], path: FilePath, statistic: str = "separator_top"
) -> None:
    """Plot the attention of harmful and of other heads to separators, a dot per head and a line at the mean.

    Args:
        roles: The roles.
        scores: Scores of the same heads by language.
        path: The file.
        statistic: The statistic to plot.

    Raises:
        MissingPackageError: matplotlib is not installed.
    """
    languages = [language for language in roles if language in scores]
    figure, panel = _subplots(1, 1, figsize=(2 + 0.7 * len(languages), 4))
    for place, language in enumerate(languages):
        found, bad = roles[language], harmful_heads(scores[language])
        harmful = np.array([head in bad for head in found.heads])
        for chosen, side, colour, mark in ((harmful, -0.18, ORANGE, "^"), (~harmful, 0.18, BLUE, "o")):
            values = found[statistic][chosen & ~np.isnan(found[statistic])]
            spread = np.linspace(-0.1, 0.1, len(values)) if len(values) > 1 else np.zeros(len(values))
            name = None if place else ("harmful heads" if mark == "^" else "other heads")
            panel.plot(place + side + spread, values, mark, color=colour, ms=3, alpha=0.6, label=name)
            if len(values):
                panel.hlines(values.mean(), place + side - 0.14, place + side + 0.14, color="black", lw=2)
    panel.set(ylabel=statistic, ylim=(-0.02, 1.02), title="attention to separators")
    panel.set_xticks(range(len(languages)), languages)
    panel.legend(fontsize="small")
    _save(figure, path)


def plot_retained(columns: Sequence[RetainedRoles], path: FilePath) -> None:
    """Plot the roles of the heads that masks keep, as in Voita et al. (2019), figure 8: a bar for each mask.

    A head with several roles is in several parts of a bar.

    Args:
        columns: What `retained_roles` returns.
        path: The file.

    Raises:
        MissingPackageError: matplotlib is not installed.
    """
    languages = list(dict.fromkeys(each.language for each in columns))
    figure, panels = _subplots(1, len(languages), figsize=(1 + 4 * len(languages), 4), sharey=True, squeeze=False)
    for language, panel in zip(languages, panels[0], strict=True):
        own = [each for each in columns if each.language == language]
        bottom = np.zeros(len(own))
        for number, role in enumerate([*own[0].roles, "no role"]):
            height = np.array([each.none if role == "no role" else each.roles[role] for each in own], dtype=float)
            colour = "#bbbbbb" if role == "no role" else COLOURS[number % len(COLOURS)]
            hatch = "//" if role != "no role" and number >= len(COLOURS) else None
            panel.bar(range(len(own)), height, bottom=bottom, color=colour, hatch=hatch, label=role)
            bottom += height
        panel.set_xticks(range(len(own)), [str(each.kept) for each in own])
        panel.set(title=language, xlabel="heads kept", ylabel="roles of kept heads")
        panel.legend(fontsize="x-small")
    _save(figure, path)


def relation_name(relation: str, direction: str) -> str:
    """A relation and its direction in words.

    Example:
        >>> relation_name("nsubj", "dependent"), relation_name("nsubj", "head")
        ('head → nsubj', 'nsubj → head')
    """
    return f"head → {relation}" if direction == "dependent" else f"{relation} → head"


def _subplots(rows: int, columns: int, **options: Any) -> tuple[Any, Any]:
    """A figure that needs no window."""
    figure = require("matplotlib.figure", "plots", "a plot").Figure(
        figsize=options.pop("figsize"), layout="constrained"
    )
    return figure, figure.subplots(rows, columns, **options)


def _save(figure: Any, path: FilePath) -> None:
    matplotlib = require("matplotlib", "plots", "a plot")
    svg = os.fspath(path).endswith(".svg")
    with matplotlib.rc_context({"svg.hashsalt": "headwise"}):  # the same plot gives the same file
        figure.savefig(path, dpi=110, metadata={"Date": None} if svg else None)
