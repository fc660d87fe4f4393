import os

import lit.formats

config.name = "FreezeParameters"
config.test_format = lit.formats.ShTest(True)
config.suffixes = [".mlir"]
config.test_exec_root = lit_config.params["output"]
config.substitutions.append(("%plugin", lit_config.params["plugin"]))
folders = [lit_config.params["kerf"], lit_config.params["llvm"], os.environ["PATH"]]
config.environment["PATH"] = os.pathsep.join(folders)
