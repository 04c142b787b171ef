"""The few Kafka requests that the driver sends itself, byte by byte: no client library stands between it and the clock."""

import socket
import struct
import time

PRODUCE, LIST_OFFSETS, CREATE_TOPICS, DELETE_TOPICS = 0, 2, 19, 20
NAMES = {3: "UNKNOWN_TOPIC_OR_PARTITION", 5: "LEADER_NOT_AVAILABLE", 6: "NOT_LEADER_OR_FOLLOWER", 36: "TOPIC_ALREADY_EXISTS",
         40: "INVALID_CONFIG"}
# What a broker answers that has not found its partitions yet.
NOT_YET = (3, 5, 6)


class Refused(Exception):
    """An error code, with the broker's words."""

    def __init__(self, what, code, message=None):
        super().__init__(f"{what}: {NAMES.get(code, f'error {code}')}{f' ({message})' if message else ''}")
        self.code = code


def crc32c(data):
    table = crc32c.table
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _entry(crc):
    for _ in range(8):
        crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc


crc32c.table = [_entry(index) for index in range(256)]


def text(value):
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def varint(value):
    zigzag = value << 1 ^ value >> 63
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes(out) + bytes([zigzag])


def batch(value):
    """One record batch with one record."""
    record = b"\0" + varint(0) + varint(0) + varint(-1) + varint(len(value)) + value + varint(0)
    now_ms = int(time.time() * 1000)
    checked = struct.pack(">hiqqqhii", 0, 0, now_ms, now_ms, -1, -1, -1, 1) + varint(len(record)) + record
    return struct.pack(">qiibI", 0, 9 + len(checked), -1, 2, crc32c(checked)) + checked


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        fields = struct.unpack_from(">" + form, self.data, self.at)
        self.at += struct.calcsize(">" + form)
        return fields[0] if len(fields) == 1 else fields

    def text(self):
        length = self.take("h")
        if length < 0:
            return None
        self.at += length
        return self.data[self.at - length:self.at].decode()


class Client:
    """One blocking connection."""

    def __init__(self, address, limit_s=30):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=limit_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def _receive(self, count):
        data = bytearray()
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise ConnectionError("the broker closed the connection")
            data += part
        return bytes(data)

    def ask(self, key, version, body):
        frame = struct.pack(">hhi", key, version, 1) + text("bench") + body
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)
        (length,) = struct.unpack(">i", self._receive(4))
        reader = Reader(self._receive(length))
        reader.take("i")
        return reader

    def create_topic(self, name, partitions, config=None):
        configs = b"".join(text(key) + text(value) for key, value in (config or {}).items())
        body = (struct.pack(">i", 1) + text(name) + struct.pack(">ihii", partitions, 1, 0, len(config or {})) + configs
                + struct.pack(">ib", 20_000, 0))
        answer = self.ask(CREATE_TOPICS, 4, body)
        answer.take("ii")
        answer.text()
        code, message = answer.take("h"), answer.text()
        if code:
            raise Refused(f"topic {name} with {config or 'no properties'}", code, message)
        self.wait_for(name, partitions)

    def delete_topic(self, name):
        self.ask(DELETE_TOPICS, 3, struct.pack(">i", 1) + text(name) + struct.pack(">i", 20_000))

    def wait_for(self, name, partitions, limit_s=60):
        """Until every partition has a leader."""
        return self.end_offsets(name, partitions, limit_s)

    def end_offsets(self, name, partitions, patience_s=30):
        """Ends of all partitions; a broker that has just started may need a moment to lead them."""
        until = time.monotonic() + patience_s
        while True:
            try:
                return self._end_offsets(name, partitions)
            except Refused as refused:
                if refused.code not in NOT_YET or time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def _end_offsets(self, name, partitions):
        wanted = b"".join(struct.pack(">iq", index, -1) for index in range(partitions))
        answer = self.ask(LIST_OFFSETS, 1, struct.pack(">ii", -1, 1) + text(name) + struct.pack(">i", partitions) + wanted)
        answer.take("i")
        answer.text()
        ends = {}
        for _ in range(answer.take("i")):
            index, code, _, offset = answer.take("ihqq")
            if code:
                raise Refused(f"end of {name}-{index}", code)
            ends[index] = offset
        return ends

    def produce(self, name, partition=0, value=b"x" * 100, acks=1):
        records = batch(value)
        body = (struct.pack(">hhii", -1, acks, 10_000, 1) + text(name) + struct.pack(">iii", 1, partition, len(records))
                + records)
        answer = self.ask(PRODUCE, 7, body)
        answer.take("i")
        answer.text()
        _, _, code, offset = answer.take("iihq")
        if code:
            raise Refused(f"Produce to {name}-{partition}", code)
        return offset


def first_accepted(address, name, limit_s=120, alive=lambda: True):
    """Tries until a record is accepted. For brokers that listen before they serve."""
    until = time.monotonic() + limit_s
    while True:
        try:
            with Client(address, 10) as client:
                return client.produce(name)
        except (OSError, Refused):
            if time.monotonic() > until or not alive():
                raise
            time.sleep(0.002)
