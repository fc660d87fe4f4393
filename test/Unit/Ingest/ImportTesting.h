//===- ImportTesting.h - Run the importer and keep what it says -----------===//

#ifndef KERF_TEST_UNIT_INGEST_IMPORTTESTING_H
#define KERF_TEST_UNIT_INGEST_IMPORTTESTING_H

#include "kerf/Ingest/Import.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace kerf::testing {

/// Batch 2, sequences of 8.
inline ImportOptions smallOptions() {
  ImportOptions options;
  options.batch = 2;
  options.seq = 8;
  return options;
}

/// One importer run.
struct Imported {
  explicit Imported(llvm::StringRef json,
                    const ImportOptions &options = smallOptions()) {
    mlir::ScopedDiagnosticHandler handler(
        &context, [&](mlir::Diagnostic &diagnostic) { keep(diagnostic); });
    module = importConfig(json, "c.json", options, &context);
    if (module) {
      llvm::raw_string_ostream os(ir);
      module->print(os);
    }
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// The module as text, empty after an error.
  std::string ir;
  /// "line:column: error: message\n" of each diagnostic and note, without the
  /// place for those that have none.
  std::string messages;

private:
  void keep(mlir::Diagnostic &diagnostic) {
    add(diagnostic);
    for (mlir::Diagnostic &note : diagnostic.getNotes())
      add(note);
  }

  void add(mlir::Diagnostic &diagnostic) {
    static constexpr llvm::StringLiteral kinds[] = {"note", "warning", "error",
                                                    "remark"};
    llvm::raw_string_ostream os(messages);
    mlir::Location loc = diagnostic.getLocation();
    if (auto place = llvm::dyn_cast<mlir::FileLineColLoc>(loc))
      os << place.getLine() << ':' << place.getColumn() << ": ";
    os << kinds[static_cast<int>(diagnostic.getSeverity())] << ": "
       << diagnostic << '\n';
  }
};

/// A config of a family: `{"model_type": "<family>"<more>}`.
inline std::string configOf(llvm::StringRef family, llvm::StringRef more) {
  return ("{\"model_type\": \"" + family + "\"" + more + "}").str();
}

/// A small config of the llama line with more fields.
inline std::string decoderOf(llvm::StringRef family, llvm::StringRef more) {
  return configOf(family, (", \"hidden_size\": 16, \"num_attention_heads\": 4, "
                           "\"num_key_value_heads\": 2, \"vocab_size\": 32, "
                           "\"intermediate_size\": 24, "
                           "\"num_hidden_layers\": 3" +
                           more)
                              .str());
}

} // namespace kerf::testing

#endif // KERF_TEST_UNIT_INGEST_IMPORTTESTING_H
