//===- KerfPlanAttrs.td - how a step is distributed -----------------------===//
//
// The plan as data on the model and its ops. Partition reads nothing else.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_PLAN_ATTRS_TD
#define KERF_PLAN_ATTRS_TD

include "kerf/Dialect/Kerf/KerfDialect.td"
include "mlir/IR/AttrTypeBase.td"

def Kerf_MeshAttr : AttrDef<Kerf_Dialect, "Mesh"> {
  let mnemonic = "mesh";
  let summary = "Named axes of the ranks, the first one slowest";
  let description = [{
    `#kerf.mesh<dp = 2, tp = 4>`: eight ranks; rank r has the coordinates
    (r / 4, r mod 4). `#kerf.mesh<>` is one rank. At most 8 axes, each of at
    least one rank; `micro` and `pending` are no names of axes.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$names,
                        ArrayRefParameter<"int64_t">:$sizes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Number of ranks.
    int64_t getRankCount() const;
    /// Index of an axis, or -1.
    int64_t find(::llvm::StringRef name) const;
    /// Coordinates of a rank, one per axis.
    ::llvm::SmallVector<int64_t> getCoordinates(int64_t rank) const;
  }];
}

def Kerf_LayersAttr : AttrDef<Kerf_Dialect, "Layers"> {
  let mnemonic = "layers";
  let summary = "Equal layers that follow each other";
  let description = [{
    `#kerf.layers<decoder x 8 recompute [3, 7]>`: eight layers of the kind
    `decoder`, of which the backward pass computes again the results of the forward
    ops 3 and 7; `[]` is nothing. Without `recompute` as the plan says.
  }];
  let parameters = (ins StringRefParameter<"name of the kind">:$kind,
    "int64_t":$count, OptionalParameter<"::mlir::DenseI64ArrayAttr">:$recompute);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Kerf_ZigzagAttr : AttrDef<Kerf_Dialect, "Zigzag"> {
  let mnemonic = "zigzag";
  let summary = "The order of rows that gives causal ranks equal work";
  let description = [{
    `#kerf.zigzag<2 x 3 along [1]>`: along dimension 1 rows do not lie by
    position. For n x c there are 2 n c rows; the n-th part of them, of place r,
    is the chunks r and 2n-1-r of c positions each: row i with r = i div 2c and
    j = i mod 2c has the position `r c + j` for j < c, else `(2n-1-r) c + j - c`.
    Here rows 0 to 11 have the positions 0 1 2, 9 10 11, 3 4 5, 6 7 8. Of causal
    attention every part so sees the same number of keys.
  }];
  let parameters = (ins "int64_t":$ranks, "int64_t":$chunk,
                        ArrayRefParameter<"int64_t">:$dims);
  let assemblyFormat = "`<` $ranks `x` $chunk `along` ` ` `[` $dims `]` `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Number of rows.
    int64_t getRows() const { return 2 * getRanks() * getChunk(); }
    /// Position of a row.
    int64_t positionOf(int64_t row) const;
    /// True when rows along this dimension are in this order.
    bool orders(int64_t dim) const;
    /// The same order along other dimensions.
    ::kerf::ZigzagAttr along(::llvm::ArrayRef<int64_t> dims) const;
  }];
}

