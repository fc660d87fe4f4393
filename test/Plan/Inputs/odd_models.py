"""Compiles models that are no plain stack of layers in several layouts; each file is proven against one rank.

  odd_models.py INPUTS PREFIX
"""

import subprocess
import sys

inputs, prefix = sys.argv[1:]
MODELS = {
    "scaled-losses": ("m=2", "pp=2,m=2", "dp=2,m=2", "tp=2,m=2"),
    "read-in-layers": ("m=4", "pp=2,m=2", "dp=2,m=2", "tp=2,m=2", "cp=2,m=2"),
    "carried-beside": ("m=4", "pp=2,m=2", "dp=2,m=2", "tp=2,m=2", "cp=2,m=2"),
    "weight-penalty": ("tp=2", "dp=2,zero=3", "pp=2", "cp=2"),
    "layers-read-twice": ("tp=2", "dp=2,zero=3,m=2", "cp=2,m=4"),
}
count = 0
for model, pins in ((model, pins) for model in MODELS for pins in MODELS[model]):
    devices = 1 if pins.startswith("m=") else 2
    command = ["kerfc", f"{inputs}/{model}.mlir", "--cluster=this-machine", f"--devices={devices}",
               f"--pin={pins}", "-o", f"{prefix}.kerf"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0 or "twin trains as on one rank" not in " ".join(done.stdout.split()):
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    count += 1
print(f"{count} files, each trains as one rank does")
