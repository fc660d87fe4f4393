"""One row of the promise table: plans, compiles and checks it with the commands that users type."""

import json
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import table

# A plan that is given back takes the same time and memory, to this part.
MOST_APART = 1e-3
# The placed arena is never above the planned one, and at most this much below.
MOST_BELOW = 0.03
# The compiled programs take as long as the plan says, to this part.
MOST_OTHER = 0.03
# Of a kind of exchange over some axes as many bytes are sent as priced, to this part of all that is sent.
MOST_SENT = 0.01
REFUSALS = {"does not fit": r"error: no plan of .* fits", "no backend": r"error: cluster '"}
TICKS = os.sysconf("SC_CLK_TCK")


class Failure(Exception):
    """A promise that was not kept."""


class Done:
    """What a finished command used and printed."""

    def __init__(self, status, seconds, watch, out, err):
        self.status, self.seconds, self.out, self.err = status, seconds, out, err
        self.mib, self.marked = watch.mib, watch.marked


class Watch:
    """The peak memory of a running process, and its CPU seconds when a file appears."""

    def __init__(self, pid, mark):
        self.folder, self.mark = Path(f"/proc/{pid}"), mark
        self.mib, self.marked = 0.0, None

    def look(self):
        try:
            # Not wait4's peak: that begins with the peak of the process that started this one.
            peak = re.search(r"^VmHWM:\s*(\d+) kB", (self.folder / "status").read_text(), re.M)
            self.mib = int(peak[1]) / 1024 if peak else self.mib
            if self.mark and self.marked is None and self.mark.exists():
                fields = (self.folder / "stat").read_text().rsplit(")", 1)[1].split()
                self.marked = (int(fields[11]) + int(fields[12])) / TICKS
        except OSError:
            pass  # it has ended


def run(command, deadline, mark=None):
    """Runs a command until `deadline` (of time.monotonic) at the latest."""
    child = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             errors="replace")
    streams = ["", ""]

    def read(index, stream):
        with stream:
            streams[index] = stream.read()

    readers = [threading.Thread(target=read, args=pair) for pair in enumerate((child.stdout, child.stderr))]
    for reader in readers:
        reader.start()
    watch, is_late = Watch(child.pid, mark), False
    while True:
        watch.look()
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > deadline and not is_late:
            is_late = True
            child.send_signal(signal.SIGKILL)
        time.sleep(0.01)
    child.returncode = os.waitstatus_to_exitcode(status)
    for reader in readers:
        reader.join()
    if is_late:
        raise Failure(f"'{Path(command[0]).name}' took more than its time")
    return Done(child.returncode, usage.ru_utime + usage.ru_stime, watch, *streams)


def reason_of(done):
    """The first error that a command printed, without its place."""
    found = re.search(r"\berror: (.*)", done.err + done.out)
    return found[1].strip() if found else (done.err.strip()[:200] or "no message")


def must(done, what):
    if done.status:
        raise Failure(f"{what} ended with {done.status}: {reason_of(done)}")
    return done


