"""Small charts as SVG, readable on light and dark pages."""

import html

GREY, OURS, THEIRS, BAD = "#808890", "#2ca05a", "#3b8eea", "#e07b00"
HEAD = ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, -apple-system, \'Segoe UI\', sans-serif" font-size="12" fill="' + GREY + '" role="img">')


def label(x, y, words, anchor="start", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{html.escape(str(words))}</text>'


def line(path, colour=GREY, width=1.0, more=""):
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}" {more}/>'


def document(title, width, height, parts):
    top = [HEAD.format(width=width, height=height), f"<title>{html.escape(title)}</title>",
           label(12, 22, title, more='font-size="15" font-weight="600"')]
    return "\n".join([*top, *parts, "</svg>", ""])


def dots(title, columns, rows, low, high, ours):
    """One panel per column, one line per row; `rows`: (name, {column: value}). The axis goes from `low` to `high`."""
    left, panel, gap, step, top = 262, 112, 18, 19, 62
    parts, height = [], top + step * len(rows) + 34
    for number, column in enumerate(columns):
        x0 = left + number * (panel + gap)
        parts.append(label(x0, top - 16, column, more='font-weight="600" font-size="11"'))
        for tick in (low, (low + high) / 2, high):
            x = x0 + (tick - low) / (high - low) * panel
            parts.append(line(f"M{x:.1f} {top - 8}V{top + step * len(rows) - 6}", width=0.5, more='stroke-opacity="0.35"'))
            parts.append(label(x, top + step * len(rows) + 8, f"{tick:.2g}", "middle", 'font-size="10"'))
        for index, (name, values) in enumerate(rows):
            if column in values:
                x = x0 + (max(low, min(high, values[column])) - low) / (high - low) * panel
                parts.append(f'<circle cx="{x:.1f}" cy="{top + index * step:.1f}" r="4.5" fill="{OURS if name in ours else THEIRS}"/>')
    for index, (name, _) in enumerate(rows):
        parts.append(label(left - 12, top + index * step + 4, name, "end", 'font-weight="600"' if name in ours else ""))
    return document(title, left + len(columns) * (panel + gap) + 16, height, parts)


def bars(title, rows, ours, unit):
    """Horizontal bars; `rows`: (name, value, whether the value is a lower bound)."""
    left, width, step, top = 250, 480, 21, 44
    most = max(value for _, value, _ in rows) or 1
    parts = []
    for index, (name, value, bound) in enumerate(rows):
        y = top + index * step
        parts.append(label(left - 10, y + 12, name, "end", 'font-weight="600"' if name in ours else ""))
        parts.append(f'<rect x="{left}" y="{y}" width="{max(1, value / most * width):.1f}" height="15" rx="2" '
                     f'fill="{OURS if name in ours else THEIRS}"/>')
        parts.append(label(left + value / most * width + 8, y + 12, f"{'at least ' if bound else ''}{value:.3g} {unit}"))
    return document(title, left + width + 130, top + step * len(rows) + 12, parts)


def series(title, panels, seconds):
    """Stacked panels over time. A panel: (title, highest value, [(name, colour, [(second, value)], dots)])."""
    left, width, tall, gap, top = 60, 820, 120, 56, 56
    parts = []
    for number, (name, most, lines) in enumerate(panels):
        y0 = top + number * (tall + gap) + tall
        parts.append(label(left, y0 - tall - 8, name, more='font-weight="600"'))
        for tick in (0, most / 2, most):
            y = y0 - tick / most * tall
            parts.append(line(f"M{left} {y:.1f}h{width}", width=0.6, more='stroke-opacity="0.35"'))
            parts.append(label(left - 7, y + 4, f"{tick:g}", "end"))
        at = left + width
        for words, colour, points, dotted in reversed(lines):
            at -= 8 * len(words) + 26
            parts.append(f'<circle cx="{at}" cy="{y0 - tall - 12}" r="4" fill="{colour}"/>' + label(at + 9, y0 - tall - 8, words))
            places = [(left + second / seconds * width, y0 - max(0, min(most, value)) / most * tall) for second, value in points]
            if dotted:
                parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.6" fill="{colour}" fill-opacity="0.7"/>' for x, y in places]
            elif places:
                parts.append(line("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places), colour, 1.8))
        for second in range(0, int(seconds) + 1, 10):
            parts.append(label(left + second / seconds * width, y0 + 16, f"{second} s", "middle", 'font-size="10"'))
    return document(title, left + width + 20, top + len(panels) * (tall + gap), parts)
