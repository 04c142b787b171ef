"""Fetches per second of real consumers on real brokers, next to the range that `hone fetch whatif` predicts: `reality.py SECONDS`."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from kafka.admin import KafkaAdminClient, NewTopic

HONE = os.environ.get("HONE") or os.path.join(os.environ.get("CARGO_TARGET_DIR", "target"), "release", "hone")
PARTITIONS, BATCHES_PER_S, RECORD_BYTES = 4, 200, 1000
SETTINGS = [(1, 500), (16 << 10, 500), (64 << 10, 500), (256 << 10, 200)]
CLIENTS = ["wire", "librdkafka", "java"]
SETTLES_S = 3.0
RECORDS = tempfile.mkdtemp()
children = []


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


def start(command, ready=None, **more):
    """A child; with `ready`, once it has printed a line that begins so. Returns that line, too."""
    out = subprocess.PIPE if ready else subprocess.DEVNULL
    child = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL, text=True, start_new_session=True, **more)
    children.append(child)
    while ready:
        line = child.stdout.readline()
        if not line:
            raise SystemExit("reality: %s ended before it was ready" % command[0])
        if line.startswith(ready):
            return child, line
    return child, ""


def stop(child):
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGTERM)
        try:
            child.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    children.remove(child)


def embedded(folder):
    kafka, metrics = free_port(), free_port()
    child, _ = start([HONE, "broker", "--listen", "127.0.0.1:%d" % kafka, "--metrics-listen", "127.0.0.1:%d" % metrics,
                      "--data", folder], "ready")
    return child, "127.0.0.1:%d" % kafka, (metrics, r'vectorized_kafka_handler_requests_completed_total\{[^}]*handler="%s"[^}]*\} ([0-9.e+]+)', ("fetch", "produce"))


def apache(folder):
    metrics = free_port()
    child, line = start(["bench/kafka.sh", "run", folder], "ready ", env={**os.environ, "METRICS_PORT": str(metrics)})
    address = re.search(r"kafka=(\S+)", line).group(1)
    return child, address, (metrics, r'kafka_network_requestmetrics_requests_total\{[^}]*request="%s"[^}]*\} ([0-9.e+]+)', ("FetchConsumer", "Produce"))


def counts(counter):
    """Requests so far: of consumers, and of producers."""
    port, pattern, names = counter
    page = urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port, timeout=10).read().decode()
    return [sum(float(value) for value in re.findall(pattern % name, page)) for name in names]


def reader(client, address, topic, least, wait_ms):
    if client == "librdkafka":
        return start(["kcat", "-C", "-q", "-b", address, "-t", topic, "-o", "end", "-u", "-X", "fetch.min.bytes=%d" % least,
                      "-X", "fetch.wait.max.ms=%d" % wait_ms])[0]
    jars = ".hone/java/*"
    return start(["java", "-cp", jars, "bench/fetch/Reader.java", address, topic, str(PARTITIONS), str(least), str(wait_ms)])[0]


def load(address, topic, seconds, client, least, wait_ms):
    """The producers, with a consumer of Hone's own if the client is that."""
    command = [HONE, "load", address, "--topic", topic, "--rate", str(BATCHES_PER_S), "--bytes", str(RECORD_BYTES), "--acks", "1",
               "--warmup", "1", "--warmup-limit", "0", "--duration", "%ds" % seconds, "--compressible", "0%", "--quiet", "--json",
               "--output", os.path.join(RECORDS, topic + ".json")]
    if client == "wire":
        command += ["--consumers", "1", "--fetch-min-bytes", str(least), "--fetch-max-wait", "%dms" % wait_ms]
    return start(command)[0]


def predicted(batches_per_s, client, least, wait_ms):
    out = subprocess.run(
        [HONE, "fetch", "whatif", "--batches-per-s", "%.3f" % batches_per_s, "--batch-bytes", str(RECORD_BYTES + 78), "--partitions", str(PARTITIONS),
         "--consumer-client", client, "--fetch-min-bytes", str(least), "--fetch-max-wait", "%dms" % wait_ms, "--json"],
        check=True, capture_output=True, text=True).stdout
    return next(row for row in json.loads(out)["body"]["rows"] if row["is_asked"])["fetches_per_s"]


def measured(address, counter, topic, client, least, wait_ms, seconds):
    sent = load(address, topic, int(SETTLES_S * 2 + seconds), client, least, wait_ms)
    reads = None if client == "wire" else reader(client, address, topic, least, wait_ms)
    try:
        time.sleep(SETTLES_S * 1.5)
        before, begun = counts(counter), time.monotonic()
        time.sleep(seconds)
        after, took = counts(counter), time.monotonic() - begun
        if sent.poll() is not None or (reads and reads.poll() is not None):
            raise SystemExit("reality: the load or the %s consumer of %s ended early" % (client, topic))
        return [(late - early) / took for early, late in zip(before, after)]
    finally:
        for child in [sent, reads]:
            if child:
                stop(child)


def main():
    seconds = float(sys.argv[1])
    right = windows = 0
    print("| broker | client | fetch.min.bytes | max.wait | predicted fetches/s | measured | within |")
    print("|---|---|---|---|---|---|---|")
    for name, begin in [("embedded", embedded), ("Apache Kafka", apache)]:
        with tempfile.TemporaryDirectory() as folder:
            broker, address, counter = begin(folder)
            admin = KafkaAdminClient(bootstrap_servers=address)
            for client in CLIENTS:
                for number, (least, wait_ms) in enumerate(SETTINGS):
                    topic = "t-%s-%d" % (client, number)
                    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
                    found, batches_per_s = measured(address, counter, topic, client, least, wait_ms, seconds)
                    # Random arrivals bring some per cent more or fewer batches than asked for. Each is a request.
                    low, high = predicted(batches_per_s, client, least, wait_ms)
                    # A window counts whole requests.
                    slack = 1.5 / seconds
                    inside = low - slack <= found <= high + slack
                    right, windows = right + inside, windows + 1
                    print("| %s | %s | %d | %d ms | %.1f to %.1f | %.1f | %s |" % (
                        name, client, least, wait_ms, low, high, found, "yes" if inside else "no"), flush=True)
            admin.close()
            stop(broker)
    print("\nWithin the range: %d of %d." % (right, windows))
    sys.exit(0 if right >= 21 / 24 * windows else 3)


try:
    main()
finally:
    for child in list(children):
        stop(child)
    shutil.rmtree(RECORDS)
