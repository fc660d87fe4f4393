"""Runs a command, prints "exit code N" behind what it says, and fails where N
is not the number given first: exit_code.py N COMMAND..."""

import subprocess
import sys

expected, command = int(sys.argv[1]), sys.argv[2:]
code = subprocess.run(command, stderr=subprocess.STDOUT).returncode
print(f"exit code {code}")
sys.exit(code != expected)
