#include "NewClusterTask.h"

#include "Fail.h"

#include "kerf/Machine/Machine.h"
#include "kerf/Machine/NewCluster.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Process.h"

#include <iostream>

using namespace kerf;
namespace cl = llvm::cl;

NewClusterOptions::NewClusterOptions(cl::OptionCategory &category)
    : wanted("new-cluster",
             cl::desc("Write the description of a cluster with --device, "
                      "--per-node, --nodes and --nic, asking for what is "
                      "missing, to -o FILE"),
             cl::cat(category)),
      device("device",
             cl::desc("With --new-cluster: what it computes on, such as h100 "
                      "or l40s"),
             cl::value_desc("name"), cl::cat(category)),
      nic("nic",
          cl::desc("With --new-cluster: network ports of a computer, such as "
                   "25GbE or 8x400Gb/s"),
          cl::value_desc("bandwidth"), cl::cat(category)),
      name("cluster-name",
           cl::desc("With --new-cluster: the name it gets (default: of device "
                    "and numbers)"),
           cl::value_desc("name"), cl::cat(category)),
      perNode("per-node", cl::desc("With --new-cluster: devices of a computer"),
              cl::value_desc("number"), cl::cat(category)),
      nodes("nodes", cl::desc("With --new-cluster: computers"),
            cl::value_desc("number"), cl::cat(category)) {}

std::string kerf::checkNewCluster(const NewClusterOptions &options) {
  if (options.wanted)
    return "";
  std::string found;
  auto look = [&](const cl::Option &option) {
    if (found.empty() && option.getNumOccurrences())
      found = "--" + option.ArgStr.str() + " is for --new-cluster";
  };
  look(options.device);
  look(options.nic);
  look(options.name);
  look(options.perNode);
  look(options.nodes);
  return found;
}

/// A line that a person types; "" at the end of the input.
static std::string ask(llvm::StringRef question) {
  llvm::errs() << question << ": ";
  std::string line;
  std::getline(std::cin, line);
  return llvm::StringRef(line).trim().str();
}

/// The number of an answer; 0: none.
static int64_t askNumber(llvm::StringRef question) {
  int64_t number = 0;
  std::string answer = ask(question);
  return llvm::StringRef(answer).getAsInteger(10, number) ? 0 : number;
}

/// Asks for what was not given. False where that is missing and nobody can
/// answer.
static bool complete(const NewClusterOptions &options,
                     ClusterFigures &figures) {
  llvm::SmallVector<llvm::StringRef> missing;
  if (figures.device.empty())
    missing.push_back("--device");
  if (!options.perNode.getNumOccurrences())
    missing.push_back("--per-node");
  if (!options.nodes.getNumOccurrences())
    missing.push_back("--nodes");
  bool needsNic = figures.nodes != 1 && figures.nic.empty();
  if (needsNic)
    missing.push_back("--nic");
  if (missing.empty())
    return true;
  if (!llvm::sys::Process::StandardInIsUserInput()) {
    fail("--new-cluster needs " + llvm::join(missing, ", ") +
         ", such as --device=l40s --per-node=4 --nodes=8 --nic=25GbE");
    return false;
  }
  if (figures.device.empty()) {
    llvm::errs() << "known devices are " << llvm::join(knownDevices(), ", ")
                 << "\n";
    figures.device = ask("device");
  }
  if (!options.perNode.getNumOccurrences())
    figures.perNode = askNumber("devices of a computer");
  if (!options.nodes.getNumOccurrences())
    figures.nodes = askNumber("computers");
  if (figures.nodes > 1 && figures.nic.empty())
    figures.nic =
        ask("network ports of a computer, such as 25GbE or 8x400Gb/s");
  return true;
}

static std::string argumentsOf(const ClusterFigures &figures) {
  std::string text = " --device=" + figures.device +
                     " --per-node=" + std::to_string(figures.perNode) +
                     " --nodes=" + std::to_string(figures.nodes);
  return figures.nodes > 1 ? text + " --nic=" + figures.nic : text;
}

/// Warnings and errors of the description itself: of a name with odd letters.
static int checkText(llvm::StringRef text) {
  std::vector<MachineDiagnostic> diagnostics;
  if (readMachine(text, diagnostics))
    return 0;
  return fail("the description is wrong: " + diagnostics.front().message);
}

int kerf::writeNewCluster(const NewClusterOptions &options,
                          llvm::StringRef output) {
  ClusterFigures figures;
  figures.device = options.device;
  figures.perNode = options.perNode;
  figures.nodes = options.nodes;
  figures.nic = options.nic;
  figures.name = options.name;
  if (!complete(options, figures))
    return 1;
  figures.arguments = argumentsOf(figures);
  std::string error;
  std::optional<std::string> text = newCluster(figures, error);
  if (!text)
    return fail(error);
  if (int status = checkText(*text))
    return status;
  if (failed(writeText(output, *text)))
    return 1;
  if (output != "-")
    llvm::outs() << "wrote '" << output
                 << "': " << figures.nodes * figures.perNode
                 << " devices; plan with --cluster=" << output << "\n";
  return 0;
}