def Kerf_PlanAttr : AttrDef<Kerf_Dialect, "Plan"> {
  let mnemonic = "plan";
  let summary = "How a step is distributed, as far as the whole model goes";
  let description = [{
    `#kerf.plan<mesh = <dp = 2, tp = 2>, micro_batches = 2, schedule = "1f1b",
    recompute = none>`, on a `kerf.model` as its attribute `plan`. `recompute`
    is `none`, `full`, or `[3, 7]`: the numbers of the forward ops whose results
    are computed again in the backward pass. `schedule` is "gpipe", "1f1b",
    "interleaved" or "zb-h1". How single ops are split say their `#kerf.assign`.

    Optional, printed when they say something:

    - `chunks = 2`: of a stage, with the schedule "interleaved".
    - `defer = 1`: micro-batches whose weight gradients wait at most, with the
      schedule "zb-h1"; else as many as fill the bubble, i on stage i.
    - `zero = 1`: what of the state is sharded over data ranks: 1 that of the
      optimizer, 2 gradients too, 3 weights too (Rajbhandari et al. 2020, arXiv
      1910.02054). `shard_group = 8`: over how many of them, the innermost; all
      when it is not given.
    - `stages = [[embedding x 1, decoder x 8], [decoder x 8, head x 1]]`: the
      layers of each chunk in the order in which a micro-batch passes them;
      chunk c of stage s is entry c * stages + s. The number of stages is the size
      of the axis `pp`. Each run is a `#kerf.layers`.
    - `cp_order = "plain"`: ranks that share a sequence hold contiguous parts of
      it; else causal work is balanced (`#kerf.zigzag`) where that is possible.
    - `moe_buffer = 1.25`: rows that tokens exchange with their experts (variant
      `all_to_all`) have room for so many times their even share; a step with more
      ends before the update. Without it there is room for all.
  }];
  let parameters = (ins "::kerf::MeshAttr":$mesh, "int64_t":$microBatches,
    StringRefParameter<"order of the micro-batches">:$schedule,
    "bool":$recomputeAll, OptionalArrayRefParameter<"int64_t">:$recompute,
    "int64_t":$chunks, "int64_t":$defer, "int64_t":$zero,
    "int64_t":$shardGroup,
    OptionalParameter<"::mlir::ArrayAttr">:$stages,
    AttrOrTypeParameter<"::kerf::Real", "room of exchanged rows", "double">:$moeBuffer,
    "bool":$plainOrder);
  let builders = [
    AttrBuilder<(ins "::kerf::MeshAttr":$mesh, "int64_t":$microBatches,
      "::llvm::StringRef":$schedule, "bool":$recomputeAll,
      "::llvm::ArrayRef<int64_t>":$recompute), [{
      return $_get($_ctxt, mesh, microBatches, schedule, recomputeAll, recompute,
                   /*chunks=*/1, /*defer=*/-1, /*zero=*/0,
                   /*shardGroup=*/0, ::mlir::ArrayAttr(), /*moeBuffer=*/0.0,
                   /*plainOrder=*/false);
    }]>,
  ];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Ranks of the axis `pp`, or 1.
    int64_t getStageCount() const;
    /// Runs of one entry of `stages`.
    static ::llvm::SmallVector<::kerf::LayersAttr> getRuns(
        ::mlir::Attribute entry);
    /// What is wrong with the value of one field, or "".
    static ::std::string checkMicroBatches(int64_t count);
    static ::std::string checkSchedule(::llvm::StringRef schedule);
    static ::std::string checkChunks(int64_t chunks, ::llvm::StringRef schedule);
    static ::std::string checkDefer(int64_t defer, ::llvm::StringRef schedule);
    static ::std::string checkZero(int64_t zero);
    static ::std::string checkShardGroup(int64_t group, int64_t zero,
                                         ::kerf::MeshAttr mesh);
    static ::std::string checkStages(::mlir::ArrayAttr stages, int64_t chunks,
                                     ::kerf::MeshAttr mesh);
    static ::std::string checkMoeBuffer(double buffer);
  }];
}

def Kerf_AssignAttr : AttrDef<Kerf_Dialect, "Assign"> {
  let mnemonic = "assign";
  let summary = "The axes that split the factors of an op";
  let description = [{
    `#kerf.assign<b = [dp, micro], n = [tp], pending = [tp]>`: each factor that is
    split, with its axes, the first one slowest. `micro` stands for the
    micro-batches, a split in time. `pending` names axes over which an operand is an
    unreduced sum that passes through the op, which is linear in it. On an op
    of a step as the discardable attribute `kerf.assign`; without it nothing is
    split. On a `kerf.param` it says how the parameter is stored.

    Optional, for ways to work that a search may find:

    - `variant = [split_vocabulary]`: variants of the op, which allow splits of
      factors that otherwise stay whole.
    - `blocks = 3`: the dimension that the axis `tp` splits is made of that many
      blocks, and every rank has a part of each: the thirds of a fused
      query-key-value matmul. Of tensors with unlike numbers the largest: a slice
      of a third has 3.
    - `routed`: rows go where data says; the factors of the op's maps are split.
  }];
  let parameters = (ins
    "::mlir::DictionaryAttr":$factors,
    OptionalArrayRefParameter<"::mlir::StringAttr">:$pending,
    OptionalArrayRefParameter<"::mlir::StringAttr">:$variants,
    "int64_t":$blocks, "bool":$routed);
  let builders = [
    AttrBuilder<(ins "::mlir::DictionaryAttr":$factors,
      "::llvm::ArrayRef<::mlir::StringAttr>":$pending), [{
      return $_get($_ctxt, factors, pending,
                   ::llvm::ArrayRef<::mlir::StringAttr>(), /*blocks=*/1,
                   /*routed=*/false);
    }]>,
  ];
  let hasCustomAssemblyFormat = 1;
}

#endif // KERF_PLAN_ATTRS_TD
