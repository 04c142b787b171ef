"""`hone load`: one window, and what its record says."""

import base64
import json
import struct
import subprocess

import processes


class LoadFailed(Exception):
    """There is no record, with what the program said."""


class Histogram:
    """An HdrHistogram in its V2 encoding, in nanoseconds."""

    COOKIE = 0x1C849313

    def __init__(self, encoded):
        data = base64.b64decode(encoded)
        cookie, length, _, digits, least, _, _ = struct.unpack_from(">iiiiqqd", data)
        if cookie != self.COOKIE or digits != 3 or least != 1:
            raise ValueError("not a histogram as hone writes it")
        self.counts = []
        index = at = 0
        payload = data[40:40 + length]
        while at < len(payload):
            value, at = _zigzag(payload, at)
            if value < 0:
                index -= value
            else:
                self.counts.append((self._highest(index), value))
                index += 1

    @staticmethod
    def _highest(index):
        """Largest value that is counted at an index; 2048 values a bucket, the upper half of each new."""
        shift = max(0, (index >> 10) - 1)
        sub = index if index < 2048 else (index & 1023) + 1024
        return (sub << shift) + (1 << shift) - 1

    def quantile_us(self, share):
        total = sum(count for _, count in self.counts)
        left = max(1, share * total)
        for value, count in self.counts:
            left -= count
            if left <= 0:
                return value / 1000
        return float("nan")


def _zigzag(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        # The ninth byte holds eight bits.
        if shift == 56:
            value |= byte << shift
            break
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return (value >> 1) ^ -(value & 1), at


class Window:
    def __init__(self, record):
        body = record["body"]
        facts = body["facts"]
        latency = Histogram(body["latencies"]["intended_to_ack"])
        sent = Histogram(body["latencies"]["sent_to_ack"])
        outcome = body["outcome"]
        self.outcome = outcome if isinstance(outcome, str) else next(iter(outcome))
        self.why = outcome
        self.p50_us, self.p99_us = latency.quantile_us(0.5), latency.quantile_us(0.99)
        self.sent_p50_us, self.sent_p99_us = sent.quantile_us(0.5), sent.quantile_us(0.99)
        self.asked_per_s, self.reached_per_s = facts["asked_requests_per_s"], facts["reached_requests_per_s"]
        self.acked, self.records, self.errors = facts["acked_requests"], facts["acked_records"], facts["errors"]
        cpu = facts["target_cpu"]
        self.cpu_us = cpu["total_s"] * 1e6 / self.acked if cpu and self.acked else float("nan")
        self.user_share = cpu["user_share"] if cpu else None
        self.generator_cores = facts["generator_cpu"]["total_s"] / body["duration_s"]
        self.steal, self.others = facts["steal_share"], facts["others_share"]

    def facts(self):
        return {name: value for name, value in vars(self).items() if name != "why"}


def run(server, rate, seconds, *, topic=None, config=None, accept_late=True, limit_s=600, **options):
    """A window against a server. `config` are properties of the topic that is made for it."""
    options = {"schedule": "uniform", "records": 1, "bytes": 100, "acks": 1, "warmup": 2000, **options}
    command = [processes.program("hone"), "load", server.address, "--quiet", "--json", "--pid", server.pid,
               "--rate", rate, "--duration", seconds]
    if accept_late:
        command += ["--max-lateness", "60s"]
    if topic:
        command += ["--topic", topic]
    for name, value in (config or {}).items():
        command += ["--topic-config", f"{name}={value}"]
    for name, value in options.items():
        command += ["--" + name.replace("_", "-"), value]
    done = subprocess.run([str(part) for part in command], capture_output=True, timeout=limit_s, check=False)
    if not done.stdout.strip():
        raise LoadFailed(f"hone load against {server.name}: {done.stderr.decode(errors='replace').strip()[-600:]}")
    window = Window(json.loads(done.stdout))
    if window.outcome == "failed":
        raise LoadFailed(f"hone load against {server.name}: {window.why}")
    return window
