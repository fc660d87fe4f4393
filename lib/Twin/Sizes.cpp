#include "Sizes.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>
#include <numeric>

using namespace kerf;

unsigned Sizes::add(int64_t size) {
  letters.emplace_back().size = size;
  return letters.size() - 1;
}

unsigned Sizes::find(unsigned letter) const {
  while (letters[letter].alias >= 0)
    letter = letters[letter].alias;
  return letter;
}

/// Those that are not split; without those of size 1, which say nothing.
Sizes::Word Sizes::lettersOf(llvm::ArrayRef<unsigned> word) const {
  Word found, open(word.rbegin(), word.rend());
  while (!open.empty()) {
    unsigned at = find(open.pop_back_val());
    if (letters[at].first >= 0)
      open.append({unsigned(letters[at].second), unsigned(letters[at].first)});
    else if (letters[at].size != 1)
      found.push_back(at);
  }
  return found;
}

void Sizes::split(unsigned letter, int64_t major) {
  unsigned first = add(major), second = add(letters[letter].size / major);
  letters[first].kept = letters[second].kept = letters[letter].kept;
  letters[letter].first = first;
  letters[letter].second = second;
}

void Sizes::keep(unsigned size) {
  for (unsigned letter : lettersOf(size))
    letters[letter].kept = true;
}

void Sizes::unify(llvm::ArrayRef<unsigned> a, llvm::ArrayRef<unsigned> b) {
  while (true) {
    Word left = lettersOf(a), right = lettersOf(b);
    size_t at = 0;
    while (at < std::min(left.size(), right.size()) && left[at] == right[at])
      ++at;
    if (at == left.size() || at == right.size())
      return;
    unsigned x = left[at], y = right[at];
    if (letters[x].size > letters[y].size)
      std::swap(x, y);
    if (letters[x].size == letters[y].size) {
      letters[x].kept |= letters[y].kept;
      letters[y].alias = x;
    } else if (letters[y].size % letters[x].size == 0) {
      split(y, letters[x].size);
    } else {
      for (unsigned size : left)
        keep(size);
      for (unsigned size : right)
        keep(size);
      return;
    }
  }
}

void Sizes::link(Word sizes, llvm::ArrayRef<int64_t> elements) {
  links.push_back({std::move(sizes), llvm::SmallVector<int64_t>(elements)});
}

//===----------------------------------------------------------------------===//
// Choosing
//===----------------------------------------------------------------------===//

/// Demands on sizes become demands on letters.
void Sizes::place() {
  auto major = [&](unsigned size) -> Letter * {
    Word word = lettersOf(size);
    return word.empty() ? nullptr : &letters[word.front()];
  };
  for (auto [size, parts] : splits)
    if (Letter *letter = major(size))
      letter->parts = std::lcm(letter->parts, parts);
  for (auto [size, value] : least)
    if (Letter *letter = major(size))
      letter->least = std::max(letter->least, value);
  for (auto [size, value] : most)
    if (Letter *letter = major(size))
      letter->most = std::min(letter->most, value);
  // A product divides where its first factor does.
  for (const Product &product : products)
    if (Letter *letter = major(product.size))
      for (unsigned factor : product.factors)
        if (Letter *first = major(factor)) {
          first->parts = std::lcm(first->parts, letter->parts);
          break;
        }
}

/// In each word one letter carries the proportion, its others stay.
void Sizes::gather(Link &link) {
  int64_t divisor = 0;
  for (int64_t elements : link.elements)
    divisor = std::gcd(divisor, elements);
  for (unsigned size : link.sizes) {
    Word word = lettersOf(size);
    auto free = std::find_if(word.rbegin(), word.rend(),
                             [&](unsigned l) { return !letters[l].kept; });
    if (free == word.rend())
      free = word.rbegin();
    for (unsigned letter : word)
      if (letter != *free)
        letters[letter].kept = true;
    divisor = word.empty() ? 1 : std::gcd(divisor, letters[*free].size);
    if (!word.empty() && letters[*free].kept)
      divisor = 1;
  }
  link.divisor = divisor;
}

