//===- Pieces.h - who saves what of a state ---------------------*- C++ -*-===//
//
// A state is every parameter, master and tensor of the optimizer. Ranks store
// parts of them, several often the same one. Each element is saved once: of the
// ranks that have a part, each saves a share of it (whole rows), and of small
// parts one saves all, another one for each tensor. What a rank saves of a
// tensor is split into boxes of the global tensor: its pieces.
//
// Example: a weight [8 x 4] whose columns two tensor ranks share, on two data
// ranks each. Rank (tp 0, dp 0) saves [0:4,0:2], (tp 0, dp 1) saves [4:8,0:2].
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_PIECES_H
#define KERF_TRAIN_PIECES_H

#include "kerf/Runtime/Runtime.h"
#include "kerf/Train/Weights.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace kerf::runtime {

/// A tensor of the state and its name: "param:NAME", "master:NAME",
/// "state:m:NAME".
struct StateTensor {
  std::string name;
  GlobalTensor tensor;
};

/// All tensors of a state, in an order that is the same on all ranks.
std::vector<StateTensor> listState(const kerf_artifact *artifact);

/// A box of a tensor that a rank saves.
struct Piece {
  size_t tensor = 0; ///< index in listState
  kerf_box box{};    ///< `first` counts from the start of the share
  uint64_t bytes = 0;
};

/// What a rank saves of one tensor: the stored elements [begin, end).
struct Share {
  size_t tensor = 0;
  int64_t begin = 0, end = 0;
  std::vector<Piece> pieces;
};

/// What `rank` saves of the state; any rank can ask for any other.
std::vector<Share> sharesOf(const kerf_artifact *artifact,
                            const std::vector<StateTensor> &state,
                            uint32_t rank);

/// The elements [begin, end) of what a rank stores, as boxes.
std::vector<kerf_box> boxesOf(const kerf_artifact *artifact,
                              const kerf_holding &holding, uint32_t rank,
                              int64_t begin, int64_t end);

/// Shape and dtype of a saved tensor, as in safetensors.
struct SavedShape {
  const std::vector<int64_t> *shape = nullptr; ///< null: there is none
  std::string dtype;
};
/// Whether a state that was saved at `path`, of `count` tensors, is of a model
/// with the tensors `state`.
[[nodiscard]] bool
isOfModel(const std::string &path, size_t count,
          const std::vector<StateTensor> &state,
          const std::function<SavedShape(const std::string &name)> &find,
          std::string &error);

/// "param:wte.weight[0:16,4:8]"; a scalar has "[]".
std::string pieceName(const std::string &tensor,
                      const std::vector<int64_t> &begin,
                      const std::vector<int64_t> &end);
std::string pieceName(const StateTensor &tensor, const kerf_box &box);
/// The sizes of a box.
std::vector<int64_t> boxShape(const StateTensor &tensor, const kerf_box &box);

} // namespace kerf::runtime

#endif // KERF_TRAIN_PIECES_H