class Measurement:
    """Runs one row in a folder of its own; `figures` fills up as it goes."""

    def __init__(self, row, folder, binaries, repo, seconds, checks, times_check, dry_work):
        self.row, self.folder, self.binaries, self.repo = row, Path(folder), Path(binaries), Path(repo)
        self.deadline = time.monotonic() + seconds
        self.checks, self.times_check, self.dry_work = checks, times_check, dry_work
        self.figures = {}

    def tool(self, name, *arguments, mark=None):
        return run([self.binaries / name, *arguments], self.deadline, mark)

    def measure(self):
        """Fills `figures`; what is broken is `figures["failures"]`."""
        self.figures["failures"] = []
        try:
            cluster = self.repo / f"examples/clusters/{self.row.cluster}.yaml"
            common = [self.model(), f"--precision={self.row.precision}", f"--cluster={cluster}",
                      f"--devices={self.row.devices}", *self.row.options]
            if self.row.expect == "a file":
                self.compile(common, cluster)
            else:
                self.be_refused(common)
        except Failure as failure:
            self.figures["failures"].append(str(failure))
        except (OSError, ValueError, KeyError) as error:
            self.figures["failures"].append(f"a tool wrote what cannot be read: {error!r}")

    def compile(self, common, cluster):
        explained, made = self.folder / "explained.json", self.folder / "made.kerf"
        done = self.tool("kerfc", *common, f"--explain-json={explained}", "-o", made, mark=explained)
        self.figures["mib"] = done.mib
        if explained.exists():
            self.read_explained(explained)
            self.figures["search_sec"] = done.marked
        must(done, "kerfc")
        self.figures.update(file_bytes=made.stat().st_size, compile_sec=done.seconds - (done.marked or 0.0))
        found = json.loads(explained.read_text())
        self.compare_arenas(found, made)
        self.compare_times(found, made, cluster)
        work = self.row.devices * found["plan"]["choice"]["micro_batches"]
        if table.backend(self.repo, self.row.cluster) == "cuda" and work <= self.dry_work:
            self.dry_run(made)
        if self.checks:
            self.read_checked(made)
        if self.times_check:
            self.time_check(common)

    def be_refused(self, common):
        """The search, or the compiler, says why there is no file."""
        made = self.folder / "made.kerf"
        done = self.tool("kerfc", *common, "-o", made)
        if made.exists() or done.status != 1 or not re.search(REFUSALS[self.row.expect], done.err):
            raise Failure(f"expected a refusal as '{self.row.expect}', found exit {done.status}: {reason_of(done)}")
        if self.row.expect == "no backend":
            explained = self.folder / "explained.json"
            done = must(self.tool("kerfc", *common, f"--explain-json={explained}", "--emit=plan", "-o", "/dev/null"),
                        "kerfc --emit=plan")
            self.read_explained(explained)
        self.figures.update(search_sec=done.seconds, mib=done.mib)

    def model(self):
        """The model's text: imported, or written by hand for one batch."""
        source = self.repo / f"examples/models/{self.row.model}"
        by_hand = source / "model.mlir"
        if by_hand.exists():
            return by_hand
        model = self.folder / "model.mlir"
        must(self.tool("kerf-import", source / "config.json", f"--batch={self.row.batch}", f"--seq={self.row.seq}",
                       *self.row.import_options, "-o", model), "kerf-import")
        return model

    def read_explained(self, path):
        found = json.loads(path.read_text())
        if not found["feasible"]:
            raise Failure("the explained plan does not fit")
        self.figures.update(plan=layout_of(found["plan"]["choice"]), step_sec=found["time"]["step_sec"])

    def compare_arenas(self, explained, made):
        """Planned and placed arena of every stage."""
        planned = [stage["total"] - stage["reserved"] for stage in explained["memory"]["stages_bytes"]]
        printed = must(self.tool("kerf-inspect", "memory", made), "kerf-inspect memory").out
        placed = [int(n) for n in re.findall(r"^arena: (\d+) bytes", printed, re.M)]
        if len(planned) != len(placed):
            raise Failure(f"{len(planned)} stages are planned, {len(placed)} are placed")
        below = [1 - p / q for p, q in zip(placed, planned)]
        self.figures.update(planned_bytes=max(planned), placed_bytes=max(placed), below=[min(below), max(below)])
        wrong = [n for n, share in enumerate(below) if not 0 <= share <= MOST_BELOW]
        if wrong:
            worst = max(wrong, key=lambda n: abs(below[n]))
            self.figures["failures"].append(
                f"{len(wrong)} of {len(below)} stages have an arena that is not 0 to {100 * MOST_BELOW:.0f} % below the "
                f"planned one; stage {worst}: {planned[worst]:.0f} bytes are planned, {placed[worst]} placed "
                f"({100 * below[worst]:.2f} % below)")

    def compare_times(self, explained, made, cluster):
        """Seconds of a step as planned, and as the commands of the compiled programs take when they are simulated."""
        told = json.loads(must(self.tool("kerf-inspect", "time", made, f"--cluster={cluster}", "--json"), "kerf-inspect time").out)
        planned, program = explained["time"]["step_sec"], told["step_sec"]
        self.figures["program_sec"] = program
        other = abs(program / planned - 1)
        if other <= MOST_OTHER and self.row.apart:
            self.figures["failures"].append(f"'apart' is not needed any more: plan and programs are {100 * other:.1f} % apart")
        if other > max(MOST_OTHER, self.row.apart):
            self.figures["failures"].append(
                f"the plan takes {planned:.4g} s, its programs {program:.4g} ({100 * (program / planned - 1):+.1f} %)")
        self.compare_exchanges(told)

    def compare_exchanges(self, told):
        """Bytes and calls that are priced, and that the compiled programs send."""
        found = sent_otherwise(told["exchanges"])
        unknown = [text for name, text in found.items() if name not in self.row.otherwise]
        stale = sorted(set(self.row.otherwise) - set(found))
        if unknown:
            self.figures["failures"].append("what is sent is not what is priced: " + "; ".join(unknown))
        if stale:
            self.figures["failures"].append(f"'otherwise' is not needed any more for {', '.join(stale)}")

    def read_checked(self, made):
        """What the file says of its proof; keeps the plan for `time_check`."""
        text = must(self.tool("kerf-inspect", "plan", made), "kerf-inspect plan").out
        (self.folder / "plan.json").write_text(text)
        checked = json.loads(text).get("checked")
        if not checked:
            raise Failure("the file does not say that it was checked")
        ranks = re.search(r"\d+ ranks?( \([^)]+\))?", checked["twin"])
        self.figures["checked"] = f"{ranks[0] if ranks else checked['twin']}: {checked['largest_error']:.0e}"

    def time_check(self, common):
        """Compiles the same plan without proving the file; what that saves is the check."""
        plan, explained, again = (self.folder / n for n in ("plan.json", "again.json", "again.kerf"))
        done = must(self.tool("kerfc", *common, f"--plan={plan}", "--check=off", f"--explain-json={explained}", "-o",
                              again, mark=explained), "kerfc --plan --check=off")
        self.compare_costs(json.loads((self.folder / "explained.json").read_text()), json.loads(explained.read_text()))
        unchecked = done.seconds - (done.marked or 0.0)
        self.figures.update(check_sec=max(0.0, self.figures["compile_sec"] - unchecked), compile_sec=unchecked)

    def compare_costs(self, found, given):
        """Step time and memory of a plan, when it was found and when it is given."""
        for what, one, other in zip(("seconds of a step", "bytes"), cost_of(found), cost_of(given)):
            if abs(other - one) > MOST_APART * one:
                self.figures["failures"].append(f"the plan takes {one:.7g} {what} when it is found, {other:.7g} when it is given")

    def dry_run(self, made):
        done = must(self.tool("kerf-run", "--dry-nccl", "--dry-rank=0", made), "kerf-run --dry-nccl")
        found = re.search(r"^checked: (\d+) ranks, .* (\d+) calls: .* nothing hangs$", done.out, re.M)
        if not found or int(found[1]) != self.row.devices:
            raise Failure(f"kerf-run --dry-nccl does not say that {self.row.devices} ranks were checked")
        self.figures["nccl_calls"] = int(found[2])


