"""A link between two machines that becomes slow while a job runs is named, and again when it is as it was.

  slow_link.py TWO.kerf [unittest arguments]

Two ranks on imitated machines (KERF_MACHINE) talk over tcp, through a relay of this test that can be made slow.
kerf-run is found on the PATH.
"""

import json
import pathlib
import selectors
import socket
import sys
import threading
import time
import unittest

import jobs

TWO = ""
SLOW_BYTES_PER_SEC = 10e6
SECONDS = 35  # until the first rounds are over, also beside other work


class Relay(threading.Thread):
    """Hands on what a rank and the first rank say to each other."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.target, self.is_slow = port, False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def connect(self):
        """The first rank may not listen yet."""
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.target))
            except ConnectionRefusedError:
                time.sleep(0.02)

    def run(self):
        try:
            self.hand_on()
        except OSError:  # a rank ended
            pass

    def hand_on(self):
        with self.listener:
            guest, _ = self.listener.accept()
        host = self.connect()
        for end in (guest, host):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with selectors.DefaultSelector() as waits:
            waits.register(guest, selectors.EVENT_READ, host)
            waits.register(host, selectors.EVENT_READ, guest)
            while True:
                for key, _ in waits.select():
                    data = key.fileobj.recv(1 << 16)
                    if not data:
                        return
                    key.data.sendall(data)
                    if self.is_slow:
                        time.sleep(len(data) / SLOW_BYTES_PER_SEC)


class SlowLink(jobs.JobTest):
    def start(self, rank, port):
        environment = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "KERF_SESSION": "slow-link", "KERF_MACHINE": f"node{rank}"}  # fmt: skip
        return self.launch("kerf-run", TWO, "--data=text.txt", "--threads=1", "--transport=tcp", "--steps=1000000", "--log-every=1000000",
                           "--log-json=log.jsonl", environment=environment)  # fmt: skip

    def told(self):
        path = self.folder / "log.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def link_lines(self, after=-1):
        return [line for line in self.told() if "slow_link" in line and line["iteration"] > after]

    def wait_for_link(self, is_slow, after=-1, seconds=120):
        end = time.monotonic() + seconds
        while not (lines := [line for line in self.link_lines(after) if line["is_slow"] == is_slow]):
            self.assertLess(time.monotonic(), end, self.told()[-3:])
            time.sleep(0.05)
        return lines[0]

    def test_named(self):
        # A port that is free now.
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        relay = Relay(port)
        relay.start()
        ranks = [self.start(0, port), self.start(1, relay.port)]
        # Later rounds are compared with the first ten. A round takes a hundredth of the time.
        time.sleep(SECONDS)
        # The relay and both ranks share cores with other tests: a link that was slow for that is well again.
        while (lines := self.link_lines()) and lines[-1]["is_slow"]:
            self.wait_for_link(False, after=lines[-1]["iteration"])
        relay.is_slow = True
        began = max(line["iteration"] for line in self.told() if "loss" in line)
        named = self.wait_for_link(True, after=began)
        self.assertEqual((named["slow_link"], named["other_end"]), ("node0", "node1"))
        self.assertGreater(named["factor"], 1.5)
        print(f"named after {named['iteration'] - began} steps")
        relay.is_slow = False
        over = self.wait_for_link(False, after=named["iteration"])
        self.assertGreater(over["iteration"], named["iteration"])
        for rank in ranks:
            rank.terminate()
        out, _ = ranks[0].communicate(timeout=30)
        self.assertRegex(out, r" slow: the link between node0 and node1 took \d+\.\d times as long as when the run began in \d of 3")


if __name__ == "__main__":
    TWO = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
