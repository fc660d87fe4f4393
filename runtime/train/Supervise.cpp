//===- Supervise.cpp - starts a job again after a fault -------------------===//

#include "kerf/Train/Supervise.h"

#include "kerf/Train/Files.h"
#include "kerf/Train/Json.h"
#include "kerf/Train/Log.h"
#include "kerf/Train/StateFolder.h"
#include "kerf/Train/Text.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <initializer_list>
#include <string_view>

using namespace kerf::runtime;

static constexpr double windowSec = 3600, longestPauseSec = 60;
static constexpr const char *historyName = "run.json";

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

/// The arguments but for some options and their values.
static std::vector<std::string>
without(const std::vector<std::string> &arguments,
        std::initializer_list<std::string_view> options) {
  std::vector<std::string> result;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string &word = arguments[i];
    std::string name = word.substr(0, word.find('='));
    if (std::find(options.begin(), options.end(), name) == options.end())
      result.push_back(word);
    else
      i += word.find('=') == std::string::npos;
  }
  return result;
}

/// An argument as a shell reads it.
static std::string shellWord(const std::string &word) {
  constexpr const char *plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
      "-_=+.,:/@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos)
    return word;
  std::string text = "'";
  for (char c : word)
    text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

std::string
kerf::runtime::resumeCommand(const std::vector<std::string> &arguments,
                             const std::string &state) {
  std::string text = "kerf-run";
  for (const std::string &word :
       without(arguments, {"--resume", "--init-from", "--init-adapter"}))
    text += " " + shellWord(word);
  return text + " --resume " + shellWord(state);
}

//===----------------------------------------------------------------------===//
// History
//===----------------------------------------------------------------------===//

namespace {
struct Attempt {
  /// Steps that were done before and after; -1: nobody told.
  int64_t from = -1, to = -1;
  double seconds = 0;
  JobEnd end;
};

/// What stands in run.json.
class History {
public:
  explicit History(const std::string &folder)
      : path(joinPath(folder, historyName)) {
    readOld();
  }
  /// `spent` is of the whole job until now.
  void add(const Attempt &attempt, const TimeSpent &spent);
  void write(const TimeSpent &spent) const;

private:
  void readOld();

  std::string path;
  std::vector<std::string> lines; ///< an attempt each
};
} // namespace

/// Attempts of earlier launches stay: one line each, as they were written.
void History::readOld() {
  MappedFile file;
  std::string error;
  JsonValue root;
  if (!fileExists(path) || !file.open(path, error))
    return;
  std::string text(reinterpret_cast<const char *>(file.data()), file.size());
  if (!parseJson(text, root, error))
    return;
  for (size_t at = 0, end; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (line.compare(0, 3, "  {") != 0)
      continue;
    line.erase(0, 2);
    if (endsWith(line, ","))
      line.pop_back();
    if (parseJson(line, root, error))
      lines.push_back(line);
  }
}

void History::add(const Attempt &attempt, const TimeSpent &spent) {
  std::string fault = attempt.end.fault.kind == FaultKind::None
                          ? "null"
                          : jsonQuote(attempt.end.fault.words());
  auto step = [](int64_t number) {
    return number < 0 ? "null" : std::to_string(number);
  };
  lines.push_back("{\"ended\": " + jsonQuote(utcNow()) + ", \"from_step\": " +
                  step(attempt.from) + ", \"to_step\": " + step(attempt.to) +
                  format(", \"seconds\": %.3f, \"status\": %d, \"fault\": ",
                         attempt.seconds, attempt.end.status) +
                  fault + "}");
  write(spent);
}

void History::write(const TimeSpent &spent) const {
  std::string text = "{\"attempts\": [";
  for (size_t i = 0; i < lines.size(); ++i)
    text += (i ? ",\n  " : "\n  ") + lines[i];
  text += "\n]";
  if (spent.total() > 0)
    text += ",\n\"time\": " + formatSpentJson(spent);
  std::string error;
  if (!writeFile(path, text + "}\n", error))
    std::fprintf(stderr, "kerf-run: note: %s\n", error.c_str());
}

//===----------------------------------------------------------------------===//
// Restarts
//===----------------------------------------------------------------------===//

static void tell(const std::string &text) {
  std::fprintf(stderr, "kerf-run: %s\n", text.c_str());
}

std::optional<SavedStep> kerf::runtime::newestSince(const std::string &folder,
                                                    int64_t first) {
  std::optional<SavedStep> newest;
  for (auto *list : {listSteps, listCopies})
    for (const SavedStep &step : list(folder))
      if (step.isReadable() && step.number >= first &&
          (!newest || !isEarlier(step, *newest)))
        newest = step;
  return newest;
}

/// Steps that an attempt made whole.
static Attempt attemptOf(const JobEnd &end, double seconds) {
  Attempt attempt;
  attempt.seconds = seconds;
  attempt.end = end;
  if (end.firstStep > 0) {
    attempt.from = end.firstStep - 1;
    attempt.to = std::max(attempt.from, end.doneStep);
  }
  return attempt;
}

/// What an attempt adds to the account of the job; of ranks that mpirun started
/// nobody told anything.
static void addTimes(Goodput &goodput, const AttemptTimes &times) {
  bool isKnown = times.startingSec + times.unfinishedSec > 0;
  if (isKnown)
    goodput.add(times);
}

/// Whether another try may go better; else says why not.
static bool isWorthwhile(const JobEnd &end, int64_t same, size_t restarts,
                         int64_t most) {
  if (end.status < 128 && end.fault.kind != FaultKind::NotFinite)
    return false; // What is wrong was told.
  // SIGKILL comes from outside, twice in one step by chance perhaps.
  if (same > (end.fault.signal == SIGKILL ? 2 : 1)) {
    tell("error: " + end.fault.words() +
         " again: the same fault in the same step is no fault of the machine; "
         "not started again");
    return false;
  }
  if (static_cast<int64_t>(restarts) < most)
    return true;
  tell("error: " + std::to_string(restarts) +
       (restarts == 1 ? " restart" : " restarts") +
       " within an hour: not started again");
  return false;
}

/// Tells where the time went, if that is known.
static int finish(const Goodput &goodput, int status) {
  TimeSpent spent = goodput.sum();
  if (spent.starts > 0)
    std::printf("%s\n", formatSpent(spent).c_str());
  return status;
}

/// A job that goes on from a state on disk does not come back to what an
/// earlier one had in memory.
static void dropOldCopies(const RunOptions &options) {
  std::optional<SavedStep> newest = newestState(options.resume);
  bool isFromCopy =
      isCopyFolder(options.resume) || (newest && isCopyFolder(newest->path));
  if (!options.resume.empty() && !isFromCopy)
    forgetCopies(options.saveState);
}

int kerf::runtime::supervise(
    const RunOptions &options, const std::vector<std::string> &arguments,
    const std::function<JobEnd(const std::vector<std::string> &,
                               const JobProgress &)> &launch) {
  holdSignals();
  dropOldCopies(options);
  History history(options.saveState);
  Goodput goodput;
  std::vector<std::string> next = arguments;
  int64_t first = nextNumber(options.saveState); ///< of this job's saves
  std::vector<double> restarts; ///< their times, those of the last hour
  Fault before;
  int64_t same = 0; ///< faults in a row that were the last one
  double pauseSec = 1;
  int64_t reached = 0; ///< number of the newest checkpoint
  while (true) {
    double start = now();
    JobEnd end = launch(next, [&](const AttemptTimes &running) {
      Goodput all = goodput;
      all.add(running);
      history.write(all.sum());
    });
    addTimes(goodput, end.times);
    history.add(attemptOf(end, now() - start), goodput.sum());
    if (end.status == 0 || end.askedBy)
      return finish(goodput, end.status);
    auto goOn = [&](const std::optional<SavedStep> &newest) {
      markRestart();
      next = arguments;
      if (!newest)
        return;
      next = without(arguments, {"--resume"});
      next.insert(next.end(), {"--resume", newest->path});
    };
    if (end.isMoved) {
      goOn(newestSince(options.saveState, first));
      continue;
    }
    double limit = now() - windowSec;
    restarts.erase(std::remove_if(restarts.begin(), restarts.end(),
                                  [&](double time) { return time < limit; }),
                   restarts.end());
    same = end.fault == before && end.fault.step > 0 ? same + 1 : 1;
    before = end.fault;
    if (!isWorthwhile(end, same, restarts.size(), options.maxRestarts))
      return finish(goodput, end.status);
    std::optional<SavedStep> newest = newestSince(options.saveState, first);
    if (newest && newest->number > reached)
      pauseSec = 1;
    reached = newest ? newest->number : 0;
    restarts.push_back(now());
    tell("note: " + end.fault.words() + "; restart " +
         std::to_string(restarts.size()) + " of " +
         std::to_string(options.maxRestarts) + " within an hour, from " +
         (newest ? quote(newest->path) : "the start") +
         format(", in %.0f s", pauseSec));
    double pauseStart = now();
    int signal = pauseUnlessAsked(pauseSec);
    goodput.wait(now() - pauseStart);
    if (signal)
      return finish(goodput, 128 + signal);
    pauseSec = std::min(2 * pauseSec, longestPauseSec);
    goOn(newest);
  }
}
