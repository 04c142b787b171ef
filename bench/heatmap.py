"""The parts of bench/heatmap.sh: a program and its branches, made with a fixed seed; what a command costs; and a page in a browser."""

import html
import json
import os
import random
import re
import subprocess
import sys
import time

FUNCTION_BYTES = 1024
BLOCK_BYTES = 32
BLOCKS = FUNCTION_BYTES // BLOCK_BYTES
# Where the program is linked.
TEXT = 0x400000
# One function of so many runs; a profile is never of all the code.
RUNS_ONE_OF = 4


def program(folder, functions):
    """heat.s for `as`: functions of 32 blocks, each of which ends with a conditional jump, the last one with a return."""
    block = b"\x90" * (BLOCK_BYTES - 2) + b"\x75" + bytes([256 - BLOCK_BYTES])
    last = b"\x90" * (BLOCK_BYTES - 1) + b"\xc3"
    with open(f"{folder}/function.bin", "wb") as out:
        out.write(block * (BLOCKS - 1) + last)
    with open(f"{folder}/heat.s", "w") as out:
        out.write(".text\n.globl _start\n_start:\n")
        for index in range(functions):
            out.write(f'.globl f{index}\n.type f{index},@function\nf{index}: .incbin "function.bin"\n.size f{index},{FUNCTION_BYTES}\n')


def records(functions):
    """Records without their counts, never the same twice in a row: a branch, and the stretch behind it."""
    draw = random.Random(1)
    block = lambda function, number: TEXT + FUNCTION_BYTES * function + BLOCK_BYTES * number
    while True:
        # Some functions are hotter than others, and most branches stay within theirs.
        function = int(functions * draw.random() ** 2) // RUNS_ONE_OF * RUNS_ONE_OF
        number, to = draw.randrange(BLOCKS - 1), draw.randrange(BLOCKS)
        other = function if draw.random() < 0.9 else int(functions * draw.random() ** 2) // RUNS_ONE_OF * RUNS_ONE_OF
        target = block(other, to if other == function else 0)
        yield f"B {block(function, number) + BLOCK_BYTES - 2:x} {target:x}"
        end = block(other, min(BLOCKS - 1, (target - block(other, 0)) // BLOCK_BYTES + draw.randrange(3)))
        yield f"F {target:x} {end + BLOCK_BYTES - 2 + (end == block(other, BLOCKS - 1)):x}"


def branches(path, functions, distinct, lines):
    """So many different records, and some of them again until there are so many lines."""
    draw = random.Random(2)
    seen, some = set(), []
    with open(path, "w", buffering=1 << 20) as out:
        write = lambda record: out.write(f"{record} {draw.randrange(1, 1000)}{' 0' if record[0] == 'B' else ''}\n")
        for record in records(functions):
            if len(seen) == min(distinct, lines):
                break
            if record not in seen:
                seen.add(record)
                write(record)
                if len(some) < 1_000_000:
                    some.append(record)
        for _ in range(lines - len(seen)):
            write(some[int(len(some) * draw.random())])


def cost(command):
    """Seconds on the wall and on the CPU, and the peak of memory in MiB."""
    begin = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    told = child.stderr.read()
    _, status, used = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"heatmap: {' '.join(command)} failed\n{told.decode(errors='replace')}")
    return time.monotonic() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def compare(its, ours):
    """Both commands on the same input, the median of three in turns."""
    runs = [(cost(its), cost(ours)) for _ in range(3)]
    middle = lambda of: [sorted(run[of][what] for run in runs)[1] for what in range(3)]
    theirs, own = middle(0), middle(1)
    print(f"{'':<22} {'wall s':>8} {'CPU s':>8} {'MiB':>8}")
    print(f"{'llvm-bolt-heatmap':<22} {theirs[0]:8.2f} {theirs[1]:8.2f} {theirs[2]:8.0f}")
    print(f"{'hone heatmap':<22} {own[0]:8.2f} {own[1]:8.2f} {own[2]:8.0f}")
    print(f"{'ratio':<22} {own[0] / theirs[0]:8.2f} {own[1] / theirs[1]:8.2f} {own[2] / theirs[2]:8.2f}", flush=True)
    return own[1] <= theirs[1] / 4 and own[2] < 1024


# The page in a frame. When all of it is loaded its script has run; the first key is answered by what it shows then. Times are real ones, from
# the beginning of the navigation on.
DRIVER = """<!DOCTYPE html><meta charset="utf-8"><script>
addEventListener("load", () => {
  const loaded = performance.now(), frame = document.getElementById("f"), map = frame.contentDocument.getElementById("map");
  const before = map.dataset.level;
  map.dispatchEvent(new frame.contentWindow.KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
  frame.contentDocument.querySelector("canvas").getContext("2d").getImageData(0, 0, 1, 1);
  const seen = { loaded, answered: performance.now(), before, after: map.dataset.level };
  document.getElementById("seen").textContent = JSON.stringify(seen);
});
</script><pre id="seen"></pre><iframe id="f" style="width:1100px;height:900px" srcdoc="PAGE"></iframe>"""


def page(path, folder, browser):
    with open(path) as read:
        text = read.read()
    with open(f"{folder}/driver.html", "w") as out:
        out.write(DRIVER.replace("PAGE", html.escape(text), 1))
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--timeout=60000", f"--user-data-dir={folder}/profile"]
    command = [browser, *flags, "--dump-dom", f"file://{folder}/driver.html"]
    ran = subprocess.run(command, capture_output=True, text=True)
    found = re.search(r'<pre id="seen">(\{.*?\})</pre>', ran.stdout)
    if not found:
        sys.exit(f"heatmap: the page told nothing\n{ran.stderr}")
    seen = json.loads(found[1])
    if seen["before"] == seen["after"]:
        sys.exit(f"heatmap: the page did not answer: {seen}")
    megabytes = len(text.encode()) / 1e6
    print(f"page: {megabytes:.2f} MB, loaded after {seen['loaded']:.0f} ms, the first key answered after {seen['answered']:.0f} ms")
    return megabytes < 5 and seen["answered"] < 2000


def missed(what):
    """Measured, and a goal is missed."""
    print(f"heatmap: {what}", file=sys.stderr)
    sys.exit(3)


def main():
    verb, *words = sys.argv[1:]
    if verb == "program":
        program(words[0], int(words[1]))
    elif verb == "branches":
        branches(words[0], int(words[1]), int(words[2]), int(words[3]))
    elif verb == "compare":
        between = words.index("--")
        if not compare(words[:between], words[between + 1 :]):
            missed("more than a quarter of the time, or more than 1 GiB")
    elif verb == "page":
        if not page(*words):
            missed("larger than 5 MB, or slower than 2 s")
    else:
        sys.exit(f"heatmap: there is no {verb}")


main()
