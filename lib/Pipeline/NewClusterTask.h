//===- NewClusterTask.h - kerfc --new-cluster -----------------------------===//

#ifndef KERF_LIB_PIPELINE_NEWCLUSTERTASK_H
#define KERF_LIB_PIPELINE_NEWCLUSTERTASK_H

#include "llvm/Support/CommandLine.h"

namespace kerf {

/// The options of kerfc that write the description of a cluster.
struct NewClusterOptions {
  explicit NewClusterOptions(llvm::cl::OptionCategory &category);

  llvm::cl::opt<bool> wanted;
  llvm::cl::opt<std::string> device, nic, name;
  llvm::cl::opt<int64_t> perNode, nodes;
};

/// Writes the description to `output` ("-": standard output). What was not
/// given is asked for, where a person types. The exit status.
int writeNewCluster(const NewClusterOptions &options, llvm::StringRef output);

/// What is wrong with the command line: figures of a cluster that is not
/// asked for; "" if nothing.
std::string checkNewCluster(const NewClusterOptions &options);

} // namespace kerf

#endif // KERF_LIB_PIPELINE_NEWCLUSTERTASK_H
