"""Rows about Produce: CPU of a request, highest rate, fsync, validated and recompressed."""

import contextlib
import json
import resource
import subprocess
import tomllib

import load
import processes
from table import Ratio

WARM = "every server has had {requests:,} requests before the first window, so that Kafka's JIT compiler has done its work"


def warm(servers, rate, seconds, **options):
    """Not counted. A JIT compiler needs the code path that is measured, at the rate that is measured."""
    for server, config, topic in servers:
        load.run(server, rate, seconds, config=config, topic=topic, **options)
    return WARM.format(requests=int(rate * seconds))


def interleaved(bench, row, servers, rounds, rate, seconds, **options):
    """A B C A B C ...; `servers`: (server, arm, config, topic)."""
    windows = {arm: [] for _, arm, _, _ in servers}
    for index in range(rounds):
        for server, arm, config, topic in servers:
            bench.say(f"row {row}, round {index + 1} of {rounds}: {arm}")
            window = load.run(server, rate, seconds, config=config, topic=topic, **options)
            bench.report.raw("window", row=row, round=index, arm=arm, config=config, options=options, **window.facts())
            windows[arm].append(window)
    return windows


def of(windows, field):
    return {arm: [getattr(window, field) for window in all_of_it] for arm, all_of_it in windows.items()}


def doubts(windows):
    """What a reader of the table must know about the windows behind it."""
    notes = []
    for arm, all_of_it in windows.items():
        odd = [window.outcome for window in all_of_it if window.outcome != "steady"]
        errors = sum(sum(window.errors.values()) for window in all_of_it)
        if odd:
            notes.append(f"{arm}: {len(odd)} of {len(all_of_it)} windows were not steady ({', '.join(sorted(set(odd)))})")
        if errors:
            notes.append(f"{arm}: {errors} requests had errors")
    others = max((window.others for one in windows.values() for window in one), default=0)
    if others > 0.05:
        notes.append(f"other programs used up to {others:.0%} of the machine meanwhile: not a quiet machine")
    return notes


def users(windows):
    """How the CPU is split."""
    shares = {arm: [window.user_share for window in one if window.user_share is not None] for arm, one in windows.items()}
    return {arm: [100 * share for share in values] for arm, values in shares.items()}


def single_record(bench):
    """a. CPU of a request with one record."""
    rate, seconds, rounds = 20_000, bench.pick(10, 3), bench.pick(7, 2)
    options = {"connections": 4, "partitions": 8}
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(processes.hone_broker(bench.folder.new("hone")))
        kafka = stack.enter_context(processes.kafka(bench.folder.new("kafka")))
        echo = stack.enter_context(processes.echo(8))
        servers = [(ours, "hone-broker", None, None), (kafka, "Kafka", None, None),
                   (echo, "echo", None, processes.ECHO_TOPIC)]
        note = warm([(server, config, topic) for server, _, config, topic in servers], rate, bench.pick(20, 4), **options)
        windows = interleaved(bench, "a", servers, rounds, rate, seconds, **options)
        resident = {"hone-broker": [processes.resident_mib(ours.pid)], "Kafka": [processes.resident_mib(kafka.pid)]}
    bench.report.table(
        "a", f"One record of 100 bytes a request, acks=1, {rate:,} requests/s, 4 connections",
        ["hone-broker", "Kafka", "echo"],
        [("CPU of a request", "µs", of(windows, "cpu_us"),
          [Ratio("Kafka", "hone-broker", least=6), Ratio("hone-broker", "echo", most=2)]),
         ("of it in user mode", "%", users(windows), []),
         ("p50", "µs", of(windows, "p50_us"), [Ratio("hone-broker", "Kafka", most=1)]),
         ("p99", "µs", of(windows, "p99_us"), [Ratio("hone-broker", "Kafka", most=1)]),
         ("reached", "requests/s", of(windows, "reached_per_s"), []),
         ("resident afterwards", "MiB", resident, [])],
        [note, "CPU is user and system time of the server's process in the window, divided by its requests",
         "echo is an epoll loop that answers the same frames with constant bytes: what no broker can go below",
         *doubts(windows)])


