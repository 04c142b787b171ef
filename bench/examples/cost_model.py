"""Fits the cost model of exact counts to what `hone optimize` measured: `cost_model.py FOLDER...`, each with an optimization.json.
The model gives a program's cycles in user code as its instructions, each weighed as 1, plus a penalty for each taken branch and for each miss of
a modelled structure. The ratio of two builds needs no more than these weights. The kernel's share of the CPU is the same for both.
Weights are found by least squares of the logarithms of the ratios, each ratio as heavy as it was measured exactly, and are held near what such a
penalty costs on the CPUs of the time, so that few builds can't give a weight that no CPU has. The band of an error is what remains beyond the
scatter of the measurement when an example is predicted from all others."""

import json
import math
import pathlib
import sys

# What it costs in units of one instruction (about 0.4 cycles): a taken branch ends a group of fetched instructions; a second level answers after
# 14 cycles (Intel and AMD optimization manuals), of which the queue before the decoders hides a half, and the reorder buffer three quarters; a
# page walk's first stop, the second TLB, takes 7 to 8; memory takes about 250, of which about four run at the same time.
PRIOR = {
    "taken branches": 0.75,
    "L1i 32 KiB 8-way": 18.0,
    "iTLB 64 x 4 KiB": 18.0,
    "L1d 32 KiB 8-way": 9.0,
    "last level 4 MiB 16-way": 150.0,
}
# How far a weight may leave its prior: a factor of 1.3 is one standard deviation. With 2, few builds gave weights that no CPU has, and predicted
# nothing better.
PRIOR_SD = math.log(1.3)
Z95 = 1.959964


class Row:
    """One measured comparison with its counts."""

    def __init__(self, record, comparison, share):
        judged = next(one for one in comparison["judgements"] if one["primary"])
        estimate = judged["estimate"]
        self.example, self.load = record["name"], comparison["workload"]["name"]
        self.a, self.b, self.share = comparison["a"], comparison["b"], share
        self.measured = [estimate[key] for key in ("ratio", "low", "high")]
        self.log = math.log(estimate["ratio"])
        self.error = math.log(estimate["high"] / estimate["low"]) / 2 / Z95
        self.verdict = judged["verdict"]
        self.sides = [side_of(counts) for counts in comparison["counted"]["counts"]]

    def predicted(self, weights):
        """Ratio of the whole CPU per operation."""
        a, b = (side["instructions"] + sum(weights[name] * side[name] for name in weights) for side in self.sides)
        return 1 - self.share + self.share * b / a


def side_of(counts):
    misses = {missed["structure"]: missed["per_operation"] for missed in counts["misses"]}
    instructions = sum(counts["instructions"]) / len(counts["instructions"])
    return {"instructions": instructions, "taken branches": counts["branches_taken"], **misses}


def rows_of(folder):
    record = json.loads((pathlib.Path(folder) / "optimization.json").read_text())["body"]
    shares = {ceiling["workload"]: ceiling["user_share"] for ceiling in record["ceilings"]}
    rows = {}
    for comparison in record["on_baseline"] + record["comparisons"]:
        judged = any(one["primary"] and one["estimate"] for one in comparison["judgements"])
        if judged and comparison.get("counted") and comparison["a"] == "baseline":
            row = Row(record, comparison, shares[comparison["workload"]["name"]])
            rows.setdefault((row.load, row.b), row)
    return list(rows.values())


def loss(weights, rows):
    fit = sum(((math.log(row.predicted(weights)) - row.log) / math.hypot(row.error, 0.01)) ** 2 for row in rows)
    return fit + sum((math.log(weights[name] / PRIOR[name]) / PRIOR_SD) ** 2 for name in weights)


def fitted(rows):
    """Steps along each weight, ever finer."""
    weights = dict(PRIOR)
    best, step = loss(weights, rows), 2.0
    while step > 1.002:
        moved = False
        for name in weights:
            for factor in (step, 1 / step):
                tried = {**weights, name: weights[name] * factor}
                found = loss(tried, rows)
                if found < best - 1e-9:
                    weights, best, moved = tried, found, True
        if not moved:
            step = math.sqrt(step)
    return weights


def beyond_scatter(rows, predicted):
    """Standard deviation of the model's own error in logarithms: what the residuals have beyond the scatter of the measurement."""
    residuals = [math.log(predicted[id(row)]) - row.log for row in rows]
    own = sum(residual ** 2 - row.error ** 2 for residual, row in zip(residuals, rows)) / len(rows)
    return math.sqrt(max(own, 0.0)), math.sqrt(sum(residual ** 2 for residual in residuals) / len(rows))


def main():
    if len(sys.argv) < 2:
        raise SystemExit("usage: cost_model.py FOLDER...   folders of runs of `hone optimize`")
    rows = [row for folder in sys.argv[1:] for row in rows_of(folder)]
    examples = sorted({row.example for row in rows})
    weights = fitted(rows)
    unseen = {}
    for example in examples:
        others = fitted([row for row in rows if row.example != example])
        unseen.update({id(row): row.predicted(others) for row in rows if row.example == example})
    own, whole = beyond_scatter(rows, unseen)
    for name, weight in weights.items():
        print("%-26s %8.2f instructions (before: %.2f)" % (name, weight, PRIOR[name]))
    print("\n%d builds of %d examples; an example that the model did not see: error %.1f %%, of which the measurement's own scatter explains all but"
          " %.1f %%\n" % (len(rows), len(examples), 100 * whole, 100 * own))
    print("| example | load | build | CPU measured | CPU predicted | instructions alone | within the interval |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        ratio, low, high = row.measured
        alone = row.predicted({})
        told = unseen[id(row)]
        inside = "yes" if low * math.exp(-Z95 * own) <= told <= high * math.exp(Z95 * own) else "no"
        print("| %s | %s | `%s` | %.3f [%.3f, %.3f] | %.3f | %.3f | %s |" % (
            row.example, row.load, row.b, ratio, low, high, told, alone, inside))


main()
