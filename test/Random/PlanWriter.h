//===- PlanWriter.h - random plans as text --------------------------------===//

#ifndef KERF_TEST_RANDOM_PLANWRITER_H
#define KERF_TEST_RANDOM_PLANWRITER_H

#include "ModelWriter.h"

#include <map>

namespace kerf::test {

/// Writes a random plan for the model that was written last: a mesh of up to 8
/// ranks (data, context, tensor, pipeline), micro-batches, a schedule, what of
/// the state is cut, what is computed again.
class PlanWriter {
public:
  PlanWriter(ModelWriter &model, uint64_t seed) : model(model), random(seed) {}
  std::string write();

private:
  int64_t pick(int64_t count) { return int64_t(random() % count); }
  void drawRanks();
  std::string drawMesh();
  std::string pipeline(int64_t micro);
  /// `"dp", "micro"`: those of the axes that have several ranks.
  std::string over(std::initializer_list<std::string> axes);
  std::string rules();

  ModelWriter &model;
  std::mt19937_64 random;
  std::map<std::string, int64_t> ranks;
};

} // namespace kerf::test

#endif // KERF_TEST_RANDOM_PLANWRITER_H
