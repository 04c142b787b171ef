"""Folds the stacks of `perf script` and draws them: one box for each function, as wide as its share of the samples.

    perf script -F comm,tid,ip,sym | flame.py TITLE > OUT.svg
"""

import html
import re
import sys

WIDTH, ROW, MARGIN, TOP = 1200, 17, 10, 44
# Narrower than this nobody sees it.
LEAST_WIDTH = 0.4
LETTER = 6.6
HASH = re.compile(r"::h[0-9a-f]{16}$")


class Box:
    def __init__(self, name, kernel=False):
        self.name, self.kernel, self.samples, self.above = name, kernel, 0, {}

    def add(self, frames):
        box = self
        box.samples += 1
        for name, kernel in frames:
            box = box.above.setdefault(name, Box(name, kernel))
            box.samples += 1


def stacks(lines):
    """Outermost frame first, the thread's name below all."""
    thread, frames = None, []
    for line in lines:
        if not line.strip():
            if thread and frames:
                yield [(thread, False), *reversed(frames)]
            thread, frames = None, []
        elif not line.startswith((" ", "\t")) or thread is None:
            thread, frames = line.split()[0], []
        else:
            address, _, name = line.strip().partition(" ")
            # The kernel lives in the upper half of the addresses.
            frames.append((HASH.sub("", name.strip()) or "[unknown]", int(address, 16) >> 63 == 1))
    if thread and frames:
        yield [(thread, False), *reversed(frames)]


def depth_of(box, least):
    return 1 + max((depth_of(one, least) for one in box.above.values() if one.samples >= least), default=0)


def colour(box):
    """Warm for the program, cool for the kernel; the name decides the shade, so that it stays from graph to graph."""
    shade = sum(box.name.encode()) % 40
    return f"rgb({90 + shade},{140 + shade},{200 + shade // 2})" if box.kernel else f"rgb({215 + shade},{120 + 2 * shade},{60 + shade})"


def draw(box, left, level, height, total, out):
    width = (WIDTH - 2 * MARGIN) * box.samples / total
    if width < LEAST_WIDTH:
        return
    top = height - MARGIN - (level + 1) * ROW
    name = html.escape(box.name)
    letters = int((width - 4) / LETTER)
    label = box.name if len(box.name) <= letters else box.name[:letters - 1] + "…"
    out.append(f'<g><title>{name}: {box.samples:,} samples, {box.samples / total:.1%}</title>'
               f'<rect x="{left:.1f}" y="{top}" width="{max(0.1, width - 0.4):.1f}" height="{ROW - 1}" fill="{colour(box)}"/>'
               + (f'<text x="{left + 3:.1f}" y="{top + 12}">{html.escape(label)}</text>' if letters > 2 else "") + "</g>")
    for one in sorted(box.above.values(), key=lambda one: one.name):
        draw(one, left, level + 1, height, total, out)
        left += (WIDTH - 2 * MARGIN) * one.samples / total


def main():
    root = Box("all")
    for frames in stacks(sys.stdin):
        root.add(frames)
    if not root.samples:
        sys.exit("flame.py: no sample has a stack: the process was idle, or perf could not look into it")
    least = root.samples * LEAST_WIDTH / WIDTH
    height = TOP + MARGIN + ROW * depth_of(root, least)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">',
           '<style>text{font:11px monospace} rect:hover{stroke:#000}</style>',
           f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
           f'<text x="{MARGIN}" y="18">{html.escape(" ".join(sys.argv[1:])[:160])}</text>',
           f'<text x="{MARGIN}" y="34">{root.samples:,} samples of CPU time; orange: program, blue: kernel</text>']
    draw(root, MARGIN, 0, height, root.samples, out)
    print("\n".join([*out, "</svg>"]))


if __name__ == "__main__":
    main()
