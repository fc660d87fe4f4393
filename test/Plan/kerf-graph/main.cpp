// Minimises a factor graph, and lets others judge the result:
//
//   kerf-graph graph.txt --lp=graph.lp
//   cbc graph.lp solve solution graph.sol
//   kerf-graph graph.txt --solution=graph.sol
//
// The last command fails if the solver's assignment is better or worse than
// ours.

#include "IntegerProgram.h"

#include "kerf/FactorGraph/GraphBounds.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

#include <ctime>

using namespace kerf;
namespace cl = llvm::cl;

static cl::opt<std::string> inputFile(cl::Positional, cl::init("-"),
                                      cl::desc("<graph>"));
static cl::opt<std::string> programFile("lp",
                                        cl::desc("write an integer program"));
static cl::opt<std::string>
    solutionFile("solution", cl::desc("compare with a solution file of cbc"));
static cl::opt<int>
    repeats("repeat", cl::init(0),
            cl::desc("print processor times, best of so many runs"));
static cl::opt<bool> bounds("bounds",
                            cl::desc("also bound and descent, without "
                                     "eliminating the whole graph"));
static cl::opt<int64_t> budget("budget", cl::init(int64_t(1) << 32),
                               cl::desc("table entries that may be computed"));

static bool fail(const llvm::Twine &message) {
  llvm::errs() << "kerf-graph: " << message << '\n';
  return false;
}

static bool readText(const std::string &path, std::string &text) {
  auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(path);
  if (!buffer)
    return fail(path + ": " + buffer.getError().message());
  text = (*buffer)->getBuffer().str();
  return true;
}

static bool writeText(const std::string &path, const std::string &text) {
  std::error_code error;
  llvm::ToolOutputFile file(path, error, llvm::sys::fs::OF_Text);
  if (error)
    return fail(path + ": " + error.message());
  file.os() << text;
  file.keep();
  return true;
}

static std::string costText(int64_t cost) {
  return cost < kInfiniteCost ? std::to_string(cost) : "inf";
}

static void printSize(const FactorGraph &graph, const EliminationSize &size) {
  int64_t states = 0, entries = 0;
  for (int count : graph.domains)
    states += count;
  for (const CostTable &table : graph.tables)
    entries += table.costs.size();
  llvm::outs() << "variables " << graph.domains.size() << ", states " << states
               << ", tables " << graph.tables.size() << ", entries " << entries
               << "\nwidth " << size.width << ", largest table "
               << size.largestTable << ", work " << size.work << ", kept "
               << size.kept << '\n';
}

/// Milliseconds of the processor in the fastest run.
template <typename Fn> static double bestTime(Fn run) {
  double best = 0;
  for (int i = 0; i < repeats; ++i) {
    std::clock_t start = std::clock();
    run();
    double time = 1e3 * (std::clock() - start) / CLOCKS_PER_SEC;
    best = i ? std::min(best, time) : time;
  }
  return best;
}

static void printTimes(const FactorGraph &graph) {
  std::vector<int> order = eliminationOrder(graph);
  auto print = [](const char *what, double ms) {
    llvm::outs() << llvm::format("%-34s %9.3f ms\n", what, ms);
  };
  print("everything", bestTime([&] { eliminate(graph, budget); }));
  print("dominated states", bestTime([&] { undominated(graph); }));
  print("order of all states", bestTime([&] { eliminationOrder(graph); }));
  print("elimination of all states",
        bestTime([&] { eliminate(graph, order, budget); }));
  printSize(graph, simulateElimination(graph, order));
}

static void printBounds(const FactorGraph &graph) {
  GraphBound bound = lowerBound(graph, 100);
  Descent descent = descend(graph, bound.states);
  Certified certified = solve(graph, budget);
  llvm::outs() << "bound " << costText(bound.cost) << ", descent "
               << costText(descent.cost) << " (" << descent.rounds
               << " rounds), solve " << costText(certified.bound) << " .. "
               << costText(certified.cost) << " with " << certified.statesLeft
               << " states left\n";
}

/// Compares with what an integer solver found.
static bool judge(const FactorGraph &graph, int64_t optimum) {
  std::string text;
  if (!readText(solutionFile, text))
    return false;
  std::optional<std::vector<int>> states = readSolution(graph, text);
  if (!states)
    return fail(solutionFile + ": not a solution");
  int64_t cost = states->empty() && !graph.domains.empty()
                     ? kInfiniteCost
                     : graph.evaluate(*states);
  llvm::outs() << "integer program " << costText(cost) << '\n';
  return cost == optimum || fail("expected " + costText(optimum) + ", found " +
                                 costText(cost) + " in " + solutionFile);
}

static bool run() {
  std::string text, error;
  if (!readText(inputFile, text))
    return false;
  std::optional<FactorGraph> graph = parseFactorGraph(text, &error);
  if (!graph)
    return fail(inputFile + ": " + error);
  if (!programFile.empty() &&
      !writeText(programFile, writeIntegerProgram(*graph)))
    return false;
  Elimination result = eliminate(*graph, budget);
  printSize(*graph, result);
  if (bounds)
    printBounds(*graph);
  if (result.gaveUp)
    return fail("too large; the budget is " + llvm::Twine(budget));
  llvm::outs() << "optimum " << costText(result.cost) << "\nstates";
  for (int state : result.states)
    llvm::outs() << ' ' << state;
  llvm::outs() << '\n';
  if (repeats > 0)
    printTimes(*graph);
  return solutionFile.empty() || judge(*graph, result.cost);
}

int main(int argc, char **argv) {
  cl::ParseCommandLineOptions(argc, argv, "minimises a factor graph\n");
  return run() ? 0 : 1;
}
