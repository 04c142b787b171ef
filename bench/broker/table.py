"""What was measured: kept as JSON lines, shown as Markdown."""

import json
import math
import statistics


def number(value):
    """Three digits that mean something, and no exponent."""
    if value is None or math.isnan(value):
        return "-"
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}"


def spread(values):
    """Median [least, most]."""
    values = [value for value in values if value is not None and not math.isnan(value)]
    if not values:
        return "-"
    middle = number(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} [{number(min(values))}, {number(max(values))}]"


class Ratio:
    """`over` divided by `under`, round by round, and what it should be."""

    def __init__(self, over, under, least=None, most=None):
        self.over, self.under, self.least, self.most = over, under, least, most

    def values(self, arms):
        pairs = zip(arms.get(self.over, []), arms.get(self.under, []))
        return [over / under for over, under in pairs if under and over is not None]

    def text(self, arms):
        values = self.values(arms)
        if not values:
            return ""
        return f"{self.over} ÷ {self.under}: {spread(values)}{goal(statistics.median(values), self.least, self.most)}"


def goal(value, least=None, most=None):
    if least is not None:
        return f" (goal ≥ {number(least)}: {'met' if value >= least else 'not met'})"
    if most is not None:
        return f" (goal ≤ {number(most)}: {'met' if value <= most else 'not met'})"
    return ""


class Report:
    """Collects lines; every one is written at once, so that a run that is broken off leaves what it had."""

    def __init__(self, lines, page):
        self.lines, self.page = lines, page

    def raw(self, kind, **fields):
        self.lines.write(json.dumps({"kind": kind, **fields}, default=str) + "\n")
        self.lines.flush()

    def text(self, text=""):
        for out in (self.page, None):
            print(text, file=out, flush=True)

    def machine(self, **facts):
        self.raw("machine", **facts)
        self.text("Machine: " + "; ".join(f"{name.replace('_', ' ')} {value}" for name, value in facts.items()))

    def table(self, row, title, arms, measures, notes=()):
        """`measures`: (name, unit, {arm: values}, [ratios])."""
        self.text(f"\n### {row}. {title}\n")
        self.text(f"| median [least, most] | {' | '.join(arms)} | ratio |")
        self.text("|---|" + "---|" * (len(arms) + 1))
        for name, unit, values, ratios in measures:
            cells = [spread(values.get(arm, [])) if values.get(arm) else "" for arm in arms]
            said = "; ".join(part if isinstance(part, str) else part.text(values) for part in ratios)
            self.text(f"| {name}, {unit} | {' | '.join(cells)} | {said.strip('; ')} |")
            self.raw("measure", row=row, name=name, unit=unit, values=values,
                     ratios={f"{r.over}/{r.under}": r.values(values) for r in ratios if isinstance(r, Ratio)})
        if notes:
            self.text()
        for note in notes:
            self.text(f"- {note}")
            self.raw("note", row=row, text=note)
