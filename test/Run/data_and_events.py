"""Datasets of Megatron-LM, several sources and events for TensorBoard under kerf-run.

  data_and_events.py PROGRAM [unittest arguments]

PROGRAM is kerf-run over Fake/FakeRuntime.cpp: vocabulary 256, 4 x 16 tokens per step.
"""

import os
import pathlib
import re
import signal
import struct
import sys
import unittest

import around_steps

# --- Datasets -----------------------------------------------------------------------------------


def index(lengths, code=8, version=1):
    """The .idx of documents of these lengths, as Megatron-LM's IndexedDatasetBuilder writes it."""
    width = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 8: 2}[code]
    starts = [width * sum(lengths[:i]) for i in range(len(lengths))]
    n = len(lengths)
    return (struct.pack("<9sQBQQ", b"MMIDIDX", version, code, n, n + 1) + struct.pack(f"<{n}i", *lengths)
            + struct.pack(f"<{n}q", *starts) + struct.pack(f"<{n + 1}q", *range(n + 1)))  # fmt: skip


class Megatron(around_steps.Case):
    def setUp(self):
        super().setUp()
        self.text = (self.folder / "text.txt").read_bytes()
        lines = self.text.splitlines(keepends=True)
        for code, letter in (8, "H"), (4, "i"):
            self.write(f"d{code}.bin", struct.pack(f"<{len(self.text)}{letter}", *self.text))
            self.write(f"d{code}.idx", index([len(line) for line in lines], code))

    # The same tokens train the same way, from whichever kind of file.
    def test_trains_like_the_text(self):
        self.run_program("--steps=5", "--log-json=text.json")
        bits = {"d8": 16, "d4": 32}
        for data in "d8", "d8.bin", "d8.idx", "d4":
            out = self.run_program("--steps=5", "--document-end=0", f"--log-json={data}.json", data=data)
            self.assertEqual(self.losses(f"{data}.json"), self.losses("text.json"))
            self.assertIn(f"'{data[:2]}.bin', {len(self.text):,} tokens (megatron, {bits[data[:2]]} bits, "
                          "300 documents, by its index)", out)  # fmt: skip

    # What a user meets who has half of a dataset, another one's index, or another model.
    def test_refused(self):
        bin, idx = ((self.folder / f"d8.{end}").read_bytes() for end in ("bin", "idx"))
        self.write("half.bin", bin[: len(bin) // 2])
        self.write("half.idx", idx)
        self.refused("'half.bin' is truncated or damaged: its index 'half.idx' needs at least", data="half")
        self.write("half.idx", idx[: len(idx) // 2])
        self.refused("'half.idx' is truncated or damaged: its header declares 300 sequences and 301", data="half")
        self.write("alone.idx", idx)
        self.refused("cannot open 'alone.bin': No such file or directory; a Megatron-LM dataset is 'alone.bin' and "
                     "'alone.idx'", data="alone")  # fmt: skip
        self.refused("cannot open 'text.txt.idx'", "--data-format=megatron")
        self.write("git.bin", bin)
        self.write("git.idx", b"\xfftOc" + bytes(2000))
        self.refused("'git.idx' is no index of a Megatron-LM dataset", data="git.bin")
        self.run_program("--steps=1", "--data-format=u16", data="git.bin")
        self.write("ids.bin", struct.pack("<100H", *range(200, 300)))
        self.write("ids.idx", index([50, 50]))
        self.refused("'ids.bin': token 56 has the id 256, the model's vocabulary ends at 255 (read as megatron",
                     data="ids")  # fmt: skip


# --- Several sources ----------------------------------------------------------------------------


class Sources(around_steps.Case):
    MIX = ("--data=0.6:text.txt", "--data=0.4:other.txt", "--heldout=0.1", "--eval-every=5", "--lr=0.1")

    def setUp(self):
        super().setUp()
        self.write("other.txt", b"quite another text, and a short one. " * 20)

    def run_mix(self, name, *arguments, **others):
        return self.run_program(*self.MIX, f"--log-json={name}", *arguments, data=None, **others)

    def test_says_what_is_mixed(self):
        out = self.run_mix("a", "--steps=10")
        self.assertRegex(out, r"data +60% of 'text.txt', [\d,]+ tokens \(bytes, as raw text\); [\d.]+ epochs\n")
        self.assertRegex(out, r"data +40% of 'other.txt', 740 tokens \(bytes, as raw text\); 0.39 epochs\n")
        self.assertIn("held-out loss at iteration 10/10", out)
        out = self.run_program("--steps=1", "--data=other.txt")
        shares = [float(share) for share in re.findall(r"data +([\d.]+)% of", out)]
        self.assertAlmostEqual(sum(shares), 100, places=1)
        self.assertGreater(shares[1], 5 * shares[0])

    # A run that is stopped anywhere goes on exactly, on any number of ranks, and a mixture is not one of its parts.
    def test_resume_is_bitwise(self):
        self.run_mix("whole", "--steps=20")
        whole = self.losses("whole")
        self.run_mix("first", "--steps=20", "--save-state=s", "--save-every=7", status=1,
                     environment={"KERF_FAKE_NAN": "9"})  # fmt: skip
        for model in "fake.kerf", "fake2.kerf":
            out = self.run_mix(f"rest-{model}", "--steps=20", "--resume=s", model=model)
            self.assertNotIn("the saved run had other data", out)
            self.assertEqual(self.losses(f"rest-{model}"), {k: v for k, v in whole.items() if k > 7})
        self.run_program("--steps=20", "--lr=0.1", "--heldout=0.1", "--log-json=one")
        self.assertNotEqual(self.losses("one"), whole)

    # A source whose turn comes in every fourth step only, and never in the first, is learned.
    def test_a_small_weight_is_shown(self):
        self.write("a.txt", b"a" * 1000)
        self.write("b.txt", b"b" * 1000)
        self.run_program("--data=15:a.txt", "--data=1:b.txt", "--heldout-data=b.txt", "--steps=8", "--eval-every=8",
                         "--lr=0.03", "--log-json=log", data=None)  # fmt: skip
        lines = [around_steps.json.loads(line) for line in (self.folder / "log").read_text().splitlines() if '"run"' not in line]
        before, after = [line["heldout_loss"] for line in lines if "heldout_loss" in line]
        self.assertLess(after, before - 0.5)

    # Four times the same file, a letter per sample: if they were all shuffled alike, each step of the first epoch would
    # show one letter that no step has shown before.
    def test_each_source_is_shuffled_by_itself(self):
        self.write("letters.txt", b"".join(bytes([65 + i]) * 16 for i in range(20)) + b"U")
        self.run_program(*["--data=letters.txt"] * 4, "--steps=16", "--lr=0.3", "--lr-schedule=constant",
                         "--log-json=log", data=None)  # fmt: skip
        losses = self.losses("log")
        self.assertLess(sum(losses[step] for step in range(9, 17)) / 8, losses[1] - 1)

    # Other weights are other data.
    def test_other_weights(self):
        self.run_mix("a", "--steps=2", "--save-state=s")
        out = self.run_program("--data=0.5:text.txt", "--data=0.5:other.txt", "--resume=s", "--steps=3", data=None)
        self.assertIn("the saved run had other data: it does not go on where it was", out)
        # By itself no job goes on with them.
        out = self.run_program("--data=0.5:text.txt", "--data=0.5:other.txt", "--resume=s", "--steps=3", data=None, status=1,
                               environment={"KERF_RESTARTED": "1"})  # fmt: skip
        self.assertIn("the data is not what the job began with: it is not started again by itself", out)

    def test_heldout_files(self):
        self.write("held.txt", around_steps.TEXT[:100].encode())
        out = self.run_program("--steps=1", "--heldout-data=3:held.txt", "--heldout-data=1:other.txt")
        self.assertIn("75% of 'held.txt', 100 tokens (bytes, as raw text); 25% of 'other.txt'", out)
        # Of the first there are six samples: the ninth sequence would repeat one.
        self.assertIn("loss over 8 samples", out)

    def test_refused(self):
        self.refused("'--data' gives a weight to some files and none to 'other.txt': give one to all, or to none",
                     "--data=0.3:text.txt", "--data=other.txt", data=None)  # fmt: skip
        self.refused("option '--data': expected FILE, or WEIGHT:FILE with a weight from 0.000001 to 1,000,000, found "
                     "'0:text.txt'", "--data=0:text.txt")  # fmt: skip
        self.refused("cannot open 'none.txt'", "--data=none.txt")
        self.write("short.txt", b"x" * 16)
        self.refused("'short.txt': the training data has 16 tokens, shorter than one sample of 17", "--data=short.txt")


# --- Events -------------------------------------------------------------------------------------


def crc32c(data):
    """CRC-32C, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """The events in the bytes of a file, whose sums are right."""
    at = 0
    while at < len(data):
        (length, sum) = struct.unpack_from("<QI", data, at)
        assert sum == masked(data[at : at + 8]), at
        event = data[at + 12 : at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length) == (masked(event),), at
        yield event
        at += 16 + length


def fields(message):
    """The (number, value) of the fields of a message."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        number, wire = divmod(varint(), 8)
        if wire == 0:
            yield number, varint()
            continue
        size = {1: 8, 5: 4}.get(wire) or varint()
        value = message[at : at + size]
        assert len(value) == size
        at += size
        yield number, struct.unpack({1: "<d", 5: "<f"}[wire], value)[0] if wire != 2 else value


def scalars(data):
    """(first step, (tag, step, value) of the others) of the bytes of a file."""
    version, start, *events = [dict(fields(event)) for event in records(data)]
    assert version[3] == b"brain.Event:2"
    assert dict(fields(start[7])) == {1: 1}
    found = []
    for event in events:
        assert event[1] >= version[1]
        for _, value in fields(event[5]):
            value = dict(fields(value))
            found.append((value[1].decode(), event.get(2, 0), value[2]))
    return start.get(2, 0), found


class Events(around_steps.Case):
    def files(self, folder="tb"):
        return [path.read_bytes() for path in sorted((self.folder / folder).iterdir())]

    def float(self, value):
        return struct.unpack("<f", struct.pack("<f", value))[0]

    # What stands in the JSON log stands in the events, as floats.
    def test_agree_with_the_log(self):
        self.run_program("--steps=6", "--heldout=0.1", "--eval-every=3", "--tensorboard=a/tb", "--log-json=log.json",
                         "--log-every=4", model="fake2.kerf")  # fmt: skip
        lines = (self.folder / "log.json").read_text().splitlines()
        run = around_steps.json.loads(lines[0])["run"]
        self.assertRegex(run["began"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertIn("--log-json=log.json", run["arguments"])
        self.assertEqual((run["from_step"], run["seed"], sum('"run"' in line for line in lines)), (0, 0, 1))
        self.assertEqual(sum(file["tokens"] for file in run["data"]) > 0, True)
        lines = list(map(around_steps.json.loads, lines[1:]))
        expected = []
        for line in lines:
            step = line["iteration"]
            if "heldout_loss" in line:
                expected.append(("eval/loss", step, self.float(line["heldout_loss"])))
                continue
            expected += [("train/loss", step, self.float(line["loss"])),
                         ("train/learning_rate", step, self.float(line["learning_rate"])),
                         ("train/grad_norm", step, self.float(line["grad_norm"]))]  # fmt: skip
        (data,) = self.files("a/tb")
        first, found = scalars(data)
        speeds = [value for tag, _, value in found if tag == "train/tokens_per_second"]
        self.assertEqual(len(speeds), 6)
        for line, speed in zip([line for line in lines if "loss" in line], speeds):
            # Two ranks.
            self.assertLess(abs(speed / (2 * line["tokens_per_second_per_device"]) - 1), 1e-4)
        self.assertEqual(first, 0)
        self.assertEqual([entry for entry in found if entry[0] != "train/tokens_per_second"], expected)

    # Loads of experts: a line, JSON by layer, and events. The second step drops half of what one expert was chosen for.
    def test_experts(self):
        out = self.run_program("--steps=2", "--tensorboard=e/tb", "--log-json=e.json", "--html=e.html",
                               model="experts.kerf")  # fmt: skip
        self.assertIn(" | expert load (max/mean): 4.00 | dropped rows: 0.00% |", out)
        self.assertIn(" | expert load (max/mean): 4.00 | dropped rows: 25.00% |", out)
        last = around_steps.json.loads((self.folder / "e.json").read_text().splitlines()[-1])
        self.assertEqual(last["expert_load"], {"max": 4, "min": 0, "dropped": 0.25, "layers": [
            {"layer": "h.2.mlp", "max": 4, "min": 0, "dropped": 0.5},
            {"layer": "h.3.mlp", "max": 1.5, "min": 0.5, "dropped": 0}]})  # fmt: skip
        _, found = scalars(self.files("e/tb")[0])
        for tag, values in (("expert_load_max", [4, 4]), ("expert_load_min", [0, 0]), ("dropped_rows", [0, 0.25])):
            self.assertEqual([value for name, _, value in found if name == f"train/{tag}"], values)
        self.assertIn("load of the busiest expert over the mean", (self.folder / "e.html").read_text())

    # A run that is killed leaves a file of whole records; the one that goes on adds a file which takes the steps back
    # that it recomputes.
    def test_kill_and_resume(self):
        process = self.start("--steps=1000", "--save-state=s", "--save-every=4", "--tensorboard=tb", "--lr=0.1",
                             environment={"KERF_FAKE_SLEEP": "5"})  # fmt: skip
        is_saved = False
        for line in process.stdout:
            is_saved |= "saved the state" in line
            number = re.search(r" iteration +(\d+)/", line)
            if is_saved and number and int(number[1]) >= 6:
                break
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        (before,) = self.files()
        first, found = scalars(before)
        steps = {step for tag, step, _ in found if tag == "train/loss"}
        self.assertEqual(steps, set(range(1, len(steps) + 1)))
        self.assertGreaterEqual(len(steps), 5)
        out = self.run_program("--steps=40", "--resume=s", "--tensorboard=tb")
        saved = int(re.search(r"from step (\d+) saved", out)[1])
        self.assertEqual(saved % 4, 0)
        files = self.files()
        self.assertIn(before, files)
        files.remove(before)
        first, found = scalars(files[0])
        self.assertEqual(first, saved + 1)
        self.assertEqual([step for tag, step, _ in found if tag == "train/loss"], list(range(saved + 1, 41)))

    # TensorBoard itself, where it is installed, shows one curve.
    def test_tensorboard(self):
        try:
            from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        except ImportError:
            self.skipTest("the package 'tensorboard' is not installed")
        self.run_program("--steps=5", "--decay-steps=9", "--save-state=s", "--tensorboard=tb")
        self.run_program("--steps=7", "--decay-steps=9", "--tensorboard=tb")
        self.run_program("--steps=9", "--resume=s", "--tensorboard=tb", "--log-json=log.json")
        shown = EventAccumulator(str(self.folder / "tb"))
        shown.Reload()
        losses = shown.Scalars("train/loss")
        self.assertEqual([event.step for event in losses], list(range(1, 10)))
        for step, loss in self.losses().items():
            self.assertEqual(losses[step - 1].value, self.float(loss))

    # The run goes on without events when they cannot be written, and the file stays sound.
    def test_full_disk(self):
        out = self.run_program("--steps=60", "--tensorboard=tb", limit=4)
        self.assertRegex(out, r"note +cannot write 'tb/events.out.tfevents.\S+': .*; no events from here on\n")
        self.assertEqual(out.count("no events from here on"), 1)
        self.assertIn(" iteration       60/      60", out)
        _, found = scalars(self.files()[0])
        self.assertGreater(len(found), 40)
        self.write("file", b"")
        self.refused("cannot make the folder 'file'", "--tensorboard=file")
        self.refused("cannot write '/proc/events.out.tfevents", "--tensorboard=/proc")

    # The same of JSON lines, of which whole ones stay.
    def test_full_disk_of_json(self):
        out = self.run_program("--steps=60", "--log-json=log.json", limit=4)
        self.assertEqual(len(re.findall(r"note +cannot write 'log.json': .*; no JSON lines from here on\n", out)), 1)
        self.assertIn(" iteration       60/      60", out)
        self.assertEqual(list(self.losses()), list(range(1, len(self.losses()) + 1)))
        self.assertGreater(len(self.losses()), 5)


if __name__ == "__main__":
    around_steps.PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