/// Links that share a letter are one proportion: the least divisor of all.
void Sizes::spread() {
  for (Link &link : links)
    gather(link);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t a = 0; a < links.size(); ++a)
      for (unsigned size : links[a].sizes)
        for (unsigned l : lettersOf(size)) {
          Letter &letter = letters[l];
          if (letter.kept)
            continue;
          if (letter.proportion < 0)
            letter.proportion = a;
          int64_t &own = links[a].divisor,
                  &other = links[letter.proportion].divisor;
          int64_t common = std::gcd(own, other);
          changed |= own != common || other != common;
          own = other = common;
        }
  }
}

bool Sizes::suits(const Link &link, int64_t unit) const {
  for (unsigned size : link.sizes)
    for (unsigned l : lettersOf(size)) {
      const Letter &letter = letters[l];
      int64_t value = letter.size / link.divisor * unit;
      if (!letter.kept && (value % letter.parts != 0 || value < 2 ||
                           (value % 2 != 0 && letter.size % 2 == 0)))
        return false;
    }
  return true;
}

/// One unit for all links of one divisor: they may share letters.
void Sizes::chooseLinked() {
  for (Link &link : links) {
    int64_t unit = 1;
    auto fits = [&](const Link &other) {
      return other.divisor != link.divisor || suits(other, unit);
    };
    while (unit < link.divisor &&
           !std::all_of(links.begin(), links.end(), fits))
      ++unit;
    link.unit = unit;
    for (unsigned size : link.sizes)
      for (unsigned l : lettersOf(size))
        if (!letters[l].kept)
          letters[l].chosen = letters[l].size / link.divisor * unit;
  }
}

/// Split letters have two elements a part, others the usual number in all,
/// where they are that large; even ones stay even. One that is too small for
/// the small plan's parts grows.
int64_t Sizes::smallest(const Letter &letter) const {
  int64_t unit = std::lcm(letter.parts, letter.size % 2 == 0 ? 2 : 1);
  int64_t wanted = std::max(letter.least, usual);
  if (letter.parts > 1)
    wanted = std::max(wanted, 2 * letter.parts);
  wanted = std::min(wanted, letter.most);
  int64_t value = std::max<int64_t>(1, (wanted + unit - 1) / unit) * unit;
  return letter.size % letter.parts == 0 ? std::min(value, letter.size) : value;
}

void Sizes::choose() {
  place();
  spread();
  chooseLinked();
  for (auto [size, value] : forced)
    for (unsigned letter : lettersOf(size))
      letters[letter].chosen = value;
  auto isLate = [&](unsigned letter) {
    for (auto &[size, other] : covers)
      if (llvm::is_contained(lettersOf(size), letter))
        return true;
    return false;
  };
  for (unsigned l = 0; l < letters.size(); ++l)
    if (Letter &letter = letters[l]; letter.chosen == 0 && !isLate(l))
      letter.chosen = letter.kept ? letter.size : smallest(letter);
  for (auto &[size, other] : covers)
    for (unsigned l : lettersOf(size)) {
      Letter &letter = letters[l];
      letter.least = std::max({letter.least, small(other), int64_t(16)});
      letter.chosen = letter.kept ? letter.size : smallest(letter);
    }
  for (const Product &product : products) {
    Word word = lettersOf(product.size);
    if (word.size() != 1)
      continue;
    int64_t value = 1;
    for (unsigned factor : product.factors)
      value *= small(factor);
    letters[word.front()].chosen = value;
  }
}

int64_t Sizes::small(unsigned size) const {
  int64_t value = 1;
  for (unsigned letter : lettersOf(size))
    value *= letters[letter].chosen;
  return value;
}

int64_t Sizes::small(unsigned size, int64_t elements) const {
  for (const Link &link : links)
    if (llvm::is_contained(link.sizes, size))
      return elements / link.divisor * link.unit;
  return elements;
}
