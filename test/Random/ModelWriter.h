//===- ModelWriter.h - random models as text ------------------------------===//

#ifndef KERF_TEST_RANDOM_MODELWRITER_H
#define KERF_TEST_RANDOM_MODELWRITER_H

#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

namespace kerf::test {

/// Writes a random model. A layer is a chain of blocks, each a map of the
/// hidden state h of type `hidden`.
class ModelWriter {
public:
  explicit ModelWriter(uint64_t seed) : random(seed) {}

  /// A smooth model of small sizes, whose gradient central differences find.
  std::string write();

  /// A model of odd sizes, with dropout, documents, integers, several carried
  /// values, metrics and any optimizer. `forPlan`: nothing in it is
  /// computed across sequences, so that micro-batches can take it apart.
  std::string writeRich(bool forPlan);

  /// Of the model written last.
  int64_t getBatch() const { return b; }
  int64_t getSequence() const { return s; }
  /// Parameters of linear layers, with their braces.
  const std::vector<std::string> &getWeights() const { return weights; }

private:
  int64_t pick(int64_t count) { return random() % count; }
  bool flip() { return pick(2) == 0; }
  int64_t choose(std::initializer_list<int64_t> values) {
    return values.begin()[pick(values.size())];
  }
  std::string fresh() { return "%v" + std::to_string(next++); }

  std::string tensor(std::initializer_list<int64_t> shape,
                     const std::string &element = "f32");
  /// Appends `%v = text` and returns `%v`.
  std::string emit(const std::string &text);
  std::string param(const std::string &name, const std::string &type);
  std::string weight(int64_t outputs, int64_t inputs);
  std::string linear(const std::string &x, int64_t inputs, int64_t outputs);
  std::string norm(const std::string &h);
  std::string mlp(const std::string &h);
  std::string attention(const std::string &h);
  std::string attentionTail();
  std::string withSink(const std::string &attention, const std::string &types,
                       const std::string &result, int64_t heads);
  std::string rope(const std::string &x, const std::string &type);
  std::string experts(const std::string &h);
  std::string shared(const std::string &h);
  std::string outside(const std::string &h);
  std::string sliced(const std::string &h);
  std::string block(const std::string &h);
  std::string repeat(const std::string &x, int64_t start, int64_t end);

  // Blocks of rich models.
  std::string constant(const std::string &value, const std::string &type);
  std::string scalarInput(const std::string &role);
  std::string dropoutTail();
  std::string dropout(const std::string &h);
  std::string pointwise(const std::string &h);
  std::string shapes(const std::string &h);
  std::string masked(const std::string &h);
  std::string mixing(const std::string &h);
  std::string reduced(const std::string &h);
  std::string looked(const std::string &h);
  std::string scaled(const std::string &h);
  std::string richBlock(const std::string &h);
  std::string richRepeat(const std::string &x, int64_t start, int64_t end);
  std::string everywhere(const std::string &name);
  void drawSizes();
  std::string targets();
  std::string attributes();

  std::mt19937_64 random;
  std::string body;
  int64_t next = 0, params = 0;
  int64_t b = 2, s = 3, d = 4, vocabulary = 7;
  std::string hidden;
  std::string prefix; ///< of parameter names in the present repeat
  std::string outer;  ///< a value from outside that repeats may read
  std::string slice;  ///< slice argument of the present repeat, or empty
  std::vector<std::string> weights;

  bool rich = false, planned = false;
  bool batched = true; ///< parameters may have the dimension of the batch
  bool hasDropout = false, hasSegments = false, hasPositions = false;
  std::string mask;    ///< i1 value of the shape of the tokens
  std::string counter; ///< i32 value of that shape, carried in repeats
  std::string layer;   ///< iteration number of the present repeat, or empty
  std::string stacked; ///< stack of an earlier repeat, or empty
  int64_t stackedCount = 0;
  std::vector<std::string> metrics; ///< scalars
};

} // namespace kerf::test

#endif // KERF_TEST_RANDOM_MODELWRITER_H
