"""Runs a command and prints its CPU time (user and system, s): run.py [--lines RATE SECONDS BYTES] COMMAND...

With --lines it gets so many lines of so many bytes on stdin, in turns of a millisecond. What it says goes to stderr."""

import os
import subprocess
import sys
import time


def feed(pipe, rate, seconds, size):
    line = b"x" * (size - 1) + b"\n"
    total, sent, start = rate * seconds, 0, time.monotonic()
    while sent < total:
        due = min(int((time.monotonic() - start) * rate) + 1, total)
        if due > sent:
            pipe.write(line * (due - sent))
            pipe.flush()
            sent = due
        time.sleep(0.001)
    pipe.close()


def main(args):
    lines = None
    if args and args[0] == "--lines":
        lines, args = [int(arg) for arg in args[1:4]], args[4:]
    stdin = subprocess.PIPE if lines else subprocess.DEVNULL
    child = subprocess.Popen(args, stdin=stdin, stdout=sys.stderr)
    if lines:
        feed(child.stdin, *lines)
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"run.py: {args[0]} ended with {os.waitstatus_to_exitcode(status)}")
    print(usage.ru_utime + usage.ru_stime)


main(sys.argv[1:])
