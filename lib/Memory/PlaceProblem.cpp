//===- PlaceProblem.cpp - Checks, bound and text of a placement problem ---===//

#include "kerf/Memory/Place.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace kerf;
using llvm::failure;
using llvm::FailureOr;
using llvm::LogicalResult;
using llvm::StringRef;
using llvm::success;
using llvm::Twine;
using Buffer = PlaceProblem::Buffer;

// Sums of two ends cannot overflow.
static constexpr int64_t maxBytes = int64_t(1) << 60;

static LogicalResult fail(std::string &error, const Twine &message) {
  error = message.str();
  return failure();
}

static std::string quote(StringRef name) { return ("'" + name + "'").str(); }

int64_t kerf::placedBytes(const PlaceProblem &problem, int64_t sizeBytes) {
  return llvm::alignTo(sizeBytes, problem.alignment);
}

bool kerf::aliveTogether(const Buffer &a, const Buffer &b) {
  for (auto i = a.lives.begin(), j = b.lives.begin();
       i != a.lives.end() && j != b.lives.end();) {
    if (i->second < j->first)
      ++i;
    else if (j->second < i->first)
      ++j;
    else
      return true;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

static LogicalResult checkLives(const Buffer &buffer, std::string &error) {
  std::string name = quote(buffer.name);
  if (buffer.lives.empty())
    return fail(error, "buffer " + name + " is never alive");
  int64_t previous = -1;
  for (auto [first, last] : buffer.lives) {
    std::string life = (Twine(first) + "-" + Twine(last)).str();
    if (first < 0 || last < first)
      return fail(error, "life " + life + " of buffer " + name +
                             " is not an interval of times from 0 on");
    if (first <= previous)
      return fail(error, "life " + life + " of buffer " + name +
                             " does not start after the one before it, which "
                             "ends at " +
                             Twine(previous));
    previous = last;
  }
  return success();
}

static LogicalResult checkFixed(const PlaceProblem &problem,
                                std::string &error) {
  llvm::SmallVector<const Buffer *> fixed;
  for (const Buffer &buffer : problem.buffers) {
    if (buffer.fixedOffset == -1)
      continue;
    if (buffer.fixedOffset < 0 || buffer.fixedOffset > maxBytes)
      return fail(error, "offset " + Twine(buffer.fixedOffset) + " of buffer " +
                             quote(buffer.name) + " is not in 0 to 2^60");
    if (buffer.fixedOffset % problem.alignment != 0)
      return fail(error, "offset " + Twine(buffer.fixedOffset) + " of buffer " +
                             quote(buffer.name) + " is not a multiple of " +
                             Twine(problem.alignment));
    if (buffer.sizeBytes > 0)
      fixed.push_back(&buffer);
  }
  llvm::sort(fixed, [](const Buffer *a, const Buffer *b) {
    return std::pair(a->fixedOffset, a) < std::pair(b->fixedOffset, b);
  });
  for (size_t i = 0; i < fixed.size(); ++i)
    for (size_t j = i + 1; j < fixed.size(); ++j) {
      if (fixed[j]->fixedOffset >=
          fixed[i]->fixedOffset + placedBytes(problem, fixed[i]->sizeBytes))
        break;
      if (aliveTogether(*fixed[i], *fixed[j]))
        return fail(error, "buffers " + quote(fixed[i]->name) + " and " +
                               quote(fixed[j]->name) +
                               " are alive together and their fixed offsets "
                               "make them overlap");
    }
  return success();
}

LogicalResult PlaceProblem::check(std::string &error) const {
  if (alignment <= 0 || alignment > maxBytes || !llvm::isPowerOf2_64(alignment))
    return fail(error, "alignment " + Twine(alignment) +
                           " is not a power of two up to 2^60");
  int64_t sum = 0;
  for (const Buffer &buffer : buffers) {
    if (buffer.sizeBytes < 0)
      return fail(error, "size " + Twine(buffer.sizeBytes) + " of buffer " +
                             quote(buffer.name) + " is below 0");
    if (buffer.sizeBytes > maxBytes - alignment ||
        placedBytes(*this, buffer.sizeBytes) > maxBytes - sum)
      return fail(error, "sizes up to buffer " + quote(buffer.name) +
                             " sum up to more than 2^60 bytes");
    sum += placedBytes(*this, buffer.sizeBytes);
    if (failed(checkLives(buffer, error)))
      return failure();
  }
  return checkFixed(*this, error);
}

/// Checks the offset of one buffer by itself.
static LogicalResult verifyOffset(const PlaceProblem &problem,
                                  const Placement &placement, size_t index,
                                  std::string &error) {
  const Buffer &buffer = problem.buffers[index];
  int64_t offset = placement.offsets[index];
  std::string what =
      ("offset " + Twine(offset) + " of buffer " + quote(buffer.name)).str();
  if (offset < 0 || offset % problem.alignment != 0)
    return fail(error, what + " is not a multiple of " +
                           Twine(problem.alignment) + " from 0 on");
  if (buffer.fixedOffset != -1 && offset != buffer.fixedOffset)
    return fail(error,
                what + " is not its fixed offset " + Twine(buffer.fixedOffset));
  int64_t size = placedBytes(problem, buffer.sizeBytes);
  if (size > placement.sizeBytes || offset > placement.sizeBytes - size)
    return fail(error, what + " leaves less than its " + Twine(size) +
                           " bytes in an arena of " +
                           Twine(placement.sizeBytes) + " bytes");
  return success();
}

LogicalResult Placement::verify(const PlaceProblem &problem,
                                std::string &error) const {
  const std::vector<Buffer> &buffers = problem.buffers;
  if (offsets.size() != buffers.size())
    return fail(error, "found " + Twine(offsets.size()) + " offsets for " +
                           Twine(buffers.size()) + " buffers");
  if (sizeBytes < 0 || sizeBytes % problem.alignment != 0)
    return fail(error, "size " + Twine(sizeBytes) +
                           " of the arena is not a multiple of " +
                           Twine(problem.alignment));
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (failed(verifyOffset(problem, *this, i, error)))
      return failure();
    for (size_t j = 0; j < i; ++j)
      if (offsets[i] < offsets[j] + buffers[j].sizeBytes &&
          offsets[j] < offsets[i] + buffers[i].sizeBytes &&
          aliveTogether(buffers[i], buffers[j]))
        return fail(error, "buffers " + quote(buffers[j].name) + " at " +
                               Twine(offsets[j]) + " and " +
                               quote(buffers[i].name) + " at " +
                               Twine(offsets[i]) +
                               " overlap while both are alive");
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Bound
//===----------------------------------------------------------------------===//

int64_t kerf::lowerBound(const PlaceProblem &problem) {
  int64_t result = 0;
  // Time and change of the live bytes. A life is over after its last time.
  std::vector<std::pair<int64_t, int64_t>> changes;
  for (const Buffer &buffer : problem.buffers) {
    int64_t size = placedBytes(problem, buffer.sizeBytes);
    if (buffer.fixedOffset != -1)
      result = std::max(result, buffer.fixedOffset + size);
    for (auto [first, last] : buffer.lives) {
      changes.push_back({first, size});
      if (last != INT64_MAX)
        changes.push_back({last + 1, -size});
    }
  }
  // At one time, ends sort before starts: their change is negative.
  llvm::sort(changes);
  int64_t live = 0;
  for (auto [time, change] : changes) {
    live += change;
    result = std::max(result, live);
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

void kerf::print(llvm::raw_ostream &os, const PlaceProblem &problem) {
  os << "align " << problem.alignment << "\n";
  for (const Buffer &buffer : problem.buffers) {
    os << '"';
    llvm::printEscapedString(buffer.name, os);
    os << "\" " << buffer.sizeBytes;
    for (auto [first, last] : buffer.lives)
      os << " " << first << "-" << last;
    if (buffer.fixedOffset != -1)
      os << " at " << buffer.fixedOffset;
    os << "\n";
  }
}

/// Takes a quoted name from the start of `line`; `\xx` is a byte in hex.
static LogicalResult takeName(StringRef &line, std::string &name,
                              std::string &error) {
  if (!line.consume_front("\""))
    return fail(error, "expected a buffer's name in double quotes");
  auto [text, rest] = line.split('"');
  if (text.size() == line.size())
    return fail(error, "name has no closing double quote");
  for (size_t i = 0; i < text.size(); ++i) {
    uint8_t byte = text[i];
    if (text[i] == '\\') {
      if (text.substr(i).starts_with("\\\\"))
        i += 1;
      else if (i + 2 < text.size() &&
               llvm::tryGetHexFromNibbles(text[i + 1], text[i + 2], byte))
        i += 2;
      else
        return fail(error, "expected two hex digits after '\\' in a name");
    }
    name.push_back(byte);
  }
  line = rest;
  return success();
}

static LogicalResult parseInt(StringRef word, int64_t &value,
                              std::string &error) {
  if (!word.getAsInteger(10, value))
    return success();
  return fail(error, "expected a number, found " + quote(word));
}

static LogicalResult parseBuffer(StringRef line, Buffer &buffer,
                                 std::string &error) {
  if (failed(takeName(line, buffer.name, error)))
    return failure();
  llvm::SmallVector<StringRef> words;
  line.split(words, ' ', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  if (words.empty())
    return fail(error, "expected a size after the name");
  if (failed(parseInt(words[0], buffer.sizeBytes, error)))
    return failure();
  size_t end = words.size();
  if (end >= 3 && words[end - 2] == "at") {
    if (failed(parseInt(words[end - 1], buffer.fixedOffset, error)))
      return failure();
    end -= 2;
  }
  for (StringRef word : llvm::ArrayRef(words).slice(1, end - 1)) {
    auto [first, last] = word.split('-');
    LifeInterval life;
    if (failed(parseInt(first, life.first, error)) ||
        failed(parseInt(last, life.second, error)))
      return fail(error, "expected a life like '3-5', found " + quote(word));
    buffer.lives.push_back(life);
  }
  return success();
}

FailureOr<PlaceProblem> kerf::parsePlaceProblem(StringRef text,
                                                std::string &error) {
  PlaceProblem problem;
  int64_t number = 0;
  while (!text.empty()) {
    auto [line, rest] = text.split('\n');
    text = rest;
    ++number;
    line = line.trim();
    if (line.empty() || line.starts_with("#"))
      continue;
    bool bad;
    if (line.consume_front("align "))
      bad = failed(parseInt(line.trim(), problem.alignment, error));
    else
      bad = failed(parseBuffer(line, problem.buffers.emplace_back(), error));
    if (bad) {
      error = ("line " + Twine(number) + ": " + error).str();
      return failure();
    }
  }
  if (failed(problem.check(error)))
    return failure();
  return problem;
}
