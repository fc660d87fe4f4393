//===- PlanWriter.h - random plans as text --------------------------------===//

#ifndef KERF_TEST_RANDOM_PLANWRITER_H
#define KERF_TEST_RANDOM_PLANWRITER_H

#include "ModelWriter.h"

namespace kerf::test {

/// Writes a random plan for the model that was written last: a mesh of up to 8
/// ranks (data, tensor, pipeline), micro-batches, a schedule, what of the state
/// is cut, what is computed again.
class PlanWriter {
public:
  PlanWriter(ModelWriter &model, uint64_t seed) : model(model), random(seed) {}
  std::string write();

private:
  int64_t pick(int64_t count) { return int64_t(random() % count); }
  void axis(const std::string &name, int64_t size) {
    if (size > 1)
      mesh +=
          (mesh.empty() ? "\"" : ", \"") + name + "\": " + std::to_string(size);
  }
  std::string pipeline(int64_t stages, int64_t micro);
  std::string rules(const std::string &batch, bool tensor);

  ModelWriter &model;
  std::mt19937_64 random;
  std::string mesh;
};

} // namespace kerf::test

#endif // KERF_TEST_RANDOM_PLANWRITER_H
