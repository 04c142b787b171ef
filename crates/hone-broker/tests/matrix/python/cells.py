"""The cells of the matrix that all Python clients play alike.

A client program brings an adapter (`Producer`, `Consumer`, a dictionary of its own cells) and calls `serve`. It is
started as `PROGRAM BOOTSTRAP`; then every line of stdin is one cell, `NAME key=value ...`, and is answered by one
JSON object a step and a last one, `{"step": "end"}`. Judging is left to the caller: a program only counts.
"""

import json
import sys
import threading
import time
import zlib
from collections import namedtuple

PATIENCE_S = 45
MEMBERS = 3

# Headers are a list of pairs; the timestamp is in milliseconds.
Record = namedtuple("Record", "partition offset key value headers timestamp")


def value(number):
    return f"value {number} of a record that is long enough to be worth compressing".encode()


def say(step, **fields):
    print(json.dumps({"step": step, **fields}), flush=True)


def attempt(step, action):
    """A step on its own: what fails is said, and the next step is played all the same."""
    try:
        say(step, **action())
    except Exception as error:
        say(step, error=f"{type(error).__name__}: {error}")


def wait_for(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise TimeoutError(f"{what} after {PATIENCE_S} s")


def serve(client, own):
    cells = {
        "produce": produce, "round-trip": round_trip, "consume": consume, "resume": resume, "group": group,
        "static": static, "txn": transaction, "txn-offsets": transaction_offsets, "txn-open": transaction_open,
        "txn-fence": transaction_fence,
    }
    for line in sys.stdin:
        name, *words = line.split()
        parameters = dict(word.split("=", 1) for word in words)
        try:
            if name in own:
                own[name](**parameters)
            else:
                cells[name](client, **parameters)
        except Exception as error:
            say("failed", error=f"{type(error).__name__}: {error}")
        say("end")


def produce(client, topic, records, codec="none", acks="all", idempotent="false"):
    producer = client.Producer(codec=codec, acks=acks, idempotent=idempotent == "true")
    for number in range(int(records)):
        producer.send(topic, value(number), key=f"key {number}".encode())
    producer.flush()
    producer.close()
    say("produce", records=int(records))


def as_text(octets):
    return None if octets is None else octets.decode()


def round_trip(client, topic, timestamp):
    """Null and empty keys and values, repeated headers, a timestamp of the client's own."""
    producer = client.Producer()
    sent = [
        (None, b"null key", []),
        (b"tombstone", None, []),
        (b"", b"", []),
        (b"headers", b"v", [("a", b"1"), ("b", b""), ("a", b"2")]),
    ]
    for index, (key, content, headers) in enumerate(sent):
        producer.send(topic, content, key=key, partition=0, headers=headers, timestamp=int(timestamp) + index)
    producer.flush()
    producer.close()
    found = read(client.Consumer(topic, partitions=1), len(sent))
    said = [
        {
            "key": as_text(record.key), "value": as_text(record.value), "timestamp": record.timestamp,
            "headers": [[name, as_text(content)] for name, content in record.headers],
        }
        for record in found
    ]
    say("round-trip", records=said)


def read(consumer, wanted):
    """Reads that many records, and what comes in half a second more: there should be none. Closes the consumer."""
    found = []

    def enough():
        found.extend(consumer.poll(0.2))
        return len(found) >= wanted

    try:
        wait_for(enough, f"{len(found)} of {wanted} records")
    except TimeoutError as error:
        raise TimeoutError(f"{len(found)} of {wanted} records read") from error
    finally:
        found.extend(consumer.poll(0.5))
        consumer.close()
    return found


def checksums(records):
    """For each partition the number of records and a checksum over the values in the order of arrival."""
    found = {}
    for record in records:
        one = found.setdefault(str(record.partition), {"records": 0, "crc": 0})
        one["records"] += 1
        one["crc"] = zlib.crc32(record.value + b"\n", one["crc"])
    return found


def consume(client, topic, partitions, records, isolation="read_uncommitted"):
    consumer = client.Consumer(topic, partitions=int(partitions), isolation=isolation)
    say("consume", partitions=checksums(read(consumer, int(records))))


def read_and_commit(client, topic, group, wanted):
    """Reads until there is enough, commits exactly what was wanted, and leaves."""
    consumer = client.Consumer(topic, group=group, auto_commit=False)
    found = []
    wait_for(lambda: found.extend(consumer.poll(0.2)) or len(found) >= wanted, f"{wanted} records")
    taken, next_offsets = found[:wanted], {}
    for record in taken:
        next_offsets[record.partition] = record.offset + 1
    consumer.commit(next_offsets)
    consumer.close()
    return taken


def resume(client, topic, group, records, first):
    early = read_and_commit(client, topic, group, int(first))
    late = read_and_commit(client, topic, group, int(records) - int(first))
    say("resume", first=len(early), second=len(late), distinct=len({record.value for record in early + late}))


class Member(threading.Thread):
    """A member of a group, polling in a thread of its own until it is told to leave."""

    def __init__(self, client, topic, group, protocol, seen, instance=None):
        super().__init__(daemon=True)
        self.open = lambda: client.Consumer(topic, group=group, protocol=protocol, instance=instance)
        self.seen, self.owned, self.read, self.revocations = seen, [], 0, 0
        self.leaving, self.error = threading.Event(), None
        self.start()

    def run(self):
        try:
            consumer = self.open()
            while not self.leaving.is_set():
                for record in consumer.poll(0.1):
                    self.seen.add(record.value)
                    self.read += 1
                self.owned, self.revocations = consumer.owned(), consumer.revocations
            consumer.close()
        except Exception as error:
            self.error = error

    def leave(self):
        self.leaving.set()
        self.join(PATIENCE_S)
        if self.error:
            raise self.error
        if self.is_alive():
            raise TimeoutError("a member could not be closed")


def balanced(members, partitions):
    """The members' partitions, once each partition has one owner and the numbers differ by one at most."""
    for member in members:
        if member.error:
            raise member.error
    owned = [list(member.owned) for member in members]
    sizes = [len(one) for one in owned]
    whole = sorted(partition for one in owned for partition in one) == list(range(partitions))
    return owned if whole and max(sizes) - min(sizes) <= 1 else None


def group(client, topic, group, partitions, records, protocol="classic"):
    """Three members; one leaves; another one comes. Records are written in each of the three phases."""
    partitions, records, seen = int(partitions), int(records), set()
    producer = client.Producer()
    members = [Member(client, topic, group, protocol, seen) for _ in range(MEMBERS)]
    everyone = list(members)

    def phase(step, number):
        for index in range(records):
            producer.send(topic, value(number * records + index), partition=index % partitions)
        producer.flush()
        wanted = (number + 1) * records
        try:
            owned = wait_for(lambda: balanced(members, partitions), step)
            wait_for(lambda: len(seen) >= wanted, f"{step}: {wanted} records")
            say(step, owned=owned, distinct=len(seen))
        except TimeoutError as error:
            raise TimeoutError(f"{error}: owned {[member.owned for member in members]}, {len(seen)} read") from None

    try:
        phase("three", 0)
        members.pop().leave()
        phase("left", 1)
        members.append(Member(client, topic, group, protocol, seen))
        everyone.append(members[-1])
        phase("joined", 2)
    finally:
        for member in members:
            member.leaving.set()
    for member in members:
        member.leave()
    producer.close()
    say("group", records=sum(member.read for member in everyone), distinct=len(seen))


def static(client, topic, group, partitions, protocol="classic"):
    """A static member that goes and comes back finds its partitions, and the others notice nothing."""
    partitions, seen = int(partitions), set()
    members = [Member(client, topic, group, protocol, seen, f"instance-{index}") for index in range(MEMBERS)]
    try:
        before = wait_for(lambda: balanced(members, partitions), "three static members")
        calm = [member.revocations for member in members[:-1]]
        members.pop().leave()
        members.append(Member(client, topic, group, protocol, seen, f"instance-{MEMBERS - 1}"))
        after = wait_for(lambda: balanced(members, partitions), "three static members again")
        revoked = [member.revocations for member in members[:-1]] != calm
        say("static", before=before, after=after, revoked=revoked)
    finally:
        for member in members:
            member.leaving.set()
    for member in members:
        member.leave()


def transaction(client, topic, id, first, records, finish):
    producer = client.Producer(transactional_id=id)
    producer.begin()
    for number in range(int(first), int(first) + int(records)):
        producer.send(topic, value(number), partition=0)
    # Otherwise a client may drop on abort what it has not sent.
    producer.flush()
    producer.finish(finish)
    producer.close()
    say("txn", records=int(records))


def transaction_offsets(client, topic, source, group, id, records, finish):
    """Reads records of `source`, writes as many to `topic`, and sends the offsets along with the transaction."""
    consumer = client.Consumer(source, group=group, auto_commit=False)
    found = []
    wait_for(lambda: found.extend(consumer.poll(0.2)) or len(found) >= int(records), f"{records} records")
    producer = client.Producer(transactional_id=id)
    producer.begin()
    for record in found[:int(records)]:
        producer.send(topic, record.value, partition=0)
    producer.flush()
    producer.send_offsets(consumer, source, group, {0: found[int(records) - 1].offset + 1})
    producer.finish(finish)
    producer.close()
    consumer.close()
    say("txn-offsets", records=int(records))


def transaction_open(client, topic, id, visible, records):
    """What readers see while a transaction is open, and what the admin client says of it."""
    producer = client.Producer(transactional_id=id)
    producer.begin()
    for number in range(int(records)):
        producer.send(topic, value(number), partition=0)
    producer.flush()
    everything = read(client.Consumer(topic, partitions=1), int(visible) + int(records))
    committed = read(client.Consumer(topic, partitions=1, isolation="read_committed"), int(visible))
    say("txn-open", committed=len(committed), uncommitted=len(everything))
    if hasattr(client, "list_transactions"):
        attempt("list-transactions", lambda: {"ongoing": client.list_transactions()})
        attempt("describe-producers", lambda: {"open": client.open_producers(topic)})
    producer.finish("abort")
    producer.close()


def transaction_fence(client, topic, id, records):
    """A second producer of the same id takes over; the first one must notice."""
    zombie = client.Producer(transactional_id=id)
    zombie.begin()
    zombie.send(topic, b"of the zombie", partition=0)
    zombie.flush()
    heir = client.Producer(transactional_id=id)
    fenced = None
    try:
        zombie.send(topic, b"of the zombie, too", partition=0)
        zombie.finish("commit")
    except Exception as error:
        fenced = f"{type(error).__name__}: {error}"
    heir.begin()
    for number in range(int(records)):
        heir.send(topic, value(number), partition=0)
    heir.finish("commit")
    heir.close()
    zombie.abandon()
    say("txn-fence", records=int(records), fenced=fenced)
