"""Prints what faults cost, from the records of bench/faults.sh: one row for each target, acks and fault, with the middle of its runs.

Ends with 3 when a planted time was not measured within 100 ms, when acks=all lost a record, or when the consumer read another number of records.
"""
import json
import os
import statistics
import sys

NAMES = {"kill": "killed (SIGKILL)", "term": "shut down (SIGTERM)", "stop": "stopped for 3 s"}
PLANTED_S = 5.0
STOPPED_S = 3.0
WITHIN_S = 0.1


def main(paths):
    groups, wrong = {}, []
    for path in paths:
        target, acks, fault, _ = os.path.basename(path)[:-5].rsplit("-", 3)
        body = json.load(open(path))["body"]
        outage = body["outage"]
        done = outage["faults"][0]
        groups.setdefault((target, acks, fault), []).append((body, outage))
        gap = done["acks"]
        if done.get("problem") or gap is None:
            wrong.append(f"{path}: {done.get('problem') or 'no gap'}")
            continue
        # The last acknowledgement of a partition comes up to one request before the fault.
        if fault != "term" and abs(gap["from_s"] - PLANTED_S) > WITHIN_S:
            wrong.append(f"{path}: the gap begins at {gap['from_s']:.3f} s, planted at {PLANTED_S} s")
        if target == "hone-broker" and abs(gap["length_s"] - STOPPED_S) > WITHIN_S:
            wrong.append(f"{path}: the gap is {gap['length_s']:.3f} s long, planted {STOPPED_S} s")
        # The consumer counted for itself: it reads what is stored, and never what was lost.
        stored = outage["acked_records"] - (outage["lost_records"] or 0) + (outage["unacked_records"] or 0)
        if body["end_to_end"]["fetched_records"] != stored:
            wrong.append(f"{path}: the consumer read {body['end_to_end']['fetched_records']} records, and {stored} are stored")
        if acks == "all" and outage["lost_records"]:
            wrong.append(f"{path}: acks=all lost {outage['lost_records']} records")
    print("| target | acks | requests/s | leader | runs | longest gap | requests as before after | longest wait | lost of the acknowledged | stored, not acknowledged |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for (target, acks, fault), found in sorted(groups.items()):
        middle = lambda values: statistics.median(list(values))
        gap = middle(outage["faults"][0]["acks"]["length_s"] for _, outage in found if outage["faults"][0]["acks"])
        back = [outage["faults"][0]["recovery"] for _, outage in found]
        back = [value["after-s"] for value in back if isinstance(value, dict)]
        back = f"{middle(back):.2f} s" if len(back) == len(found) else "not in every run"
        stalls = middle(max((s["end_ns"] - s["begin_ns"]) / 1e9 for s in body["facts"]["stalls"]["kept"]) if body["facts"]["stalls"]["kept"] else 0
                        for body, _ in found)
        rate = found[0][0]["workload"]["requests_per_s"]
        lost = ", ".join(str(outage["lost_records"]) for _, outage in found)
        twice = middle(outage["unacked_records"] for _, outage in found)
        print(f"| {target} | {acks} | {rate:.0f} | {NAMES[fault]} | {len(found)} | {gap:.2f} s | {back} | {stalls:.2f} s | {lost} | {twice:.0f} |")
    print()
    for text in wrong:
        print("FAILS", text)
    print(f"{sum(map(len, groups.values()))} runs, {len(wrong)} not as planted")
    return 3 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
