#include "Plugins.h"

#include "kerf/Pipeline/Stages.h"

#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/StringSaver.h"
#include "llvm/Support/WithColor.h"

using namespace mlir;
using namespace kerf;

/// Contents of the section in which a plug-in says what it was built against
/// (`KerfPlugin.cpp`, which `kerf_add_plugin` adds); empty if it has none.
static llvm::Expected<std::string> readVersion(llvm::StringRef path) {
  auto file = llvm::object::ObjectFile::createObjectFile(path);
  if (!file)
    return file.takeError();
  for (const llvm::object::SectionRef &section :
       file->getBinary()->sections()) {
    auto name = section.getName();
    if (!name)
      return name.takeError();
    if (*name != ".kerf")
      continue;
    auto contents = section.getContents();
    if (!contents)
      return contents.takeError();
    return contents->rtrim('\0').str();
  }
  return "";
}

LogicalResult kerf::checkPlugin(llvm::StringRef path) {
  auto version = readVersion(path);
  if (!version) {
    llvm::WithColor::error() << "cannot read plug-in '" << path
                             << "': " << toString(version.takeError()) << '\n';
    return failure();
  }
  if (*version == KERF_PLUGIN_VERSION)
    return success();
  llvm::WithColor::error() << "plug-in '" << path << "' was built against "
                           << (version->empty() ? "no Kerf"
                                                : "Kerf " + *version)
                           << ", expected Kerf " KERF_PLUGIN_VERSION "\n";
  llvm::WithColor::note() << "build it anew, with 'kerf_add_plugin' of this "
                             "version's CMake package\n";
  return failure();
}

LogicalResult kerf::readPlugins(llvm::ArrayRef<char *> given) {
  // Response files are read as MLIR will do; it tells what it cannot read.
  llvm::BumpPtrAllocator memory;
  llvm::StringSaver saver(memory);
  llvm::SmallVector<const char *> arguments(given.begin(), given.end());
  (void)llvm::cl::ExpandResponseFiles(saver, llvm::cl::TokenizeGNUCommandLine,
                                      arguments);
  for (auto [i, argument] : llvm::enumerate(arguments)) {
    auto [name, path] = llvm::StringRef(argument).split('=');
    name = name.ltrim('-');
    if (name != "load-dialect-plugin" && name != "load-pass-plugin")
      continue;
    if (path.empty() && i + 1 < arguments.size())
      path = arguments[i + 1];
    if (failed(name == "load-pass-plugin" ? loadPassPlugins(path.str())
                                          : checkPlugin(path)))
      return failure();
  }
  return success();
}

LogicalResult kerf::loadPlugins(llvm::ArrayRef<std::string> paths,
                                DialectRegistry &registry) {
  for (const std::string &path : paths) {
    if (failed(checkPlugin(path)))
      return failure();
    llvm::Expected<DialectPlugin> plugin = DialectPlugin::load(path);
    if (!plugin) {
      llvm::WithColor::error() << toString(plugin.takeError()) << '\n';
      return failure();
    }
    plugin->registerDialectRegistryCallbacks(registry);
  }
  return success();
}

LogicalResult kerf::loadPassPlugins(llvm::ArrayRef<std::string> paths) {
  for (const std::string &path : paths) {
    if (failed(checkPlugin(path)))
      return failure();
    llvm::Expected<PassPlugin> plugin = PassPlugin::load(path);
    if (!plugin) {
      llvm::WithColor::error() << toString(plugin.takeError()) << '\n';
      return failure();
    }
    plugin->registerPassRegistryCallbacks();
  }
  return success();
}
