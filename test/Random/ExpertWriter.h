//===- ExpertWriter.h - random models with experts, and their layouts -----===//

#ifndef KERF_TEST_RANDOM_EXPERTWRITER_H
#define KERF_TEST_RANDOM_EXPERTWRITER_H

#include "kerf/Ingest/Import.h"

#include <random>

namespace kerf::test {

/// Draws a tiny mixture of experts and a plan that cuts the experts over axes
/// which cut something else outside of them: data (`ep`), the matmuls of
/// attention (`tp`), or both, beside ranks that share sequences (`cp`). Tokens
/// are gathered or rows exchanged, with and
/// without a capacity; micro-batches, pipelines, pieces of state and
/// recomputation as in other layouts.
class ExpertWriter {
public:
  explicit ExpertWriter(uint64_t seed);

  /// A Hugging Face config.
  const std::string &getConfig() const { return config; }
  const ImportOptions &getOptions() const { return options; }
  /// The plan; `room` replaces the drawn room for exchanged rows.
  std::string getPlan(double room) const;
  /// Of the even share; 0 where rows have all the room they may need.
  double getRoom() const { return room; }

private:
  int64_t pick(int64_t count) { return int64_t(random() % count); }
  int64_t choose(std::initializer_list<int64_t> values) {
    return values.begin()[pick(values.size())];
  }

  void drawMesh();
  void drawRanks();
  void drawConfig();
  std::string qwenConfig(int64_t count, int64_t perToken);
  std::string deepSeekConfig(int64_t count);
  void drawOptions();
  void drawHead();
  void drawRules();
  void addRule(const std::string &op, const std::string &weight,
               const std::string &factors, const std::string &rest = "");
  void addMatmuls();
  void addAttention();
  void addExperts();
  /// `"b": ["dp", "micro"]`, of those axes that have more than one part; empty
  /// when none has.
  std::string cut(const std::string &factor,
                  std::initializer_list<std::string> axes) const;
  int64_t sizeOf(const std::string &axis) const;

  std::mt19937_64 random;
  int64_t stages = 1, data = 1, experts = 1, tensor = 1, context = 1, micro = 1;
  bool foldsTensor = false; ///< experts are cut over tensor ranks, too
  bool sequence = false;    ///< which cut the sequence between matmuls
  enum { Mixtral, Qwen, DeepSeek } family = Mixtral;
  bool hasDense = false; ///< layers without experts, or shared ones beside
  double room = 0;
  std::string config, head, rules;
  ImportOptions options;
};

} // namespace kerf::test

#endif // KERF_TEST_RANDOM_EXPERTWRITER_H