P99_LIMIT_US = 10_000


class Search:
    """The highest rate at which p99 stays below the limit."""

    def __init__(self, bench, server, arm, topic):
        self.bench, self.server, self.arm, self.topic = bench, server, arm, topic
        self.failed = {}
        self.found = 0

    def holds(self, rate, seconds):
        """One failure may be a neighbour's; two in a row count."""
        return self.holds_now(rate, seconds) or self.holds_now(rate, seconds)

    def holds_now(self, rate, seconds):
        window = load.run(self.server, rate, seconds, topic=self.topic, accept_late=False, connections=8, in_flight=128,
                          partitions=8, timeout=2, lateness_limit=P99_LIMIT_US / 1000)
        steady = window.outcome == "steady" and not window.errors
        held = steady and window.p99_us < P99_LIMIT_US and window.reached_per_s > 0.98 * rate
        self.bench.say(f"row b, {self.arm}: {rate:,.0f}/s {'holds' if held else 'does not hold'} "
                       f"(p99 {window.p99_us / 1000:.1f} ms, {window.outcome})")
        self.bench.report.raw("step", row="b", arm=self.arm, rate=rate, held=held, **window.facts())
        if not held:
            self.failed[rate] = window
        return held

    def run(self):
        seconds, precision = self.bench.pick(5, 2), self.bench.pick(1.05, 1.3)
        low, high = 0, 20_000
        while self.holds(high, seconds):
            low, high = high, high * 2
        low = low or self.first_below(high, seconds)
        while low and high / low > precision:
            middle = (low + high) / 2
            low, high = (middle, high) if self.holds(middle, seconds) else (low, middle)
        # A rate counts that holds for longer than the steps of the search, too.
        while low and not self.holds(low, 3 * seconds):
            low *= 0.93
        self.found = low
        return low

    def first_below(self, rate, seconds):
        while rate > 100:
            rate /= 2
            if self.holds(rate, seconds):
                return rate
        return 0

    def why(self):
        """Why the next higher rate did not hold."""
        window = self.failed[min(rate for rate in self.failed if rate > self.found)]
        if window.generator_cores > 0.9:
            return f"generator-limited at {window.asked_per_s:,.0f}/s: its one thread used {window.generator_cores:.2f} cores"
        if window.outcome == "generator-late":
            return (f"at {window.asked_per_s:,.0f}/s the generator was late, though its thread used only "
                    f"{window.generator_cores:.2f} cores: the server and others leave it too few")
        if window.outcome != "steady":
            return f"{window.outcome} at {window.asked_per_s:,.0f}/s"
        return f"p99 {window.p99_us / 1000:.0f} ms at {window.asked_per_s:,.0f}/s"


def highest_rate(bench):
    """b. Highest rate with p99 below 10 ms."""
    with contextlib.ExitStack() as stack:
        servers = [(stack.enter_context(processes.hone_broker(bench.folder.new("hone"))), "hone-broker", None),
                   (stack.enter_context(processes.kafka(bench.folder.new("kafka"))), "Kafka", None),
                   (stack.enter_context(processes.echo(8)), "echo", processes.ECHO_TOPIC)]
        note = warm([(server, None, topic) for server, _, topic in servers], 20_000, bench.pick(20, 4), partitions=8)
        found = {arm: [] for _, arm, _ in servers}
        whys = {}
        for _ in range(bench.pick(3, 1)):
            for server, arm, topic in servers:
                search = Search(bench, server, arm, topic)
                found[arm].append(search.run())
                whys[arm] = search.why()
    limit = max(found["echo"])
    ours = max(found["hone-broker"])
    notes = [f"{arm} goes no higher because: {why}" for arm, why in whys.items()]
    if ours > 0.9 * limit:
        notes.append(f"hone-broker's figure is generator-limited: `hone load` and this machine reach {limit:,.0f}/s with the "
                     "echo server, which does nothing")
    bench.report.table(
        "b", "Highest rate with p99 below 10 ms (one record of 100 bytes a request, acks=1, 8 connections, 128 in flight each)",
        ["hone-broker", "Kafka", "echo"],
        [("requests", "1/s", found, [Ratio("hone-broker", "Kafka", least=4), Ratio("echo", "hone-broker")])],
        [note, "generator and server share the machine's cores", *notes])


