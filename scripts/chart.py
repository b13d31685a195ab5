# A picture of a TopDown tree.
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw bars as SVG: text of one's own, that browsers, documents and CI pages show."""

from xml.sax.saxutils import escape

COLOURS = {             # of level 1, and lighter of its parts
    'Retiring': ('#2e7d4f', '#8fc7a4'),
    'Bad speculation': ('#b3402f', '#e3a196'),
    'Frontend bound': ('#2f62a8', '#97b6de'),
    'Backend bound': ('#7a4a9c', '#c0a3d4'),
}
WIDTH, MARGIN = 720, 24
LABELS, NUMBERS = 180, 60       # widths of what stands left of the bars
TOP, ROW, GAP = 76, 22, 8       # the first row, rows, and what is between categories
STYLE = ('text { font-family: sans-serif; font-size: 13px; fill: #222 } '
         '.title { font-size: 16px; font-weight: bold } .note { fill: #666; font-size: 12px } '
         '.top { font-weight: bold } .share { text-anchor: end }')


def fit(text, most):
    return text if len(text) <= most else text[:most - 3] + '...'


def svg(title, note, found):
    """The picture of a topdown.Breakdown: a row for each category, its parts below it."""
    left = MARGIN + LABELS + NUMBERS
    full = WIDTH - MARGIN - left
    parts, y, colours = [], TOP, ()
    for level, name, percent in found.rows():
        if level == 1:
            y += GAP if parts else 0
            colours = COLOURS[name]
        middle = y + ROW / 2 + 4.5
        x = MARGIN + 16 * (level - 1)
        kind = ' class="top"' if level == 1 else ''
        width = full * min(max(percent, 0), 100) / 100
        parts += [
            f'<text x="{x}" y="{middle:g}"{kind}>{escape(name)}</text>',
            f'<text x="{left - 12}" y="{middle:g}" class="share">{percent:.1f} %</text>',
            f'<rect x="{left}" y="{y + 3}" width="{full}" height="{ROW - 6}" fill="#f2f2f2"/>',
            f'<rect x="{left}" y="{y + 3}" width="{width:.1f}" height="{ROW - 6}" '
            f'fill="{colours[level - 1]}"><title>{escape(name)}: {percent:.2f} %</title></rect>']
        y += ROW
    for tenth in range(0, 5):           # 0, 25 ... 100 %
        x = left + full * tenth / 4
        parts += [
            f'<line x1="{x:g}" y1="{TOP - 4}" x2="{x:g}" y2="{y + 4}" stroke="#bbb" '
            'stroke-width="0.6"/>',
            f'<text x="{x:g}" y="{y + 18}" class="note" text-anchor="middle">{25 * tenth} %</text>']
    height = y + 18 + MARGIN / 2
    return '\n'.join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:g}" '
        f'viewBox="0 0 {WIDTH} {height:g}" role="img">',
        f'<title>{escape(title)}</title>', f'<style>{STYLE}</style>',
        f'<rect width="{WIDTH}" height="{height:g}" fill="#fff"/>',
        f'<text x="{MARGIN}" y="34" class="title">{escape(fit(title, 72))}</text>',
        f'<text x="{MARGIN}" y="54" class="note">{escape(fit(note, 100))}</text>',
        *parts, '</svg>', ''])
