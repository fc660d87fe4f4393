//===- Main.cpp - kerf-validate -------------------------------------------===//

#include "Report.h"
#include "Study.h"

#include "kerf/Pipeline/Stages.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/WithColor.h"

using namespace kerf;
using namespace kerf::validate;
namespace cl = llvm::cl;

static constexpr llvm::StringLiteral kOverview =
    R"(judges the cost model by published measurements

Every row of the CSV files of a folder is planned with its layout pinned, and the
predicted step time and memory are compared with the measured ones, under three
settings: the profiles as shipped, calibrated on other machines, and calibrated on
at most 20 rows of the same machine (those rows are not judged).

Exit status: 0 done; 1 the input is wrong.
)";

namespace {
struct CommandLine {
  cl::OptionCategory category{"Validation options"};
  cl::opt<std::string> folder{cl::Positional, cl::Required,
                              cl::desc("<folder of CSV files>"),
                              cl::cat(category)};
  cl::opt<bool> json{"json", cl::desc("Print JSON"), cl::cat(category)};
  cl::opt<bool> rows{"rows", cl::desc("Print every row as well"),
                     cl::cat(category)};
  cl::opt<std::string> source{
      "source", cl::desc("Only rows whose source or file has this in its name"),
      cl::value_desc("name"), cl::cat(category)};
  cl::opt<std::string> clusters{
      "clusters", cl::desc("Folder of the shipped cluster descriptions"),
      cl::value_desc("folder"), cl::init(KERF_SOURCE_DIR "/examples/clusters"),
      cl::cat(category)};
};
} // namespace

static int fail(const llvm::Twine &message) {
  llvm::WithColor::error() << message << '\n';
  return 1;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  dropLibraryOptions();
  CommandLine options;
  cl::HideUnrelatedOptions(options.category);
  if (!cl::ParseCommandLineOptions(argc, argv, kOverview))
    return 1;
  std::vector<std::string> skipped, errors;
  std::vector<Row> rows = readRows(options.folder, skipped, errors);
  for (const std::string &error : errors)
    fail(error);
  if (!errors.empty())
    return 1;
  JobReader reader(options.clusters);
  std::vector<Job> jobs;
  for (const Row &row : rows)
    if (llvm::StringRef(row.source).contains_insensitive(options.source) ||
        llvm::StringRef(row.file).contains_insensitive(options.source))
      jobs.push_back(reader.read(row));
  if (jobs.empty())
    return fail("no row has '" + options.source +
                "' in its source or file name");
  std::vector<Calibration> calibrations;
  std::vector<JudgedJob> judged = judge(std::move(jobs), calibrations);
  std::vector<SourceFigures> figures = figuresOf(judged);
  if (options.json) {
    llvm::outs() << printJson(figures, calibrations,
                              options.rows ? &judged : nullptr);
    return 0;
  }
  for (const std::string &file : skipped)
    llvm::outs() << "not measurements: " << file << '\n';
  if (options.rows)
    llvm::outs() << printRows(judged) << '\n';
  llvm::outs() << printFigures(figures) << printCalibrations(calibrations);
  return 0;
}
