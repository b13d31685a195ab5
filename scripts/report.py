# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu topdown --html` and `pmu demo --report`: pages with plots, complete in one file."""

import html
import io
import os
import re
import textwrap
import warnings

import demo
import topdown
import ui

STYLE = ('body { font-family: sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; '
         'color: #222 } pre { overflow-x: auto; background: #f5f5f5; padding: 1em } '
         'svg { max-width: 100%; height: auto }')
COLOURS = {             # of level 1, or of the two parts of each
    'Retiring': ('#2e7d4f', '#8fc7a4'),
    'Bad speculation': ('#b3402f', '#e3a196'),
    'Frontend bound': ('#2f62a8', '#97b6de'),
    'Backend bound': ('#7a4a9c', '#c0a3d4'),
}
SHADES = ' .:-=+*#%@'           # of the map that the arm guest prints: tenths


def plot(title, draw, height=3.2):
    """SVG of a figure: draw(axes) draws it."""
    os.environ.pop('MPLBACKEND', None)
    import matplotlib
    from matplotlib.figure import Figure
    # A command may have bytes that are not UTF-8, or control characters, which SVG has not.
    title = re.sub(r'[^\t\n -~\xa0-\ud7ff\ue000-\U0010ffff]', '\ufffd', title)
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter('ignore')     # of glyphs, which the browser's font has
        matplotlib.rcdefaults()             # nothing of the user's
        matplotlib.rcParams.update({'svg.fonttype': 'none', 'svg.hashsalt': title, 'font.size': 9,
                                    'text.parse_math': False})
        figure = Figure(figsize=(8, height), layout='constrained')
        axes = figure.subplots()
        axes.set_title(textwrap.shorten(title, 90))
        draw(axes)
        if axes.get_legend_handles_labels()[1]:
            axes.legend(loc='center left', bbox_to_anchor=(1, 0.5))
        text = io.StringIO()
        figure.savefig(text, format='svg', metadata={'Date': None})
    return text.getvalue().partition('?>\n')[2].partition('>\n')[2]     # without XML's own head


def page(title, parts):
    """A page of [(heading, plots, text)]."""
    body = ''.join(f'<h2>{html.escape(heading)}</h2>\n{"".join(plots)}\n'
                   f'<pre>{html.escape(text)}</pre>\n' for heading, plots, text in parts)
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
            f'<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n'
            f'<body><h1>{html.escape(title)}</h1>\n{body}</body></html>\n')


def bars(labels, values, unit, colours='#2f62a8'):
    def draw(axes):
        shown = axes.barh(labels, values, color=colours)
        axes.bar_label(shown, [f'{value:,.0f}' if value >= 1000 else f'{value:.4g}'
                               for value in values], padding=3)
        axes.set_xlabel(unit)
        axes.margins(x=0.15)
        axes.invert_yaxis()
    return draw


# -- TopDown ----------------------------------------------------------------

def parts_of(found):
    """[(category, its percentage, colour)] at the last level of a Breakdown."""
    colours = {name: colour for top, shades in COLOURS.items()
               for name, colour in ((top, shades[0]), *zip(topdown.TREE[top], shades))}
    return [(name, percent, colours[name]) for percent, name in found.parts()]


def shares(found, title='Slots by category'):
    """A bar for each category."""
    names, percents, colours = zip(*parts_of(found))
    return plot(title, bars(names, percents, '% of all slots', colours))


def topdown_plots(found, timeline):
    """The shares of all slots, and how they change with time."""
    kinds = parts_of(found)
    yield shares(found)

    def draw(axes):
        # An interval lasts from the end of the one before to its own end.
        names, _, colours = zip(*kinds)
        ends, rows = zip((0, timeline[0][1]), *timeline)
        axes.stackplot(ends, [[at.share[name] for at in rows] for name in names], step='pre',
                       labels=names, colors=colours)
        axes.set(xlabel='seconds of guest time', ylabel='% of the slots', ylim=(0, 100),
                 xlim=(0, ends[-1]))
    if timeline:
        yield plot('Slots over time', draw)


def topdown_page(title, note, found, timeline):
    text = '\n'.join([note, '', *topdown.tree(found)])
    return page(title, [('TopDown', list(topdown_plots(found, timeline)), text)])


# -- the demo ---------------------------------------------------------------

def heat_map(lines):
    """(events, rows of (label, tenths)) of the map in what the arm guest prints."""
    events, rows, start = [], [], None
    for line in lines:
        if match := re.match(r' die  CPU  slot ', line):
            events, start = line[match.end():].split(), match.end()
        elif start and (match := re.match(r' +(\d+) +(\d+) +\d+ ', line)):
            cells = line[start:].ljust(4 * len(events))
            rows.append((f'die {match[1]}, CPU {match[2]}',
                         [max(SHADES.find(cells[4 * n + 1]), 0) for n in range(len(events))]))
        elif rows:
            break
    return events, rows


def arm_plots(lines):
    events, rows = heat_map(lines)

    def draw(axes):
        shown = axes.imshow([tenths for _, tenths in rows], aspect='auto', cmap='viridis', vmin=0,
                            vmax=9)
        axes.set_xticks(range(len(events)), [f'0x{event}' for event in events], rotation=90)
        axes.set_yticks(range(len(rows)), [label for label, _ in rows])
        axes.set_xlabel('event')
        axes.figure.colorbar(shown, label="tenths of the event's largest count")
    if rows:
        yield plot('Events of each CPU, by the PMCU', draw)


def power_plots(lines):
    rows, seconds = demo.nest(lines)
    reads = [(f'chip {chip}', count * 128 / seconds[0] / 1e9) for chip, count, event in rows
             if seconds and '128B_RD' in event]
    if reads:
        yield plot('Reads from memory (made-up counts of 128 bytes)',
                   bars(*zip(*reads), 'GB a second'), 1.6)
    if samples := demo.samples(lines):
        yield plot('Samples of the trace, by function', bars(*zip(*samples), 'samples'), 2)


def x86_plots(seen):
    programs = seen.programs

    def draw(axes):
        left = [0.0] * len(programs)
        for n, (name, _, colour) in enumerate(kinds[0]):
            values = [kind[n][1] for kind in kinds]
            axes.barh(list(programs), values, left=left, label=name, color=colour)
            left = [a + b for a, b in zip(left, values)]
        axes.set(xlabel='% of all slots', xlim=(0, 100))
        axes.invert_yaxis()
    kinds = [parts_of(found) for found in programs.values()]
    if kinds:
        yield plot('Slots of five programs', draw)


def demo_page(demos):
    """Of [(guest, demo.Seen, its exit status)]."""
    plots = {'arm': arm_plots, 'x86': x86_plots, 'power': power_plots}
    return page('What the emulated PMUs count', [
        (f'{name}: {"A RULE IS BROKEN" if bad else "all rules hold"}', list(plots[name](seen)),
         '\n'.join(seen)) for name, seen, bad in demos])


def write(path, text):
    ui.save(path, text)
    ui.say(f'wrote {ui.show(path)}')
