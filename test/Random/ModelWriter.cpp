//===- ModelWriter.cpp - random models as text ----------------------------===//

#include "ModelWriter.h"

using namespace kerf::test;

std::string ModelWriter::tensor(std::initializer_list<int64_t> shape,
                                const std::string &element) {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + element + ">";
}

std::string ModelWriter::emit(const std::string &text) {
  std::string name = fresh();
  body += "  " + name + " = " + text + "\n";
  return name;
}

/// The type is part of the name: two repeats may read one pattern.
std::string ModelWriter::param(const std::string &name,
                               const std::string &type) {
  std::string full = name + "." + type.substr(7, type.size() - 8);
  std::string deviation = "0.5", frozen;
  if (rich) {
    // Wide sums are kept near 1. Names decide what is frozen: all reads agree.
    size_t last = type.rfind('x'), before = type.rfind('x', last - 1);
    bool isMatrix = last != std::string::npos && before != std::string::npos;
    int64_t columns = isMatrix ? std::stoll(type.substr(before + 1)) : 1;
    deviation = columns > 4 ? "0.2" : "0.4";
    uint64_t hash = 0;
    for (char c : full)
      hash = hash * 131 + c;
    if (hash % 11 == 0)
      frozen = " frozen";
  }
  return emit("kerf.param \"" + full + "\" init<normal, " + deviation + ">" +
              frozen + " : " + type);
}

std::string ModelWriter::weight(int64_t outputs, int64_t inputs) {
  std::string name = prefix + "w" + std::to_string(params++);
  std::string type = tensor({outputs, inputs});
  weights.push_back(name + "." + type.substr(7, type.size() - 8));
  return param(name, type);
}

std::string ModelWriter::linear(const std::string &x, int64_t inputs,
                                int64_t outputs) {
  std::string w = weight(outputs, inputs);
  std::string types = tensor({b, s, inputs}) + ", " + tensor({outputs, inputs});
  if (flip())
    return emit("kerf.linear " + x + ", " + w + " : " + types);
  std::string bias =
      param(prefix + "b" + std::to_string(params++), tensor({outputs}));
  return emit("kerf.linear " + x + ", " + w + " bias " + bias + " : " + types +
              ", " + tensor({outputs}));
}

std::string ModelWriter::norm(const std::string &h) {
  std::string g = param(prefix + "g" + std::to_string(params++), tensor({d}));
  std::string op = flip() ? "kerf.rms_norm " : "kerf.layer_norm ";
  return emit(op + h + ", " + g + " eps 1.0e-2 : " + hidden + ", " +
              tensor({d}));
}

std::string ModelWriter::mlp(const std::string &h) {
  static const char *activations[] = {"kerf.gelu tanh ", "kerf.gelu exact ",
                                      "kerf.silu ",      "kerf.squared_relu ",
                                      "kerf.tanh ",      "kerf.softmax "};
  int64_t wide = planned ? choose({4, 6, 8, 16, 17})
                 : rich  ? choose({1, 3, 4, 7, 16, 65})
                         : 3 + pick(3);
  std::string type = tensor({b, s, wide});
  std::string up = linear(h, d, wide);
  std::string a;
  if (flip())
    a = emit("kerf.swiglu " + linear(h, d, wide) + ", " + up + " : " + type);
  else
    a = emit(activations[pick(6)] + up + " : " + type);
  return linear(a, wide, d);
}

std::string ModelWriter::rope(const std::string &x, const std::string &type) {
  std::string positions;
  if (hasPositions)
    positions = " positions %positions : " + tensor({b, s}, "i32");
  return emit("kerf.rope " + x + " theta 10.0" + positions + " : " + type);
}

