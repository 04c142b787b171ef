#!/usr/bin/env python3
"""What `hone batch whatif` foresees beside what comes: called by bench/whatif.sh.

For each client and load a topic is written with setting A. From that topic alone the batches under settings B are foreseen; then the same
open-loop schedule (the same seed) is sent with each B, and read back. Prints a row for each, and the errors in the end."""
import argparse
import json
import os
import re
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

A = argparse.ArgumentParser()
A.add_argument("--table", metavar="FILE", help="no load: rows of an earlier --out as Markdown")
A.add_argument("--hone")
A.add_argument("--broker")
A.add_argument("--name", help="of the broker, for the table")
A.add_argument("--seconds", type=int, default=20)
A.add_argument("--java", help="folder of kafka-clients' jars")
A.add_argument("--franz-go", help="the program of examples/clients/franz-go")
A.add_argument("--java-client", default="examples/clients/java/Client.java")
A.add_argument("--clients", default="librdkafka,java,franz-go")
A.add_argument("--loads", type=int, default=3, help="so many of the three loads")
A.add_argument("--few", action="store_true", help="one load and two settings for each client, to see that it works")
A.add_argument("--out", help="rows as JSON lines")
ARGS = A.parse_args()

# Records a second, bytes, keys, partitions.
LOADS = [(2_000, 100, "uniform:500", 6), (600, 300, "zipf:200", 12), (5_000, 100, "none", 6)]
COLD_S = 4
# By their own defaults.
IDEMPOTENT = ("java", "franz-go")
# Linger in ms, batch size, codec: of today, and the changes.
TODAY = (5, None, "none")
CHANGES = [(1, None, "none"), (20, None, "none"), (50, None, "none"), (20, 4_000, "none"), (20, None, "zstd")]


def create(topic, partitions):
    """CreateTopics, version 2."""
    host, port = ARGS.broker.rsplit(":", 1)
    def text(value):
        return struct.pack(">h", len(value)) + value.encode()
    body = struct.pack(">i", 1) + text(topic) + struct.pack(">ihii", partitions, 1, 0, 0) + struct.pack(">ib", 30_000, 0)
    frame = struct.pack(">hhi", 19, 2, 1) + text("whatif") + body
    with socket.create_connection((host, int(port)), 30) as line:
        line.sendall(struct.pack(">i", len(frame)) + frame)
        size = struct.unpack(">i", line.recv(4, socket.MSG_WAITALL))[0]
        answer = line.recv(size, socket.MSG_WAITALL)
    at = 12 + 2 + len(topic)
    error = struct.unpack(">h", answer[at:at + 2])[0]
    if error:
        sys.exit(f"{topic}: CreateTopics says {error}")


def settings(client, linger_ms, batch):
    """The client's own names for them."""
    names = {"librdkafka": ("linger.ms", "batch.size"), "java": ("linger.ms", "batch.size"), "franz-go": ("linger_ms", "batch_max_bytes")}
    found = [f"{names[client][0]}={linger_ms}"]
    if batch:
        found.append(f"{names[client][1]}={batch}")
    if client == "librdkafka":
        # Keys as the others place them, so that all have the same partitions.
        found.append("partitioner=murmur2_random")
    return [part for each in found for part in ("--client-set", each)]


def command(client):
    if client == "java":
        return f"java -Xmx256m -XX:+UseSerialGC -cp '{ARGS.java}/*' {ARGS.java_client}"
    return {"librdkafka": "librdkafka", "franz-go": ARGS.franz_go}[client]


def hone(*arguments, may_fail=False):
    done = subprocess.run([ARGS.hone, *arguments, "--json", "-q"], capture_output=True, text=True)
    if not done.stdout.strip().startswith("{"):
        if may_fail:
            return None, done.stderr.strip()
        sys.exit(f"hone {' '.join(arguments)}: {done.stderr}")
    return json.loads(done.stdout)["body"], done.stderr.strip()


