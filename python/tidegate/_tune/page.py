"""The page of a study, with figures by matplotlib."""

from __future__ import annotations

import html
import io
import math
import re
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from tidegate import _colors, plot
from tidegate._facade import protocols as catalog
from tidegate._tune.search import Candidate
from tidegate._tune.space import magnitude
from tidegate._tune.study import Study, Tuned

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
pre, figure { overflow-x: auto; } figure { margin: 1.5rem 0; }
figure svg { width: 100%; min-width: 40rem; height: auto; }
table { border-collapse: collapse; } td, th { padding: .2rem .8rem .2rem 0; text-align: left; }
"""

_LOWER_BOUND = "≥ marks lower bounds, as messages are unfinished."

FEW = 6
"""Protocols whose names fit beside each other, and within a plot."""

_DARK = {_colors.WHITE: _colors.NIGHT, "#000000": "#dddddd"}
"""Colours of paper and ink on a dark background, as in reports."""


def with_dark(svg: str) -> str:
    """Return a picture by matplotlib with colours for readers with a dark background."""
    # Letters inherit their colour.
    rules = [f"svg{{fill:{_DARK['#000000']}}}"]
    for key, light in sorted(set(re.findall(r"(fill|stroke): (#[0-9a-f]{6})", svg))):
        dark = _DARK.get(light) or _colors.on_dark(light)
        if dark != light:
            rules.append(f'[style*="{key}: {light}"]{{{key}:{dark}!important}}')
    style = f"@media screen and (prefers-color-scheme:dark){{{''.join(rules)}}}"
    start = svg.index(">") + 1
    return f"{svg[:start]}\n <style>{style}</style>{svg[start:]}"


def _legend(axes: Axes) -> None:
    """Add a legend, which lies below the plot if it would cover it."""
    handles, labels = axes.get_legend_handles_labels()
    if len(labels) <= FEW:
        axes.legend()
        return
    figure = axes.figure.figure
    figure.set_figheight(figure.get_figheight() + 0.2 * math.ceil(len(labels) / 4))
    figure.legend(handles, labels, loc="outside lower center", ncols=4)


def _note(axes: Axes, text: str, x: float, y: float) -> None:
    """Write a text beside a point."""
    axes.annotate(text, (x, y), xytext=(4, 4), textcoords="offset points")


def _figure(draw: Callable[[Axes], None], caption: str) -> str:
    with mpl.rc_context(plot.STYLE):
        figure, axes = plot.subplots(width=plot.PAGE, height=2.6)
        draw(axes)
        file = io.StringIO()
        figure.savefig(file, format="svg")
        plt.close(figure)
    text = file.getvalue()
    svg = with_dark(text[text.index("<svg") :])
    return f"<figure>{svg}<figcaption>{html.escape(caption)}</figcaption></figure>"


def _complete(study: Study) -> list[Candidate]:
    """Return the candidates that ran in full: others have a value of one seed, or a bound."""
    return [one for one in study.candidates if one.state == "complete"]


def _label(study: Study, index: int) -> str:
    """Return the label of an axis: the quantity of an objective, with its unit."""
    return study.quantities[index].split(" ", 1)[1].replace("(us)", "(µs)")


def page(study: Study) -> str:
    """Return the page as HTML."""
    looks = {one.name: one for one in catalog()}
    goal = _label(study, 0)
    tried = _complete(study)

    def progress(axes: Axes) -> None:
        for one in study.protocols:
            own = [it for it in tried if it.protocol == one.protocol]
            at = [it.number for it in own]
            axes.plot(
                at,
                [it.objectives[0] for it in own],
                linestyle="none",
                marker=".",
                color=_colors.on_white(looks[one.protocol].color),
                label=looks[one.protocol].title,
            )
        axes.set_xlabel("candidate")
        axes.set_ylabel(goal)
        _legend(axes)

    def compared(axes: Axes) -> None:
        for i, one in enumerate(study.protocols):
            color = _colors.on_white(looks[one.protocol].color)
            for offset, value, face in ((-0.1, one.default, "white"), (0.1, one.tuned, color)):
                axes.errorbar(
                    i + offset,
                    value.mean,
                    yerr=value.half_width or 0.0,
                    color=color,
                    marker="o",
                    markerfacecolor=face,
                    capsize=3,
                )
                if value.is_lower_bound:
                    _note(axes, "≥", i + offset, value.mean)
        names = [looks[one.protocol].title for one in study.protocols]
        crowded = len(names) > FEW
        axes.set_xticks(range(len(names)), names, rotation=90 if crowded else 0)
        if crowded:
            axes.figure.figure.set_figheight(3.6)
        axes.set_ylabel(goal)
        axes.set_ylim(bottom=0)

    parts = [
        _figure(
            compared,
            f"{goal}: defaults (hollow) and tuned parameters (solid), means over "
            f"{len(study.report_seeds)} seeds that the search did not use, with 95 % intervals. "
            f"{_LOWER_BOUND}",
        ),
        _figure(progress, "Candidates of the search with complete values, in their order."),
    ]
    if study.front:
        parts.append(
            _figure(
                lambda axes: _front(axes, study, looks),
                f"Large, with 95 % intervals: candidates of the Pareto front on "
                f"{len(study.report_seeds)} seeds that the search did not use; hollow if another "
                "of them is better there or a constraint is violated; numbered as in the table. "
                f"{_LOWER_BOUND} Small: candidates of the search with complete values.",
            )
        )
    if any(_multiples(one, study) for one in study.protocols):
        parts.append(
            _figure(
                lambda axes: _flatness(axes, study, looks),
                "The most important parameter of each protocol, with all others as tuned; seeds of "
                "the search. A flat curve means that the exact value does not matter.",
            )
        )
    parts.extend(_sensitivity(one, study) for one in study.protocols if one.importance)
    name = html.escape(study.name)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}: tuned</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n'
        f"<body><h1>{name}: tuned parameters</h1>\n<pre>{html.escape(repr(study))}</pre>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _front(axes: Axes, study: Study, looks: dict[str, Any]) -> None:
    tried = _complete(study)
    for name, look in looks.items():
        color = _colors.on_white(look.color)
        own = [it for it in tried if it.protocol == name and len(it.objectives) > 1]
        if not own:
            continue
        axes.plot(
            [it.objectives[0] for it in own],
            [it.objectives[1] for it in own],
            linestyle="none",
            marker="o",
            markersize=2,
            color=color,
            label=f"{look.title}, search seeds",
        )
        for one in study.front:
            if one.protocol != name or not one.measured:
                continue
            first, second = one.measured[:2]
            axes.errorbar(
                first.mean,
                second.mean,
                xerr=first.half_width or 0.0,
                yerr=second.half_width or 0.0,
                color=color,
                marker="o",
                markersize=6,
                markerfacecolor=color if one.holds else "white",
                capsize=3,
            )
            bound = " ≥" if first.is_lower_bound or second.is_lower_bound else ""
            _note(axes, one.name.removeprefix("front-") + bound, first.mean, second.mean)
    axes.set_xlabel(_label(study, 0))
    axes.set_ylabel(_label(study, 1))
    _legend(axes)


def _multiples(one: Tuned, study: Study) -> tuple[str, list[tuple[float, float]]] | None:
    """Return the most important number of a protocol, and the objective over its multiples."""
    numbers = {axis.name for axis in study.axes[one.protocol] if not axis.choices}
    for name in one.importance:
        tuned = magnitude(one.values[name])
        if name in numbers and name in one.curves and tuned is not None and tuned[0] != 0:
            return name, [(at / tuned[0], value) for at, value in one.curves[name]]
    return None


def _flatness(axes: Axes, study: Study, looks: dict[str, Any]) -> None:
    styles = plot.looks([one.protocol for one in study.protocols])
    for one, style in zip(study.protocols, styles, strict=True):
        found = _multiples(one, study)
        if found is not None:
            name, points = found
            axes.plot(
                [at for at, _ in points],
                [value for _, value in points],
                label=f"{looks[one.protocol].title}: {name}",
                **style.points(),
            )
    axes.set_xscale("log", base=2)
    axes.set_xticks([0.25, 0.5, 1, 2, 4], ["1/4", "1/2", "1", "2", "4"])
    axes.set_xlabel("value over the tuned value")
    axes.set_ylabel(_label(study, 0))
    axes.set_ylim(bottom=0)
    _legend(axes)


def _sensitivity(one: Tuned, study: Study) -> str:
    """Return the importance of a protocol's parameters, and the objective over each of them."""
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{100 * share:.0f} %</td></tr>"
        for name, share in one.importance.items()
    )
    units = {axis.name: axis for axis in study.axes[one.protocol]}
    figures = []
    for name, points in one.curves.items():
        axis = units[name]

        def curve(axes: Axes, points: list[tuple[float, float]] = points, name: str = name) -> None:
            axis = units[name]
            line = "none" if axis.choices else "solid"
            axes.plot(
                [at for at, _ in points],
                [value for _, value in points],
                linestyle=line,
                marker="o",
                clip_on=False,
            )
            if axis.choices:
                axes.set_xticks(range(len(axis.choices)), [str(one) for one in axis.choices])
            elif axis.is_log:
                axes.set_xscale("log")
            axes.set_xlabel(f"{name} ({axis.unit})" if axis.unit else name)
            axes.set_ylabel(_label(study, 0))
            axes.set_ylim(bottom=0)

        figures.append(
            _figure(
                curve,
                f"{one.protocol}: {axis.name}, with all other parameters as tuned; seeds of the "
                "search.",
            )
        )
    title = html.escape(one.protocol)
    return (
        f"<h2>{title}</h2><p>Share of each parameter in the variation of the objective, by "
        f"PED-ANOVA over the candidates:</p><table>{rows}</table>" + "".join(figures)
    )
