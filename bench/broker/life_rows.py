"""Rows about a broker's life: start, recovery, memory, reading, many connections."""

import contextlib
import json
import statistics
import time

import load
import processes
import wire
from table import Ratio, goal

MIB = 1 << 20


def started(folder_of, child_of, bench, starts, topic):
    """Milliseconds from spawn to the ready line, and to the first record that is accepted."""
    ready, accepted = [], []
    for index in range(starts):
        bench.say(f"row e, start {index + 1} of {starts}: {folder_of.name}")
        with child_of(folder_of) as server:
            wire.first_accepted(server.address, topic, alive=server.child.alive)
            accepted.append((time.monotonic() - server.child.started_s) * 1000)
            ready.append(server.ready_s * 1000)
    return ready, accepted


def start(bench):
    """e1. Start over 100 partitions, and what is resident then."""
    topic, idle_s = "hundred", bench.pick(5, 1)
    ready, accepted, resident = {}, {}, {}
    for arm, child_of, starts in [("hone-broker", processes.hone_broker, bench.pick(10, 4)),
                                  ("Kafka", processes.kafka, bench.pick(3, 1))]:
        folder = bench.folder.new(arm.lower())
        with child_of(folder) as server, wire.Client(server.address) as client:
            client.create_topic(topic, 100)
            for partition in range(100):
                client.produce(topic, partition)
        ready[arm], accepted[arm] = started(folder, child_of, bench, starts, topic)
        with child_of(folder) as server:
            wire.first_accepted(server.address, topic, alive=server.child.alive)
            time.sleep(idle_s)
            resident[arm] = [processes.resident_mib(server.pid)]
    ours = statistics.median(accepted["hone-broker"])
    bench.report.table(
        "e1", "Start with 100 partitions that have a record each, after a clean stop", ["hone-broker", "Kafka"],
        [("spawn to ready line", "ms", ready, [Ratio("Kafka", "hone-broker")]),
         ("spawn to first Produce accepted", "ms", accepted,
          ["hone-broker" + goal(ours, most=50), Ratio("Kafka", "hone-broker")]),
         ("resident when idle", "MiB", resident, ["hone-broker" + goal(resident["hone-broker"][0], most=30)])],
        [f"{len(accepted['hone-broker'])} starts of hone-broker, {len(accepted['Kafka'])} of Kafka; the files are in the page cache",
         "Kafka's figure has the start of a JVM in it (and some 10 ms of its script); its heap is 1 GiB from the start, as shipped"])


