"""Parts of bench/pages.sh: makes runs out of a comparison, and asks a browser for its first paint."""

import copy
import json
import os
import statistics
import subprocess
import sys
import tempfile

# Visits of a page by the same browser, each in a new tab.
VISITS = 7


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write(path, record):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(record, file)


def pairs(source, folder, count):
    """A comparison with so many pairs, made of those of another one in turns."""
    record = read(f"{source}/comparison.json")
    body = record["body"]
    known, swapped = body["pairs"], body["design"]["swapped"]
    made, index, tests = [], 0, 0
    while tests < count:
        pair = copy.deepcopy(known[index % len(known)])
        for side in "ab":
            window = read(f"{source}/{pair[f'window_{side}']}")
            window["body"]["started_unix_ms"] += index // len(known) * 600_000
            pair[f"window_{side}"] = f"windows/{index:03}-{side}.json"
            write(f"{folder}/{pair[f'window_{side}']}", window)
        # Equal values would lie on each other in the plots.
        drift = 1 + 0.0005 * (index % 37 - 18)
        pair["values_b"] = {metric: value * drift for metric, value in pair["values_b"].items()}
        pair["index"] = index
        made.append(pair)
        tests += pair["kind"] == "test"
        index += 1
    body["pairs"] = made
    body["design"]["order"] = [pair["kind"] for pair in made]
    body["design"]["swapped"] = [swapped[place % len(swapped)] for place in range(index)]
    body["design"]["pairs"] = tests
    body["design"]["control_pairs"] = index - tests
    write(f"{folder}/comparison.json", record)
    write(f"{folder}/design.json", read(f"{source}/design.json"))


def runs(source, folder, count):
    """So many runs of the same comparison, without its windows."""
    record = read(f"{source}/comparison.json")
    for number in range(count):
        record["body"]["b"] = f"commit-{number:04}"
        record["body"]["workload"]["seed"] = number
        write(f"{folder}/compare-{number:04}/comparison.json", record)
        write(f"{folder}/compare-{number:04}/design.json", read(f"{source}/design.json"))


def complete(count):
    """Whether the list of records on stdin has all of them."""
    body = json.load(sys.stdin)["body"]
    return body["notes"] == [] and body["records"]["in_all"] >= count


class Browser:
    """A headless Chromium with one page, driven over its debugging pipe."""

    def __init__(self, program, folder):
        commands, answers = (f"{folder}/{name}" for name in ("commands", "answers"))
        os.mkfifo(commands)
        os.mkfifo(answers)
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe"]
        line = f'exec 3<"{commands}" 4>"{answers}"; exec "$@"'
        command = ["sh", "-c", line, "sh", program, *flags, f"--user-data-dir={folder}/profile", "about:blank"]
        quiet = subprocess.DEVNULL
        self.child = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)
        self.commands = open(commands, "wb", buffering=0)
        self.answers = open(answers, "rb")
        self.number, self.session = 0, None
        self.waiting, self.loads = b"", 0

    def message(self):
        while b"\0" not in self.waiting:
            part = self.answers.read1(1 << 16)
            if not part:
                sys.exit("pages: the browser has ended")
            self.waiting += part
        one, self.waiting = self.waiting.split(b"\0", 1)
        message = json.loads(one)
        self.loads += message.get("method") == "Page.loadEventFired"
        return message

    def call(self, method, **parameters):
        self.number += 1
        command = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        self.commands.write(json.dumps(command).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.number:
                if "error" in message:
                    sys.exit(f"pages: {method}: {message['error']}")
                return message["result"]

    def first_paint(self, url):
        """Milliseconds from the begin of the navigation, by the browser's Performance API."""
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Emulation.setDeviceMetricsOverride", width=1280, height=800, deviceScaleFactor=1, mobile=False)
        self.call("Page.enable")
        loads = self.loads
        self.call("Page.navigate", url=url)
        while self.loads == loads:
            self.message()
        wait = """new Promise((done) => new PerformanceObserver((list) => {
          const paint = list.getEntries().find((entry) => entry.name === "first-contentful-paint");
          if (paint) done(paint.startTime);
        }).observe({ type: "paint", buffered: true }))"""
        found = self.call("Runtime.evaluate", expression=wait, awaitPromise=True, returnByValue=True)
        self.call("Page.close")
        return found["result"]["value"]


def paint(url, program):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(program, folder)
        try:
            print(f"{statistics.median(browser.first_paint(url) for _ in range(VISITS)):.0f}")
        finally:
            browser.child.kill()
            browser.child.wait()


def main():
    verb, *words = sys.argv[1:]
    if verb == "pairs":
        pairs(words[0], words[1], int(words[2]))
    elif verb == "runs":
        runs(words[0], words[1], int(words[2]))
    elif verb == "complete":
        sys.exit(0 if complete(int(words[0])) else 1)
    elif verb == "paint":
        paint(*words)
    else:
        sys.exit(f"pages: there is no {verb}")


main()
