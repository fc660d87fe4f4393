//===- TrainingProblems.cpp - Placement problems like training steps ------===//

#include "TrainingProblems.h"

#include "llvm/ADT/StringExtras.h"

#include <map>

using namespace kerf;
using namespace kerf::test;

namespace {

/// Commands one by one; each use of a buffer makes its life longer.
class StepBuilder {
public:
  explicit StepBuilder(const StepShape &shape) : shape(shape) {}

  PlaceProblem build();

private:
  using Ids = std::vector<unsigned>;

  unsigned buffer(const std::string &name, int64_t bytes) {
    problem.buffers.push_back({name, bytes, {}, -1});
    return problem.buffers.size() - 1;
  }
  unsigned data(const std::string &name, int64_t elements) {
    return buffer(name, elements * shape.dataBytes);
  }
  /// One command that uses `ids`. A buffer in `fresh` begins a new life.
  void command(const Ids &ids, const Ids &fresh = {}) {
    ++now;
    for (unsigned id : fresh)
      problem.buffers[id].lives.push_back({now, now});
    for (unsigned id : ids)
      use(id);
  }
  void use(unsigned id) {
    llvm::SmallVector<LifeInterval> &lives = problem.buffers[id].lives;
    if (lives.empty())
      lives.push_back({now, now});
    lives.back().second = now;
  }

  void addParameters();
  void addStep();
  void forwardLayer(int64_t layer);
  void backwardLayer(int64_t layer);
  /// Computes what a layer saves but for its input.
  void layerValues(int64_t layer, bool again);
  /// The matmul that makes `result`, with a workspace.
  void matmul(const Ids &reads, unsigned result, int64_t elements);
  void weightGradient(int64_t layer, const std::string &name, const Ids &reads);

  /// A value that layers keep, one buffer per layer or stacked.
  unsigned saved(int64_t layer, const std::string &name, int64_t elements,
                 bool stack = true);
  unsigned saved(int64_t layer, const std::string &name) {
    return values.at(key(layer, name));
  }
  std::string key(int64_t layer, const std::string &name) {
    return shape.counted ? name : llvm::utostr(layer) + "." + name;
  }
  int64_t copies() const { return shape.counted ? shape.layers : 1; }
  int64_t rows() const { return shape.batch * shape.seq; }
  int64_t kv() const { return shape.kvHidden ? shape.kvHidden : shape.hidden; }
  std::map<std::string, int64_t> weights() const {
    int64_t h = shape.hidden;
    return {{"qkv", h * (h + 2 * kv())},
            {"proj", h * h},
            {"up", h * shape.ffn},
            {"down", h * shape.ffn},
            {"norm", 2 * h}};
  }

  const StepShape &shape;
  PlaceProblem problem;
  int64_t now = 0;
  std::map<std::string, unsigned> values;
  Ids always, gradients;
  unsigned x = 0, dx = 0;
};

} // namespace

unsigned StepBuilder::saved(int64_t layer, const std::string &name,
                            int64_t elements, bool stack) {
  auto [entry, isNew] = values.try_emplace(key(layer, name));
  if (isNew)
    entry->second =
        data("act." + key(layer, name), elements * (stack ? copies() : 1));
  return entry->second;
}

void StepBuilder::addParameters() {
  auto add = [&](const std::string &name, int64_t elements) {
    always.push_back(data("param." + name, elements));
    always.push_back(buffer("m." + name, elements * 4));
    always.push_back(buffer("v." + name, elements * 4));
    if (shape.masters)
      always.push_back(buffer("master." + name, elements * 4));
  };
  add("embedding", shape.vocab * shape.hidden);
  for (int64_t layer = 0; layer < (shape.counted ? 1 : shape.layers); ++layer)
    for (auto [name, elements] : weights())
      add(key(layer, name), elements * copies());
  always.push_back(buffer("tokens", rows() * 4));
}

void StepBuilder::matmul(const Ids &reads, unsigned result, int64_t elements) {
  unsigned workspace = data("workspace", elements / 8 + 1000);
  command(reads);
  use(result);
  use(workspace);
}

void StepBuilder::layerValues(int64_t layer, bool again) {
  bool stack = !shape.recompute;
  int64_t h = shape.hidden;
  std::vector<std::pair<std::string, int64_t>> names = {
      {"rstd1", rows()},
      {"norm1", rows() * h},
      {"qkv", rows() * (h + 2 * kv())},
      {"lse", rows() * 12},
      {"attn", rows() * h},
      {"mid", rows() * h},
      {"rstd2", rows()},
      {"norm2", rows() * h},
      {"up", rows() * shape.ffn},
      {"gelu", rows() * shape.ffn}};
  unsigned previous = saved(layer, "input");
  for (auto &[name, elements] : names) {
    unsigned id = saved(layer, name, elements, stack);
    command({previous}, again ? Ids{id} : Ids{});
    use(id);
    if (name == "qkv" || name == "up")
      matmul({previous}, id, h * shape.ffn);
    if (elements > rows() * 12)
      previous = id;
  }
}

void StepBuilder::forwardLayer(int64_t layer) {
  unsigned input = saved(layer, "input", rows() * shape.hidden);
  command({x, input});
  layerValues(layer, /*again=*/false);
  unsigned next = shape.counted ? x : data("x", rows() * shape.hidden);
  unsigned down = data("down", rows() * shape.hidden);
  matmul({saved(layer, "gelu")}, down, shape.hidden * shape.ffn);
  command({down, saved(layer, "mid"), next});
  x = next;
}

