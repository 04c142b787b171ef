"""CPU per operation of several builds of one server, beside each other: all alive at once, each loaded alone in short bursts, in
another order in each round, all started anew for each block of rounds. A judge of its own, that shares nothing with Hone's.

    judge.py --start '--port {port} --dir {data}' --load 'redis-benchmark -p {port} -n 100000 -q -t set,get' \\
        base=PATH twin=PATH hand-pgo=PATH hone-pgo=PATH --pair hand-pgo:hone-pgo

Prints for each build, against the first one, the median of the rounds' ratios with its interval (95 %, percentiles of 4,000 medians
of blocks drawn with replacement: rounds of one start share its luck), and the same for each --pair LEFT:RIGHT. The second build should
be a copy of the first: it says what a difference of nothing looks like. Ends with 3 when a RIGHT costs more than its LEFT beyond its interval.
"""

import argparse
import ctypes
import os
import pathlib
import random
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

PR_SET_PDEATHSIG = 1
DRAWS = 4000
START_LIMIT_S = 30
_libc = ctypes.CDLL(None, use_errno=True)


def cpu_s(pid):
    """CPU of a process, all its threads and those that have ended, to the nanosecond: its CPU clock (clock_getcpuclockid(3))."""
    return time.clock_gettime(((~pid) << 3) | 2)


def free_ports(count):
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def filled(text, port, port2, data):
    words = {"{port}": port, "{port2}": port2, "{data}": data}
    for word, value in words.items():
        text = text.replace(word, str(value))
    return text


class Server:
    """A started build, with ports and a data folder of its own; ended with this process, however that ends."""

    def __init__(self, name, path, start, cores):
        self.name = name
        self.port, self.port2 = free_ports(2)
        self.data = tempfile.mkdtemp(prefix=f"by-hand-{name}-")

        def prepare():
            _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            os.sched_setaffinity(0, cores)

        words = shlex.split(filled(start, self.port, self.port2, self.data))
        self.process = subprocess.Popen([path, *words], cwd=self.data, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, preexec_fn=prepare)
        limit = time.monotonic() + START_LIMIT_S
        while True:
            if self.process.poll() is not None:
                raise SystemExit(f"judge: {name} ended with {self.process.returncode} at its start")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            if time.monotonic() > limit:
                raise SystemExit(f"judge: {name} does not listen after {START_LIMIT_S} s")
            time.sleep(0.02)

    def burst(self, load, cores):
        """CPU that a burst of the load costs the server."""
        words = shlex.split(filled(load, self.port, self.port2, self.data))
        before = cpu_s(self.process.pid)
        ended = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600,
                               preexec_fn=lambda: os.sched_setaffinity(0, cores))
        after = cpu_s(self.process.pid)
        if ended.returncode != 0:
            raise SystemExit(f"judge: the load of {self.name} ended with {ended.returncode}: {ended.stdout.decode()[-500:]}")
        return after - before

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.data, ignore_errors=True)


def rounds_of(builds, options, luck):
    """CPU by build, a value for each round."""
    cores = sorted(os.sched_getaffinity(0))
    server_cores, load_cores = ({cores[0]}, set(cores[1:])) if len(cores) > 1 else (set(cores), set(cores))
    found = {name: [] for name, _ in builds}
    done = 0
    while done < options.rounds:
        servers = []
        try:
            for name, path in builds:
                servers.append(Server(name, path, options.start, server_cores))
            for server in servers:
                server.burst(options.warmup or options.load, load_cores)
            for _ in range(min(options.block, options.rounds - done)):
                for server in luck.sample(servers, len(servers)):
                    found[server.name].append(server.burst(options.load, load_cores))
                done += 1
        finally:
            for server in servers:
                server.close()
    return found


def interval(ratios, block, luck):
    blocks = [ratios[begin:begin + block] for begin in range(0, len(ratios), block)]

    def drawn():
        return statistics.median([ratio for chosen in luck.choices(blocks, k=len(blocks)) for ratio in chosen])

    medians = sorted(drawn() for _ in range(DRAWS))
    return statistics.median(ratios), medians[int(0.025 * DRAWS)], medians[int(0.975 * DRAWS) - 1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--start", required=True, help="arguments of every build")
    parser.add_argument("--load", required=True, help="a burst, as a command")
    parser.add_argument("--warmup", help="a burst before those that count (as --load)")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--block", type=int, default=2, help="rounds of one start")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pair", action="append", default=[], metavar="LEFT:RIGHT")
    parser.add_argument("builds", nargs="+", metavar="NAME=PATH")
    options = parser.parse_args()
    builds = [tuple(build.split("=", 1)) for build in options.builds]
    for name, path in builds:
        if not pathlib.Path(path).is_file():
            raise SystemExit(f"judge: {name}: there is no {path}")
    luck = random.Random(options.seed)
    found = rounds_of(builds, options, luck)

    def line(left, right):
        ratio, low, high = interval([b / a for a, b in zip(found[left], found[right])], options.block, luck)
        print(f"{right + ' / ' + left:<32} CPU {ratio:.3f} [{low:.3f}, {high:.3f}]", flush=True)
        return low

    base = builds[0][0]
    print(f"{options.rounds} rounds, blocks of {options.block}; {base}: {1e3 * statistics.median(found[base]):.1f} ms of CPU a burst")
    for name, _ in builds[1:]:
        line(base, name)
    worse = [pair for pair in options.pair if line(*pair.split(":")) > 1.0]
    for pair in worse:
        print(f"worse: {pair}")
    sys.exit(3 if worse else 0)


if __name__ == "__main__":
    main()
