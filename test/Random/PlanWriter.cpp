#include "PlanWriter.h"

using namespace kerf::test;

std::string PlanWriter::pipeline(int64_t stages, int64_t micro) {
  if (stages == 1)
    return pick(4) ? "" : "\"schedule\": \"gpipe\", ";
  if (micro % stages == 0 && pick(3) == 0)
    return "\"schedule\": \"interleaved\", \"chunks\": 2, ";
  static const char *schedules[] = {"gpipe", "1f1b", "zb-h1"};
  return std::string("\"schedule\": \"") + schedules[pick(3)] + "\", ";
}

std::string PlanWriter::rules(const std::string &batch, bool tensor) {
  std::string text = "{\"op\": \"embedding\", \"weight\": \"wte*\", "
                     "\"factors\": {\"b\": [" +
                     batch + "]}}";
  const std::vector<std::string> &weights = model.getWeights();
  if (!tensor)
    return text;
  for (int64_t n = 1 + pick(3); n > 0 && !weights.empty(); --n)
    text += ", {\"op\": \"linear\", \"weight\": \"" +
            weights[pick(weights.size())] + "\", \"factors\": {\"b\": [" +
            batch + "], \"" + (pick(2) ? "n" : "k") + "\": [\"tp\"]}}";
  return text;
}

std::string PlanWriter::write() {
  int64_t batch = model.getBatch();
  int64_t stages = 1 + pick(3), data = 1 + pick(2), tensor = 1 + pick(2);
  if (stages == 3)
    stages = 4;
  if (stages * data * tensor > 8)
    tensor = 1;
  int64_t local = std::max<int64_t>(1, batch / data);
  int64_t micro = local % 4 == 0 && pick(2) ? 4 : local % 2 == 0 ? 2 : 1;
  if (pick(2))
    axis("pp", stages);
  axis("dp", data);
  axis("tp", tensor);
  if (mesh.find("pp") == std::string::npos)
    axis("pp", stages);
  std::string batchAxes = data > 1 ? "\"dp\", \"micro\"" : "\"micro\"";
  int64_t zero = data > 1 ? pick(4) : 0;
  static const char *recompute[] = {"", "\"recompute\": \"full\", "};
  return "{\"mesh\": {" + mesh +
         "}, \"micro_batches\": " + std::to_string(micro) + ", " +
         pipeline(stages, micro) +
         (zero ? "\"zero\": " + std::to_string(zero) + ", " : "") +
         recompute[pick(3) == 0] + "\"assign\": [" +
         rules(batchAxes, tensor > 1) + "]}";
}
