"""The measurement of bench/copies.sh."""
import math
import os
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile

COPIES = 4
FUNCTIONS = 4096
PAGE = 4096
# Bits of /proc/kpageflags.
COMPOUND_HEAD, COMPOUND_TAIL = 15, 16


def source():
    """A C program that calls 4,096 functions in a random order that never repeats soon."""
    body = "".join(
        f"static unsigned f{n}(unsigned x) {{ if (x & {1 << n % 7}) x = x * {2 * n + 3}u ^ (x >> {n % 13 + 3});"
        f" else x = (x << {n % 11 + 1}) + {n * 977}u; x ^= x >> {n % 9 + 5}; x *= {4 * n + 5}u;"
        f" return x ^ (x >> {n % 15 + 2}) ^ {n}u; }}\n"
        for n in range(FUNCTIONS)
    )
    table = ",".join(f"f{n}" for n in range(FUNCTIONS))
    return f"""#include <stdio.h>
{body}static unsigned (*const all[])(unsigned) = {{{table}}};
int main(void) {{
  unsigned x = 1, at = 1;
  for (int i = 0; i < 6000000; i++) {{ at = at * 1664525u + 1013904223u; x = all[at >> 20](x + at); }}
  printf("%u\\n", x);
}}
"""


def built(folder):
    path = os.path.join(folder, "hot")
    with open(path + ".c", "w") as file:
        file.write(source())
    subprocess.run(["cc", "-O1", "-falign-functions=256", "-o", path, path + ".c"], check=True)
    return [path]


def cpu_s(path, command):
    """User CPU of one run."""
    with open(os.devnull, "w") as null:
        process = subprocess.Popen(command, executable=path, stdout=null)
        _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"copies.sh: {path} ended with {status}")
    return used.ru_utime


def measured(paths, command, rounds, seed):
    """By path, the log of each round's CPU to the round's mean."""
    order, found = random.Random(seed), {path: [] for path in paths}
    for path in paths:
        cpu_s(path, command)
    for _ in range(rounds):
        turn = order.sample(paths, len(paths))
        logs = {path: math.log(cpu_s(path, command)) for path in turn}
        mean = statistics.fmean(logs.values())
        for path in paths:
            found[path].append(logs[path] - mean)
    return found


def copied(program, folder, count=COPIES):
    os.makedirs(folder, exist_ok=True)
    paths = [os.path.join(folder, f"copy-{n}") for n in range(count)]
    for path in paths:
        shutil.copy(program, path)
    return paths


def dropped(paths):
    """Makes the kernel drop the pages of files, so that it reads them into others."""
    for path in paths:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    # Something else takes the pages that became free.
    bytearray(os.urandom(1 << 20) * 64)


def pages(path):
    """Pages of the file, by their place in memory, and the share of them that belong to a large folio. None without root."""
    import mmap

    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        view = mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE)
        sum(view[at] for at in range(0, size, PAGE))
        start = next(
            int(line.split("-")[0], 16) for line in open("/proc/self/maps") if line.rstrip().endswith(path)
        )
        try:
            with open("/proc/self/pagemap", "rb") as map_file, open("/proc/kpageflags", "rb") as flags_file:
                map_file.seek(start // PAGE * 8)
                entries = struct.unpack(f"{size // PAGE}Q", map_file.read(size // PAGE * 8))
                frames = [entry & (1 << 55) - 1 for entry in entries]
                if not any(frames):
                    return None
                large = 0
                for frame in frames:
                    flags_file.seek(frame * 8)
                    flags = struct.unpack("Q", flags_file.read(8))[0]
                    large += bool(flags & (1 << COMPOUND_HEAD | 1 << COMPOUND_TAIL))
        except PermissionError:
            return None
    runs = 1 + sum(after != before + 1 for before, after in zip(frames, frames[1:]))
    return large / len(frames), runs


def means(found):
    return [statistics.fmean(logs) for logs in found.values()]


def told(name, found, paths=()):
    """A line: the ratio of each copy to their mean, the spread between copies, and what noise alone would give."""
    of = means(found)
    rounds = len(next(iter(found.values())))
    within = math.sqrt(statistics.fmean([statistics.variance(logs) for logs in found.values()]))
    spread, noise = statistics.stdev(of), within / math.sqrt(rounds)
    ratios = " ".join(f"{math.exp(mean):.3f}" for mean in of)
    print(f"{name:8} {ratios}   spread {100 * spread:.2f} %, by noise alone {100 * noise:.2f} %, F {(spread / noise) ** 2:.1f}", flush=True)
    where = [pages(path) for path in paths]
    if where and all(where):
        text = ", ".join(f"{100 * large:.0f} % in {runs} runs" for large, runs in where)
        print(f"         pages in large folios, and contiguous runs of pages: {text}", flush=True)


def correlation(first, second):
    first, second = means(first), means(second)
    return statistics.correlation(first, second)


def mixed(program, reread, folder, command, rounds):
    """Copies whose pages were read, against others whose pages are still those of the write, round by round."""
    written = copied(program, folder)
    found = measured(reread + written, command, rounds, 6)
    mean = lambda paths, at: statistics.fmean(found[path][at] for path in paths)
    logs = [mean(reread, at) - mean(written, at) for at in range(rounds)]
    ratio, error = statistics.fmean(logs), statistics.stdev(logs) / math.sqrt(rounds)
    low, high = (math.exp(ratio + side * 2 * error) for side in (-1, 1))
    print(f"mixed    reread / written {math.exp(ratio):.3f} [{low:.3f}, {high:.3f}] (two standard errors)", flush=True)


def huge(program, command, rounds):
    folder = tempfile.mkdtemp()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "huge=always,size=512m", "tmpfs", folder], capture_output=True)
    if mounted.returncode != 0:
        print("huge     left out: a tmpfs can't be mounted here (needs root)")
        return
    try:
        paths = copied(program, folder)
        told("huge", measured(paths, command, rounds, 4), paths)
    finally:
        subprocess.run(["umount", folder], check=False)
        os.rmdir(folder)


def main():
    rounds, command = int(sys.argv[1]), sys.argv[2:]
    # On a disk: a temporary file system has no pages to drop.
    os.makedirs("target", exist_ok=True)
    with tempfile.TemporaryDirectory(dir="target") as folder:
        folder = os.path.abspath(folder)
        command = command or built(folder)
        program = shutil.which(command[0]) or sys.exit(f"copies.sh: there is no program {command[0]}")
        names = [os.path.join(folder, f"name-{n}") for n in range(COPIES)]
        shutil.copy(program, names[0])
        for name in names[1:]:
            os.link(names[0], name)
        told("names", measured(names, command, rounds, 1), names[:1])
        paths = copied(program, os.path.join(folder, "copies"), 2 * COPIES)
        first = measured(paths, command, rounds, 2)
        told("copies", first, paths)
        dropped(paths)
        second = measured(paths, command, rounds, 3)
        told("reread", second, paths)
        print(f"         correlation of each copy's luck before and after: {correlation(first, second):.2f}", flush=True)
        again = measured(paths, command, rounds, 5)
        told("again", again)
        print(f"         correlation without rereading: {correlation(second, again):.2f}", flush=True)
        mixed(program, paths[:COPIES], os.path.join(folder, "written"), command, rounds)
        huge(program, command, rounds)


main()
