#include "PlanWriter.h"

#include "kerf/Search/Pins.h"

#include "llvm/Support/raw_ostream.h"

using namespace kerf;
using namespace kerf::test;

/// Ranks of experts are data ranks of ops that have none.
void PlanWriter::drawRanks() {
  constexpr int64_t most = 8;
  ranks["pp"] = 1 << pick(3);
  ranks["dp"] = 1 + pick(2);
  ranks["tp"] = 1 + pick(2);
  ranks["ep"] = pick(4) ? 1 : 2;
  ranks["cp"] = model.getSequence() % 2 == 0 && pick(2) ? 2 : 1;
  for (const char *axis : {"tp", "ep", "dp", "cp"}) {
    int64_t all = 1;
    for (auto [name, size] : ranks)
      all *= size;
    if (all > most)
      ranks[axis] = 1;
  }
}

std::string PlanWriter::drawMesh() {
  std::string mesh;
  std::vector<llvm::StringRef> axes = axisNames();
  std::shuffle(axes.begin(), axes.end(), random);
  for (llvm::StringRef axis : axes) {
    auto drawn = ranks.find(axis.str());
    if (drawn == ranks.end()) {
      llvm::errs() << "no ranks are drawn for the axis '" << axis << "'\n";
      std::exit(1);
    }
    if (drawn->second > 1)
      mesh += (mesh.empty() ? "\"" : ", \"") + axis.str() +
              "\": " + std::to_string(drawn->second);
  }
  return mesh;
}

std::string PlanWriter::pipeline(int64_t micro) {
  int64_t stages = ranks["pp"];
  if (stages == 1)
    return pick(4) ? "" : "\"schedule\": \"gpipe\", ";
  if (micro % stages == 0 && pick(3) == 0)
    return "\"schedule\": \"interleaved\", \"chunks\": 2, ";
  static const char *schedules[] = {R"("gpipe")", R"("1f1b")", R"("zb-h1")",
                                    R"("zb-h1", "defer": 0)",
                                    R"("zb-h1", "defer": 1)"};
  return std::string("\"schedule\": ") + schedules[pick(5)] + ", ";
}

std::string PlanWriter::over(std::initializer_list<std::string> axes) {
  std::string list;
  for (const std::string &axis : axes)
    if (axis == "micro" || ranks[axis] > 1)
      list += (list.empty() ? "\"" : ", \"") + axis + "\"";
  return "[" + list + "]";
}

std::string PlanWriter::rules() {
  std::string batch = "\"b\": " + over({"dp", "micro", "ep"});
  std::string rows = batch + ", \"s\": " + over({"cp"});
  std::string text = "{\"op\": \"embedding\", \"weight\": \"wte*\", "
                     "\"factors\": {" +
                     rows + "}}";
  const std::vector<std::string> &weights = model.getWeights();
  if (ranks["tp"] == 1)
    return text;
  for (int64_t n = 1 + pick(3); n > 0 && !weights.empty(); --n)
    text += ", {\"op\": \"linear\", \"weight\": \"" +
            weights[pick(weights.size())] + "\", \"factors\": {" +
            (pick(3) ? rows : batch) + ", \"" + (pick(2) ? "n" : "k") +
            "\": [\"tp\"]}}";
  return text;
}

std::string PlanWriter::write() {
  drawRanks();
  int64_t data = ranks["dp"] * ranks["ep"];
  int64_t local = std::max<int64_t>(1, model.getBatch() / data);
  int64_t micro = local % 4 == 0 && pick(2) ? 4 : local % 2 == 0 ? 2 : 1;
  int64_t zero = data * ranks["cp"] > 1 ? pick(4) : 0;
  static const char *recompute[] = {"", "\"recompute\": \"full\", "};
  return "{\"mesh\": {" + drawMesh() +
         "}, \"micro_batches\": " + std::to_string(micro) + ", " +
         pipeline(micro) +
         (zero ? "\"zero\": " + std::to_string(zero) + ", " : "") +
         recompute[pick(3) == 0] + "\"assign\": [" + rules() + "]}";
}
