"""kerfc --sampler of models whose next token it cannot choose: each is refused with a reason, at the op.

  refused.py FOLDER ROOT
"""

import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(sys.argv[1])

MODEL = """
kerf.model @m(tokens %tokens: tensor<2x8xi32>, targets %targets: tensor<2x8xi32>) attributes {optimizer = #kerf.adamw<>} {
  %table = kerf.param "table" init<normal, 0.02> : tensor<32x16xf32>
  %x = kerf.embedding %tokens, %table : tensor<2x8xi32>, tensor<32x16xf32>
  MIX
  %logits = kerf.linear %y, %table : tensor<2x8x16xf32>, tensor<32x16xf32>
  %n = kerf.count_valid %targets : tensor<2x8xi32>
  %loss = kerf.cross_entropy %logits, %targets normalizer %n : tensor<2x8x32xf32>, tensor<2x8xi32>
  END
  kerf.return %loss : tensor<f32>
}
"""
HEADS = """%q = kerf.reshape %x : tensor<2x8x16xf32> -> tensor<2x8x2x8xf32>
  %a = kerf.attention %q, %q, %q HOW : tensor<2x8x2x8xf32>, tensor<2x8x2x8xf32>, tensor<2x8x2x8xf32>
  %y = kerf.reshape %a : tensor<2x8x2x8xf32> -> tensor<2x8x16xf32>"""
SAME = "%y = kerf.mul %x, %x : tensor<2x8x16xf32>"
MEAN = """%s = kerf.reduce sum %x dims [1] : tensor<2x8x16xf32>
  %b = kerf.broadcast %s dims [0, 2] : tensor<2x16xf32> -> tensor<2x8x16xf32>
  %y = kerf.add %x, %b : tensor<2x8x16xf32>"""
LATER = """%later = kerf.slice %x offsets [0, 1, 0] sizes [2, 7, 16] : tensor<2x8x16xf32>
  %p = kerf.pad %later low [0, 0, 0] high [0, 1, 0] : tensor<2x7x16xf32>
  %y = kerf.add %x, %p : tensor<2x8x16xf32>"""
PAST = "%y = kerf.cumsum %x dim 1 : tensor<2x8x16xf32>"
IN_LOOP = """%y = kerf.repeat %i = 0 to 2 (%c = %x : tensor<2x8x16xf32>) {
    %s = kerf.reduce max %c dims [1] : tensor<2x8x16xf32>
    %b = kerf.broadcast %s dims [0, 2] : tensor<2x16xf32> -> tensor<2x8x16xf32>
    %t = kerf.add %c, %b : tensor<2x8x16xf32>
    kerf.yield %t : tensor<2x8x16xf32>
  }"""
STACKED = """%z, %all = kerf.repeat %i = 0 to 2 (%c = %x : tensor<2x8x16xf32>) {
    %t = kerf.add %c, %c : tensor<2x8x16xf32>
    kerf.yield %t stack(%c) : tensor<2x8x16xf32>, tensor<2x8x16xf32>
  }
  %s = kerf.reduce max %all dims [0, 2] : tensor<2x2x8x16xf32>
  %b = kerf.broadcast %s dims [0, 2] : tensor<2x16xf32> -> tensor<2x8x16xf32>
  %y = kerf.add %z, %b : tensor<2x8x16xf32>"""
TWO = """%more = kerf.cross_entropy %logits, %targets normalizer %n : tensor<2x8x32xf32>, tensor<2x8xi32>
  %both = kerf.add %loss, %more : tensor<f32>"""
BEHIND = "what stands behind a position changes what this makes of it"


def kerfc(text, *arguments):
    path = FOLDER / "m.mlir"
    path.write_text(text)
    done = subprocess.run(["kerfc", path, *arguments], capture_output=True, text=True)
    return done.returncode, done.stderr


def expect(said, status, *parts):
    code, text = said
    assert code == status and all(part in text for part in parts), (said, parts)


def model(mix, end="", result="%loss"):
    return MODEL.replace("MIX", mix).replace("END", end).replace("return %loss", f"return {result}")


KEEPS = FOLDER / "m.kerf"
sampler = ("--sampler", "-o", KEEPS)
for mix in (SAME, PAST, HEADS.replace("HOW", "causal"), HEADS.replace("HOW", "causal window 4")):
    expect(kerfc(model(mix), *sampler), 0)
KEEPS.unlink()
for mix, line in ((HEADS.replace("HOW", ""), "m.mlir:6:8"), (MEAN, "m.mlir:5:8"), (LATER, "m.mlir:5:12"), (IN_LOOP, "m.mlir:6:10"),
                  (STACKED, "m.mlir:9:8")):
    expect(kerfc(model(mix), *sampler), 1, "no sampler can be made of this model", BEHIND, line)
expect(kerfc(model(SAME, TWO, "%both"), *sampler), 1, "it has 2 kerf.cross_entropy, expected one")
expect(kerfc(model(SAME).replace("targets %targets:", "%targets:"), *sampler), 1, "expected inputs of the roles 'tokens' and 'targets'")
scores = """%s = kerf.einsum "bqd,bkd->bqk" %x, %x : tensor<2x8x16xf32>, tensor<2x8x16xf32> -> tensor<2x8x8xf32>
  %p = kerf.softmax %s : tensor<2x8x8xf32>
  %y = kerf.einsum "bqk,bkd->bqd" %p, %x : tensor<2x8x8xf32>, tensor<2x8x16xf32> -> tensor<2x8x16xf32>"""
expect(kerfc(model(scores), *sampler), 1, BEHIND, "m.mlir:6:8", "attention is known to look back where it is 'kerf.attention causal'")
assert not KEEPS.exists()
# Experts with room for so many choices: a warning, and the sampler is made.
imported = subprocess.run(["kerf-import", pathlib.Path(sys.argv[2], "examples/models/tiny-mixtral/config.json"), "--batch=2",
                           "--seq=16", "--capacity-factor=1.5"], capture_output=True, text=True, check=True).stdout  # fmt: skip
expect(kerfc(imported, *sampler), 0, "warning: experts have room for", "take the place of second choices")
expect(kerfc(model(SAME), "--sampler"), 1, "--sampler is a part of a compiled file: say -o NAME.kerf")
expect(kerfc(model(SAME), "--start-after=recompute", *sampler), 1, "which --start-after=recompute leaves behind")