def load(client, topic, shape, linger_ms, batch, codec):
    """Requests a second by the client's own count, and the mean latency in ms from when a record was due to its acknowledgement."""
    rate, size, keys, partitions = shape
    create(topic, partitions)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "latency.hgrm")
        body, _ = hone(
            "load", ARGS.broker, "--client", command(client), *settings(client, linger_ms, batch), "--topic", topic, "--rate", str(rate),
            "--bytes", str(size), "--keys", keys, "--duration", f"{ARGS.seconds}s", "--warmup", "1", "--connections", "1",
            "--compression", codec, "--hgrm", path, *(["--idempotent"] if client in IDEMPOTENT else []))
        if body["outcome"] != "steady":
            sys.exit(f"{client} at {rate}/s was not steady, so nothing can be held against it: {body['outcome']}")
        with open(path, encoding="utf-8") as file:
            mean_us = float(re.search(r"Mean *= *([0-9.]+)", file.read()).group(1))
    requests = body["facts"].get("produce_requests")
    return {"requests_per_s": requests and requests / body["duration_s"], "latency_ms": mean_us / 1e3}


def whatif(topic, *options):
    """Without the first seconds, in which runtimes load their classes and connections are opened."""
    return hone("batch", "whatif", ARGS.broker, topic, "--last", f"{ARGS.seconds - COLD_S}s", *options, may_fail=True)


def read_back(topic):
    """What came, by the headers of the same seconds."""
    body, _ = hone("batch", "xray", ARGS.broker, topic, "--last", f"{ARGS.seconds - COLD_S}s", "--no-payload")
    found = body["topics"][0]
    return {"bytes": found["mean_bytes"]["value"], "batches_per_s": found["batches_per_s"]}


def options(linger_ms, batch, codec):
    found = ["--linger", f"{linger_ms}ms"] + (["--batch-size", str(batch)] if batch else [])
    return found + (["--codec", codec] if codec != "none" else [])


def row(client, shape, today_ms, change, foreseen, why, measured):
    linger_ms, batch, codec = change
    found = {"broker": ARGS.name, "client": client, "load": shape, "today_linger_ms": today_ms, "linger_ms": linger_ms, "batch": batch,
             "codec": codec, "measured": measured}
    if foreseen is None or foreseen.get("predicted") is None:
        found["refused"] = why if foreseen is None else foreseen["refused"]
        return found
    value = foreseen["predicted"]
    today = foreseen["replayed"]["wait_ms_mean"]
    found["foreseen"] = {"bytes": value["batch_bytes_mean"]["value"], "batches_per_s": value["batches_per_s"]["value"],
                         "low": value["batch_bytes_mean"]["low"], "high": value["batch_bytes_mean"]["high"],
                         "requests_per_s": value["requests_per_s"]["value"], "more_wait_ms": value["wait_ms_mean"]["value"] - today}
    found["error"] = found["foreseen"]["bytes"] / measured["bytes"] - 1
    return found


def told(found):
    rate, size, keys, partitions = found["load"]
    change = f"{found['today_linger_ms']} -> {found['linger_ms']} ms" + (f", {found['batch']} B" if found["batch"] else "")
    change += f", {found['codec']}" if found["codec"] != "none" else ""
    head = f"{found['broker']:<8}{found['client']:<11}{rate:>6}/s {size:>4} B {keys:<12}{partitions:>3}  {change:<20}"
    if "refused" in found:
        return f"{head}refused: {found['refused'][:140]}"
    own, came = found["foreseen"], found["measured"]
    inside = "in range" if own["low"] <= came["bytes"] <= own["high"] else ""
    requests = f"{came['requests_per_s']:.0f}" if came["requests_per_s"] else "-"
    return (f"{head}{own['bytes']:>8.0f} {came['bytes']:>8.0f} {100 * found['error']:>+7.1f} %  {inside:<9}"
            f"{own['requests_per_s']:>8.0f} {requests:>8} {own['more_wait_ms']:>+9.1f} {came['more_latency_ms']:>+8.1f}")


