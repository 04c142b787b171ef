#!/usr/bin/env python3
"""Habits that a replay has to know beside what comes: called by bench/whatif.sh habits, in the environment of script/bootstrap --test.

Twelve settings of librdkafka: linger, batch size, codec, a bound on records, transactions, and a thread that waits for each answer. For each a
topic is written with today's settings, and from that topic alone the batches under another setting are predicted. Then the same schedule is sent
with that setting, and read back. Prints a row for each, and how many came within the range that was told."""
import argparse
import json
import random
import subprocess
import sys
import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

A = argparse.ArgumentParser()
A.add_argument("--hone", required=True)
A.add_argument("--broker", required=True)
A.add_argument("--seconds", type=int, default=14)
A.add_argument("--only", help="numbers of settings, as in 3,7")
ARGS = A.parse_args()

# Runtimes load their classes, connections are opened.
COLD_S = 4
VALUE_BYTES = 100


class Habit:
    """How an application writes: arrivals a second at random moments, a commit after so many milliseconds, or one record after the other."""

    def __init__(self, rate=1_500, keys=300, commit_ms=None, waits=False, **settings):
        self.rate, self.keys, self.commit_ms, self.waits = rate, keys, commit_ms, waits
        self.settings = {name.replace("_", "."): value for name, value in settings.items()}

    def write(self, topic):
        settings = {"bootstrap.servers": ARGS.broker, "enable.idempotence": True, **self.settings}
        if self.commit_ms:
            settings["transactional.id"] = topic
        producer = Producer(settings)
        if self.commit_ms:
            producer.init_transactions()
        (self.one_by_one if self.waits else self.paced)(producer, topic)
        producer.flush(30)

    def one_by_one(self, producer, topic):
        end, acked, sent = time.monotonic() + ARGS.seconds, [0], 0
        while time.monotonic() < end:
            producer.produce(topic, bytes(VALUE_BYTES), on_delivery=lambda error, _: acked.__setitem__(0, acked[0] + 1))
            sent += 1
            while acked[0] < sent:
                producer.poll(0.05)

    def paced(self, producer, topic):
        dice = random.Random(7)
        begin = time.monotonic()
        due, end, commit = begin, begin + ARGS.seconds, begin + (self.commit_ms or 0) / 1e3
        if self.commit_ms:
            producer.begin_transaction()
        while due < end:
            due += dice.expovariate(self.rate)
            if self.commit_ms and due >= commit:
                self.wait(producer, commit)
                producer.commit_transaction()
                producer.begin_transaction()
                commit += self.commit_ms / 1e3
            self.wait(producer, due)
            key = f"key-{dice.randrange(self.keys)}".encode() if self.keys else None
            producer.produce(topic, dice.randbytes(VALUE_BYTES // 2) + bytes(VALUE_BYTES // 2), key)
        if self.commit_ms:
            producer.commit_transaction()

    @staticmethod
    def wait(producer, due):
        while (left := due - time.monotonic()) > 0:
            time.sleep(min(left, 0.002))
        producer.poll(0)


def settings():
    """Name, today, the change as options of whatif, and the habit with it."""
    def plain(**more):
        return Habit(**{"linger_ms": 5, **more})
    return [
        ("linger 5 -> 20", plain(), ["--linger", "20ms"], plain(linger_ms=20)),
        ("linger 5 -> 50", plain(), ["--linger", "50ms"], plain(linger_ms=50)),
        ("linger 50 -> 10", plain(linger_ms=50), ["--linger", "10ms"], plain(linger_ms=10)),
        ("linger 20 -> 100, 4,000 B", plain(linger_ms=20), ["--linger", "100ms", "--batch-size", "4000"],
         plain(linger_ms=100, batch_size=4_000)),
        ("linger 5 -> 30, zstd", plain(), ["--linger", "30ms", "--codec", "zstd"], plain(linger_ms=30, compression_codec="zstd")),
        ("no keys, linger 5 -> 50", plain(keys=0), ["--linger", "50ms"], plain(keys=0, linger_ms=50)),
        ("37 records, linger 100 -> 300", plain(linger_ms=100, batch_num_messages=37), ["--linger", "300ms"],
         plain(linger_ms=300, batch_num_messages=37)),
        ("37 -> 200 records, linger 100", plain(linger_ms=100, batch_num_messages=37), ["--batch-records", "200"],
         plain(linger_ms=100, batch_num_messages=200)),
        ("commits after 50 ms, linger 5 -> 100", plain(commit_ms=50), ["--linger", "100ms"], plain(commit_ms=50, linger_ms=100)),
        ("commits after 200 ms, linger 5 -> 50", plain(commit_ms=200), ["--linger", "50ms"], plain(commit_ms=200, linger_ms=50)),
        ("waits, linger 5 -> 20", plain(waits=True), ["--linger", "20ms"], plain(waits=True, linger_ms=20)),
        ("waits, linger 5 -> 0", plain(waits=True), ["--linger", "0"], plain(waits=True, linger_ms=0)),
    ]


def hone(*arguments):
    done = subprocess.run([ARGS.hone, *arguments, "--json", "-q"], capture_output=True, text=True, check=False)
    if not done.stdout.strip().startswith("{"):
        sys.exit(f"hone {' '.join(arguments)}: {done.stderr}")
    return json.loads(done.stdout)["body"]


def main():
    last = f"{ARGS.seconds - COLD_S}s"
    admin = AdminClient({"bootstrap.servers": ARGS.broker})
    chosen = {int(number) for number in ARGS.only.split(",")} if ARGS.only else None
    within = rows = 0
    print(f"{'setting':<40}{'today':>9}{'predicted':>11}{'range':>22}{'came':>9}")
    for number, (name, today, change, then) in enumerate(settings(), 1):
        if chosen and number not in chosen:
            continue
        topics = [f"habits-{number}-{when}-{int(time.time())}" for when in ("today", "then")]
        for made in admin.create_topics([NewTopic(topic, 4, 1) for topic in topics]).values():
            made.result(30)
        today.write(topics[0])
        found = hone("batch", "whatif", ARGS.broker, topics[0], "--last", last, "--ledger", "/dev/null", *change)
        then.write(topics[1])
        came = hone("batch", "xray", ARGS.broker, topics[1], "--last", last, "--no-payload")["topics"][0]["batches_per_s"]
        rows += 1
        if not found["predicted"]:
            print(f"{name:<40}refused: {found['refused']}", flush=True)
            continue
        told = found["predicted"]["batches_per_s"]
        is_within = told["low"] <= came <= told["high"]
        within += is_within
        print(f"{name:<40}{found['today']['batches_per_s']:>9.1f}{told['value']:>11.1f}{told['low']:>11.1f} to {told['high']:<7.1f}{came:>9.1f}"
              f"  {'within' if is_within else 'OUTSIDE'}", flush=True)
    print(f"{within} of {rows} within the range that was told")


main()
