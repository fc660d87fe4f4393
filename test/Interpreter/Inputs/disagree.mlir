// Each rank returns its number, and says that all return the same.
spmd.program @disagree over <dp = 2> micro_batches 1 slots 1 {
  spmd.output @loss last : tensor<i32>
  spmd.func @forward() {
    %rank = spmd.offset [dp * 1]
    spmd.write %rank to @loss : tensor<i32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
  }
}
