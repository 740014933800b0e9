"""Scatter plots: points of several groups in the plane, such as a t-SNE of sentence embeddings."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from headwise.report.contents import Section
from headwise.report.html import element, isolated, joined
from headwise.report.palette import LINES

_SIZE, _EDGE = 320, 12


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
    low = points.min(0, initial=np.inf)
    reach = max(float(np.ptp(points)) if len(points) else 0.0, 1e-9)
    scale = (_SIZE - 2 * _EDGE) / reach
    drawn, labels = [], []
    for name, group in cloud.groups.items():
        kind = f"l{names.index(name) % LINES}"
        at = (np.array(group).reshape(-1, 2) - low) * scale + _EDGE
        drawn += [
            element("circle", cx=round(x, 1), cy=round(y, 1), r=1.6, class_=f"dot {kind}") for x, y in at.tolist()
        ]
        if len(at):
            x, y = np.median(at, axis=0).round(1).tolist()
            labels.append(element("text", name, x=x, y=y, text_anchor="middle", class_="dot-name"))
    return element(
        "svg",
        *drawn,
        *labels,
        viewBox=f"0 0 {_SIZE} {_SIZE}",
        width=_SIZE,
        class_="plot",
        role="img",
        aria_label=f"{cloud.title}: points of {', '.join(cloud.groups)}",
    )
