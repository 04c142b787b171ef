"""Prints the table of speed; bench/broker.sh is the way to start it."""

import argparse
import contextlib
import datetime
import os
import pathlib
import platform
import signal
import subprocess
import sys

import life_rows
import load
import processes
import produce_rows
import wire
from table import Report

ROWS = {"a": produce_rows.single_record, "b": produce_rows.highest_rate, "c": produce_rows.fsync, "d": produce_rows.validated,
        "e": life_rows.life, "e1": life_rows.start, "e2": life_rows.recovery, "e3": life_rows.consume, "f": life_rows.idle}


class Bench:
    def __init__(self, quick, folder, report):
        self.quick, self.folder, self.report = quick, folder, report
        self.file_limit = processes.raise_file_limit()
        self.cores = os.sched_getaffinity(0)

    def pick(self, full, quick):
        return quick if self.quick else full

    def say(self, text):
        print(text, file=sys.stderr, flush=True)


def said(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=processes.ROOT)
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[0] if lines else "unknown"


def machine(quick):
    info = pathlib.Path("/proc/cpuinfo").read_text()
    model = next((line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith("model name")), "unknown CPU")
    memory = int(pathlib.Path("/proc/meminfo").read_text().split()[1]) >> 20
    return {
        "at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "kernel": platform.release(), "cores": f"{len(os.sched_getaffinity(0))} ({model})", "memory": f"{memory} GiB",
        "hone": said(processes.broker_program(), "--version") + " " + said("git", "describe", "--always", "--dirty"),
        "Kafka": "4.3.1", "Java": said("java", "-version"), "load_before": f"{os.getloadavg()[0]:.1f}",
        "run": "quick: figures only show that it works" if quick else "full",
    }


def arguments():
    parser = argparse.ArgumentParser(prog="bench/broker.sh", description="Speed of hone-broker beside Apache Kafka.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"any of {', '.join(ROWS)}; all without one")
    parser.add_argument("--quick", action="store_true", help="short windows: to see that it works, not for figures")
    parser.add_argument("--output", type=pathlib.Path, default=processes.ROOT / "target/bench/broker",
                        help="where NAME.jsonl and NAME.md go [target/bench/broker]")
    parser.add_argument("--data", type=pathlib.Path, default=processes.ROOT / "target/bench/data",
                        help="folder on the disk to measure; what is made there is removed again [target/bench/data]")
    asked = parser.parse_args()
    unknown = [row for row in asked.rows if row not in ROWS]
    if unknown:
        parser.error(f"there is no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    return asked


def main():
    asked = arguments()
    # As ^C: everything that was opened is closed on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        lines = stack.enter_context(open(f"{asked.output}.jsonl", "w", encoding="utf-8"))
        page = stack.enter_context(open(f"{asked.output}.md", "w", encoding="utf-8"))
        folder = stack.enter_context(processes.Folder(asked.data))
        bench = Bench(asked.quick, folder, Report(lines, page))
        bench.report.machine(**machine(asked.quick))
        whole = all([measured(bench, row) for row in asked.rows or ["a", "b", "c", "d", "e", "f"]])
    if not whole:
        return 1
    missed = "not met)" in pathlib.Path(f"{asked.output}.md").read_text(encoding="utf-8")
    return 3 if missed and not asked.quick else 0


def measured(bench, row):
    """Whether a row could be measured. One that could not keeps the others from nothing."""
    try:
        ROWS[row](bench)
    except (load.LoadFailed, wire.Refused, RuntimeError, OSError, subprocess.SubprocessError) as error:
        bench.report.text(f"\n### {row}. Could not be measured\n\n{error}")
        bench.report.raw("failed", row=row, error=str(error))
        return False
    return True


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
