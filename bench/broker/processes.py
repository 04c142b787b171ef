"""Servers as child processes: started, waited for, watched through /proc, and ended with this one, however it ends."""

import ctypes
import os
import pathlib
import resource
import select
import shutil
import signal
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TICKS = os.sysconf("SC_CLK_TCK")
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def program(name):
    """A release build of a program or an example."""
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / name


def broker_program():
    return os.environ.get("HONE_BROKER", str(program("hone-broker")))


def _in_child(cores):
    def prepare():
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if cores is not None:
            os.sched_setaffinity(0, cores)
    return prepare


def raise_file_limit():
    """Children inherit it. Returns what there is."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


class Child:
    """A process with pipes; ended by `close`."""

    def __init__(self, command, cores=None, errors=None):
        self.command = [str(part) for part in command]
        self.errors = errors
        with open(errors or os.devnull, "ab") as sink:
            self.started_s = time.monotonic()
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sink,
                                            preexec_fn=_in_child(cores))

    def line(self, limit_s):
        """The next line on its standard output."""
        ready, _, _ = select.select([self.process.stdout], [], [], limit_s)
        line = self.process.stdout.readline().decode().strip() if ready else ""
        if not line:
            said = pathlib.Path(self.errors).read_text(errors="replace")[-800:] if self.errors else ""
            why = "has ended" if ready else f"said nothing for {limit_s} s"
            raise RuntimeError(f"`{' '.join(self.command)}` {why}\n{said}")
        return line

    def say(self, line=""):
        self.process.stdin.write((line + "\n").encode())
        self.process.stdin.flush()

    def alive(self):
        return self.process.poll() is None

    def close(self, limit_s=60):
        if self.alive():
            self.process.terminate()
            try:
                self.process.wait(limit_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                pipe.close()
            except OSError:
                pass


class Server:
    """Something that prints `ready kafka=ADDR ... pid=N`."""

    def __init__(self, name, child, limit_s):
        self.name, self.child = name, child
        try:
            line = child.line(limit_s)
            fields = dict(field.split("=", 1) for field in line.split()[1:])
            self.ready_s = time.monotonic() - child.started_s
            self.address, self.pid = fields["kafka"], int(fields["pid"])
        except BaseException:
            child.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.close()

    def kill(self):
        """As a crash does, and gone when it returns."""
        os.kill(self.pid, signal.SIGKILL)
        self.child.process.wait(60)
        self.child.close()


def hone_broker(data, cores=None, arguments=()):
    more = os.environ.get("HONE_BROKER_ARGS", "").split()
    command = [broker_program(), "--data", data, "--listen", "127.0.0.1:0", "--metrics-listen", "off", *arguments, *more]
    return Server("hone-broker", Child(command, cores, errors=f"{data}.stderr"), 120)


def kafka(data, cores=None, properties=()):
    command = [HERE.parent / "kafka.sh", "run", data, *properties]
    return Server("Kafka", Child(command, cores, errors=f"{data}.stderr"), 300)


ECHO_TOPIC = "hone-load-0123456789abcdef"


def echo(partitions):
    """Its topic's name is as long as that of a topic `hone load` makes, so that frames have the same size."""
    command = [program("examples/echo"), "--topic", ECHO_TOPIC, "--partitions", partitions]
    return Server("echo", Child(command), 10)


def cpu_s(pid):
    """User and system seconds since the process started."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / TICKS, int(fields[12]) / TICKS


def resident_mib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no VmRSS")


def disk_flushes(folder):
    """Flushes that the disk under a folder has been asked for; None where the kernel does not count them there."""
    device = os.stat(folder).st_dev
    try:
        fields = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat").read_text().split()
    except OSError:
        return None
    return int(fields[15]) if len(fields) > 15 else None


class Folder:
    """A temporary folder on a disk of the user's choice: what memory would be fast at must not be measured in /tmp."""

    def __init__(self, parent):
        parent.mkdir(parents=True, exist_ok=True)
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="broker-", dir=parent))
        self.count = 0

    def new(self, name):
        self.count += 1
        return self.path / f"{self.count:03}-{name}"

    def drop(self, path):
        shutil.rmtree(path, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)
