"""Calls Kerf's programs: kerf-import, kerfc and kerf-run, which must be on the PATH or in the folder KERF_BIN.

Options of a program are given by name, as on the command line: `kerfc --seq-len=8` is `seq_len=8`. True is an option
without a value, a list several values by commas; None is left out.
"""

import html
import json
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path


class KerfError(Exception):
    """A program ended with a status that is not 0; the text is what it said on standard error."""

    def __init__(self, program, status, said):
        super().__init__(f"{program} ended with status {status}:\n{said.strip()}")
        self.status = status


def program(name):
    """The path of a program."""
    folder = os.environ.get("KERF_BIN")
    found = shutil.which(name, path=folder) if folder else shutil.which(name)
    if found is None:
        where = f"the folder KERF_BIN={folder}" if folder else "the PATH"
        raise FileNotFoundError(f"'{name}' is not in {where}: build Kerf, and set KERF_BIN to its folder bin")
    return found


def flags(options):
    """`--name=value` for each option."""
    result = []
    for name, value in options.items():
        name = name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if isinstance(value, dict):
            value = ",".join(f"{key}={item}" for key, item in value.items())
        if isinstance(value, (list, tuple)):
            value = ",".join(map(str, value))
        result.append(f"--{name}" if value is True else f"--{name}={value}")
    return result


def call(name, *arguments, text=None):
    """Runs a program; gives what it printed."""
    done = subprocess.run(
        [program(name), *map(str, arguments)], input=text, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise KerfError(name, done.returncode, done.stderr)
    return done.stdout, done.stderr


def model_text(model, **options):
    """Text of a model for kerfc: of a path of a graph, a lowered function or a config (options of kerf-import), or of
    the text of a graph or a function."""
    if isinstance(model, str) and "\n" in model:
        return call("kerf-import", "-", *flags(options), text=model)[0]
    return call("kerf-import", model, *flags(options))[0]


@dataclass
class Plan:
    """A plan that was found: `report` has all fields of docs/explain-json.md, `text` the decision in 12 lines."""

    report: dict
    text: str
    page: str = field(repr=False, default="")

    @property
    def feasible(self):
        return self.report["feasible"]

    @property
    def choice(self):
        """Ranks by kind of parallelism, micro-batches, schedule, ZeRO."""
        return self.report["plan"]["choice"]

    @property
    def step_sec(self):
        return self.report["time"]["step_sec"]

    def __str__(self):
        return self.text

    def _repr_html_(self):
        """The decision as a notebook shows it; the whole page behind a fold."""
        page = html.escape(self.page, quote=True)
        frame = f'<iframe srcdoc="{page}" style="width:100%;height:40em;border:0"></iframe>' if self.page else ""
        return f"<pre>{html.escape(self.text)}</pre><details><summary>all of it</summary>{frame}</details>"


def plan(model, cluster, **options):
    """Plans a model on a cluster.

    model    path of a graph, of a lowered function or of a config.json (with `batch` and `seq`), or the text that
             `export` or `from_jax` gave.
    cluster  name of a cluster that Kerf has ("hgx-h100"), or path of its description.
    options  of kerfc: devices, precision, pin, ...

    Raises KerfError; a model that fits nowhere is no error (`feasible` is False).
    """
    taken = {name: options.pop(name) for name in ("batch", "seq") if name in options}
    text = model_text(model, **taken)
    with tempfile.TemporaryDirectory() as folder:
        report, page = Path(folder, "report.json"), Path(folder, "page.html")
        arguments = ["-", f"--cluster={cluster}", "--explain", f"--explain-json={report}", f"--html={page}"]
        try:
            said = call("kerfc", *arguments, *flags(options), text=text)[0]
        except KerfError as error:
            if not report.exists():
                raise
            said = str(error)
        shown = page.read_text() if page.exists() else ""
        return Plan(json.loads(report.read_text()), said, shown)


def compile(model, cluster, path, **options):
    """Plans, proves and compiles a model to `path` (NAME.kerf); gives the line that kerfc says of it.

    Arguments as of `plan`. Nothing is written where the check of the compiled programs fails.
    """
    taken = {name: options.pop(name) for name in ("batch", "seq") if name in options}
    text = model_text(model, **taken)
    said, told = call("kerfc", "-", f"--cluster={cluster}", "-o", path, *flags(options), text=text)
    return (said + told).strip()


@dataclass
class Run:
    """A run that ended: `steps` has a dict per step, as kerf-run --log-json wrote it; `text` is what it printed."""

    steps: list
    text: str

    @property
    def losses(self):
        return [step["loss"] for step in self.steps]

    def __str__(self):
        return self.text

    def _repr_html_(self):
        """The losses as a curve, and what was printed but for the lines of steps."""
        lines = [line for line in self.text.splitlines() if not re.match(r" iteration| {5}\S.* \|$", line)]
        return curve(self.losses) + f"<pre>{html.escape(chr(10).join(lines))}</pre>"


def curve(values, width=480, height=160):
    """A line through values, as SVG."""
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    span = (high - low) or 1
    points = " ".join(
        f"{40 + i * (width - 50) / (len(values) - 1):.1f},{10 + (high - v) * (height - 30) / span:.1f}"
        for i, v in enumerate(values)
    )
    return (
        f'<svg width="{width}" height="{height}" role="img" aria-label="loss by step">'
        f'<polyline fill="none" stroke="#2563a8" stroke-width="1.5" points="{points}"/>'
        f'<text x="0" y="16" font-size="11">{high:.3g}</text>'
        f'<text x="0" y="{height - 18}" font-size="11">{low:.3g}</text>'
        f'<text x="40" y="{height - 2}" font-size="11">step 1</text>'
        f'<text x="{width - 8}" y="{height - 2}" font-size="11" text-anchor="end">{len(values)}</text></svg>'
    )


def run(path, data=None, steps=0, *, sample=None, **options):
    """Trains a compiled model on this machine; ranks are started as kerf-run does.

    path     of the .kerf file.
    data     raw text, a .bin of tokens, or a Megatron-LM dataset; needed where steps are made.
    steps    to train.
    sample   a text that the model goes on from, or a list of several; of a model over other tokens than bytes
             "tokens:1,2,3". The file is compiled with `compile(..., sampler=True)`; the text is in what the run printed.
    options  of kerf-run: lr, seed, init_from, save_weights, sample_tokens, ...
    """
    texts = [sample] if isinstance(sample, str) else sample or []
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log.jsonl")
        arguments = [path, f"--steps={steps}", f"--log-json={log}"]
        arguments += [f"--data={data}"] if data is not None else []
        arguments += [f"--sample={text}" for text in texts]
        said, _ = call("kerf-run", *arguments, *flags(options))
        lines = [json.loads(line) for line in log.read_text().splitlines()]
    return Run([line for line in lines if "loss" in line], said)
