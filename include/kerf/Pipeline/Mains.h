//===- Mains.h - entry points of the tools --------------------------------===//

#ifndef KERF_PIPELINE_MAINS_H
#define KERF_PIPELINE_MAINS_H

namespace kerf {

// Each returns the exit status: 0 done; 1 the input or the configuration is
// wrong (the same run would fail again); 128 and more for faults of the
// machine.

/// kerf-import: prints the model of a Hugging Face config.
int importMain(int argc, char **argv);

/// kerfc: compiles a model, stage by stage.
int compileMain(int argc, char **argv);

/// kerf-inspect: counts, runs and checks models.
int inspectMain(int argc, char **argv);

/// kerf-opt: runs passes, with the conventions of mlir-opt.
int optMain(int argc, char **argv);

/// kerf-lsp-server: language server of the IR.
int lspMain(int argc, char **argv);

} // namespace kerf

#endif // KERF_PIPELINE_MAINS_H