# More than a connection with one request on its way can ask for.
OFFERED_PER_S = 100_000


def flushed(bench, server, arm, config, connections, partitions, seconds):
    """As many requests as are answered, one on its way on each connection; with what the disk was asked to flush."""
    before = processes.disk_flushes(bench.folder.path)
    window = load.run(server, OFFERED_PER_S, seconds, config=config, connections=connections, partitions=partitions,
                      in_flight=1, acks="all", timeout=2, warmup=500)
    after = processes.disk_flushes(bench.folder.path)
    per_request = (after - before) / (window.acked + 500) if before is not None else None
    bench.report.raw("window", row="c", arm=arm, connections=connections, partitions=partitions, config=config,
                     disk_flushes_per_request=per_request, **window.facts())
    return window, per_request


def fsync_each(bench, seconds):
    """Requests/s and CPU of one thread that appends and syncs."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([processes.program("examples/fsync_each"), bench.folder.path, "170", str(seconds)],
                          capture_output=True, check=True, timeout=seconds + 60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = json.loads(done.stdout)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    bench.report.raw("fsync_each", row="c", cpu_s=cpu_s, **found)
    return found["fsyncs"] / found["seconds"], cpu_s * 1e6 / found["fsyncs"]


FSYNC_ARMS = [("hone-broker", "hone", None), ("hone-broker, write.caching", "hone", {"write.caching": "true"}),
              ("Kafka, flush.messages=1", "kafka", {"flush.messages": "1"}), ("Kafka as it is", "kafka", None)]
EACH = "one fsync a request"


def shape_name(shape):
    return ", ".join(f"{count} {what}{'s' if count > 1 else ''}" for count, what in zip(shape, ("connection", "partition")))


def synced(shape, flushes_per_request):
    """Whether the disk's own count allows that every answer was synced; unknown counts as yes."""
    connections, _ = shape
    return all(flushes is None or flushes > 0.9 / connections for flushes in flushes_per_request)


def fsync(bench):
    """c. acks=all."""
    seconds, rounds = bench.pick(5, 2), bench.pick(5, 2)
    shapes = [(1, 1), (32, 1), (32, 8)]
    with contextlib.ExitStack() as stack:
        servers = {"hone": stack.enter_context(processes.hone_broker(bench.folder.new("hone"))),
                   "kafka": stack.enter_context(processes.kafka(bench.folder.new("kafka")))}
        arms, notes = [], []
        for arm, server, config in FSYNC_ARMS:
            try:
                load.run(servers[server], 20_000, bench.pick(5, 1), config=config, acks="all", timeout=2)
                arms.append((arm, server, config))
            except load.LoadFailed as error:
                notes.append(f"{arm} is left out: {str(error).splitlines()[-1]}")
        rates = {shape: {arm: [] for arm, _, _ in arms} | {EACH: []} for shape in shapes}
        cpus = {shape: {arm: [] for arm, _, _ in arms} | {EACH: []} for shape in shapes}
        waits = {shape: {arm: [] for arm, _, _ in arms} for shape in shapes}
        flushes = {shape: {arm: [] for arm, _, _ in arms} for shape in shapes}
        for index in range(rounds):
            for shape in shapes:
                bench.say(f"row c, round {index + 1} of {rounds}: {shape_name(shape)}")
                each_rate, each_cpu = fsync_each(bench, seconds)
                rates[shape][EACH].append(each_rate)
                cpus[shape][EACH].append(each_cpu)
                for arm, server, config in arms:
                    window, per_request = flushed(bench, servers[server], arm, config, *shape, seconds)
                    rates[shape][arm].append(window.reached_per_s)
                    cpus[shape][arm].append(window.cpu_us)
                    waits[shape][arm].append(window.sent_p50_us)
                    flushes[shape][arm].append(per_request)
    measures = []
    for shape in shapes:
        name = shape_name(shape)
        group = ["hone-broker did not sync: nothing to compare"]
        if synced(shape, flushes[shape].get("hone-broker", [])):
            group = [Ratio("hone-broker", EACH, least=5 if shape[0] > 1 else None),
                     Ratio("hone-broker", "Kafka, flush.messages=1")]
        measures += [(f"{name}: requests", "1/s", rates[shape], group),
                     (f"{name}: CPU of a request", "µs", cpus[shape], [Ratio("Kafka, flush.messages=1", "hone-broker")]),
                     (f"{name}: p50 from sent to answered", "µs", waits[shape], []),
                     (f"{name}: flushes of the disk", "a request", flushes[shape], [])]
    if processes.disk_flushes(bench.folder.path) is None:
        notes.append("this disk does not count its flushes, so that nothing here proves that anybody synced")
    bench.report.table(
        "c", "acks=all, one record of 100 bytes a request, one request on its way on each connection",
        [arm for arm, _, _ in arms] + [EACH], measures,
        ["flush.messages=1 on the topic is Kafka's only way to sync before it answers; by default it leaves that to the kernel",
         f"{OFFERED_PER_S:,} requests/s are offered, more than one request on its way can make",
         "flushes are counted for the whole disk, those of others too; who syncs before each answer needs at least one flush for "
         "as many requests as there are connections, and who has fewer did not", *notes])


