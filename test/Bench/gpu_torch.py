"""PyTorch's side of the GPU benchmark: which variants are tried, and rounds of the best."""

import contextlib
import json
import os
import queue
import signal
import statistics
import subprocess
import threading
import time
from pathlib import Path

import gpu_kerf
from gpu_models import replaced

PEER = Path(__file__).resolve().parent / "peers/peer_torch_gpu.py"
START_SEC = 60  # at least, for a variant: starting Python and compiling


class Peer:
    """A process of peer_torch_gpu.py that runs the variants it is told to."""

    def __init__(self, command):
        # A session of its own: what compiles beside it ends with it.
        pipe = subprocess.PIPE
        options = {"stdin": pipe, "stdout": pipe, "stderr": pipe, "text": True, "start_new_session": True}
        self.process = subprocess.Popen([str(part) for part in command], **options)
        self.lines, self.said = queue.Queue(), []
        self.readers = [threading.Thread(target=read, daemon=True) for read in (self.read_lines, self.read_errors)]
        for reader in self.readers:
            reader.start()

    def read_lines(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                self.lines.put(line)
        self.lines.put("")

    def read_errors(self):
        for line in self.process.stderr:
            self.said = [*self.said[-20:], line.strip()]

    def ask(self, variant, timeout):
        """The line of a variant, which has `error` where it failed. The process is ended
        when it did not answer in time, or answers no more."""
        try:
            self.process.stdin.write(variant + "\n")
            self.process.stdin.flush()
            line = self.lines.get(timeout=timeout)
        except queue.Empty:
            self.close()
            return {"error": f"took more than {timeout:.0f} s"}
        except BrokenPipeError:
            line = ""
        if line:
            return json.loads(line)
        self.close()
        errors = [text for text in self.said if text]
        return {"error": f"ended with {self.process.returncode}: {errors[-1] if errors else 'no message'}"}

    def is_alive(self):
        return self.process.poll() is None

    def close(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        for reader in self.readers:
            reader.join(timeout=5)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(BrokenPipeError):
                stream.close()


class TorchSide:
    """Variants that were tried, each with its steps' times; `version` tells of PyTorch."""

    def __init__(self, compiled, model, steps, args):
        self.compiled, self.model, self.steps, self.args = compiled, model, steps, args
        self.missing = args.torch_missing
        self.tried, self.times, self.memory, self.version = {}, {}, {}, {}
        self.peer, self.last_sec = None, START_SEC

    def command(self):
        told = [f"--seq={self.model.seq}", f"--batch={self.model.batch}", f"--steps={self.steps}"]
        where = ["--config", self.compiled.config, f"--device={self.args.torch_device}"]
        return [self.args.python, PEER, *where, *told]

    def attempt(self, variant, timeout):
        """Runs a variant and notes its times, or why there are none."""
        start = time.monotonic()
        if self.peer is None or not self.peer.is_alive():
            self.peer = Peer(self.command())
        line = self.peer.ask(variant, timeout)
        self.last_sec = time.monotonic() - start
        known = [key for key in ("version", "cuda", "cudnn", "optimizer") if key in line]
        self.version = {key: line[key] for key in known} or self.version
        self.tried[variant] = {"seconds": round(self.last_sec, 1)}
        if "error" in line:
            self.tried[variant]["error"] = line["error"]
        else:
            self.times.setdefault(variant, []).extend(line["steps_s"])
            self.memory[variant] = line["peak_reserved_bytes"] + line["outside_bytes"] or None
        return line

    def close(self):
        if self.peer:
            self.peer.close()
        self.peer = None

    def best(self):
        """The variant with the smallest median step so far, or None."""
        return min(self.times, key=lambda v: statistics.median(self.times[v]), default=None)

    def best_sec(self):
        """About what a round of the best variant takes."""
        return self.tried[self.best()]["seconds"] if self.best() else 0

    def search(self, end, reserved_sec):
        """Tries variants until `reserved_sec()` before `end` of the monotonic clock: the
        model's first, in parts of the batch if memory does not suffice, then other words
        in the fastest. Or those of --variants."""
        if self.missing:
            return
        for variant in self.args.variants:
            self.attempt_until(variant, end - reserved_sec())
        if not self.args.variants:
            self.search_words(end, reserved_sec)
        self.close()

    def attempt_until(self, variant, end):
        left = end - time.monotonic()
        if self.tried and left < self.last_sec:
            self.tried[variant] = {"error": "no time was left", "seconds": 0}
        else:
            self.attempt(variant, max(left, START_SEC))

    def search_words(self, end, reserved_sec):
        first, words = self.model.variants()
        line = self.attempt(first, max(end - time.monotonic(), START_SEC))
        for parts in (2, 4, 8):
            if "out of memory" not in line.get("error", "").lower() or self.model.batch % parts:
                break
            first = replaced(first, f"micro{parts}")
            line = self.attempt(first, max(end - time.monotonic(), START_SEC))
        for word in words[: 1 if self.args.quick else None]:
            self.attempt_until(replaced(self.best() or first, word), end - reserved_sec())

    def round(self, end):
        """Steps of the best variant in a process of its own."""
        best = self.best()
        if not best:
            return
        with gpu_kerf.Meter() as meter:
            self.attempt(best, max(end - time.monotonic(), START_SEC))
            self.close()
        if meter.bytes:
            self.memory[best] = max(meter.bytes, self.memory[best] or 0)

    def told(self, variant):
        """Tokens per second of a variant, or why it has none, and seconds of trying."""
        line = self.tried[variant]
        if variant not in self.times:
            return {"reason": line["error"], "seconds": line["seconds"]}
        rate = self.compiled.tokens / statistics.median(self.times[variant])
        return {"tokens_per_sec": rate, "seconds": line["seconds"]}

    def row(self):
        if self.missing:
            return gpu_kerf.not_run(self.missing)
        best = self.best()
        tried = {variant: self.told(variant) for variant in self.tried}
        if best is None:
            reason = next((line["error"] for line in self.tried.values()), "nothing ran")
            return {"status": "failed", "reason": reason, "variants": tried}
        row = gpu_kerf.summary(self.times[best], self.compiled)
        return row | {"variant": best, "memory_bytes": self.memory[best], "variants": tried}
