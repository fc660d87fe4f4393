"""Ranks that mpirun starts on this machine as if each were on a machine of its own."""
import os
import pathlib
import shutil

MPIRUN = """#!/usr/bin/env bash
words=()
for word in "$@"; do [[ $word == */kerf-run ]] && words+=(./as-machine); words+=("$word"); done
exec REAL --oversubscribe "${words[@]}"
"""
AS_MACHINE = """#!/bin/sh
export KERF_MACHINE=machine-$OMPI_COMM_WORLD_RANK
exec "$@"
"""


def imitate_machines(folder):
    """Puts an `mpirun` into the folder that names each rank's machine; the environment that finds it."""
    for name, text in (("mpirun", MPIRUN.replace("REAL", shutil.which("mpirun"))), ("as-machine", AS_MACHINE)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                         "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # fmt: skip


def ranks_in(folder):
    """Processes of ranks that mpirun started in the folder."""
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            is_rank = b"OMPI_COMM_WORLD_RANK=" in (entry / "environ").read_bytes()
            if is_rank and os.readlink(entry / "exe").endswith("/kerf-run") and os.readlink(entry / "cwd") == str(folder):
                yield int(entry.name)
        except OSError:
            continue