def orders_topic():
    """Schema and shape of the workload `validate` in examples/broker/hone.toml."""
    experiment = tomllib.loads((processes.ROOT / "examples/broker/hone.toml").read_text())
    workload = experiment["workload"]["validate"]
    schema = json.dumps(json.loads(workload["topic_config"]["hone.value.schema"]), separators=(",", ":"))
    shape = {"payload": workload["payload"], "records": workload["records_per_batch"], "bytes": workload["record_bytes"],
             "compression": workload["compression"]}
    return schema, shape, workload["requests_per_s"]


def validated(bench):
    """d. A topic that checks and packs anew."""
    schema, shape, rate = orders_topic()
    seconds, rounds = bench.pick(10, 3), bench.pick(5, 2)
    zstd = {"compression.type": "zstd"}
    options = {**shape, "connections": 4, "partitions": 8}
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(processes.hone_broker(bench.folder.new("hone")))
        kafka = stack.enter_context(processes.kafka(bench.folder.new("kafka")))
        servers = [(ours, "hone-broker, schema and zstd", {**zstd, "hone.value.schema": schema}, None),
                   (ours, "hone-broker, zstd", zstd, None), (kafka, "Kafka, zstd", zstd, None)]
        note = warm([(server, config, topic) for server, _, config, topic in servers], rate, bench.pick(30, 4), **options)
        windows = interleaved(bench, "d", servers, rounds, rate, seconds, **options)
    both, alone, theirs = (arm for _, arm, _, _ in servers)
    ratios = [Ratio(theirs, alone), Ratio(theirs, both)]
    bench.report.table(
        "d", f"Topic with compression.type=zstd, producer with lz4, {shape['records']} JSON records of about "
        f"{shape['bytes']} bytes a request, acks=1, {rate:,} requests/s, 4 connections", [both, alone, theirs],
        [("CPU of a request", "µs", of(windows, "cpu_us"), ratios),
         ("of it in user mode", "%", users(windows), []),
         ("p50", "µs", of(windows, "p50_us"), [Ratio(alone, theirs, most=1), Ratio(both, theirs)]),
         ("p99", "µs", of(windows, "p99_us"), [Ratio(alone, theirs, most=1), Ratio(both, theirs)])],
        [note, "Kafka checks no values: its column is to be read beside `hone-broker, zstd`; the schema comes on top",
         "zstd at each broker's default level (3)", *doubts(windows)])
