//===- RichWriter.cpp - random models with all that ops can do ------------===//

#include "ModelWriter.h"

using namespace kerf::test;

static std::string join(const std::vector<std::string> &parts) {
  std::string text;
  for (const std::string &part : parts)
    text += (text.empty() ? "" : ", ") + part;
  return text;
}

std::string ModelWriter::constant(const std::string &value,
                                  const std::string &type) {
  return emit("kerf.constant dense<" + value + "> : " + type);
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

/// Name, seed, step and perhaps layer of an op that draws random numbers.
std::string ModelWriter::dropoutTail() {
  hasDropout = true;
  std::string text =
      " \"drop" + std::to_string(next++) + "\" seed %seed step %step";
  if (!layer.empty())
    text += " layer " + layer;
  return text;
}

/// Clauses of an attention behind its mask.
std::string ModelWriter::attentionTail() {
  std::string text;
  if (pick(4) == 0)
    text += " scale 0.3";
  if (pick(4) == 0)
    text += " softcap 0.4";
  std::string ids = tensor({b, s}, "i32");
  if (hasSegments)
    text += " segments(%segments, %segments : " + ids + ", " + ids + ")";
  if (pick(3) == 0)
    text += " dropout 0.3" + dropoutTail();
  return text;
}

std::string ModelWriter::dropout(const std::string &h) {
  return emit("kerf.dropout " + h + " rate 0." + std::to_string(pick(6)) +
              dropoutTail() + " : " + hidden);
}

/// A chain of element-wise ops, all of bounded results.
std::string ModelWriter::pointwise(const std::string &h) {
  std::string x = h;
  for (int64_t n = 1 + pick(4); n > 0; --n) {
    static const char *unary[] = {"neg",  "sin", "cos",
                                  "tanh", "erf", "logistic"};
    static const char *binary[] = {"add", "sub", "mul", "max", "min"};
    std::string square, one, rest = " : " + hidden;
    switch (pick(4)) {
    case 0:
      x = emit(std::string("kerf.") + unary[pick(6)] + " " + x + rest);
      break;
    case 1:
      x = emit(std::string("kerf.") + binary[pick(5)] + " " + x + ", " +
               (flip() ? h : outer) + rest);
      break;
    case 2:
      square = emit("kerf.mul " + x + ", " + x + rest);
      one = emit("kerf.add " + square + ", " + constant("1.0", hidden) + rest);
      x = flip() ? emit("kerf.div " + x + ", " + one + rest)
                 : emit((flip() ? "kerf.log " : "kerf.rsqrt ") + one + rest);
      break;
    default:
      x = emit("kerf.exp " + emit("kerf.tanh " + x + rest) + rest);
    }
  }
  return emit("kerf.tanh " + x + " : " + hidden);
}

/// Transposes, pads, cuts and joins.
std::string ModelWriter::shapes(const std::string &h) {
  std::string turned = tensor({d, b, s}), x, y, part;
  switch (pick(4)) {
  case 0:
    x = emit("kerf.transpose " + h + " perm [2, 0, 1] : " + hidden);
    x = emit("kerf.tanh " + x + " : " + turned);
    return emit("kerf.transpose " + x + " perm [1, 2, 0] : " + turned);
  case 1: { // Each position sees the one before it.
    x = emit("kerf.pad " + h + " low [0, 1, 0] high [0, 0, 0] : " + hidden);
    std::string type = tensor({b, s + 1, d});
    return emit("kerf.slice " + x + " offsets [0, 0, 0] sizes [" +
                std::to_string(b) + ", " + std::to_string(s) + ", " +
                std::to_string(d) + "] : " + type);
  }
  case 2: {
    x = emit("kerf.concat dim 2 " + h + ", " + outer + " : " + hidden + ", " +
             hidden);
    return linear(x, 2 * d, d);
  }
  default:
    x = emit("kerf.reshape " + h + " : " + hidden + " -> " +
             tensor({b * s * d}));
    x = emit("kerf.sin " + x + " : " + tensor({b * s * d}));
    return emit("kerf.reshape " + x + " : " + tensor({b * s * d}) + " -> " +
                hidden);
  }
}

/// A choice by a condition from outside or from the carried counter.
std::string ModelWriter::masked(const std::string &h) {
  std::string condition = mask;
  std::string ids = tensor({b, s}, "i32"), bits = tensor({b, s}, "i1");
  if (flip()) {
    static const char *kinds[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    condition = emit(std::string("kerf.compare ") + kinds[pick(6)] + " " +
                     counter + ", %tokens : " + ids);
  }
  if (flip()) {
    std::string x =
        emit("kerf.cast " + condition + " : " + bits + " -> " + tensor({b, s}));
    x = emit("kerf.broadcast " + x + " dims [0, 1] : " + tensor({b, s}) +
             " -> " + hidden);
    return emit("kerf.mul " + x + ", " + h + " : " + hidden);
  }
  std::string wide =
      emit("kerf.broadcast " + condition + " dims [0, 1] : " + bits + " -> " +
           tensor({b, s, d}, "i1"));
  return emit("kerf.select " + wide + ", " + h + ", " +
              (flip() ? outer : constant("0.0", hidden)) + " : " + hidden);
}

/// Matmuls of tokens with each other.
std::string ModelWriter::mixing(const std::string &h) {
  std::string square = tensor({b, s, s});
  if (flip()) {
    std::string x = emit("kerf.einsum \"bsd,btd->bst\" " + h + ", " + outer +
                         " : " + hidden + ", " + hidden + " -> " + square);
    x = emit("kerf.softmax " + x + " : " + square);
    return emit("kerf.einsum \"bst,btd->bsd\" " + x + ", " + h + " : " +
                square + ", " + hidden + " -> " + hidden);
  }
  std::string name = prefix + "m" + std::to_string(params++);
  if (batched)
    return emit("kerf.matmul " + param(name, square) + ", " + h + " : " +
                square + ", " + hidden);
  std::string type = tensor({s, s});
  return emit("kerf.einsum \"st,btd->bsd\" " + param(name, type) + ", " + h +
              " : " + type + ", " + hidden + " -> " + hidden);
}

/// A reduction and its broadcast.
std::string ModelWriter::reduced(const std::string &h) {
  struct Form {
    const char *dims, *kept;
    std::vector<int64_t> shape;
  };
  std::vector<Form> forms = {
      {"[2]", "[0, 1]", {b, s}}, {"[1]", "[0, 2]", {b, d}},
      {"[0]", "[1, 2]", {s, d}}, {"[1, 2]", "[0]", {b}},
      {"[0, 1]", "[2]", {d}},    {"[0, 1, 2]", "[]", {}},
      {"[0, 2]", "[1]", {s}}};
  const Form &form = forms[planned ? pick(2) : pick(forms.size())];
  std::string type = "tensor<";
  for (int64_t size : form.shape)
    type += std::to_string(size) + "x";
  type += "f32>";
  std::string x =
      emit(std::string("kerf.reduce ") + (flip() ? "sum " : "max ") + h +
           " dims " + form.dims + " : " + hidden);
  x = emit("kerf.tanh " + x + " : " + type);
  return emit("kerf.broadcast " + x + " dims " + form.kept + " : " + type +
              " -> " + hidden);
}

/// Rows of a table that the tokens or the counter choose.
std::string ModelWriter::looked(const std::string &h) {
  std::string table = tensor({vocabulary, d}), ids = tensor({b, s}, "i32");
  std::string w = param("table", table), index = "%tokens";
  if (flip()) {
    std::string last = constant(std::to_string(vocabulary - 1), ids);
    index = emit("kerf.min " + counter + ", " + last + " : " + ids);
  }
  std::string op =
      flip()
          ? "kerf.gather " + w + ", " + index + " : " + table + ", " + ids
          : "kerf.embedding " + index + ", " + w + " : " + ids + ", " + table;
  return emit("kerf.mul " + h + ", " + emit(op) + " : " + hidden);
}

/// A scalar parameter and a row that all tokens share.
std::string ModelWriter::scaled(const std::string &h) {
  std::string name = prefix + "s" + std::to_string(params++);
  std::string x = param(name, "tensor<f32>");
  x = emit("kerf.broadcast " + x + " dims [] : tensor<f32> -> " + hidden);
  std::string y = param(name + "row", tensor({d}));
  y = emit("kerf.broadcast " + y + " dims [2] : " + tensor({d}) + " -> " +
           hidden);
  x = emit("kerf.mul " + h + ", " + x + " : " + hidden);
  return emit("kerf.add " + x + ", " + y + " : " + hidden);
}

std::string ModelWriter::richBlock(const std::string &h) {
  std::string n = flip() ? norm(h) : h, y;
  switch (pick(9)) {
  case 0:
    y = dropout(n);
    break;
  case 1:
    y = pointwise(n);
    break;
  case 2:
    y = shapes(n);
    break;
  case 3:
    y = masked(n);
    break;
  case 4:
    y = mixing(n);
    break;
  case 5:
    y = reduced(n);
    break;
  case 6:
    y = looked(n);
    break;
  case 7:
    y = scaled(n);
    break;
  default:
    y = dropout(attention(n));
  }
  return pick(4) == 0 ? y : emit("kerf.add " + h + ", " + y + " : " + hidden);
}

//===----------------------------------------------------------------------===//
// Repeats
//===----------------------------------------------------------------------===//

/// A repeat that carries h, perhaps a partner that swaps with it, stays or
/// grows, and perhaps the counter; and perhaps stacks what it carries.
std::string ModelWriter::richRepeat(const std::string &x, int64_t start,
                                    int64_t end) {
  std::string count = std::to_string(end - start);
  std::string ids = tensor({b, s}, "i32"),
              stackType = tensor({end - start, b, s, d});
  bool hasPartner = flip(), hasCounter = flip() && !planned, stacks = flip();
  bool takesStack = stackedCount == end - start && flip();
  std::string h = fresh(), partner = fresh(), oldCounter = counter;
  std::vector<std::string> carried = {h + " = " + x + " : " + hidden};
  if (hasPartner)
    carried.push_back(partner + " = " + (planned || flip() ? x : outer) +
                      " : " + hidden);
  if (hasCounter) {
    carried.push_back("%count" + std::to_string(start) + " = " + counter +
                      " : " + ids);
    counter = "%count" + std::to_string(start);
  }
  std::string slices;
  if (takesStack || (batched && flip())) {
    std::string source =
        takesStack ? stacked
                   : param("stack" + std::to_string(start), stackType);
    slice = "%slice" + std::to_string(start);
    slices = " slices(" + slice + " = " + source + " : " + stackType + ")";
  }
  std::string before = body;
  body.clear();
  layer = "%i" + std::to_string(start);
  prefix = "h" + std::to_string(flip() ? 0 : start) + ".{i}.";
  params = 0;
  std::string y = h;
  if (!slice.empty())
    y = emit("kerf.add " + y + ", " + sliced(y) + " : " + hidden);
  for (int64_t n = 1 + pick(3); n > 0; --n)
    y = block(y);
  std::vector<std::string> yields = {y}, types = {hidden}, stackNames,
                           stackTypes;
  if (hasPartner) {
    int64_t mode = pick(3);
    std::string other = partner;
    y = mode == 1 ? y : emit("kerf.add " + y + ", " + partner + " : " + hidden);
    yields[0] = y;
    if (mode == 0) // They swap.
      yields = {partner, y};
    else if (mode == 1) // It stays as it is.
      yields.push_back(other);
    else
      yields.push_back(emit("kerf.tanh " + y + " : " + hidden));
    types.push_back(hidden);
  }
  if (hasCounter) {
    yields.push_back(flip() ? counter
                            : emit("kerf.add " + counter + ", " +
                                   constant("1", ids) + " : " + ids));
    types.push_back(ids);
  }
  if (stacks) {
    stackNames = {flip() ? y : h};
    stackTypes = {hidden};
  }
  std::string inside = body;
  body = before;
  std::vector<std::string> results;
  for (size_t i = 0; i < yields.size() + stackNames.size(); ++i)
    results.push_back(fresh());
  std::string yieldText = "    kerf.yield " + join(yields);
  if (stacks) {
    yieldText += " stack(" + join(stackNames) + ")";
    types.insert(types.end(), stackTypes.begin(), stackTypes.end());
  }
  body += "  " + join(results) + " = kerf.repeat " +
          (flip() ? "" : "reverse ") + layer + " = " + std::to_string(start) +
          " to " + std::to_string(end) + " (" + join(carried) + ")" + slices +
          " {\n" + inside + yieldText + " : " + join(types) + "\n  }\n";
  prefix.clear();
  slice.clear();
  layer.clear();
  counter = hasCounter ? results[hasPartner ? 2 : 1] : oldCounter;
  std::string result = results[0];
  if (hasPartner && flip())
    result = emit("kerf.add " + result + ", " + results[1] + " : " + hidden);
  if (!stacks)
    return result;
  stacked = results.back();
  stackedCount = end - start;
  std::string sum =
      emit(std::string("kerf.reduce ") + (flip() ? "sum " : "max ") + stacked +
           " dims [0] : " + stackType);
  if (flip())
    metrics.push_back(emit("kerf.reduce sum " + stacked +
                           " dims [0, 1, 2, 3] : " + stackType));
  return emit("kerf.add " + result + ", " +
              emit("kerf.tanh " + sum + " : " + hidden) + " : " + hidden);
}

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

/// A trainable value of type `hidden`; unless `batched` it is the same for all
/// sequences of the batch.
std::string ModelWriter::everywhere(const std::string &name) {
  std::string x;
  if (batched) {
    x = param(name, hidden);
  } else {
    std::string type = tensor({s, d});
    x = emit("kerf.broadcast " + param(name, type) + " dims [1, 2] : " + type +
             " -> " + hidden);
  }
  return emit("kerf.tanh " + x + " : " + hidden);
}

void ModelWriter::drawSizes() {
  b = choose({1, 2, 2, 3, 4, 8});
  s = choose({1, 2, 3, 7, 8, 17, 33});
  while (b * s > 70)
    s = choose({1, 2, 3, 7, 8});
  d = choose({1, 2, 3, 4, 8, 16, 17, 65});
  vocabulary = choose({2, 7, 16, 33, 65, 130});
  hidden = tensor({b, s, d});
  hasSegments = pick(3) == 0;
  hasPositions = pick(3) == 0;
  batched = flip() && !planned;
  if (!planned)
    return;
  b = choose({2, 4, 8, 8});
  s = choose({1, 3, 4, 7});
  d = choose({2, 4, 8, 8, 16, 17});
  hidden = tensor({b, s, d});
}

/// The targets, or some of them ignored by a rule.
std::string ModelWriter::targets() {
  if (planned || pick(3) > 0)
    return "%targets";
  std::string ids = tensor({b, s}, "i32");
  return emit("kerf.select " + mask + ", %targets, " + constant("-100", ids) +
              " : " + ids);
}

std::string ModelWriter::attributes() {
  static const char *rules[] = {
      "#kerf.adamw<weight_decay = 0.1, eps = 1.0e-3>",
      "#kerf.adamw<beta2 = 0.95, eps = 1.0e-2>", "#kerf.sgd<>",
      "#kerf.sgd<momentum = 0.9>",
      "#kerf.sgd<momentum = 0.5, nesterov = true, weight_decay = 0.1>"};
  std::string text = std::string("optimizer = ") + rules[pick(5)];
  static const char *clips[] = {"", ", clip_norm = 1.0", ", clip_norm = 0.01",
                                ", clip_norm = 100.0"};
  text += clips[pick(4)];
  if (pick(3) == 0)
    text += ", groups = [#kerf.group<match = \"*w0*\", weight_decay = 0.3, "
            "rate_scale = 0.5>, #kerf.group<match = \"*g?.*\", weight_decay = "
            "0.0>]";
  return text;
}

std::string ModelWriter::writeRich(bool forPlan) {
  rich = true;
  planned = forPlan;
  drawSizes();
  std::string ids = tensor({b, s}, "i32"), table = tensor({vocabulary, d});
  counter = emit("kerf.iota dim " + std::to_string(pick(2)) + " : " + ids);
  mask = emit("kerf.compare ge %tokens, " + counter + " : " + ids);
  std::string wte = param("wte", table);
  std::string x =
      emit("kerf.embedding %tokens, " + wte + " : " + ids + ", " + table);
  outer = everywhere("outer");
  if (planned) // It must reach the loss, see below.
    x = emit("kerf.add " + x + ", " + outer + " : " + hidden);
  if (flip())
    x = block(x);
  for (int64_t n = pick(4), start = 0; n > 0; --n) {
    int64_t end = start + 1 + pick(3);
    x = richRepeat(x, start, end);
    start = end;
    params = 100 * n;
    if (pick(3) == 0)
      x = block(x);
  }
  params = 1000;
  x = norm(x);
  std::string head = flip() ? wte : weight(vocabulary, d);
  std::string logits =
      emit("kerf.linear " + x + ", " + head + " : " + hidden + ", " + table);
  std::string wanted = targets();
  std::string n = emit("kerf.count_valid " + wanted + " : " + ids);
  std::string loss =
      emit("kerf.cross_entropy " + logits + ", " + wanted + " normalizer " + n +
           (flip() ? " z_loss 1.0e-2 : " : " : ") + tensor({b, s, vocabulary}) +
           ", " + ids);
  if (flip())
    metrics.push_back(loss);
  if (!planned) { // A trainable parameter must reach the loss.
    std::string rest =
        emit("kerf.reduce sum " + outer + " dims [0, 1, 2] : " + hidden);
    rest = emit("kerf.mul " + rest + ", " + constant("0.01", "tensor<f32>") +
                " : tensor<f32>");
    loss = emit("kerf.add " + loss + ", " + rest + " : tensor<f32>");
  }
  if (flip())
    metrics.push_back(n);
  std::string inputs = "tokens %tokens: " + ids + ", targets %targets: " + ids;
  if (hasSegments)
    inputs += ", segments %segments: " + ids;
  if (hasPositions)
    inputs += ", positions %positions: " + ids;
  if (hasDropout)
    inputs += ", seed %seed: tensor<i32>, step %step: tensor<i32>";
  metrics.insert(metrics.begin(), loss);
  return "kerf.model @random(" + inputs + ") attributes {" + attributes() +
         "} {\n" + body + "  kerf.return " + join(metrics) + " : " +
         join(std::vector<std::string>(metrics.size(), "tensor<f32>")) +
         "\n}\n";
}