std::string ModelWriter::attention(const std::string &h) {
  int64_t groups = 1 + pick(2), heads = groups * (1 + pick(2));
  int64_t width = rich ? choose({2, 4, 6, 16, 32}) : 2;
  auto project = [&](int64_t count) {
    std::string flat = linear(h, d, count * width);
    std::string x =
        emit("kerf.reshape " + flat + " : " + tensor({b, s, count * width}) +
             " -> " + tensor({b, s, count, width}));
    return x;
  };
  std::string q = project(heads), k = project(groups), v = project(groups);
  std::string qType = tensor({b, s, heads, width});
  std::string kType = tensor({b, s, groups, width});
  if (flip()) {
    q = rope(q, qType);
    k = rope(k, kType);
  }
  std::string mask = flip() ? " causal" : "";
  if (!mask.empty() && flip())
    mask += " window 2";
  if (rich)
    mask += attentionTail();
  std::string op = "kerf.attention " + q + ", " + k + ", " + v + mask;
  std::string types = " : " + qType + ", " + kType + ", " + kType;
  std::string y = rich && pick(3) == 0 ? withSink(op, types, qType, heads)
                                       : emit(op + types);
  y = emit("kerf.reshape " + y + " : " + qType + " -> " +
           tensor({b, s, heads * width}));
  return linear(y, heads * width, d);
}

/// An attention with a sink per head.
std::string ModelWriter::withSink(const std::string &attention,
                                  const std::string &types,
                                  const std::string &result, int64_t heads) {
  std::string y = fresh(), lse = fresh(), z = fresh(), all = fresh();
  std::string sinkType = tensor({heads});
  std::string sink = param(prefix + "s" + std::to_string(params++), sinkType);
  body += "  " + y + ", " + lse + " = " + attention + " lse" + types + "\n";
  body += "  " + z + ", " + all + " = kerf.attention_sink " + y + ", " + lse +
          ", " + sink + " : " + result + ", " + tensor({b, heads, s}) + ", " +
          sinkType + "\n";
  return z;
}

std::string ModelWriter::experts(const std::string &h) {
  int64_t count = 3, k = 1 + pick(2), wide = 3, group = 1 + pick(b);
  if (b % group != 0)
    group = 1;
  bool capped = flip();
  int64_t rows = capped ? count * 3 : group * s * k;
  std::string capacity = capped ? " capacity 3" : "";
  std::string choices = "tensor<" + std::to_string(b) + "x" +
                        std::to_string(s) + "x" + std::to_string(k) + "x";
  std::string sizes = "tensor<" + std::to_string(b / group) + "x3xi32>";
  std::string logits = linear(h, d, count);
  std::string w = fresh(), e = fresh(), slots = fresh(), n = fresh();
  body += "  " + w + ", " + e + " = kerf.route " + logits + " k " +
          std::to_string(k) + (flip() ? " renormalize" : "") +
          (flip() ? " sigmoid" : "") + " : " + tensor({b, s, count}) + "\n";
  body += "  " + slots + ", " + n + " = kerf.assign_slots " + e +
          " count 3 group " + std::to_string(group) + capacity + " : " +
          choices + "i32>\n";
  std::string table = tensor({b / group, rows, d});
  std::string wideTable = tensor({b / group, rows, wide});
  std::string x = emit("kerf.dispatch " + h + ", " + slots + " : " + hidden +
                       ", " + choices + "i32> -> " + table);
  std::string name = prefix + "experts.{e}.w" + std::to_string(params++);
  std::string up = param(name, tensor({count, wide, d}));
  std::string down = param(name + "d", tensor({count, d, wide}));
  x = emit("kerf.grouped_matmul " + x + ", " + up + ", " + n + capacity +
           " : " + table + ", " + tensor({count, wide, d}) + ", " + sizes);
  x = emit("kerf.silu " + x + " : " + wideTable);
  x = emit("kerf.grouped_matmul " + x + ", " + down + ", " + n + capacity +
           " : " + wideTable + ", " + tensor({count, d, wide}) + ", " + sizes);
  return emit("kerf.combine " + x + ", " + slots + " weights " + w + " : " +
              choices + "f32> : " + table + ", " + choices + "i32>");
}

/// A parameter that all iterations share.
std::string ModelWriter::shared(const std::string &h) {
  std::string w = param("shared", tensor({d, d}));
  return emit("kerf.linear " + h + ", " + w + " : " + hidden + ", " +
              tensor({d, d}));
}

/// A value computed outside the repeat.
std::string ModelWriter::outside(const std::string &h) {
  return emit("kerf.mul " + h + ", " + outer + " : " + hidden);
}

