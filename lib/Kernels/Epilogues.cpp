//===- Epilogues.cpp - matmuls that compute what follows them -------------===//
//
// Problem: what a matmul is followed by reads its result from memory and writes
// as much again.
// Idea: libraries of GPUs have matmuls that end in it.
// Steps: gelu with the matmul that it is of; the gradient of gelu with the
// matmul that makes what it multiplies, and the sum of its rows with both; then
// the sums of rows that are left with the first matmul that reads the rows. A
// matmul that has an end takes no other.
// Cost: linear in the ops.
//
//===----------------------------------------------------------------------===//

#include "kerf/Kernels/Epilogues.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

using namespace kerf::kernels::epilogues;

namespace {
/// True where a matmul with so many columns can read or write a second matrix:
/// rows are whole blocks of 8 elements.
bool fitsSecondMatrix(int64_t columns) { return columns % 8 == 0; }

class Finder {
public:
  explicit Finder(const Graph &graph)
      : graph(graph), writers(graph.tensors.size()),
        readers(graph.tensors.size()) {
    for (size_t i = 0; i < graph.ops.size(); ++i)
      note(static_cast<int>(i));
  }

  std::vector<Epilogue> run(Ends ends) {
    if (ends.gelu)
      forAll(Role::Gelu, [this](int at) { takeGelu(at); });
    if (ends.gelu)
      forAll(Role::GeluBackward, [this](int at) { takeGeluBackward(at); });
    if (ends.sums)
      forAll(Role::RowSum, [this](int at) { takeRowSum(at); });
    return std::move(found);
  }

private:
  Graph graph; ///< as it is with what was found
  /// Ops by tensor, a reader as often as it reads it.
  std::vector<llvm::SmallVector<int, 2>> writers, readers;
  std::vector<Epilogue> found;

  template <typename Fn> void forAll(Role role, Fn take) {
    for (size_t i = 0; i < graph.ops.size(); ++i)
      if (graph.ops[i].role == role)
        take(static_cast<int>(i));
  }
  void note(int i) {
    for (int tensor : graph.ops[i].reads)
      readers[tensor].push_back(i);
    for (int tensor : graph.ops[i].writes)
      writers[tensor].push_back(i);
  }
  void forget(int i) {
    for (int tensor : graph.ops[i].reads)
      llvm::erase(readers[tensor], i);
    for (int tensor : graph.ops[i].writes)
      llvm::erase(writers[tensor], i);
    graph.ops[i] = {};
  }

  /// The op that alone makes a tensor; -1: it was there before, or several make
  /// parts of it.
  int makerOf(int tensor) const {
    return writers[tensor].size() == 1 ? writers[tensor].front() : -1;
  }
  bool hasOneUse(int tensor) const {
    return readers[tensor].size() + graph.tensors[tensor].leaves == 1;
  }
  bool isReadByKernel(int tensor, llvm::ArrayRef<int> except) const {
    return graph.tensors[tensor].inKernel ||
           llvm::any_of(readers[tensor], [&](int i) {
             return graph.ops[i].isKernel && !llvm::is_contained(except, i);
           });
  }
  /// Perhaps a part of it, or through views.
  bool isMadeByKernel(int tensor) const {
    return graph.tensors[tensor].inKernel ||
           llvm::any_of(writers[tensor], [&](int i) {
             const Op &op = graph.ops[i];
             if (op.role != Role::View)
               return op.isKernel;
             return llvm::any_of(op.reads, [&](int x) {
               return x != tensor && isMadeByKernel(x);
             });
           });
  }
  /// The first op that reads a tensor and is as asked; -1: there is none.
  template <typename Fn> int firstReader(int tensor, Fn isAsked) const {
    int first = -1;
    for (int i : readers[tensor])
      if (isAsked(graph.ops[i]) && (first < 0 || i < first))
        first = i;
    return first;
  }
  bool isReadBehind(int tensor, int at) const {
    return llvm::all_of(readers[tensor], [at](int i) { return i > at; });
  }

  /// The matmul of one type that makes a tensor; -1: something else makes it.
  int matmulOf(int tensor) const {
    int maker = makerOf(tensor);
    bool isMatmul = maker >= 0 && graph.ops[maker].role == Role::Matmul &&
                    graph.ops[maker].hasOneType;
    return isMatmul ? maker : -1;
  }

