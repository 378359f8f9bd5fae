"""Draws bars as SVG text."""

from typing import NamedTuple
from xml.sax.saxutils import escape

COLOURS = ("#555555", "#1f77b4", "#2ca02c", "#98df8a", "#d62728", "#ff9896", "#9467bd", "#c5b0d5")
LEFT, TOP, HEIGHT, BAR, GAP, LEGEND = 60, 30, 240, 16, 24, 18


class Plot(NamedTuple):
    groups: list  # of (name, [(name of the bar, its value or None, (least, greatest) or None)])
    unit: str = "ratio to raw"


def svg(plot):
    groups, unit = plot
    names = list(dict.fromkeys(name for _, group in groups for name, _, _ in group))
    most = max((max(value, *(spread or ())) if spread else value
                for _, group in groups for _, value, spread in group if value is not None), default=1) or 1
    width = LEFT + sum(len(group) * BAR + GAP for _, group in groups) + 20
    parts = [axis(unit, most, width)]
    left = LEFT + GAP / 2
    for title, group in groups:
        parts.append(text(left, TOP + HEIGHT + 16, title, 'font-size="9" transform="rotate(12 '
                          f'{left:.0f} {TOP + HEIGHT + 16})"'))
        for name, value, spread in group:
            if value is not None:
                parts.append(bar(left, value / most, COLOURS[names.index(name) % len(COLOURS)],
                                 f"{title}, {name}: {value:.3g}"))
                parts += [whisker(left + BAR / 2, *(each / most for each in spread))] if spread else []
            left += BAR
        left += GAP
    legend_top = TOP + HEIGHT + 70
    for number, name in enumerate(names):
        y = legend_top + number * LEGEND
        parts.append(f'<rect x="{LEFT}" y="{y - 9}" width="10" height="10" '
                     f'fill="{COLOURS[number % len(COLOURS)]}"/>' + text(LEFT + 16, y, name))
    height = legend_top + len(names) * LEGEND
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
            'font-family="sans-serif" font-size="11">\n<rect width="100%" height="100%" fill="white"/>\n'
            + "\n".join(parts) + "\n</svg>\n")


def y_of(share):
    return TOP + HEIGHT * (1 - share)


def axis(unit, most, width):
    lines = [text(4, TOP - 12, unit)]
    for step in range(5):
        y = y_of(step / 4)
        lines.append(f'<line x1="{LEFT}" x2="{width - 10:.0f}" y1="{y:.0f}" y2="{y:.0f}" stroke="#dddddd"/>'
                     + text(4, y + 4, f"{most * step / 4:.2f}"))
    return "\n".join(lines)


def bar(left, share, colour, title):
    return (f'<rect x="{left:.0f}" y="{y_of(share):.1f}" width="{BAR - 2}" height="{HEIGHT * share:.1f}" '
            f'fill="{colour}"><title>{escape(title)}</title></rect>')


def whisker(x, least, greatest):
    return (f'<line x1="{x:.0f}" x2="{x:.0f}" y1="{y_of(least):.1f}" y2="{y_of(greatest):.1f}" '
            'stroke="black"/>')


def text(x, y, words, more=""):
    return f'<text x="{x:.0f}" y="{y:.0f}" {more}>{escape(words)}</text>'
