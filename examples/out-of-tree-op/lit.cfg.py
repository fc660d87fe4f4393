import os

import lit.formats

config.name = "Smooth"
config.test_format = lit.formats.ShTest(True)
config.suffixes = [".mlir", ".test"]
config.excludes = ["model.mlir"]
config.test_exec_root = lit_config.params["output"]
config.substitutions.append(("%plugin", lit_config.params["plugin"]))
config.substitutions.append(("%python", lit_config.params["python"]))
folders = [lit_config.params["kerf"], lit_config.params["llvm"], os.environ["PATH"]]
config.environment["PATH"] = os.pathsep.join(folders)
