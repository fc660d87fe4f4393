"""Makes a folder of tools of which one only says a text and exits.

    stand_in.py FOLDER TOOL TEXT STATUS [OPTION]

The others are the real ones, and so is that tool without the option (kerfc: without --emit=verify or
--emit=plan, so that its lists are read).
"""

import shlex
import shutil
import sys
from pathlib import Path

folder, stood_for, text, status, *option = sys.argv[1:]
folder = Path(folder)
folder.mkdir()
pattern = f"*{option[0]}*" if option else "*--emit=*" if stood_for == "kerfc" else "*"
for tool in ("kerf-import", "kerfc", "kerf-inspect"):
    real = shutil.which(tool)
    if tool != stood_for:
        (folder / tool).symlink_to(real)
        continue
    script = folder / tool
    say = f"echo {shlex.quote(text)} >&2; exit {status}"
    script.write_text(f'#!/bin/sh\ncase " $* " in {pattern}) {say};; esac\nexec {shlex.quote(real)} "$@"\n')
    script.chmod(0o755)