  /// Makes the members one op, which is no matmul to others.
  void take(Epilogue made) {
    Op all;
    for (int member : made.members) {
      for (int tensor : graph.ops[member].reads)
        if (!llvm::is_contained(all.reads, tensor) &&
            !llvm::is_contained(made.members, makerOf(tensor)))
          all.reads.push_back(tensor);
    }
    all.writes.assign(made.results.begin(), made.results.end());
    for (int member : made.members)
      forget(member);
    graph.ops[made.at] = std::move(all);
    note(made.at);
    found.push_back(std::move(made));
  }

  /// What the matmul makes is a second result if others read it: the backward
  /// pass.
  void takeGelu(int at) {
    const Op &gelu = graph.ops[at];
    int x = gelu.reads[0], result = gelu.writes[0];
    int matmul = matmulOf(x);
    if (matmul < 0 || isReadByKernel(result, {}))
      return;
    llvm::SmallVector<int, 2> results = {result};
    if (!hasOneUse(x)) {
      if (!fitsSecondMatrix(graph.ops[matmul].columns))
        return;
      results.push_back(x);
    }
    take({matmul, {matmul, at}, results, matmul});
  }

  /// The first sum of rows of a tensor, without a cast; -1: there is none.
  int rowSumOf(int tensor) const {
    return firstReader(tensor,
                       [](const Op &op) { return op.role == Role::RowSum; });
  }
  /// Sums of rows with casts before, which other matmuls may take: the casts.
  llvm::SmallVector<int, 2> castSumsOf(int tensor) const {
    llvm::SmallVector<int, 2> casts;
    for (int i : readers[tensor]) {
      const Op &op = graph.ops[i];
      if (op.role == Role::Cast && hasOneUse(op.writes[0]) &&
          rowSumOf(op.writes[0]) >= 0)
        casts.push_back(i);
    }
    return casts;
  }

  void takeGeluBackward(int at) {
    int dx = graph.ops[at].writes[0], dy = graph.ops[at].reads[1];
    int matmul = matmulOf(dy);
    if (matmul < 0)
      return;
    const Op &maker = graph.ops[matmul];
    if (maker.reads.size() > 2 || !hasOneUse(dy) ||
        !fitsSecondMatrix(maker.columns))
      return;
    Epilogue made = {matmul, {matmul, at}, {dx}, at};
    // The library sums columns of the matrix, which may hold several
    // dimensions.
    bool hasRows = maker.columns == graph.tensors[dx].columns;
    llvm::SmallVector<int, 2> sums = castSumsOf(dx);
    if (int sum = hasRows ? rowSumOf(dx) : -1; sum >= 0) {
      made.members.push_back(sum);
      made.results.push_back(graph.ops[sum].writes[0]);
      sums.push_back(sum);
    }
    if (!isReadByKernel(dx, sums))
      take(std::move(made));
  }

  /// The first matmul that adds up the rows of a tensor and can give their sum;
  /// -1: there is none.
  int matmulOver(int rows, int sum) const {
    return firstReader(rows, [&](const Op &op) {
      return op.role == Role::Matmul &&
             llvm::is_contained(op.sumsRowsOf, rows) &&
             graph.tensors[op.writes[0]].type == graph.tensors[sum].type;
    });
  }

  /// The gradient of a bias joins the matmul that makes the gradient of the
  /// weight.
  void takeRowSum(int at) {
    int rows = graph.ops[at].reads[0], sum = graph.ops[at].writes[0];
    llvm::SmallVector<int, 2> sums = {at};
    if (int cast = makerOf(rows);
        cast >= 0 && hasOneUse(rows) && graph.ops[cast].role == Role::Cast) {
      sums.insert(sums.begin(), cast);
      rows = graph.ops[cast].reads[0];
    }
    int matmul = matmulOver(rows, sum);
    if (matmul < 0 || isMadeByKernel(rows) || isReadByKernel(rows, sums) ||
        !isReadBehind(sum, matmul))
      return;
    Epilogue made = {
        matmul, {matmul}, {graph.ops[matmul].writes[0], sum}, matmul};
    llvm::append_range(made.members, sums);
    take(std::move(made));
  }
};
} // namespace

std::vector<Epilogue>
kerf::kernels::epilogues::findEpilogues(const Graph &graph, Ends ends) {
  return Finder(graph).run(ends);
}
