"""Types standard input into a command on a terminal, a line for each question.

answer.py COMMAND...
"""

import os
import pty
import sys

lines = sys.stdin.read().splitlines(keepends=True)
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
while True:
    try:
        text = os.read(terminal, 4096).decode()
    except OSError:
        break
    if not text:
        break
    print(text.replace("\r", ""), end="", flush=True)
    if text.endswith(": ") and lines:
        os.write(terminal, lines.pop(0).encode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