/// The slice of a stacked parameter.
std::string ModelWriter::sliced(const std::string &h) {
  if (slice.empty())
    return outside(h);
  return emit("kerf.mul " + h + ", " + slice + " : " + hidden);
}

std::string ModelWriter::block(const std::string &h) {
  if (rich && pick(3) > 0)
    return richBlock(h);
  std::string n = flip() ? norm(h) : h, y;
  switch (pick(7)) {
  case 0:
  case 1:
    y = mlp(n);
    break;
  case 2:
  case 3:
    y = attention(n);
    break;
  case 4:
    y = experts(n);
    break;
  case 5:
    y = flip() ? shared(n) : outside(n);
    break;
  default:
    y = sliced(n);
  }
  return emit("kerf.add " + h + ", " + y + " : " + hidden);
}

std::string ModelWriter::repeat(const std::string &x, int64_t start,
                                int64_t end) {
  std::string count = std::to_string(end - start);
  bool hasSlices = flip(), stacks = flip();
  std::string stackType = "tensor<" + count + "x" + hidden.substr(7);
  std::string slices;
  if (hasSlices) {
    std::string stack = param("stack" + std::to_string(start), stackType);
    slice = "%slice" + std::to_string(start);
    slices = " slices(" + slice + " = " + stack + " : " + stackType + ")";
  }
  std::string carried = fresh(), saved = body;
  body.clear();
  prefix = "h" + std::to_string(flip() ? 0 : start) + ".{i}.";
  params = 0;
  std::string y = carried;
  if (hasSlices) // A trainable stack must reach the loss.
    y = emit("kerf.add " + y + ", " + sliced(y) + " : " + hidden);
  for (int64_t n = 1 + pick(2); n > 0; --n)
    y = block(y);
  std::string inside = body;
  body = saved;
  std::string result = fresh(), stack = fresh();
  body += "  " + result + (stacks ? ", " + stack : "") + " = kerf.repeat " +
          (flip() ? "" : "reverse ") + "%i = " + std::to_string(start) +
          " to " + std::to_string(end) + " (" + carried + " = " + x + " : " +
          hidden + ")" + slices + " {\n" + inside + "    kerf.yield " + y +
          (stacks ? " stack(" + y + ") : " + hidden + ", " + hidden
                  : " : " + hidden) +
          "\n  }\n";
  prefix.clear();
  slice.clear();
  if (!stacks)
    return result;
  std::string sum =
      emit("kerf.reduce sum " + stack + " dims [0] : " + stackType);
  return emit("kerf.add " + result + ", " + sum + " : " + hidden);
}

std::string ModelWriter::write() {
  b = 1 + pick(2);
  hidden = tensor({b, s, d});
  std::string ids =
      "tensor<" + std::to_string(b) + "x" + std::to_string(s) + "xi32>";
  std::string table = tensor({vocabulary, d});
  std::string wte = param("wte", table);
  std::string x =
      emit("kerf.embedding %tokens, " + wte + " : " + ids + ", " + table);
  outer = emit("kerf.tanh " + param("outer", hidden) + " : " + hidden);
  int64_t layers = 2 + pick(2);
  x = repeat(x, 0, layers);
  if (flip())
    x = repeat(x, layers, layers + 2);
  params = 100;
  x = norm(x);
  std::string head = flip() ? wte : weight(vocabulary, d);
  std::string logits =
      emit("kerf.linear " + x + ", " + head + " : " + hidden + ", " + table);
  std::string n = emit("kerf.count_valid %targets : " + ids);
  std::string loss =
      emit("kerf.cross_entropy " + logits + ", %targets normalizer " + n +
           " z_loss 1.0e-2 : " + tensor({b, s, vocabulary}) + ", " + ids);
  // Whatever the blocks left out still reaches the loss.
  std::string rest =
      emit("kerf.reduce sum " + outer + " dims [0, 1, 2] : " + hidden);
  loss = emit("kerf.add " + loss + ", " + rest + " : tensor<f32>");
  return "kerf.model @random(tokens %tokens: " + ids +
         ", targets %targets: " + ids +
         ") attributes {optimizer = #kerf.adamw<weight_decay = 0.1>, "
         "clip_norm = 1.0} {\n" +
         body + "  kerf.return " + loss + " : tensor<f32>\n}\n";
}
