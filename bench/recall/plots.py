"""Two plots as SVG, drawn by hand: there are few lines in them."""

from collections.abc import Mapping, Sequence
from html import escape

_COLOURS = ("#1b6ca8", "#c8553d", "#3a7d44", "#8e5ea2", "#b8860b", "#4f6272", "#d1495b", "#00798c")
_WIDTH, _LEFT, _TOP, _SIDE = 720, 60, 30, 400
_LEAST = 10


def calibration_plot(bins: Mapping[str, Sequence[tuple[int, int]]]) -> str:
    """For each set a line: relevance, and the share of such hits that are right. Bins of fewer than ten are left out."""

    def at(x: float, y: float) -> str:
        return f"{_LEFT + x * _SIDE:.1f},{_TOP + (1 - y) * _SIDE:.1f}"

    parts = [
        _line(at(0, 0), at(1, 1), "stroke-dasharray='4 4' stroke='#999'"),
        f"<path d='M{at(0, 1)} L{at(0, 0)} L{at(1, 0)}' fill='none' stroke='#333'/>",
        _text(at(0.5, -0.1), "relevance of the hit", "text-anchor='middle'"),
        _text(f"{_LEFT},{_TOP - 10}", "share right"),
    ]
    for tenth in range(0, 11, 2):
        parts.append(_text(at(tenth / 10, -0.05), f"{tenth / 10:.1f}", "text-anchor='middle'"))
        parts.append(_text(at(-0.07, tenth / 10 - 0.01), f"{tenth / 10:.1f}"))
    for number, (name, counts) in enumerate(bins.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        width = 1 / len(counts)
        points = [
            at((place + 0.5) * width, right / count)
            for place, (count, right) in enumerate(counts)
            if count >= _LEAST
        ]
        parts.append(
            f"<polyline points='{' '.join(points)}' fill='none' stroke='{colour}' stroke-width='2'/>"
        )
        parts += [
            f"<circle cx='{p.split(',')[0]}' cy='{p.split(',')[1]}' r='3' fill='{colour}'/>" for p in points
        ]
        parts.append(_text(f"{_LEFT + _SIDE + 30},{_TOP + 20 * (number + 1)}", name, f"fill='{colour}'"))
    return _svg(parts, _TOP + _SIDE + 60)


def latency_plot(rows: Sequence[tuple[str, Sequence[tuple[str, float, float]]]]) -> str:
    """For each row its bars: a name, the median and the 95th percentile in milliseconds."""
    longest = max((p95 for _, bars in rows for _, _, p95 in bars), default=1.0) or 1.0
    left, width, y = 230, 380, _TOP
    parts = [_text(f"{left},{_TOP - 10}", "milliseconds: bar p50, line p95")]
    for name, bars in rows:
        parts.append(_text(f"10,{y + 14}", name))
        for number, (what, p50, p95) in enumerate(bars):
            colour = _COLOURS[number % len(_COLOURS)]
            parts.append(
                f"<rect x='{left}' y='{y + 3}' width='{width * p50 / longest:.1f}' height='10' fill='{colour}'/>"
            )
            end = left + width * p95 / longest
            parts.append(_line(f"{left},{y + 8}", f"{end:.1f},{y + 8}", f"stroke='{colour}'"))
            parts.append(
                _text(
                    f"{end + 6:.1f},{y + 13}",
                    f"{what}: {p50:.1f} / {p95:.1f}",
                    f"font-size='10' fill='{colour}'",
                )
            )
            y += 16
        y += 10
    return _svg(parts, y + 10)


def _line(start: str, end: str, style: str) -> str:
    return f"<path d='M{start} L{end}' fill='none' {style}/>"


def _text(at: str, text: str, style: str = "") -> str:
    x, y = at.split(",")
    return f"<text x='{x}' y='{y}' {style}>{escape(text)}</text>"


def _svg(parts: Sequence[str], height: float) -> str:
    head = f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH}' height='{height:.0f}' font-family='sans-serif' font-size='12'>"
    return "\n".join([head, "<rect width='100%' height='100%' fill='white'/>", *parts, "</svg>"]) + "\n"
