// A llama4 as PyTorch exports it: all experts get all tokens, in rows that are batch and sequence in one. Their
// gradient is a sum over tensor ranks, added to another one before it is summed: ops without a batch of their own
// are laid out as they were priced.

// RUN: kerfc %s --cluster=this-machine --devices=2 --pin=tp=2 -o %t.kerf | FileCheck %s
// CHECK: its twin trains as on one rank
module {
  kerf.model @graph(tokens %tokens: tensor<2x32xi32>, targets %targets: tensor<2x32xi32>) attributes {
    clip_norm = 1.000000e+00 : f64,
    groups = [#kerf.group<match = "*.input_layernorm.weight", weight_decay = 0.0>, #kerf.group<match = "*.post_attention_layernorm.weight", weight_decay = 0.0>, #kerf.group<match = "*.norm.weight", weight_decay = 0.0>],
    optimizer = #kerf.adamw<beta2 = 0.95, weight_decay = 0.1>,
    title = "llama4_text"
  } {
    %0 = kerf.constant dense<1.000000e-01> : tensor<32xf64>
    %1 = kerf.constant dense<1.22070313E-4> : tensor<32xf32>
    %2 = kerf.constant dense<1.000000e+00> : tensor<32xf32>
    %3 = kerf.constant dense<0.000000e+00> : tensor<64x2x4xf32>
    %4 = kerf.constant dense<0.000000e+00> : tensor<64x4xf32>
    %5 = kerf.constant dense<0xFF800000> : tensor<64x4xf32>
    %6 = kerf.param "model.embed_tokens.weight" init<normal, 0.0197> : tensor<64x32xf32>
    %7 = kerf.param "model.layers.3.self_attn.q_proj.weight" init<normal, 0.0202> : tensor<32x32xf32>
    %8 = kerf.param "model.layers.3.self_attn.k_proj.weight" init<normal, 0.0198> : tensor<16x32xf32>
    %9 = kerf.param "model.layers.3.self_attn.v_proj.weight" init<normal, 0.0201> : tensor<16x32xf32>
    %10 = kerf.param "model.layers.3.self_attn.o_proj.weight" init<normal, 0.02> : tensor<32x32xf32>
    %11 = kerf.param "model.layers.3.feed_forward.experts.gate_up_proj" init<normal, 0.02> : tensor<4x32x96xf32>
    %12 = kerf.param "model.layers.3.feed_forward.experts.down_proj" init<normal, 0.02> : tensor<4x48x32xf32>
    %13 = kerf.param "model.layers.3.feed_forward.router.weight" init<normal, 0.0191> : tensor<4x32xf32>
    %14 = kerf.param "model.layers.3.feed_forward.shared_expert.gate_proj.weight" init<normal, 0.0197> : tensor<48x32xf32>
    %15 = kerf.param "model.layers.3.feed_forward.shared_expert.up_proj.weight" init<normal, 0.0199> : tensor<48x32xf32>
    %16 = kerf.param "model.layers.3.feed_forward.shared_expert.down_proj.weight" init<normal, 0.02> : tensor<32x48xf32>
    %17 = kerf.param "model.layers.3.input_layernorm.weight" init<ones> : tensor<32xf32>
    %18 = kerf.param "model.layers.3.post_attention_layernorm.weight" init<ones> : tensor<32xf32>
    %19 = kerf.param "model.norm.weight" init<ones> : tensor<32xf32>
    %20 = kerf.param "lm_head.weight" init<normal, 0.02> : tensor<64x32xf32>
    %21 = kerf.iota dim 0 : tensor<4xi32>
    %22 = kerf.broadcast %21 dims [2] : tensor<4xi32> -> tensor<64x2x4xi32>
    %23 = kerf.iota dim 0 : tensor<32xi32>
    %24 = kerf.cast %23 : tensor<32xi32> -> tensor<32xf32>
    %25 = kerf.add %24, %2 : tensor<32xf32>
    %26 = kerf.mul %25, %1 : tensor<32xf32>
    %27 = kerf.cast %26 : tensor<32xf32> -> tensor<32xi32>
    %28 = kerf.cast %27 : tensor<32xi32> -> tensor<32xf32>
    %29 = kerf.compare gt %28, %26 : tensor<32xf32>
    %30 = kerf.cast %29 : tensor<32xi1> -> tensor<32xf32>
    %31 = kerf.sub %28, %30 : tensor<32xf32>
    %32 = kerf.add %31, %2 : tensor<32xf32>
    %33 = kerf.log %32 : tensor<32xf32>
    %34 = kerf.cast %0 : tensor<32xf64> -> tensor<32xf32>
    %35 = kerf.mul %33, %34 : tensor<32xf32>
    %36 = kerf.add %35, %2 : tensor<32xf32>
    %37 = kerf.reshape %36 : tensor<32xf32> -> tensor<32x1x1xf32>
    %38 = kerf.broadcast %37 dims [1, 2, 3] : tensor<32x1x1xf32> -> tensor<2x32x1x1xf32>
    %39 = kerf.reshape %38 : tensor<2x32x1x1xf32> -> tensor<2x32xf32>
    %40 = kerf.broadcast %39 dims [0, 1] : tensor<2x32xf32> -> tensor<2x32x4x8xf32>
    %41 = kerf.embedding %tokens, %6 padding 0 : tensor<2x32xi32>, tensor<64x32xf32>
    %42 = kerf.repeat %i = 0 to 3 (%arg0 = %41 : tensor<2x32x32xf32>) {
      %93 = kerf.param "model.layers.{i}.input_layernorm.weight" init<ones> : tensor<32xf32>
      %94 = kerf.rms_norm %arg0, %93 : tensor<2x32x32xf32>, tensor<32xf32>
      %95 = kerf.param "model.layers.{i}.self_attn.q_proj.weight" init<normal, 0.0202> : tensor<32x32xf32>
      %96 = kerf.linear %94, %95 : tensor<2x32x32xf32>, tensor<32x32xf32>
      %97 = kerf.reshape %96 : tensor<2x32x32xf32> -> tensor<2x32x4x8xf32>
      %98 = kerf.param "model.layers.{i}.self_attn.k_proj.weight" init<normal, 0.0198> : tensor<16x32xf32>
      %99 = kerf.linear %94, %98 : tensor<2x32x32xf32>, tensor<16x32xf32>
      %100 = kerf.reshape %99 : tensor<2x32x16xf32> -> tensor<2x32x2x8xf32>
      %101 = kerf.param "model.layers.{i}.self_attn.v_proj.weight" init<normal, 0.0201> : tensor<16x32xf32>
      %102 = kerf.linear %94, %101 : tensor<2x32x32xf32>, tensor<16x32xf32>
      %103 = kerf.reshape %102 : tensor<2x32x16xf32> -> tensor<2x32x2x8xf32>
      %104 = kerf.rope %97 theta 5.000000e+05 interleaved : tensor<2x32x4x8xf32>
      %105 = kerf.rope %100 theta 5.000000e+05 interleaved : tensor<2x32x2x8xf32>
      %106 = kerf.constant dense<1.000000e+00> : tensor<8xf32>
      %107 = kerf.rms_norm %104, %106 : tensor<2x32x4x8xf32>, tensor<8xf32>
      %108 = kerf.rms_norm %105, %106 : tensor<2x32x2x8xf32>, tensor<8xf32>
      %result_0 = kerf.attention %107, %108, %103 causal scale 0.35355339059327379 : tensor<2x32x4x8xf32>, tensor<2x32x2x8xf32>, tensor<2x32x2x8xf32>
      %109 = kerf.reshape %result_0 : tensor<2x32x4x8xf32> -> tensor<2x32x32xf32>
      %110 = kerf.param "model.layers.{i}.self_attn.o_proj.weight" init<normal, 0.02> : tensor<32x32xf32>
      %111 = kerf.linear %109, %110 : tensor<2x32x32xf32>, tensor<32x32xf32>
      %112 = kerf.add %arg0, %111 : tensor<2x32x32xf32>
      %113 = kerf.param "model.layers.{i}.post_attention_layernorm.weight" init<ones> : tensor<32xf32>
      %114 = kerf.rms_norm %112, %113 : tensor<2x32x32xf32>, tensor<32xf32>
      %115 = kerf.param "model.layers.{i}.feed_forward.router.weight" init<normal, 0.0191> : tensor<4x32xf32>
      %116 = kerf.linear %114, %115 : tensor<2x32x32xf32>, tensor<4x32xf32>
      %117 = kerf.reshape %116 : tensor<2x32x4xf32> -> tensor<64x4xf32>
      %values_1, %indices_2 = kerf.top_k %117 k 2 : tensor<64x4xf32>
      %118 = kerf.broadcast %indices_2 dims [0, 1] : tensor<64x2xi32> -> tensor<64x2x4xi32>
      %119 = kerf.iota dim 0 : tensor<4xi32>
      %120 = kerf.broadcast %119 dims [2] : tensor<4xi32> -> tensor<64x2x4xi32>
      %121 = kerf.compare eq %118, %120 : tensor<64x2x4xi32>
      %122 = kerf.cast %121 : tensor<64x2x4xi1> -> tensor<64x2x4xf32>
      %123 = kerf.reduce max %122 dims [1] : tensor<64x2x4xf32>
      %124 = kerf.constant dense<0.000000e+00> : tensor<64x4xf32>
      %125 = kerf.compare gt %123, %124 : tensor<64x4xf32>
      %126 = kerf.broadcast %values_1 dims [0, 1] : tensor<64x2xf32> -> tensor<64x2x4xf32>
      %127 = kerf.constant dense<0.000000e+00> : tensor<64x2x4xf32>
      %128 = kerf.select %121, %126, %127 : tensor<64x2x4xf32>
      %129 = kerf.reduce sum %128 dims [1] : tensor<64x2x4xf32>
      %130 = kerf.constant dense<0xFF800000> : tensor<64x4xf32>
      %131 = kerf.select %125, %129, %130 : tensor<64x4xf32>
      %132 = kerf.logistic %131 : tensor<64x4xf32>
      %133 = kerf.reshape %114 : tensor<2x32x32xf32> -> tensor<64x1x32xf32>
      %134 = kerf.broadcast %133 dims [1, 2, 3] : tensor<64x1x32xf32> -> tensor<4x64x1x32xf32>
      %135 = kerf.reshape %134 : tensor<4x64x1x32xf32> -> tensor<256x32xf32>
      %136 = kerf.transpose %132 perm [1, 0] : tensor<64x4xf32>
      %137 = kerf.reshape %136 : tensor<4x64xf32> -> tensor<256xf32>
      %138 = kerf.broadcast %137 dims [0] : tensor<256xf32> -> tensor<256x32xf32>
      %139 = kerf.mul %135, %138 : tensor<256x32xf32>
      %140 = kerf.reshape %139 : tensor<256x32xf32> -> tensor<4x64x32xf32>
      %141 = kerf.param "model.layers.{i}.feed_forward.experts.gate_up_proj" init<normal, 0.02> : tensor<4x32x96xf32>
      %142 = kerf.matmul %140, %141 : tensor<4x64x32xf32>, tensor<4x32x96xf32>
      %143 = kerf.slice %142 offsets [0, 0, 0] sizes [4, 64, 48] : tensor<4x64x96xf32>
      %144 = kerf.slice %142 offsets [0, 0, 48] sizes [4, 64, 48] : tensor<4x64x96xf32>
      %145 = kerf.swiglu %143, %144 : tensor<4x64x48xf32>
      %146 = kerf.param "model.layers.{i}.feed_forward.experts.down_proj" init<normal, 0.02> : tensor<4x48x32xf32>
      %147 = kerf.matmul %145, %146 : tensor<4x64x48xf32>, tensor<4x48x32xf32>
      %148 = kerf.param "model.layers.{i}.feed_forward.shared_expert.gate_proj.weight" init<normal, 0.0197> : tensor<48x32xf32>
      %149 = kerf.linear %114, %148 : tensor<2x32x32xf32>, tensor<48x32xf32>
      %150 = kerf.param "model.layers.{i}.feed_forward.shared_expert.up_proj.weight" init<normal, 0.0199> : tensor<48x32xf32>
      %151 = kerf.linear %114, %150 : tensor<2x32x32xf32>, tensor<48x32xf32>
      %152 = kerf.swiglu %149, %151 : tensor<2x32x48xf32>
      %153 = kerf.param "model.layers.{i}.feed_forward.shared_expert.down_proj.weight" init<normal, 0.02> : tensor<32x48xf32>
      %154 = kerf.linear %152, %153 : tensor<2x32x48xf32>, tensor<32x48xf32>
      %155 = kerf.reshape %154 : tensor<2x32x32xf32> -> tensor<64x32xf32>
      %156 = kerf.reduce sum %147 dims [0] : tensor<4x64x32xf32>
      %157 = kerf.add %155, %156 : tensor<64x32xf32>
      %158 = kerf.reshape %157 : tensor<64x32xf32> -> tensor<2x32x32xf32>
      %159 = kerf.add %112, %158 : tensor<2x32x32xf32>
      kerf.yield %159 : tensor<2x32x32xf32>
    }
    %43 = kerf.rms_norm %42, %17 : tensor<2x32x32xf32>, tensor<32xf32>
    %44 = kerf.linear %43, %7 : tensor<2x32x32xf32>, tensor<32x32xf32>
    %45 = kerf.reshape %44 : tensor<2x32x32xf32> -> tensor<2x32x4x8xf32>
    %46 = kerf.linear %43, %8 : tensor<2x32x32xf32>, tensor<16x32xf32>
    %47 = kerf.reshape %46 : tensor<2x32x16xf32> -> tensor<2x32x2x8xf32>
    %48 = kerf.linear %43, %9 : tensor<2x32x32xf32>, tensor<16x32xf32>
    %49 = kerf.reshape %48 : tensor<2x32x16xf32> -> tensor<2x32x2x8xf32>
    %50 = kerf.mul %45, %40 : tensor<2x32x4x8xf32>
    %result = kerf.attention %50, %47, %49 causal scale 0.35355339059327379 : tensor<2x32x4x8xf32>, tensor<2x32x2x8xf32>, tensor<2x32x2x8xf32>
    %51 = kerf.reshape %result : tensor<2x32x4x8xf32> -> tensor<2x32x32xf32>
    %52 = kerf.linear %51, %10 : tensor<2x32x32xf32>, tensor<32x32xf32>
    %53 = kerf.add %42, %52 : tensor<2x32x32xf32>
    %54 = kerf.rms_norm %53, %18 : tensor<2x32x32xf32>, tensor<32xf32>
    %55 = kerf.linear %54, %13 : tensor<2x32x32xf32>, tensor<4x32xf32>
    %56 = kerf.reshape %55 : tensor<2x32x4xf32> -> tensor<64x4xf32>
    %values, %indices = kerf.top_k %56 k 2 : tensor<64x4xf32>
    %57 = kerf.broadcast %indices dims [0, 1] : tensor<64x2xi32> -> tensor<64x2x4xi32>
    %58 = kerf.compare eq %57, %22 : tensor<64x2x4xi32>
    %59 = kerf.cast %58 : tensor<64x2x4xi1> -> tensor<64x2x4xf32>
    %60 = kerf.reduce max %59 dims [1] : tensor<64x2x4xf32>
    %61 = kerf.compare gt %60, %4 : tensor<64x4xf32>
    %62 = kerf.broadcast %values dims [0, 1] : tensor<64x2xf32> -> tensor<64x2x4xf32>
    %63 = kerf.select %58, %62, %3 : tensor<64x2x4xf32>
    %64 = kerf.reduce sum %63 dims [1] : tensor<64x2x4xf32>
    %65 = kerf.select %61, %64, %5 : tensor<64x4xf32>
    %66 = kerf.logistic %65 : tensor<64x4xf32>
    %67 = kerf.reshape %54 : tensor<2x32x32xf32> -> tensor<64x1x32xf32>
    %68 = kerf.broadcast %67 dims [1, 2, 3] : tensor<64x1x32xf32> -> tensor<4x64x1x32xf32>
    %69 = kerf.reshape %68 : tensor<4x64x1x32xf32> -> tensor<256x32xf32>
    %70 = kerf.transpose %66 perm [1, 0] : tensor<64x4xf32>
    %71 = kerf.reshape %70 : tensor<4x64xf32> -> tensor<256xf32>
    %72 = kerf.broadcast %71 dims [0] : tensor<256xf32> -> tensor<256x32xf32>
    %73 = kerf.mul %69, %72 : tensor<256x32xf32>
    %74 = kerf.reshape %73 : tensor<256x32xf32> -> tensor<4x64x32xf32>
    %75 = kerf.matmul %74, %11 : tensor<4x64x32xf32>, tensor<4x32x96xf32>
    %76 = kerf.slice %75 offsets [0, 0, 0] sizes [4, 64, 48] : tensor<4x64x96xf32>
    %77 = kerf.slice %75 offsets [0, 0, 48] sizes [4, 64, 48] : tensor<4x64x96xf32>
    %78 = kerf.swiglu %76, %77 : tensor<4x64x48xf32>
    %79 = kerf.matmul %78, %12 : tensor<4x64x48xf32>, tensor<4x48x32xf32>
    %80 = kerf.linear %54, %14 : tensor<2x32x32xf32>, tensor<48x32xf32>
    %81 = kerf.linear %54, %15 : tensor<2x32x32xf32>, tensor<48x32xf32>
    %82 = kerf.swiglu %80, %81 : tensor<2x32x48xf32>
    %83 = kerf.linear %82, %16 : tensor<2x32x48xf32>, tensor<32x48xf32>
    %84 = kerf.reshape %83 : tensor<2x32x32xf32> -> tensor<64x32xf32>
    %85 = kerf.reduce sum %79 dims [0] : tensor<4x64x32xf32>
    %86 = kerf.add %84, %85 : tensor<64x32xf32>
    %87 = kerf.reshape %86 : tensor<64x32xf32> -> tensor<2x32x32xf32>
    %88 = kerf.add %53, %87 : tensor<2x32x32xf32>
    %89 = kerf.rms_norm %88, %19 : tensor<2x32x32xf32>, tensor<32xf32>
    %90 = kerf.linear %89, %20 : tensor<2x32x32xf32>, tensor<64x32xf32>
    %91 = kerf.count_valid %targets : tensor<2x32xi32>
    %92 = kerf.cross_entropy %90, %targets normalizer %91 : tensor<2x32x64xf32>, tensor<2x32xi32>
    kerf.return %92 : tensor<f32>
  }
}