def fill(server, topic, total_bytes):
    """Writes so much in batches of 100 records of 1 kB, as fast as it goes."""
    requests = max(1, total_bytes // 100_000)
    load.run(server, 100, 0.1, topic=topic, warmup=requests, records=100, bytes=1000, compressible=0, connections=4,
             in_flight=8, acks=1, timeout=60)


def recovery(bench):
    """e2. Start after kill -9 over a log of which nothing was closed."""
    size, partitions, topic = bench.pick(1024, 256) * MIB, 16, "filled"
    accepted, ready = {}, {}
    lost = []
    for arm, child_of in [("hone-broker", processes.hone_broker), ("Kafka", processes.kafka)]:
        accepted[arm], ready[arm] = [], []
        for index in range(bench.pick(3, 1)):
            folder = bench.folder.new(arm.lower())
            bench.say(f"row e, recovery {index + 1}: {arm}")
            with child_of(folder) as server:
                with wire.Client(server.address) as client:
                    client.create_topic(topic, partitions)
                    fill(server, topic, size)
                    ends = client.end_offsets(topic, partitions)
                server.kill()
            with child_of(folder) as server:
                wire.first_accepted(server.address, topic, alive=server.child.alive)
                accepted[arm].append((time.monotonic() - server.child.started_s) * 1000)
                ready[arm].append(server.ready_s * 1000)
                with wire.Client(server.address) as client:
                    missing = sum(ends.values()) + 1 - sum(client.end_offsets(topic, partitions).values())
            bench.report.raw("recovery", row="e", arm=arm, records=sum(ends.values()), missing=missing,
                             accepted_ms=accepted[arm][-1], ready_ms=ready[arm][-1])
            if missing > 0:
                lost.append(f"{arm} has LOST {missing} of {sum(ends.values())} records over the kill")
            bench.folder.drop(folder)
    median = statistics.median(accepted["hone-broker"])
    bench.report.table(
        "e2", f"Start after kill -9 over a log of {size // MIB} MiB in {partitions} partitions", ["hone-broker", "Kafka"],
        [("spawn to ready line", "ms", ready, []),
         ("spawn to first Produce accepted", "ms", accepted,
          ["hone-broker" + goal(median, most=2000), Ratio("Kafka", "hone-broker")])],
        ["no segment was full, so that every byte is to be checked; it is in the page cache",
         lost and "; ".join(lost) or "end offsets are the same before and after, but for the one record of the first Produce"])


def drained(bench, server, arm, topic, seconds, core):
    """GB/s of one consumer, and the broker's CPU for a GB."""
    command = [processes.program("examples/drain"), server.address, topic, 2, seconds]
    child = processes.Child(command, core, errors=str(bench.folder.new("drain.stderr")))
    with contextlib.closing(child):
        child.line(300)
        before = sum(processes.cpu_s(server.pid))
        child.say()
        found = json.loads(child.line(seconds + 120))
        cpu_s = sum(processes.cpu_s(server.pid)) - before
    giga = found["bytes"] / 1e9
    bench.report.raw("drain", row="e", arm=arm, broker_cpu_s=cpu_s, **found)
    return giga / found["seconds"], cpu_s / giga


def consume(bench):
    """e3. Reading a cached log, one connection, a core for each side."""
    size, topic, seconds, rounds = bench.pick(1024, 256) * MIB, "cached", bench.pick(5, 2), bench.pick(5, 2)
    cores = sorted(bench.cores)
    servers_core, clients_core = ({cores[0]}, {cores[1]}) if len(cores) > 1 else (None, None)
    speed, cost = {"hone-broker": [], "Kafka": []}, {"hone-broker": [], "Kafka": []}
    with contextlib.ExitStack() as stack:
        servers = [("hone-broker", stack.enter_context(processes.hone_broker(bench.folder.new("hone"), servers_core))),
                   ("Kafka", stack.enter_context(processes.kafka(bench.folder.new("kafka"), servers_core)))]
        for arm, server in servers:
            with wire.Client(server.address) as client:
                client.create_topic(topic, 2)
            fill(server, topic, size)
            drained(bench, server, arm, topic, bench.pick(5, 1), clients_core)
        for index in range(rounds):
            for arm, server in servers:
                bench.say(f"row e, reading, round {index + 1} of {rounds}: {arm}")
                gigabytes_per_s, cpu_s = drained(bench, server, arm, topic, seconds, clients_core)
                speed[arm].append(gigabytes_per_s)
                cost[arm].append(cpu_s)
    median = statistics.median(speed["hone-broker"])
    pinned = "broker on one core, consumer on another" if clients_core else "NOT pinned: this machine has one core"
    bench.report.table(
        "e3", f"Reading a cached log of {size // MIB} MiB: raw Fetch of 8 MiB, one connection, two requests on their way",
        ["hone-broker", "Kafka"],
        [("records read", "GB/s", speed,
          ["hone-broker" + goal(median, least=1), Ratio("hone-broker", "Kafka")]),
         ("CPU of the broker", "s/GB", cost, [Ratio("Kafka", "hone-broker")])],
        [f"{pinned}; batches of 100 records of 1 kB, not compressed; Kafka warmed up by a pass that does not count",
         "the consumer copies what it reads out of its socket and walks the batch headers"])


def life(bench):
    """e. Start, recovery, memory and reading."""
    start(bench)
    recovery(bench)
    consume(bench)


def idle(bench):
    """f. Many connections that do nothing beside some that do."""
    wanted = bench.pick(10_000, 2_000)
    held = min(wanted, bench.file_limit - 600)
    rate, seconds, rounds = 10_000, bench.pick(10, 3), bench.pick(5, 2)
    options = {"connections": 200, "partitions": 8, "in_flight": 4, "schedule": "poisson"}
    arms = {}
    notes = [] if held == wanted else [f"only {held:,} of {wanted:,} connections: a process may have {bench.file_limit:,} files"]
    names = ["p99_us", "p50_us", "cpu_us"]
    for arm, child_of in [("hone-broker", processes.hone_broker), ("Kafka", processes.kafka)]:
        found = {name: {"without": [], "with": []} for name in [*names, "resident"]}
        with child_of(bench.folder.new(arm.lower())) as server:
            load.run(server, rate, bench.pick(20, 4), **options)
            for index in range(rounds):
                for condition in ("without", "with"):
                    bench.say(f"row f, round {index + 1} of {rounds}: {arm} {condition} idle connections")
                    with contextlib.ExitStack() as stack:
                        if condition == "with":
                            child = processes.Child([processes.program("examples/idle"), server.address, held],
                                                    errors=str(bench.folder.new("idle.stderr")))
                            stack.enter_context(contextlib.closing(child))
                            child.line(120)
                        window = load.run(server, rate, seconds, **options)
                        resident = processes.resident_mib(server.pid)
                    bench.report.raw("window", row="f", round=index, arm=arm, idle=condition, resident_mib=resident,
                                     **window.facts())
                    found["resident"][condition].append(resident)
                    for name in names:
                        found[name][condition].append(getattr(window, name))
        arms[arm] = found
    columns = [f"{arm}, {condition}" for arm in arms for condition in ("without", "with")]

    def row(field):
        return {f"{arm}, {condition}": found[field][condition] for arm, found in arms.items()
                for condition in ("without", "with")}

    def ratios(most=None):
        return [Ratio("hone-broker, with", "hone-broker, without", most=most), Ratio("Kafka, with", "Kafka, without")]

    ours = arms["hone-broker"]["resident"]
    each_kib = (max(ours["with"]) - min(ours["without"])) * 1024 / held
    notes.append(f"hone-broker: at most {max(ours['with']):.1f} MiB resident, {each_kib:.1f} KiB for each idle connection (what "
                 "the kernel keeps for a socket is not in it)")
    bench.report.table(
        "f", f"200 busy connections, {rate:,} requests/s, without and with {held:,} idle ones", columns,
        [("p50", "µs", row("p50_us"), ratios()), ("p99", "µs", row("p99_us"), ratios(most=2)),
         ("CPU of a request", "µs", row("cpu_us"), ratios()), ("resident", "MiB", row("resident"), ratios())],
        ["every idle connection has asked for ApiVersions once", *notes])
