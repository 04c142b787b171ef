"""The page of results out of what `hone optimize` has recorded: `table.py FOLDER...`, each with an optimization.json, in Markdown.
Everything is read from the records; nothing is worked out here but shares of time."""

import datetime
import json
import pathlib
import sys


def read(folder):
    return json.loads((pathlib.Path(folder) / "optimization.json").read_text())["body"]


def primary(comparison):
    return next((one for one in comparison["judgements"] if one["primary"]), None)


def ratio(judgement):
    if judgement is None or judgement["estimate"] is None:
        return "not estimated"
    estimate = judgement["estimate"]
    return "%.3f [%.3f, %.3f]" % (estimate["ratio"], estimate["low"], estimate["high"])


def control(judgement):
    estimate = judgement and judgement.get("control")
    return "%.3f [%.3f, %.3f]" % (estimate["ratio"], estimate["low"], estimate["high"]) if estimate else "-"


def words(verdict):
    return verdict.replace("-", " ")


def machine(record):
    it = record["machine"]
    return "%s, %d cores, %.0f GiB, Linux %s, %s, PMU: %s" % (
        it["cpu_model"], it["cores"], it["memory_bytes"] / 2**30, it["kernel"], it["os"], it["pmu"])


def section(record):
    names = {artifact["variant"]: artifact for artifact in record["artifacts"]}
    day = datetime.datetime.fromtimestamp(record["started_unix_ms"] / 1000, datetime.timezone.utc).date()
    took = sum(step["took_s"] for step in record["steps"])
    print("## %s\n" % record["name"])
    print("`hone optimize %s`, %s, Hone %s, %.0f minutes.\n" % (
        record["experiment"], day, record["hone_version"], took / 60))
    for ceiling in record["ceilings"]:
        print("- Ceiling under `%s`: %.0f %% of the CPU is user code of the process." % (
            ceiling["workload"], ceiling["user_share"] * 100))
    print("\n| variant | against | load | CPU, ratio [95 % interval] | verdict | the same build against itself |")
    print("|---|---|---|---|---|---|")
    for comparison in record["comparisons"]:
        it = primary(comparison)
        print("| `%s` | `%s` | %s | %s | %s | %s |" % (
            comparison["b"], comparison["a"], comparison["workload"]["name"], ratio(it),
            words(it["verdict"]) if it else "-", control(it)))
    for comparison in record["on_baseline"]:
        it = primary(comparison)
        print("| `%s` | `%s` | %s | %s | %s | %s |" % (
            comparison["b"], comparison["a"], comparison["workload"]["name"], ratio(it),
            words(it["verdict"]) if it else "-", control(it)))
    print()
    for variant in record["variants"]:
        left = variant["state"].get("left-out") if isinstance(variant["state"], dict) else None
        if left:
            print("- `%s` was left out: %s" % (variant["name"], left["why"].splitlines()[0]))
        elif variant["decision"]:
            print("- `%s`: %s. %s" % (variant["name"], variant["decision"], variant["why"]))
    print("\nBest: %s.\n" % ("`%s`" % record["best"] if record["best"] else "none; no build was shown to be better than the baseline"))
    assert "baseline" in names, "a record without a baseline"


def main():
    if len(sys.argv) < 2:
        raise SystemExit("usage: table.py FOLDER...   folders of runs of `hone optimize`")
    records = [read(folder) for folder in sys.argv[1:]]
    for it in sorted({machine(record) for record in records}):
        print("Machine: %s.\n" % it)
    for record in records:
        section(record)


main()
