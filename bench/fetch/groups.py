"""Does `hone fetch xray` name what is wrong with a consumer group? Real librdkafka consumers with planted trouble, and groups without any.

Usage: groups.py HONE ADDRESS RUNS. All groups run at once, each kind by the classic protocol and by KIP-848. Ends with 3 when a finding is missing,
or when a group without trouble has one.
"""
import json
import subprocess
import sys
import threading
import time

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 4
RATE = 80
WATCHED_S = 60
# Each kind: what must be found, and what may be found as well.
KINDS = {
    "quiet": (None, ()),
    "behind": ("falls-behind", ()),
    "slow": ("slow-member", ()),
    # By KIP-848, a member that hangs before it gave partitions away keeps them.
    "stuck": ("stuck", ("idle-members", "reads-old-records")),
    "skew": ("skewed-partition", ("skewed-member",)),
    "rebalance": ("rebalances", ("idle-members", "skewed-member")),
    "idle": ("idle-members", ()),
    "nobody": ("nobody-reads", ()),
}
PROTOCOLS = ("classic", "consumer")
stop = threading.Event()


def produce(address, kind):
    """RATE records a second, each partition the same number; with skew, most of them to partition 0."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5})
    begun, sent = time.monotonic(), 0
    while not stop.is_set():
        while sent < (time.monotonic() - begun) * RATE:
            partition = 0 if kind == "skew" and sent % 10 < 7 else sent % PARTITIONS
            producer.produce(kind, value=b"x" * 100, partition=partition)
            sent += 1
        producer.poll(0)
        time.sleep(0.02)
    producer.flush(5)


def consumer(address, kind, protocol, number):
    settings = {
        "bootstrap.servers": address,
        "group.id": f"{kind}-{protocol}",
        "client.id": f"reader-{number}",
        "group.protocol": protocol,
        "auto.offset.reset": "latest",
    }
    if protocol == "classic":
        settings["partition.assignment.strategy"] = "range"
    reader = Consumer(settings)
    reader.subscribe([kind])
    return reader


def read(address, kind, protocol, number):
    """One member. A slow one works so long on each record that it gets through seven tenths of its share."""
    reader = consumer(address, kind, protocol, number)
    pause_s = 1 / (0.7 * RATE / 2) if kind == "behind" or (kind == "slow" and number == 1) else 0
    begun, done = None, 0
    while not stop.is_set():
        message = reader.poll(0.2)
        if message is None or message.error():
            continue
        begun, done = begun or time.monotonic(), done + 1
        if kind == "stuck" and number == 1 and done > 50:
            # It hangs on a record, and stays in the group. What it has read is not stored.
            stop.wait()
        if kind == "nobody" and time.monotonic() - begun > 8:
            break
        if pause_s and time.monotonic() < begun + done * pause_s:
            time.sleep(begun + done * pause_s - time.monotonic())
    reader.close()


def come_and_go(address, kind, protocol):
    while not stop.is_set():
        reader = consumer(address, kind, protocol, 9)
        until = time.monotonic() + 7
        while time.monotonic() < until and not stop.is_set():
            reader.poll(0.2)
        reader.close()
        stop.wait(5)


def start(address):
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_topics([NewTopic(kind, PARTITIONS) for kind in KINDS]).values():
        future.result(30)
    threads = [threading.Thread(target=produce, args=(address, kind)) for kind in KINDS]
    for kind in KINDS:
        for protocol in PROTOCOLS:
            members = PARTITIONS + 1 if kind == "idle" else 2
            threads += [threading.Thread(target=read, args=(address, kind, protocol, number)) for number in range(members)]
            if kind == "rebalance":
                threads.append(threading.Thread(target=come_and_go, args=(address, kind, protocol)))
    for thread in threads:
        thread.daemon = True
        thread.start()


def judge(record):
    seen = {group["group"]: group for group in record["body"]["groups"]}
    wrong = 0
    for kind, (wanted, allowed) in KINDS.items():
        for protocol in PROTOCOLS:
            name = f"{kind}-{protocol}"
            group = seen.get(name)
            found = group and [finding["kind"] for finding in group["findings"]]
            more = [one for one in found or [] if one != wanted and one not in allowed]
            holds = found is not None and (wanted is None or wanted in found) and not more
            wrong += not holds
            rates = group and f"{group['read_per_s']:.0f} of {group['written_per_s']:.0f} records/s read"
            print(f"{'holds' if holds else 'FAILS'} {name}: {', '.join(found) if found else found}; {rates}", flush=True)
    return wrong


def main():
    hone, address, runs = sys.argv[1], sys.argv[2], int(sys.argv[3])
    start(address)
    # Groups settle, and the slow ones have something to be behind of.
    time.sleep(20)
    wrong = 0
    for _ in range(runs):
        watched = subprocess.run(
            [hone, "fetch", "xray", address, "--duration", f"{WATCHED_S}s", "--json", "--quiet"],
            stdout=subprocess.PIPE, check=True)
        wrong += judge(json.loads(watched.stdout))
    print(f"{runs * len(KINDS) * len(PROTOCOLS)} groups, {wrong} not as planted")
    stop.set()
    sys.exit(3 if wrong else 0)


if __name__ == "__main__":
    main()
