"""What kerf-run does around the steps: data, resume, signals, weights, errors, ranks.

  around_steps.py PROGRAM [unittest arguments]

PROGRAM is kerf-run over Fake/FakeRuntime.cpp: vocabulary 256, 4 x 16 tokens per step.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import struct
import sys
import time
import unittest
import xml.etree.ElementTree

import jobs
import states

PROGRAM = ""
TEXT = jobs.text(300)


class Case(jobs.JobTest):
    lines = 300

    def start(self, *arguments, model="fake.kerf", data="text.txt", environment=None, limit=None):
        command = [PROGRAM, model, *arguments]
        if data:
            command.append(f"--data={data}")
        if limit:
            command = ["bash", "-c", f'ulimit -f {limit}; exec "$@"', "-", *command]
        return self.launch(*command, environment=environment)

    def run_program(self, *arguments, status=0, **others):
        out, err = self.end(self.start(*arguments, **others), status)
        return out + err

    def losses(self, name="log.json"):
        lines = [json.loads(line) for line in (self.folder / name).read_text().splitlines() if '"run"' not in line]
        return {line["iteration"]: line["loss"] for line in lines if "loss" in line}

    def refused(self, message, *arguments, status=1, **others):
        out = self.run_program(*arguments, status=status, **others)
        self.assertIn(message, out)

    def write(self, name, data):
        (self.folder / name).write_bytes(data)


class Training(Case):
    def test_log(self):
        out = self.run_program("--steps=3", "--log-json=log.json", "--peak-tflops=1")
        steps = re.findall(r"^ iteration.*\n(?: {5}.*\n)*", out, re.M)
        self.assertEqual(len(steps), 3)
        number = r"[-+.\dE]+"
        for step in steps:
            self.assertLessEqual(max(map(len, step.splitlines())), 118)
            self.assertRegex(" ".join(step.split()), (
                rf"^iteration \d+/ 3 \| consumed samples: \d+ \| loss: {number} \| grad norm: {number}"
                rf" \| elapsed time per iteration \(ms\): {number}"
                rf" \| tokens/s/device: {number} \| TFLOP/s/device: \S+ \| MFU: {number}%"
                rf" \| learning rate: {number} \| peak memory \(MB\): {number} \|$"))  # fmt: skip
        self.assertIn("consumed samples:           12 |", steps[2])
        self.assertIn("4 per step in 1 micro-batch", out)
        self.assertEqual(sorted(self.losses()), [1, 2, 3])
        self.assertNotIn("\r", out)

    def test_same_every_time_and_other_for_another_seed(self):
        for name, seed in (("a", 1), ("b", 1), ("c", 2)):
            self.run_program("--steps=5", f"--seed={seed}", f"--log-json={name}")
        self.assertEqual(self.losses("a"), self.losses("b"))
        self.assertNotEqual(self.losses("a"), self.losses("c"))

    def test_learns_and_plots(self):
        out = self.run_program(
            "--steps=60", "--lr=0.3", "--heldout=0.1", "--eval-every=20", "--plot=p.svg",
            "--log-json=log.json")  # fmt: skip
        entropy = float(re.search(r"entropy +([\d.]+)", out)[1])
        self.assertEqual(len(re.findall("held-out loss at iteration", out)), 4)
        heldout = re.findall(r"held-out loss at iteration \d+/60: (\S+)", out)
        self.assertLess(float(heldout[-1]), entropy)
        self.assertLess(self.losses()[60], entropy)
        root = xml.etree.ElementTree.parse(self.folder / "p.svg").getroot()
        text = "".join(root.itertext())
        for part in ("training loss", "held-out loss", "unigram entropy", "60 steps"):
            self.assertIn(part, text)
        self.assertEqual(len(list(root.iter("{http://www.w3.org/2000/svg}circle"))), 4)

    def test_page(self):
        self.run_program("--steps=6", "--heldout=0.1", "--eval-every=3", "--profile", "--html=run.html", "--log-json=log.json")
        page = (self.folder / "run.html").read_text()
        self.assertNotRegex(page, r'(src|href)="|url\(|@import|nan|inf<')
        for part in ("training loss of step 6", "held-out", "tokens/s", "rank 0", "Commands that took most"):
            self.assertIn(part, page)
        self.assertIn(f"<b>{self.losses()[6]:.4f}</b>", page)
        steps = sorted(json.loads(line)["elapsed_ms"] for line in (self.folder / "log.json").read_text().splitlines()
                       if "elapsed_ms" in line and json.loads(line)["iteration"] > 1)
        median = steps[len(steps) // 2]
        told = float(re.search(r"<b>([\d.]+) (us|ms|s) a step</b>", page)[1])
        unit = {"us": 1e-3, "ms": 1, "s": 1e3}[re.search(r"<b>[\d.]+ (us|ms|s) a step</b>", page)[1]]
        self.assertAlmostEqual(told * unit / median, 1, delta=0.006)  # three digits

    def test_heldout_file(self):
        self.write("held.txt", TEXT[:100].encode())
        out = self.run_program("--steps=1", "--heldout-data=held.txt")
        self.assertIn("loss over 6 samples", out)
        self.assertIn("samples: 6 |", out)

    def test_profile(self):
        self.assertIn("100.00 %", self.run_program("--steps=1", "--profile"))


class State(Case):
    def whole_run(self):
        self.run_program("--steps=20", "--log-json=whole.json", "--lr=0.1")
        return self.losses("whole.json")

    def test_resume_is_bitwise(self):
        self.run_program("--steps=20", "--save-state=s", "--save-every=8", "--lr=0.1",
                         "--log-json=log.json", status=1,
                         environment={"KERF_FAKE_NAN": "12"})  # fmt: skip
        out = self.run_program("--steps=20", "--resume=s", "--log-json=rest.json")
        self.assertIn("from step 8 saved in 's/step-8'", out)
        rest = self.losses("rest.json")
        self.assertEqual(sorted(rest), list(range(9, 21)))
        whole = self.whole_run()
        self.assertEqual(rest, {k: v for k, v in whole.items() if k > 8})
        self.assertEqual(sorted(os.listdir(self.folder / "s")), [".kerf-run.lock", "step-8"])

    def test_resume_appends_to_the_log(self):
        self.run_program("--steps=4", "--decay-steps=8", "--save-state=s", "--log-json=log.json")
        self.run_program("--steps=8", "--resume=s", "--log-json=log.json")
        self.assertEqual(sorted(self.losses()), list(range(1, 9)))
        out = self.run_program("--steps=4", "--resume=s")
        self.assertIn("nothing to train: 4 steps are done, --steps is 4", out)

    def test_signals(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            shutil.rmtree(self.folder / "s", ignore_errors=True)
            process = self.start("--steps=1000", "--save-state=s", "--lr=0.1", "--decay-steps=20",
                                 environment={"KERF_FAKE_SLEEP": "20"})  # fmt: skip
            for line in process.stdout:
                if " iteration        2/" in line:
                    break
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 128 + number, out + err)
            step = int(re.search(r"saved the state of step (\d+)", out)[1])
            self.assertRegex(out, rf"ended by signal {int(number)} \(\w+\) after step {step} of 1000")
            self.run_program(f"--steps={step + 2}", "--resume=s", "--log-json=rest.json")
            rest = self.losses("rest.json")
            (self.folder / "rest.json").unlink()
            self.run_program(f"--steps={step + 2}", "--lr=0.1", "--decay-steps=20",
                             "--warmup=19", "--log-json=whole.json")  # fmt: skip
            whole = self.losses("whole.json")
            self.assertEqual(rest, {k: v for k, v in whole.items() if k > step})

    def test_full_disk_at_a_signal(self):
        process = self.start("--steps=1000", "--save-state=s", environment={"KERF_FAKE_SLEEP": "20"}, limit=100)
        for line in process.stdout:
            if " iteration        2/" in line:
                break
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, out + err)
        self.assertIn("the state was not saved: cannot write", err)

    def test_data_that_becomes_shorter(self):
        self.write("long.bin", struct.pack("<H", 1) * 600_000)
        process = self.start("--steps=1000", "--data-format=u16", data="long.bin",
                             environment={"KERF_FAKE_SLEEP": "20"})  # fmt: skip
        for line in process.stdout:
            if " iteration        2/" in line:
                break
        os.truncate(self.folder / "long.bin", 0)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGBUS, out + err)
        self.assertIn("became shorter", err)

    def test_second_signal_kills(self):
        process = self.start("--steps=9", environment={"KERF_FAKE_SLEEP": "3000"})
        for line in process.stdout:
            if "device " in line:
                break
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        time.sleep(0.6)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=10)
        self.assertEqual(process.returncode, -signal.SIGINT)

    # The terminal, timeout and the launcher may all send one request.
    def test_same_signal_twice_saves(self):
        process = self.start("--steps=1000", "--save-state=s", environment={"KERF_FAKE_SLEEP": "20"})
        for line in process.stdout:
            if " iteration        2/" in line:
                break
        for _ in range(3):
            process.send_signal(signal.SIGTERM)
            time.sleep(0.002)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, out + err)
        self.assertIn("saved the state of step", out)

    def saved(self, folder="s"):
        """What all checkpoints of a folder have."""
        return {path.name: states.files(path) for path in states.steps(self.folder / folder)}

    def test_not_finite_keeps_the_state(self):
        self.run_program("--steps=3", "--save-state=s")
        before = self.saved()
        self.refused("the loss of step 5 is nan; --check-nans names the op", "--steps=9",
                     "--resume=s", "--save-state=s", "--save-every=5",
                     environment={"KERF_FAKE_NAN": "5"})  # fmt: skip
        self.assertEqual(self.saved(), before)

    # What was good when it was copied is kept, also where the next step goes wrong while it is written.
    def test_not_finite_while_a_state_is_written(self):
        self.run_program("--steps=9", "--save-state=s", "--save-every=4", "--save-bandwidth=1", status=1,
                         environment={"KERF_FAKE_NAN": "5"})  # fmt: skip
        self.assertEqual([path.name for path in states.steps(self.folder / "s")], ["step-4"])
        self.assertIn("from step 4 ", self.run_program("--steps=5", "--resume=s"))

    def test_full_disk_keeps_the_state(self):
        self.run_program("--steps=3", "--save-state=s")
        before = self.saved()
        self.refused("the state was not saved: cannot write 's/step-6.partial/rank-00000.safetensors'", "--steps=6",
                     "--resume=s", "--save-state=s", limit=100)  # fmt: skip
        self.assertEqual(self.saved(), before)
        self.assertEqual(sorted(os.listdir(self.folder / "s")), [".kerf-run.lock", "step-3"])

    def test_bad_states(self):
        self.refused("no saved state in 'none'", "--resume=none")
        self.run_program("--steps=2", "--save-state=s")
        path = self.folder / "s/step-2"
        good = states.files(path)

        def damaged(name, data, message):
            with self.subTest(name=name, message=message):
                (path / name).write_bytes(data)
                out = self.run_program("--resume=s", "--steps=3", status=1)
                self.assertIn(message, out)
                self.assertIn(f"'s/step-2/{name}'", out)
                (path / name).write_bytes(good[name])

        for name, data in good.items():
            damaged(name, data[:-4], "")
            damaged(name, b"", "")
        data, start = good["rank-00000.safetensors"], states.index(path)["files"][0]["data"]
        flipped = lambda at: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        damaged("rank-00000.safetensors", flipped(start + 5), "is damaged: the checksum of a tile does not agree, in 'param:")
        damaged("rank-00000.safetensors", flipped(len(data) - 3), "is damaged: the checksums of its tiles do not agree, in 'param:")
        damaged("index.json", good["index.json"].replace(b'"file": 0', b'"file": 1', 1), "its checksum is not that of the manifest")
        damaged("manifest.json", good["manifest.json"].replace(b'"step": "2"', b'"step": "3"'), "its checksum does not agree")
        (path / "rank-00000.safetensors").rename(path / "away")
        self.refused("cannot open 's/step-2/rank-00000.safetensors': No such file", "--resume=s", "--steps=3")
        (path / "away").rename(path / "rank-00000.safetensors")
        states.change(path, kerf_checkpoint="9")
        self.refused("'s/step-2' is no checkpoint of version 1", "--resume=s")
        (path / "manifest.json").write_bytes(good["manifest.json"])
        renamed = states.index(path)
        renamed["tensors"]["param:transformer.v.weight"] = renamed["tensors"].pop("param:transformer.w.weight")
        states.seal_index(path, renamed)
        self.refused("is of another model: tensor 'param:transformer.w.weight' is missing",
                     "--resume=s", "--steps=3")  # fmt: skip
        for name in ("index.json", "manifest.json"):
            (path / name).write_bytes(good[name])
        self.refused("'--seed' 5 is not that of the saved state, 0", "--resume=s", "--seed=5")
        self.write("other.txt", TEXT[1:].encode())
        out = self.run_program("--resume=s", "--steps=3", data="other.txt")
        self.assertIn("the saved run had other data", out)

    # An index that is sealed and says what cannot be.
    def test_hostile_indices(self):
        self.run_program("--steps=2", "--save-state=s")
        path = self.folder / "s/step-2"
        good = states.index(path)

        def piece(index):
            return index["tensors"]["param:transformer.w.weight"]["pieces"][0]

        def hostile(message, change):
            with self.subTest(message):
                index = json.loads(json.dumps(good))
                change(index)
                states.seal_index(path, index)
                self.refused(message, "--resume=s", "--steps=3")

        huge = 1 << 62
        for key in ("offset", "bytes", "sums"):
            for value in (huge, (1 << 63) - 1):
                hostile("is damaged: tensor", lambda index: piece(index).update({key: value}))
            hostile(f"expected a number '{key}'", lambda index: piece(index).update({key: -1}))
        hostile("is damaged: tensor", lambda index: piece(index).update(offset=piece(index)["offset"] + 4096 * 1000))
        hostile("no file 7", lambda index: piece(index).update(file=7))
        hostile("expected sizes in 'begin'", lambda index: piece(index).update(begin=[0, -1]))
        hostile("is no box of its tensor", lambda index: piece(index).update(end=[256, huge]))
        hostile("is no box of its tensor", lambda index: piece(index).update(begin=[0]))
        hostile("too many dimensions", lambda index: piece(index).update(begin=[0] * 99))
        hostile("expected a checksum of 16", lambda index: piece(index).update(checksum="12"))
        hostile("is no name of a file in this folder", lambda index: index["files"][0].update(name="../../secret"))
        hostile("has data outside of its bytes", lambda index: index["files"][0].update(data=huge))
        hostile("bytes, the index says", lambda index: index["files"][0].update(bytes=huge))
        hostile("tiles of another size", lambda index: index.update(tile_width=1))
        hostile("expected a list 'files'", lambda index: index.pop("files"))
        hostile("expected an object 'tensors'", lambda index: index.update(tensors=[]))
        twice = lambda index: index["tensors"]["param:transformer.w.weight"]["pieces"].append(piece(index))
        hostile("the pieces of 'param:transformer.w.weight' do not make it up", twice)
        none = lambda index: index["tensors"]["param:transformer.w.weight"]["pieces"].clear()
        hostile("the pieces of 'param:transformer.w.weight' do not make it up", none)
        hostile("of another model: tensor", lambda index: index["tensors"]["param:transformer.w.weight"].update(dtype="F32", pieces=[]))

    def test_all_that_a_state_says_is_checked(self):
        self.run_program("--steps=2", "--save-state=s")
        path = self.folder / "s/step-2"
        good = (path / "manifest.json").read_text()
        self.assertEqual(states.manifest(path)["save"], "1")
        for key, value in states.manifest(path).items():
            with self.subTest(key=key):
                at = good.index(f'"{value}"', good.index(f'"{key}"')) + len(value)
                (path / "manifest.json").write_text(good[:at] + chr(ord(good[at]) ^ 1) + good[at + 1 :])
                self.refused("checksum does not agree", "--resume=s")

    NO_RUN_HAS = (
        {"seed": None}, {"step": "-1"}, {"step": "x"}, {"step": str(1 << 60)},
        {"consumed_samples": "-8"}, {"consumed_samples": "9223372036854775807"},
        {"consumed_samples": "1"}, {"step": "0"}, {"min_lr": "-1"}, {"min_lr": "nan"},
        {"min_lr": "1"}, {"lr": "inf"}, {"warmup": "-1"}, {"decay_steps": "-1"},
        {"wsd_decay": "2"}, {"decay": "slow"},
    )  # fmt: skip

    def test_what_no_run_has(self):
        self.run_program("--steps=2", "--save-state=s")
        path = self.folder / "s/step-2"
        good = (path / "manifest.json").read_bytes()
        for entries in self.NO_RUN_HAS:
            with self.subTest(**entries):
                states.change(path, **entries)
                self.refused("it is incomplete or has values that no run has", "--resume=s", "--steps=4")
                (path / "manifest.json").write_bytes(good)

    # One file, with a checksum of all (version 2) or of the tensors alone (version 1).
    def test_states_of_earlier_versions(self):
        self.run_program("--steps=2", "--decay-steps=4", "--save-state=s")
        self.run_program("--steps=4", "--resume=s", "--save-state=new")
        for version in ("1", "2"):
            old = self.folder / f"old{version}"
            old.mkdir()
            data = states.single_file(self.folder / "s/step-2", version)
            (old / "state.safetensors").write_bytes(data)
            out = self.run_program(f"--resume={old.name}", "--steps=4", f"--save-state={old.name}")
            self.assertIn(f"from step 2 saved in '{old.name}'", out)
            self.assertEqual(self.saved(old.name), {"step-4": self.saved("new")["step-4"]})
            (old / "step-4/manifest.json").unlink()
            (old / "state.safetensors").write_bytes(data[:-5] + bytes([data[-5] ^ 1]) + data[-4:])
            self.refused("checksum does not agree", f"--resume={old.name}")
            (old / "state.safetensors").write_bytes(data[:-1])
            self.refused("truncated", f"--resume={old.name}")
        self.write("old2/state.safetensors", data.replace(b'"kerf_state":"2"', b'"kerf_state":"9"'))
        self.refused("is no saved state of version 2", "--resume=old2")
        for entries in self.NO_RUN_HAS:
            with self.subTest(**entries):
                self.write("old2/state.safetensors", states.changed(data, **entries))
                self.refused("its metadata is incomplete or wrong", "--resume=old2", "--steps=4")

    def test_which_states_stay(self):
        names = lambda: [path.name for path in states.steps(self.folder / "s")]
        out = self.run_program("--steps=9", "--save-state=s", "--save-every=2", "--decay-steps=30")
        self.assertEqual(names(), ["step-8", "step-9"])
        self.assertEqual(re.findall(r"saved the state of step (\d+)", out), ["2", "4", "6", "8", "9"])
        self.run_program("--steps=20", "--save-state=s", "--save-every=2", "--resume=s", "--keep=1", "--keep-every=6")
        self.assertEqual(names(), ["step-12", "step-18", "step-20"])
        # An earlier one is gone on from by its name; its steps take the place of those that were there.
        before = self.saved()
        self.run_program("--steps=20", "--save-state=s", "--save-every=2", "--resume=s/step-12", "--lr=1e-3")
        self.assertEqual(names(), ["step-18", "step-20"])
        self.assertNotEqual(self.saved()["step-20"], before["step-20"])
        self.assertEqual(sorted(os.listdir(self.folder / "s")), [".kerf-run.lock", "step-18", "step-20"])

    # What was saved last is what one goes on from, not what went further.
    def test_the_newest_save_counts(self):
        self.run_program("--steps=8", "--save-state=s", "--save-every=4")
        self.run_program("--steps=6", "--resume=s/step-4", "--save-state=s")
        self.assertIn("from step 6 saved in 's/step-6'", self.run_program("--steps=7", "--resume=s"))
        self.run_program("--steps=7", "--resume=s", "--save-state=s")
        self.assertEqual([path.name for path in states.steps(self.folder / "s")], ["step-6", "step-7"])

    # A run that forgets --resume would remove what another one saved.
    def test_states_of_another_run_stay(self):
        self.run_program("--steps=8", "--save-state=s", "--save-every=4")
        before = self.saved()
        for resume in ([], ["--resume=other"]):
            if resume:
                self.run_program("--steps=2", "--save-state=other")
            out = self.run_program("--steps=4", "--save-state=s", *resume, status=1)
            self.assertIn("'s' has the states of another run, up to step 8, which this one would remove: go on from them with "
                          "--resume=s, or save to another folder", out)  # fmt: skip
            self.assertNotIn("iteration", out)
        self.assertEqual(self.saved(), before)

    # Nobody goes on from an older state without a word.
    def test_damaged_newest(self):
        self.run_program("--steps=8", "--save-state=s", "--save-every=4")
        path = self.folder / "s/step-8/manifest.json"
        path.write_text(path.read_text().replace("8", "9"))
        self.refused("'s/step-8/manifest.json' is damaged: its checksum does not agree; the one before it is 's/step-4'", "--resume=s")
        self.assertIn("from step 4", self.run_program("--resume=s/step-4", "--steps=5"))

    # So of what a rank finds when it reads its tensors; the model of another shape has no better state.
    def test_damaged_tensors(self):
        self.run_program("--steps=8", "--save-state=s", "--save-every=4")
        path = self.folder / "s/step-8/rank-00000.safetensors"
        data = path.read_bytes()
        path.write_bytes(data[:-300] + bytes([data[-300] ^ 1]) + data[-299:])
        for state in "s", "s/step-8":
            self.refused("is damaged: ", f"--resume={state}", "--steps=9")
            self.refused("; the one before it is 's/step-4'\n", f"--resume={state}", "--steps=9")
        path.unlink()
        self.refused("cannot open 's/step-8/rank-00000.safetensors': No such file", "--resume=s", "--steps=9")
        self.refused("; the one before it is 's/step-4'\n", "--resume=s", "--steps=9")

    # Nor does it take the place of states that can be read.
    def test_damaged_one_among_good_ones(self):
        self.run_program("--steps=4", "--save-state=s", "--save-every=2")
        path = self.folder / "s/step-4/manifest.json"
        path.write_text(path.read_text().replace("4", "5"))
        self.run_program("--steps=9", "--resume=s/step-2", "--save-state=s", "--save-every=3", "--keep=1")
        self.assertEqual(sorted(os.listdir(self.folder / "s")), [".kerf-run.lock", "step-4", "step-9"])
        self.assertIn("from step 9", self.run_program("--resume=s", "--steps=10"))

    # What a job that ended while it removed a state left, and one that was replaced.
    def test_what_is_left_is_removed(self):
        self.run_program("--steps=4", "--save-state=s", "--save-every=2")
        for name in ("step-1.removed", "step-3.partial", "step-4.replaced"):
            (self.folder / "s" / name).mkdir()
            (self.folder / "s" / name / "rank-00000.safetensors").touch()
        self.run_program("--steps=6", "--save-state=s", "--resume=s", "--keep=1")
        self.assertEqual(sorted(os.listdir(self.folder / "s")), [".kerf-run.lock", "step-6"])

    # The same folder by another name is the same folder.
    def test_nothing_to_train(self):
        self.run_program("--steps=4", "--save-state=s")
        self.assertNotIn("saved the state", self.run_program("--steps=4", "--resume=s", "--save-state=./s/"))
        out = self.run_program("--steps=4", "--resume=s", "--save-state=t")
        self.assertIn("saved the state of step 4 in 't/step-4'", out)

    # A file of the user's is not ours to remove.
    def test_other_files_stay(self):
        self.run_program("--steps=2", "--save-state=s")
        (self.folder / "s/step-2/notes.txt").touch()
        (self.folder / "s/step-x").mkdir()
        self.run_program("--steps=8", "--save-state=s", "--save-every=2", "--resume=s", "--keep=1")
        self.assertEqual(sorted(os.listdir(self.folder / "s")), [".kerf-run.lock", "step-2", "step-8", "step-x"])
        self.assertEqual(os.listdir(self.folder / "s/step-2"), ["notes.txt"])

    def test_two_runs_and_one_folder(self):
        process = self.start("--steps=1000", "--save-state=s", "--save-every=2", environment={"KERF_FAKE_SLEEP": "20"})
        for line in process.stdout:
            if " iteration        3/" in line:
                break
        out = self.run_program("--steps=3", "--save-state=s", status=1)
        self.assertIn("the state cannot be saved: another run saves to 's' now", out)
        self.assertNotIn("iteration", out)
        process.terminate()
        self.end(process, 128 + signal.SIGTERM)
        self.run_program("--steps=3", "--resume=s", "--save-state=s")

    # A save that is due while the one before is written waits for it, and says so.
    def test_saves_come_one_after_the_other(self):
        out = self.run_program("--steps=3", "--save-state=s", "--save-every=1", "--save-bandwidth=0.1", "--log-json=log.json")
        self.assertIn("the state of step 1 is still being written: waiting", out)
        lines = [json.loads(line) for line in (self.folder / "log.json").read_text().splitlines() if '"run"' not in line]
        saves = [line for line in lines if "saved_iteration" in line]
        self.assertEqual([line["saved_iteration"] for line in saves], [1, 2, 3])
        for line in saves:
            self.assertEqual(line["saved_in"], f"s/step-{line['saved_iteration']}")
            self.assertGreater(line["save_stall_ms"], 0)
            self.assertGreater(line["save_copy_ms"], 0)
            self.assertLess(line["save_write_ms"], 3000)  # at 0.1 MB/s it is 6,700

    def test_bandwidth(self):
        self.run_program("--steps=12", "--save-state=s", "--save-every=3", "--keep=9", "--save-bandwidth=4", "--log-json=log.json",
                         environment={"KERF_FAKE_SLEEP": "100"})  # fmt: skip
        lines = [json.loads(line) for line in (self.folder / "log.json").read_text().splitlines() if '"run"' not in line]
        first = next(line for line in lines if "saved_iteration" in line)
        self.assertEqual(first["saved_iteration"], 3)
        self.assertGreater(first["iteration"], 3)
        self.assertGreater(first["save_write_ms"], 1e-3 * first["saved_bytes"] / 4 - 5)

    def test_killed_while_it_saves(self):
        self.run_program("--steps=2", "--save-state=s", "--decay-steps=30")
        before = self.saved()
        process = self.start("--steps=30", "--save-state=s", "--resume=s", "--save-every=1", "--save-bandwidth=1")
        while not (self.folder / "s/step-3.partial").exists():
            time.sleep(0.005)
        process.kill()
        process.communicate(timeout=60)
        self.assertEqual(self.saved(), before)
        self.assertIn("from step 2 ", self.run_program("--steps=3", "--save-state=s", "--resume=s"))
        self.assertEqual(sorted(os.listdir(self.folder / "s")), [".kerf-run.lock", "step-2", "step-3"])

    # What cannot be drawn does not cost what was trained.
    def test_weights_before_pictures(self):
        out = self.run_program("--steps=2", "--save-weights=w.safetensors", "--html=/proc/page.html", status=1)
        self.assertIn("'/proc/page.html'", out)
        self.assertIn("iteration        2/", out)
        self.assertTrue((self.folder / "w.safetensors").exists())

    # The loss is of the weights before the update: it says nothing of what is saved.
    def test_what_is_not_finite_replaces_nothing(self):
        self.run_program("--steps=1", "--save-state=s", "--save-weights=w.safetensors")
        before = self.saved(), (self.folder / "w.safetensors").read_bytes()
        for options, what in ((["--save-state=s", "--resume=s", "--steps=2"], "the state was not saved: element "),
                              (["--save-weights=w.safetensors", "--warmup=0", "--steps=1"], "the weights were not saved: element ")):
            with self.subTest(options[0]):
                out = self.run_program("--lr=1e39", "--min-lr=1e39", *options, status=1)
                self.assertRegex(out, re.escape(what) + r"\d+ of '.*' is -?(inf|nan)")
        self.assertEqual((self.saved(), (self.folder / "w.safetensors").read_bytes()), before)
        self.assertEqual(sorted(os.listdir(self.folder / "s")), [".kerf-run.lock", "step-1"])

    def test_targets_are_tried_before_the_first_step(self):
        (self.folder / "file").touch()
        for option in ("--save-state=file", "--save-state=file/s", "--save-weights=file/w",
                       "--save-weights=file/w.safetensors"):  # fmt: skip
            with self.subTest(option):
                out = self.run_program("--steps=3", option, status=1)
                self.assertIn(" cannot be saved: cannot make the folder 'file", out)
                self.assertNotIn("iteration", out)
        (self.folder / "w.safetensors").mkdir()
        out = self.run_program("--steps=3", "--save-weights=w.safetensors", status=1)
        self.assertIn("the weights cannot be saved: cannot write 'w.safetensors'", out)
        self.assertNotIn("iteration", out)

    # As one that a process on another machine, of the same number, has in a shared folder.
    def test_temporary_files_of_others_are_left_alone(self):
        target = self.folder / "target"
        target.write_bytes(b"mine")
        script = (
            "import os, sys; os.symlink('target', f'w.safetensors.tmp-{os.getpid()}');"
            "os.execv(sys.argv[1], sys.argv[1:])"
        )
        command = [sys.executable, "-c", script, PROGRAM, "fake.kerf", "--data=text.txt", "--steps=1", "--save-weights=w.safetensors"]
        self.end(self.launch(*command), 0)
        self.assertEqual(target.read_bytes(), b"mine")
        self.assertIn("w.safetensors", os.listdir(self.folder))


class Weights(Case):
    def test_round_trip(self):
        self.run_program("--steps=3", "--save-weights=w", "--lr=0.1")
        first = (self.folder / "w/model.safetensors").read_bytes()
        out = self.run_program("--steps=0", "--init-from=w", "--save-weights=again.safetensors")
        self.assertIn("weights of 'w'", out)
        self.assertEqual((self.folder / "again.safetensors").read_bytes(), first)

    def test_names(self):
        self.run_program("--steps=0", "--save-weights=w.safetensors")
        data = (self.folder / "w.safetensors").read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + length])
        self.assertEqual(header.pop("__metadata__"), {"format": "pt"})
        experts = {f"transformer.h.{i}.x.{e}.bias" for i in range(2) for e in range(3)}
        self.assertEqual(set(header), {"transformer.w.weight"} | experts)
        self.assertEqual(header["transformer.h.1.x.2.bias"]["shape"], [256])
        self.assertEqual(header["transformer.w.weight"]["dtype"], "BF16")

    def test_bad_weights(self):
        self.refused("cannot start from 'none':", "--init-from=none")
        self.run_program("--steps=0", "--save-weights=w.safetensors")
        good = (self.folder / "w.safetensors").read_bytes()
        self.write("x.safetensors", good.replace(b"x.2.bias", b"x.7.bias"))
        out = self.run_program("--init-from=x.safetensors", status=1)
        for message in ("'transformer.h.0.x.2.bias' of shape [256] is missing",
                        "unexpected tensor 'transformer.h.1.x.7.bias'"):  # fmt: skip
            self.assertIn(message, out)
        self.write("x.safetensors", good[:-4] + struct.pack("<f", float("nan")))
        self.refused("is not finite: element 255 is nan", "--init-from=x.safetensors")

    def test_full_disk(self):
        self.refused("the weights were not saved: cannot write 'w.safetensors'", "--steps=1",
                     "--save-weights=w.safetensors", limit=20)  # fmt: skip
        self.assertNotIn("w.safetensors", os.listdir(self.folder))


class LossScale(Case):
    def scales(self, *arguments, most=20000, log="log.json", **others):
        """Loss scale and skipped steps of each step; scales above `most` overflow."""
        environment = {"KERF_FAKE_OVERFLOW": str(most), **others.pop("environment", {})}
        self.run_program(f"--log-json={log}", *arguments, model="half.kerf",
                         environment=environment, **others)  # fmt: skip
        lines = [json.loads(line) for line in (self.folder / log).read_text().splitlines() if '"run"' not in line]
        return [(line["loss_scale"], line["skipped_iterations"]) for line in lines if "loss_scale" in line]

    def test_falls_and_rises(self):
        found = self.scales("--steps=4")
        self.assertEqual(found, [(65536, 1), (32768, 2), (16384, 2), (16384, 2)])
        found = self.scales("--steps=6", "--initial-loss-scale=4096", "--loss-scale-interval=1")
        self.assertEqual(
            found, [(4096, 0), (8192, 0), (16384, 0), (32768, 1), (16384, 1), (32768, 2)])  # fmt: skip

    def test_skipped_steps_change_nothing_and_are_told(self):
        out = self.run_program("--steps=3", "--save-weights=a.safetensors", model="half.kerf",
                               environment={"KERF_FAKE_OVERFLOW": "0.5"})  # fmt: skip
        self.assertIn("loss scale  dynamic, 65536 at first, doubled after 2,000 good steps", out)
        self.assertRegex(out, r"\| grad norm: inf \|\s+loss scale: 16384.0 \| skipped iterations: 3 \|")
        self.run_program("--steps=0", "--save-weights=b.safetensors", model="half.kerf")
        self.assertEqual((self.folder / "a.safetensors").read_bytes(),
                         (self.folder / "b.safetensors").read_bytes())  # fmt: skip

    def test_resume_goes_on_with_it(self):
        whole = self.scales("--steps=6", "--loss-scale-interval=2", "--save-state=w")
        self.scales("--steps=3", "--loss-scale-interval=2", "--save-state=s",
                    "--decay-steps=6", "--warmup=0")  # fmt: skip
        rest = self.scales("--steps=6", "--resume=s", "--save-state=s", log="rest.json")
        self.assertEqual(rest, whole[3:])
        self.assertEqual([s for s, _ in whole], [65536, 32768, 16384, 16384, 32768, 16384])
        self.assertEqual(states.content(self.folder / "w/step-6"), states.content(self.folder / "s/step-6"))
        # Options win over the saved state; a fixed scale stays one.
        found = self.scales("--steps=7", "--resume=s", "--initial-loss-scale=8", log="other.json")
        self.assertEqual(found, [(8, 3)])
        self.scales("--steps=7", "--resume=s", "--loss-scale=9", "--save-state=f", log="f.json")
        found = self.scales("--steps=8", "--resume=f", log="g.json")
        self.assertEqual(found, [(9, 3)])

    def test_fixed(self):
        self.assertEqual(self.scales("--steps=2", "--loss-scale=3e4"), [(3e4, 1), (3e4, 2)])

    def test_no_scale_is_small_enough(self):
        self.refused("step 30 overflows with a loss scale of 0.00012207: it is not the scale",
                     "--steps=99", model="half.kerf",
                     environment={"KERF_FAKE_OVERFLOW": "0"})  # fmt: skip

    # Step 1 is skipped, and so is its loss. An optimizer counts the next one as its first: its loss counts.
    def test_loss_that_is_no_number(self):
        out = self.run_program("--steps=5", status=1, model="half.kerf",
                               environment={"KERF_FAKE_OVERFLOW": "40000", "KERF_FAKE_NAN": "1"})  # fmt: skip
        self.assertIn("the loss of step 2 is nan", out)
        self.refused("the loss of step 1 is nan", "--loss-scale=65536", model="half.kerf",
                     environment={"KERF_FAKE_OVERFLOW": "0", "KERF_FAKE_NAN": "1"})  # fmt: skip

    # Weights that are no numbers are no matter of the scale: the run does not end as if it had trained.
    def test_no_loss_is_a_number(self):
        always = {"KERF_FAKE_OVERFLOW": "0", "KERF_FAKE_NAN": "1"}
        self.refused("the loss of step 5 is nan; --check-nans names", "--steps=99", model="half.kerf", environment=always)
        self.refused("the loss of step 3 is nan; --check-nans names", "--steps=3", model="half.kerf", environment=always)

    def saved_state(self):
        """A saved state, and a function that gives entries of its metadata other values."""
        self.run_program("--steps=1", "--save-state=s", model="half.kerf")
        path = self.folder / "s/step-1"
        good = (path / "manifest.json").read_bytes()

        def change(**entries):
            (path / "manifest.json").write_bytes(good)
            states.change(path, **entries)

        return change

    # The scale at which a run ends is no obstacle as long as nothing overflows.
    def test_small_scale_without_overflow(self):
        self.saved_state()(loss_scale="5e-05")
        self.assertEqual(self.scales("--steps=2", "--resume=s", most=1e5), [(5e-05, 0)])
        self.refused("step 2 overflows with a loss scale of 5e-05: it is not the scale",
                     "--steps=2", "--resume=s", model="half.kerf",
                     environment={"KERF_FAKE_OVERFLOW": "0"})  # fmt: skip

    def test_bad_states(self):
        change = self.saved_state()
        for entry, values in {
            "loss_scale": ("0", "-1", "1e-99", "1e300", "inf", "nan"),
            "loss_scale_interval": ("-1",),
            "good_steps": ("-1",),
            "skipped_steps": ("-1", "2"),
        }.items():
            for value in values:
                change(**{entry: value})
                self.refused("it is incomplete or has values that no run has", "--resume=s", model="half.kerf")
        change(loss_scale="1", loss_scale_interval="0", good_steps="9", skipped_steps="1")
        self.run_program("--steps=2", "--resume=s", model="half.kerf")

    def test_needs_a_model_that_takes_one(self):
        message = "the model takes no loss scale: compile it with 'kerfc --precision=f16'"
        for option in ("--loss-scale=8", "--initial-loss-scale=8", "--loss-scale-interval=8"):
            self.refused(message, option)


class BadInput(Case):
    def test_command_line(self):
        self.refused("did you mean '--steps'?", "--stesp=1")
        self.refused("expected training data: --data=FILE", data=None)
        self.refused("none.kerf: cannot open", model="none.kerf")
        self.refused("'--min-lr' 0.0003 is above '--lr' 0.0001", "--lr=1e-4", "--min-lr=3e-4")
        self.refused("no device 'x'", "--device=x")
        self.refused("the artifact has no evaluation program", "--eval-every=2",
                     model="noeval.kerf")  # fmt: skip
        self.assertIn("Exit status:", self.run_program("--help"))
        self.assertIn("kerf-run 0", self.run_program("--version"))
        self.refused("cannot write 'none/log.json'", "--log-json=none/log.json")
        for option in ("plot", "html", "trace"):  # before the first step, not after the last
            self.refused(f"cannot write 'none/out': there is no folder 'none'", "--steps=2", f"--{option}=none/out")

    def test_data(self):
        self.refused("cannot open 'none.txt'", data="none.txt")
        self.refused("found a folder", data=".")
        self.write("empty.txt", b"")
        self.refused("'empty.txt' is empty", data="empty.txt")
        self.write("short.txt", b"x" * 16)
        self.refused("has 16 tokens, shorter than one sample of 17", data="short.txt")
        self.refused("the held-out part has", "--heldout=0.001")
        self.write("odd.bin", b"x" * 101)
        self.refused("is truncated: 101 bytes are no whole number of 16-bit", data="odd.bin")
        self.write("ids.bin", struct.pack("<100H", *range(200, 300)))
        self.refused("'ids.bin': token 56 has the id 256, the model's vocabulary ends at 255",
                     data="ids.bin")  # fmt: skip
        self.refused("'--document-end' 256 is beyond the model's vocabulary",
                     "--document-end=256")  # fmt: skip


class Ranks(Case):
    def test_starts_all(self):
        out = self.run_program("--steps=2", "--log-json=log.json", model="fake2.kerf")
        self.assertIn("on 2 ranks", out)
        self.assertEqual(out.count(" iteration        2/"), 1)
        self.assertEqual(sorted(self.losses()), [1, 2])

    def test_tells_errors_once(self):
        out = self.run_program(model="fake2.kerf", data="none.txt", status=1)
        self.assertEqual(out.count("error:"), 1)

    def children(self):
        """Commands of running processes that work in this test's folder."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(path / "cwd") == str(self.folder.resolve()):
                    found.append(path.name)
            except OSError:
                pass
        return found

    def test_rank_dies(self):
        out = self.run_program("--steps=1000", model="fake2.kerf", status=128 + signal.SIGKILL,
                               environment={"KERF_FAKE_DIE": "1:3", "KERF_FAKE_SLEEP": "20"})  # fmt: skip
        self.assertIn("rank 1 was killed by signal 9", out)
        self.assertEqual(self.children(), [])

    def test_signals_reach_the_ranks(self):
        process = self.start("--steps=1000", model="fake2.kerf", environment={"KERF_FAKE_SLEEP": "20"})
        for line in process.stdout:
            if " iteration        2/" in line:
                break
        process.terminate()
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, out + err)
        self.assertEqual(self.children(), [])

    def test_killed_launcher_leaves_no_rank(self):
        process = self.start("--steps=1000", model="fake2.kerf",
                             environment={"KERF_FAKE_SLEEP": "20"})  # fmt: skip
        for line in process.stdout:
            if " iteration        2/" in line:
                break
        process.kill()
        process.communicate(timeout=60)
        for _ in range(100):
            if not self.children():
                break
            time.sleep(0.05)
        self.assertEqual(self.children(), [])


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