def sent_otherwise(exchanges):
    """Kinds over axes of which more or fewer bytes are sent than priced: name, both sides."""
    most = MOST_SENT * sum(row["bytes"] for row in exchanges)
    return {f"{row['kind']} {row['axes']}":
            f"{row['kind']} over {row['axes']}: {row['planned_bytes'] / 1e9:.3f} GB in {row['planned_calls']:.0f} calls are priced, "
            f"{row['bytes'] / 1e9:.3f} GB in {row['calls']:.0f} sent"
            for row in exchanges if abs(row["bytes"] - row["planned_bytes"]) > most}


def cost_of(explained):
    """Seconds of a step, and bytes of the stage that needs most."""
    return explained["time"]["step_sec"], max(stage["total"] for stage in explained["memory"]["stages_bytes"])


def layout_of(choice):
    """A plan's first line, as on the screen of --explain."""
    degrees = " ".join(f"{k} {choice[k]}" for k in ("tp", "cp", "ep", "dp", "pp") if choice[k] > 1)
    schedule = choice["schedule"] + (f" v {choice['chunks']}" if choice["chunks"] > 1 else "")
    if "defer" in choice and choice["defer"] < choice["pp"] - 1:
        schedule += f" defer {choice['defer']}"
    return f"{degrees or 'one rank'}, {choice['micro_batches']} x {choice['micro_batch']}, {schedule}, zero {choice['zero']}"
