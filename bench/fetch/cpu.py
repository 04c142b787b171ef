"""CPU of two brokers per fetched record, from the windows of bench/consumers.sh. Ends with 3 when hone-broker needs more than a third of Kafka's."""
import json
import math
import statistics
import sys

TARGETS = ("hone-broker", "kafka")
MOST = 1 / 3


def windows(folder, kind, name):
    with open(f"{folder}/{kind}.{name}.jsonl") as lines:
        return [json.loads(line)["body"] for line in lines]


def cpu_us(body):
    return 1e6 * body["facts"]["target_cpu"]["total_s"]


def catch_up(folder, name):
    return [cpu_us(body) / body["end_to_end"]["fetched_records"] for body in windows(folder, "catch-up", name)]


def tail(folder, name):
    pairs = zip(windows(folder, "with", name), windows(folder, "without", name))
    return [(cpu_us(read) - cpu_us(unread)) / read["end_to_end"]["fetched_records"] for read, unread in pairs]


def main(folder):
    good = True
    print("| reads | hone-broker, CPU per record | Apache Kafka | ratio |")
    print("|---|---|---|---|")
    for kind, of in (("a backlog", catch_up), ("the tail, four consumers", tail)):
        own, other = (of(folder, name) for name in TARGETS)
        # Each round has its own ratio: what disturbs the machine meets both.
        logs = [math.log(one / two) for one, two in zip(own, other) if one > 0 and two > 0]
        ratio = math.exp(statistics.fmean(logs))
        spread = f", {math.exp(min(logs)):.2f} to {math.exp(max(logs)):.2f}" if len(logs) > 1 else ""
        holds = len(logs) == len(own) and ratio <= MOST
        good = good and holds
        print(f"| {kind} | {statistics.median(own):.2f} µs | {statistics.median(other):.2f} µs | {ratio:.2f}{spread}{'' if holds else ' FAILS'} |")
    return 0 if good else 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