def table(path):
    """Rows of --out as Markdown: one line for each client, broker and load."""
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    print("| client | broker | load | settings | bytes a batch off, median (worst) | within the range | requests/s off, worst | wait off, worst |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    groups = {}
    for found in rows:
        groups.setdefault((found["client"], found["broker"], tuple(found["load"])), []).append(found)
    for (client, broker, (rate, size, keys, partitions)), group in groups.items():
        head = f"| {client} | {broker} | {rate}/s, {size} B, {keys}, {partitions} partitions | {len(group)} |"
        told = [found for found in group if "foreseen" in found]
        if not told:
            print(f"{head} refused: {group[0]['refused']} | | | |")
            continue
        off = sorted((found["error"] for found in told), key=abs)
        inside = sum(found["foreseen"]["low"] <= found["measured"]["bytes"] <= found["foreseen"]["high"] for found in told)
        asked = [found["foreseen"]["requests_per_s"] / found["measured"]["requests_per_s"] - 1 for found in told
                 if found["measured"]["requests_per_s"]]
        waits = [found["foreseen"]["more_wait_ms"] - found["measured"]["more_latency_ms"] for found in told]
        requests = f"{100 * max(asked, key=abs):+.1f} %" if asked else "not told"
        print(f"{head} {100 * statistics.median(map(abs, off)):.1f} % ({100 * off[-1]:+.1f} %) | {inside} of {len(told)} | {requests} | "
              f"{max(waits, key=abs):+.1f} ms |")
    errors = [abs(found["error"]) for found in rows if "error" in found]
    within = sum(found["foreseen"]["low"] <= found["measured"]["bytes"] <= found["foreseen"]["high"] for found in rows if "foreseen" in found)
    print(f"\n{len(rows)} settings, {len(rows) - len(errors)} refused; off by {100 * statistics.median(errors):.1f} % in the median, "
          f"{100 * max(errors):.1f} % at worst; {within} of {len(errors)} within the range that was told.")


def main():
    rows = []
    print(f"{'broker':<8}{'client':<11}{'load':<33}{'change':<20}{'bytes a batch: foreseen, measured, error':<46}"
          "requests/s: foreseen, measured   more wait, ms: foreseen, measured")
    clients = [client for client in ARGS.clients.split(",") if {"java": ARGS.java, "franz-go": ARGS.franz_go}.get(client, True)]
    for client in clients:
        for number, shape in enumerate(LOADS[:1] if ARGS.few else LOADS[:ARGS.loads]):
            prefix = f"whatif-{client}-{number}-{int(time.time())}"
            today = load(client, f"{prefix}-today", shape, *TODAY)
            changes = CHANGES[1:3] if ARGS.few else CHANGES
            # At once, while the last seconds are still those.
            said = [whatif(f"{prefix}-today", *options(*change)) for change in changes]
            for change, (foreseen, why) in zip(changes, said):
                topic = "-".join([prefix, *(str(part or 0) for part in change)])
                window = load(client, topic, shape, *change)
                measured = {**read_back(topic), "requests_per_s": window["requests_per_s"],
                            "more_latency_ms": window["latency_ms"] - today["latency_ms"]}
                rows.append(row(client, shape, TODAY[0], change, foreseen, why, measured))
                print(told(rows[-1]), flush=True)
    errors = [abs(found["error"]) for found in rows if "error" in found]
    if errors:
        print(f"{len(errors)} foreseen, {len(rows) - len(errors)} refused; bytes of a batch off by {100 * statistics.median(errors):.1f} % in the "
              f"median, {100 * max(errors):.1f} % at worst")
    if ARGS.out:
        with open(ARGS.out, "a", encoding="utf-8") as out:
            for found in rows:
                out.write(json.dumps(found) + "\n")


if ARGS.table:
    table(ARGS.table)
elif not (ARGS.hone and ARGS.broker and ARGS.name):
    A.error("--hone, --broker and --name say what is measured")
else:
    main()
