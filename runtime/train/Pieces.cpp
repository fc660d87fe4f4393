//===- Pieces.cpp - who saves what of a state -----------------------------===//

#include "kerf/Train/Pieces.h"

#include "kerf/Artifact/Format.h"
#include "kerf/Train/Numbers.h"
#include "kerf/Train/Safetensors.h"
#include "kerf/Train/Text.h"

#include <algorithm>
#include <tuple>
#include <utility>

using namespace kerf::runtime;

/// A share has as many bytes at least, unless it is all there is.
static constexpr int64_t leastShareBytes = 1 << 16;

std::vector<StateTensor>
kerf::runtime::listState(const kerf_artifact *artifact) {
  uint32_t paramCount = 0, stateCount = 0;
  const kerf_param *params = kerf_artifact_params(artifact, &paramCount);
  const kerf_state *states = kerf_artifact_states(artifact, &stateCount);
  std::vector<StateTensor> result;
  for (const GlobalTensor &tensor : listParameters(artifact)) {
    const kerf_param &param = params[tensor.id.param];
    std::string name = tensorName(artifact, param, tensor.id.iteration);
    result.push_back({"param:" + name, tensor});
    if (param.master_dtype != KERF_NONE)
      result.push_back(
          {"master:" + name,
           siblingTensor(artifact, tensor, KERF_TENSOR_MASTER, 0)});
    for (uint32_t s = 0; s < param.state_count; ++s) {
      const char *own =
          kerf_artifact_string(artifact, states[param.first_state + s].name);
      result.push_back({std::string("state:") + own + ":" + name,
                        siblingTensor(artifact, tensor, KERF_TENSOR_STATE, s)});
    }
  }
  return result;
}

/// The stored elements that one of several ranks saves: whole rows. `turn`
/// tells which of them begins.
static std::pair<int64_t, int64_t> shareOf(const kerf_holding &holding,
                                           size_t turn) {
  int64_t row = std::max<int64_t>(holding.row, 1);
  int64_t rows = (holding.elements + row - 1) / row;
  int64_t bytes = holding.elements * kerf_dtype_bytes(holding.layout.dtype);
  int64_t shares = std::clamp<int64_t>(std::min(bytes / leastShareBytes, rows),
                                       1, static_cast<int64_t>(holding.copies));
  auto copies = static_cast<int64_t>(holding.copies);
  int64_t number =
      (holding.copy + copies - static_cast<int64_t>(turn) % copies) % copies;
  auto at = [&](int64_t share) {
    return std::min(rows * share / shares * row, holding.elements);
  };
  if (number >= shares)
    return {0, 0};
  return {at(number), at(number + 1)};
}

std::vector<kerf_box> kerf::runtime::boxesOf(const kerf_artifact *artifact,
                                             const kerf_holding &holding,
                                             uint32_t rank, int64_t begin,
                                             int64_t end) {
  std::vector<kerf_box> boxes(
      kerf_holding_boxes(artifact, &holding, rank, begin, end, nullptr, 0));
  kerf_holding_boxes(artifact, &holding, rank, begin, end, boxes.data(),
                     static_cast<uint32_t>(boxes.size()));
  return boxes;
}

bool kerf::runtime::isOfModel(
    const std::string &path, size_t count,
    const std::vector<StateTensor> &state,
    const std::function<SavedShape(const std::string &name)> &find,
    std::string &error) {
  std::string start =
      "the saved state " + quote(path) + " is of another model: ";
  for (const StateTensor &t : state) {
    SavedShape found = find(t.name);
    if (found.shape && *found.shape == t.tensor.shape &&
        kerfDtype(found.dtype) == t.tensor.dtype)
      continue;
    error =
        start + "tensor " + quote(t.name) +
        (found.shape ? " is " + formatShape(*found.shape) + " " + found.dtype
                     : " is missing") +
        ", expected " + formatShape(t.tensor.shape) + " " +
        std::string(dtypeName(t.tensor.dtype));
    return false;
  }
  if (count != state.size())
    error = start + std::to_string(count) + " tensors, expected " +
            std::to_string(state.size());
  return count == state.size();
}

std::vector<int64_t> kerf::runtime::boxShape(const StateTensor &tensor,
                                             const kerf_box &box) {
  std::vector<int64_t> shape;
  for (size_t d = 0; d < tensor.tensor.shape.size(); ++d)
    shape.push_back(box.end[d] - box.begin[d]);
  return shape;
}

std::string kerf::runtime::pieceName(const std::string &tensor,
                                     const std::vector<int64_t> &begin,
                                     const std::vector<int64_t> &end) {
  std::string name = tensor + "[";
  for (size_t d = 0; d < begin.size(); ++d)
    name += (d ? "," : "") + std::to_string(begin[d]) + ":" +
            std::to_string(end[d]);
  return name + "]";
}

std::string kerf::runtime::pieceName(const StateTensor &tensor,
                                     const kerf_box &box) {
  size_t dims = tensor.tensor.shape.size();
  return pieceName(tensor.name, {box.begin, box.begin + dims},
                   {box.end, box.end + dims});
}

std::vector<Share>
kerf::runtime::sharesOf(const kerf_artifact *artifact,
                        const std::vector<StateTensor> &state, uint32_t rank) {
  std::vector<Share> result;
  for (size_t t = 0; t < state.size(); ++t) {
    bool has = false;
    kerf_holding holding;
    // Ids come from the checked tables.
    (void)kerf_tensor_holding(artifact, &state[t].tensor.id, rank, &has,
                              &holding, nullptr);
    if (!has || !holding.is_home)
      continue;
    Share share;
    share.tensor = t;
    std::tie(share.begin, share.end) = shareOf(holding, t);
    if (share.begin == share.end)
      continue;
    for (kerf_box box :
         boxesOf(artifact, holding, rank, share.begin, share.end)) {
      box.first -= share.begin;
      Piece &piece = share.pieces.emplace_back();
      piece.tensor = t;
      piece.box = box;
      piece.bytes = kerf_dtype_bytes(state[t].tensor.dtype);
      for (int64_t size : boxShape(state[t], box))
        piece.bytes *= static_cast<uint64_t>(size);
    }
    result.push_back(std::move(share));
  }
  return result;
}
