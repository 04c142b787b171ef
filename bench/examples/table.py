"""The page of results out of what `hone optimize` has recorded: `table.py FOLDER...`, each with an optimization.json, in Markdown.
Everything is read from the records; nothing is worked out here but sums of time."""

import datetime
import json
import pathlib
import sys

COLUMNS = ["pgo", "csir", "bolt", "pgo+bolt"]
STRUCTURES = {"L1i 32 KiB 8-way": "L1i", "iTLB 64 x 4 KiB": "iTLB", "L1d 32 KiB 8-way": "L1d", "last level 4 MiB 16-way": "last level"}


def read(folder):
    return json.loads((pathlib.Path(folder) / "optimization.json").read_text())["body"]


def primary(comparison):
    return next((one for one in comparison["judgements"] if one["primary"]), None)


def span(estimate):
    return "%.3f [%.3f, %.3f]" % (estimate["ratio"], estimate["low"], estimate["high"]) if estimate else "-"


def words(judgement):
    return judgement["verdict"].replace("-", " ") if judgement else "not compared"


def comparisons(record):
    return record["comparisons"] + record["on_baseline"]


def machine(record):
    it = record["machine"]
    return "%s, %d cores, %.0f GiB, Linux %s, %s, PMU: %s" % (
        it["cpu_model"], it["cores"], it["memory_bytes"] / 2**30, it["kernel"], it["os"], it["pmu"])


def beside_baseline(record, variant, load):
    """What a variant brought beside the baseline under a load, in a cell."""
    for comparison in comparisons(record):
        if (comparison["a"], comparison["b"], comparison["workload"]["name"]) == ("baseline", variant, load):
            it = primary(comparison)
            return "%.3f %s" % (it["estimate"]["ratio"], words(it)) if it and it["estimate"] else words(it)
    return ""


def summary(records):
    print("| example | load | user share | %s | best |" % " | ".join("`%s`" % name for name in COLUMNS))
    print("|---|---|---|%s---|" % ("---|" * len(COLUMNS)))
    for record in records:
        for ceiling in record["ceilings"]:
            cells = [beside_baseline(record, name, ceiling["workload"]) for name in COLUMNS]
            best = "`%s`" % record["best"] if record["best"] else "the baseline"
            print("| %s | %s | %.0f %% | %s | %s |" % (
                record["name"], ceiling["workload"], ceiling["user_share"] * 100, " | ".join(cells), best))
    print()


def counted(comparison):
    """The ratio of exact instructions per operation, and misses in 1,000 instructions on both sides."""
    it = comparison.get("counted")
    if not it:
        return ["-", "-"]
    sides = [{"instructions": sum(side["instructions"]) / len(side["instructions"]),
              **{missed["structure"]: missed["per_operation"] for missed in side["misses"]}} for side in it["counts"]]
    a, b = sides
    misses = ["%s %.1f -> %.1f" % (short, *(1000 * side[name] / side["instructions"] for side in sides))
              for name, short in STRUCTURES.items() if name in a]
    return ["%.4f" % (b["instructions"] / a["instructions"]), ", ".join(misses)]


def row(comparison):
    it = primary(comparison)
    print("| `%s` | `%s` | %s | %s | %s | %s | %s |" % (
        comparison["b"], comparison["a"], comparison["workload"]["name"], span(it and it["estimate"]), words(it),
        span(it and it.get("control")), " | ".join(counted(comparison))))


def section(record):
    day = datetime.datetime.fromtimestamp(record["started_unix_ms"] / 1000, datetime.timezone.utc).date()
    took = sum(step["took_s"] for step in record["steps"])
    print("## %s\n" % record["name"])
    print("`hone optimize %s`, %s, Hone %s, %.0f minutes.\n" % (
        record["experiment"], day, record["hone_version"], took / 60))
    print("| variant | against | load | CPU, ratio [95 % interval] | verdict | the same build against itself | instructions, exact | misses in 1,000 instructions |")
    print("|---|---|---|---|---|---|---|---|")
    for comparison in comparisons(record):
        row(comparison)
    print()
    for variant in record["variants"]:
        left = variant["state"].get("left-out") if isinstance(variant["state"], dict) else None
        if left:
            print("- `%s` was left out: %s" % (variant["name"], left["why"].splitlines()[0]))
        elif variant["decision"]:
            print("- `%s`: %s, %s." % (variant["name"], variant["decision"], variant["why"]))
    best = "`%s`" % record["best"] if record["best"] else "the baseline; no build was shown to be better"
    print("\nBest: %s.\n" % best)


def main():
    if len(sys.argv) < 2:
        raise SystemExit("usage: table.py FOLDER...   folders of runs of `hone optimize`")
    records = [read(folder) for folder in sys.argv[1:]]
    for it in sorted({machine(record) for record in records}):
        print("Machine: %s.\n" % it)
    summary(records)
    for record in records:
        section(record)


main()
