"""Results of methods: a table, a plot and a summary."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """The result of one method at one budget, averaged over seeds.

    Attributes:
        method: Name of the method.
        budget: Maximum number of units.
        units: Number of units spent.
        seconds: Time in seconds.
        error: Mean squared error, minus the squared error of the true values.
        expected: Mean squared standard error, which varies less between seeds; NaN if the method has none.
        signs: Share of correct signs among the players whose true sign is clear.
    """

    method: str
    budget: float
    units: float
    seconds: float
    error: float
    expected: float
    signs: float

    @property
    def per_unit(self) -> float:
        """Squared error times units, which does not depend on the budget for an average: used to compare methods."""
        return self.error * self.units


def show_table(entries: Sequence[Entry]) -> None:
    """Print the table."""
    print(
        f"{'method':>52} {'budget':>8} {'units':>9} {'seconds':>8} {'squared error':>14} {'expected':>9} {'signs':>7}"
    )
    for each in entries:
        print(
            f"{each.method:>52} {each.budget:8,.0f} {each.units:9,.0f} {each.seconds:8.0f} {each.error:14.2e} "
            f"{each.expected:9.1e} {each.signs:7.1%}"
        )


def summary(entries: dict[str, list[Entry]]) -> dict[str, float | None]:
    """Ratios of the error of other methods to that of stars at the largest common budget; the worst language."""
    to_tmab, to_peer, signs = [], [], []
    for found in entries.values():
        # An error may be negative after the error of the truth is subtracted, and tmab may lack units for one
        # permutation.
        done = [each for each in found if each.error > 0]
        stars = {each.budget: each.per_unit for each in done if each.method == "stars"}
        peers = [each for each in done if each.method.startswith(("shapiq", "captum")) and each.budget in stars]
        most = max((each.budget for each in peers), default=0.0)
        to_peer += [each.per_unit / stars[most] for each in peers if each.budget == most]
        walked = [each for each in done if each.method == "tmab"][-1:]
        to_tmab += [
            each.per_unit / stars[place]
            for each in walked
            if (place := min(each.budget, max(stars, default=0.0))) in stars
        ]
        signs += [each.signs for each in found if each.method == "stars" and each.budget == 60_000]
    return {
        "error_ratio_to_tmab": round(min(to_tmab), 1) if to_tmab else None,
        "error_ratio_to_best_peer": round(min(to_peer), 1) if to_peer else None,
        "sign_agreement_60k": min(signs) if signs else None,
    }


def draw_plot(entries: dict[str, list[Entry]], path: Path) -> None:
    """Plot error against units: one panel per language, colours for methods, symbols for ways to value coalitions."""
    import plotly.graph_objects as go
    from plotly.colors import qualitative
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=1, cols=len(entries), subplot_titles=list(entries), shared_yaxes=True)
    names = list(dict.fromkeys(each.method for found in entries.values() for each in found))
    kinds, ways = ([*dict.fromkeys(name.partition(", ")[place] for name in names)] for place in (0, 2))
    symbols = ("circle", "square", "x", "diamond", "cross")
    for column, found in enumerate(entries.values(), start=1):
        for name in names:
            kind, _, way = name.partition(", ")
            line = [each for each in found if each.method == name and each.error > 0]
            look = {
                "marker": {"symbol": symbols[ways.index(way)], "size": 9},
                "line": {"color": qualitative.D3[kinds.index(kind)], "width": 4 if kind == "stars" else 1.5},
            }
            x, y = [each.units for each in line], [each.error for each in line]
            figure.add_trace(
                go.Scatter(x=x, y=y, name=name, legendgroup=name, showlegend=column == 1, mode="lines+markers", **look),
                row=1,
                col=column,
            )
    figure.update_layout(template="plotly_white", width=1150, height=max(640, 180 + 29 * len(names)))
    budgets = sorted({each.budget for found in entries.values() for each in found})
    figure.update_xaxes(type="log", title="units (passes of an example)", tickvals=budgets)
    figure.update_yaxes(type="log", dtick=1, exponentformat="power")
    figure.update_yaxes(title="mean squared error", col=1)
    figure.write_html(path, include_plotlyjs=True)
