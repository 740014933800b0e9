"""Scatter plots: points of several groups in the plane, such as a t-SNE of sentence embeddings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from headwise.report.contents import Section
from headwise.report.html import element, isolated, joined
from headwise.report.names import name_of
from headwise.report.palette import LINES

_SIZE, _EDGE = 320, 12
#: Radius of points, and of those of plots with few points.
_RADIUS, _LARGE, _FEW = 1.6, 3.0, 200
#: Width and height of the room of a label.
_LABEL = (50, 13)


@dataclass(frozen=True)
class Cloud:
    """The points of one plot.

    Attributes:
        title: Title of the plot.
        groups: Points, (x, y) each, by the name of their group.
    """

    title: str
    groups: dict[str, tuple[tuple[float, float], ...]]


def scatter_section(clouds: Sequence[Cloud], title: str, text: str) -> Section:
    """A plot for every cloud; groups have the same colour in all of them, and their name at the median of their points.

    Args:
        clouds: The plots.
        title: Title of the section.
        text: The text above the plots.
    """
    names = list(dict.fromkeys(name for cloud in clouds for name in cloud.groups))
    figures = [
        element("figure", element("figcaption", element("strong", isolated(cloud.title))), _plot(cloud, names))
        for cloud in clouds
    ]
    return Section(title, joined([element("p", text), element("div", *figures, class_="plots")]))


def _plot(cloud: Cloud, names: Sequence[str]) -> Markup:
    points = np.array([point for group in cloud.groups.values() for point in group]).reshape(-1, 2)
    low, width_height = points.min(0, initial=np.inf), np.ptp(points, axis=0) if len(points) else np.zeros(2)
    scale = (_SIZE - 2 * _EDGE) / max(float(width_height.max()), 1e-9)
    radius = _RADIUS if len(points) > _FEW else _LARGE
    drawn, medians = [], {}
    for name, group in cloud.groups.items():
        kind = f"l{names.index(name) % LINES}"
        at = (np.array(group).reshape(-1, 2) - low) * scale + _EDGE
        drawn += [
            element("circle", cx=round(x, 1), cy=round(y, 1), r=radius, class_=f"dot {kind}") for x, y in at.tolist()
        ]
        if len(at):
            medians[name] = tuple(np.median(at, axis=0).round(1).tolist())
    labels = [
        element("text", name_of(name), x=x, y=y, text_anchor="middle", class_=f"dot-name l{names.index(name) % LINES}")
        for name, (x, y) in _apart(medians).items()
    ]
    height = round(float(width_height[1]) * scale) + 2 * _EDGE
    return element(
        "svg",
        *drawn,
        *labels,
        viewBox=f"0 0 {_SIZE} {height}",
        width=_SIZE,
        class_="plot",
        role="img",
        aria_label=f"{cloud.title}: points of {', '.join(cloud.groups)}",
    )


def _apart(labels: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """Move labels down until none is on another one."""
    placed: dict[str, tuple[float, float]] = {}
    for name, (x, y) in sorted(labels.items(), key=lambda label: label[1][1]):
        for left, top in sorted(placed.values(), key=lambda place: place[1]):
            if abs(left - x) < _LABEL[0] and abs(top - y) < _LABEL[1]:
                y = round(top + _LABEL[1], 1)
        placed[name] = (x, y)
    return placed
