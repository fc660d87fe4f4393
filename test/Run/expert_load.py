"""Loads of experts in the log, against counts made here.

  expert_load.py FOLDER CLUSTER

The routing is a constant table of the tokens, another one in each of two layers, so that which experts are chosen
follows from the data alone. Each sequence is a group; a step takes all samples of the file.
"""

import json
import pathlib
import random
import struct
import subprocess
import sys

ROWS, SEQUENCE, VOCABULARY, EXPERTS, CHOSEN = 8, 16, 8, 4, 2
LAYOUTS = ["", "dp=4", "dp=2,m=2", "ep=2,dp=2", "tp=2,m=4", "cp=2", "pp=2,dp=2,m=2", "pp=2,m=4"]


def table(seed):
    """[layer][token][expert]: distinct logits, the first expert's largest on the whole."""
    draw = random.Random(seed)
    return [[[draw.random() + (e == 0) * 0.4 for e in range(EXPERTS)] for _ in range(VOCABULARY)] for _ in range(2)]


def model(tables, capacity):
    rows = EXPERTS * capacity if capacity else SEQUENCE * CHOSEN
    drops = f" capacity {capacity}" if capacity else ""
    whole, routed = f"tensor<{ROWS}x{SEQUENCE}x16xf32>", f"tensor<{ROWS}x{SEQUENCE}x{CHOSEN}x"
    grouped = f"tensor<{ROWS}x{rows}x16xf32>"
    return f"""kerf.model @routed(tokens %tokens: tensor<{ROWS}x{SEQUENCE}xi32>, targets %targets: tensor<{ROWS}x{SEQUENCE}xi32>)
    attributes {{optimizer = #kerf.adamw<>}} {{
  %embed = kerf.param "embed.weight" init<normal, 0.02> : tensor<{VOCABULARY}x16xf32>
  %x = kerf.embedding %tokens, %embed : tensor<{ROWS}x{SEQUENCE}xi32>, tensor<{VOCABULARY}x16xf32>
  %tables = kerf.constant dense<{json.dumps(tables)}> : tensor<2x{VOCABULARY}x{EXPERTS}xf32>
  %y = kerf.repeat %i = 0 to 2 (%h = %x : {whole}) slices(%t = %tables : tensor<2x{VOCABULARY}x{EXPERTS}xf32>) {{
    %l = kerf.embedding %tokens, %t : tensor<{ROWS}x{SEQUENCE}xi32>, tensor<{VOCABULARY}x{EXPERTS}xf32>
    %w, %e = kerf.route %l k {CHOSEN} renormalize : tensor<{ROWS}x{SEQUENCE}x{EXPERTS}xf32>
    %s, %n = kerf.assign_slots %e count {EXPERTS} group 1{drops} : {routed}i32>
    %r = kerf.dispatch %h, %s : {whole}, {routed}i32> -> {grouped}
    %p = kerf.param "layers.{{i}}.moe.experts.{{e}}.weight" init<normal, 0.02> : tensor<{EXPERTS}x16x16xf32>
    %m = kerf.grouped_matmul %r, %p, %n{drops} : {grouped}, tensor<{EXPERTS}x16x16xf32>, tensor<{ROWS}x{EXPERTS}xi32>
    %c = kerf.combine %m, %s weights %w : {routed}f32> : {grouped}, {routed}i32>
    %a = kerf.add %h, %c : {whole}
    kerf.yield %a : {whole}
  }}
  %head = kerf.param "head.weight" init<normal, 0.02> : tensor<{VOCABULARY}x16xf32>
  %logits = kerf.linear %y, %head : {whole}, tensor<{VOCABULARY}x16xf32>
  %valid = kerf.count_valid %targets : tensor<{ROWS}x{SEQUENCE}xi32>
  %loss = kerf.cross_entropy %logits, %targets normalizer %valid
      : tensor<{ROWS}x{SEQUENCE}x{VOCABULARY}xf32>, tensor<{ROWS}x{SEQUENCE}xi32>
  kerf.return %loss : tensor<f32>
}}
"""


def counted(tokens, logits, capacity):
    """Largest and smallest load over the mean, and the part of the choices without a row, of a layer."""
    load, kept = [0] * EXPERTS, 0
    for row in range(ROWS):
        own = [0] * EXPERTS
        for token in tokens[row * SEQUENCE : (row + 1) * SEQUENCE]:
            for expert in sorted(range(EXPERTS), key=lambda e: -logits[token][e])[:CHOSEN]:
                own[expert] += 1
        load = [a + b for a, b in zip(load, own)]
        kept += sum(min(n, capacity) if capacity else n for n in own)
    mean = sum(load) / EXPERTS
    figures = {"max": max(load) / mean, "min": min(load) / mean}
    return figures | ({"dropped": 1 - kept / sum(load)} if capacity else {})


def logged(folder, layout, cluster):
    where = [f"--cluster={cluster}", "--precision=f32", f"--pin={layout}"] if layout else []
    sizes = dict(part.split("=") for part in layout.split(",") if part)
    ranks = 1
    for axis, size in sizes.items():
        ranks *= int(size) if axis != "m" else 1
    if layout:
        where.append(f"--devices={ranks}")
    run = lambda *command: subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout
    run("kerfc", "m.mlir", *where, "-o", "m.kerf")
    (folder / "log.json").unlink(missing_ok=True)
    out = run("kerf-run", "m.kerf", "--data=d.bin", "--steps=1", "--threads=1", "--log-json=log.json")
    return json.loads((folder / "log.json").read_text().splitlines()[-1])["expert_load"], out


def close(found, wanted):
    assert found.keys() == wanted.keys(), (found, wanted)
    for key, value in wanted.items():
        assert abs(found[key] - value) < 1e-8, (key, found, wanted)


def main():
    folder, cluster = pathlib.Path(sys.argv[1]), sys.argv[2]
    draw = random.Random(3)
    tokens = [min(VOCABULARY - 1, int(draw.expovariate(0.5))) for _ in range(ROWS * SEQUENCE + 1)]
    (folder / "d.bin").write_bytes(struct.pack(f"<{len(tokens)}H", *tokens))
    for capacity in 0, 6:
        tables = table(capacity)
        (folder / "m.mlir").write_text(model(tables, capacity))
        wanted = [counted(tokens, logits, capacity) for logits in tables]
        assert not capacity or all(layer["dropped"] > 0 for layer in wanted)
        for layout in LAYOUTS:
            found, out = logged(folder, layout, cluster)
            names = [layer.pop("layer") for layer in found["layers"]]
            assert names == ["layers.0.moe", "layers.1.moe"], names
            for own, layer in zip(found.pop("layers"), wanted):
                close(own, layer)
            whole = {"max": max(w["max"] for w in wanted), "min": min(w["min"] for w in wanted)}
            if capacity:
                whole["dropped"] = sum(w["dropped"] for w in wanted) / 2
                assert f" | dropped rows: {100 * whole['dropped']:.2f}% |" in out, out
            else:
                assert "dropped" not in out
            close(found, whole)
            assert f" | expert load (max/mean): {whole['max']:.2f} |" in out, out
            print(f"capacity {capacity}, {layout or 'one rank'}: as counted, {whole}")


main()