void StepBuilder::weightGradient(int64_t layer, const std::string &name,
                                 const Ids &reads) {
  auto [entry, isNew] = values.try_emplace(key(layer, "grad." + name));
  if (isNew) {
    entry->second =
        buffer(entry->first, weights().at(name) * copies() * shape.gradBytes);
    gradients.push_back(entry->second);
  }
  matmul(reads, entry->second, weights().at(name));
}

void StepBuilder::backwardLayer(int64_t layer) {
  if (shape.recompute)
    layerValues(layer, /*again=*/true);
  int64_t wide = rows() * shape.ffn, narrow = rows() * shape.hidden;
  unsigned dgelu = data("d.gelu", wide), dup = data("d.up", wide);
  weightGradient(layer, "down", {dx, saved(layer, "gelu")});
  matmul({dx}, dgelu, wide);
  command({dgelu, saved(layer, "up"), dup});
  weightGradient(layer, "up", {dup, saved(layer, "norm2")});
  unsigned dnorm = data("d.norm2", narrow), dmid = data("d.mid", narrow);
  matmul({dup}, dnorm, narrow);
  weightGradient(layer, "norm", {dnorm, saved(layer, "rstd2")});
  command({dnorm, saved(layer, "mid"), dx, dmid});
  unsigned dattn = data("d.attn", narrow);
  weightGradient(layer, "proj", {dmid, saved(layer, "attn")});
  matmul({dmid}, dattn, narrow);
  unsigned dqkv = data("d.qkv", rows() * (shape.hidden + 2 * kv()));
  command({dattn, saved(layer, "qkv"), saved(layer, "lse"),
           saved(layer, "attn"), dqkv});
  weightGradient(layer, "qkv", {dqkv, saved(layer, "norm1")});
  unsigned dnorm1 = data("d.norm1", narrow);
  matmul({dqkv}, dnorm1, narrow);
  unsigned next = shape.counted ? dx : data("d.x", narrow);
  command({dnorm1, saved(layer, "rstd1"), saved(layer, "input"), dmid, next});
  dx = next;
}

void StepBuilder::addStep() {
  int64_t narrow = rows() * shape.hidden;
  // A counted loop: what all rounds use is alive from its first command on.
  int64_t rounds = shape.counted ? 1 : shape.layers;
  x = data("x", narrow);
  command({x});
  for (int64_t layer = 0; layer < rounds; ++layer)
    forwardLayer(layer);
  unsigned final = data("final", narrow);
  command({x, final});
  unsigned logits = buffer("logits", rows() * shape.vocab * 4);
  matmul({final}, logits, narrow);
  unsigned loss = buffer("loss", rows() * 4);
  command({logits, loss});
  unsigned gradient =
      buffer("grad.embedding", shape.vocab * shape.hidden * shape.gradBytes);
  gradients.push_back(gradient);
  matmul({logits, final}, gradient, shape.vocab * 64);
  dx = data("d.x", narrow);
  matmul({logits, loss}, dx, narrow);
  for (int64_t layer = rounds; layer-- > 0;)
    backwardLayer(layer);
  command({dx, gradient});
  unsigned norm = buffer("norm", 4);
  for (unsigned id : gradients)
    command({id, norm});
  for (unsigned id : gradients)
    command({id, norm});
}

PlaceProblem StepBuilder::build() {
  addParameters();
  command(always);
  addStep();
  ++now;
  for (unsigned id : always)
    use(id);
  return std::move(problem);
}

std::vector<StepShape> test::stepShapes() {
  std::vector<StepShape> shapes = {
      {"gpt2-124m", 12, 768, 3072, 50257, 4, 512},
      {"gpt2-48-layers", 48, 768, 3072, 50257, 4, 512},
      {"gpt-mini", 6, 384, 1536, 256, 8, 256},
      {"llama-mini", 4, 512, 1376, 32000, 4, 512, 128},
      {"wide-and-shallow", 2, 2048, 8192, 1000, 1, 128},
      {"long-and-thin", 24, 128, 512, 5000, 1, 4096},
      {"odd-sizes", 7, 200, 777, 1234, 3, 111},
  };
  std::vector<StepShape> result;
  for (StepShape shape : shapes)
    for (bool counted : {true, false})
      for (bool recompute : {false, true})
        for (bool mixed : {false, true}) {
          StepShape next = shape;
          next.name += counted ? " counted" : " unrolled";
          next.name += recompute ? " recompute" : "";
          next.name += mixed ? " bf16" : "";
          next.counted = counted;
          next.recompute = recompute;
          next.masters = mixed;
          next.dataBytes = mixed ? 2 : 4;
          result.push_back(next);
        }
  return result;
}

PlaceProblem test::trainingProblem(const StepShape &shape) {
  return StepBuilder(shape).build();
}

PlaceProblem test::largeProblem(int64_t numBuffers) {
  StepShape shape = {"large", 1, 256, 1000, 3000, 2, 100};
  shape.counted = false;
  int64_t one = trainingProblem(shape).buffers.size();
  shape.layers = 2;
  int64_t perLayer = trainingProblem(shape).buffers.size() - one;
  shape.layers = (numBuffers - one) / perLayer + 1;
  PlaceProblem problem = trainingProblem(shape);
  // Scratch that is alive once per layer.
  int64_t end = problem.buffers.front().lives.back().second;
  for (int64_t i = 0; i < 8; ++i) {
    PlaceProblem::Buffer scratch = {"scratch", 10000 * (i + 1), {}, -1};
    for (int64_t at = i + 1; at + i < end; at += 30)
      scratch.lives.push_back({at, at + i});
    problem.buffers.push_back(scratch);
  }
  return problem;
}
