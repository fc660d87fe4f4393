#include "kerf/Support/Version.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

llvm::StringRef kerf::getVersion() { return KERF_VERSION; }

void kerf::showOwnVersion() {
  llvm::cl::SetVersionPrinter([](llvm::raw_ostream &os) {
    os << "kerf " << getVersion() << ", LLVM " << LLVM_VERSION_STRING << '\n';
  });
}
