//===- Sizes.h - which sizes of a step depend on each other ---------------===//
//
// Problem: a step is to be made small. Dimensions that meet in an op shrink
// together, and a dimension that one op reads as one index is several for
// another (heads and their channels).
//
// Idea: a dimension is a word of letters, major to minor, whose product is its
// size. Where two words stand for one dimension, letters are matched from the
// major end; the longer of two is split. What was split stays split for all.
//
// Example: `32 = 4 x 8` (a reshape to heads) and `32 = 2 x 16` (two halves)
// make of all three the letters 2, 2 and 8.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_LIB_TWIN_SIZES_H
#define KERF_LIB_TWIN_SIZES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kerf {

class Sizes {
public:
  using Word = llvm::SmallVector<unsigned, 4>;

  /// A new size, a word of one letter.
  unsigned add(int64_t size);
  /// Two words are one dimension. Letters that have no common refinement keep
  /// their sizes.
  void unify(llvm::ArrayRef<unsigned> a, llvm::ArrayRef<unsigned> b);
  void unify(unsigned a, unsigned b) {
    unify(llvm::ArrayRef(a), llvm::ArrayRef(b));
  }

  // What is asked of the small sizes.

  /// What is not split and else free has so many elements; 4 if nobody says.
  void setUsual(int64_t value) { usual = value; }

  /// It stays.
  void keep(unsigned size);
  /// It becomes just this.
  void force(unsigned size, int64_t value) { forced.push_back({size, value}); }
  /// It stays a multiple of `parts`, all of which its major letter has.
  void divide(unsigned size, int64_t parts) { splits.push_back({size, parts}); }
  void atLeast(unsigned size, int64_t value) { least.push_back({size, value}); }
  void atMost(unsigned size, int64_t value) { most.push_back({size, value}); }
  /// It is the product of others.
  void product(unsigned size, Word factors) {
    products.push_back({size, std::move(factors)});
  }
  /// At least the size of another, which no such demand is on.
  void cover(unsigned size, unsigned other) { covers.push_back({size, other}); }
  /// They shrink in one proportion, as do these numbers of elements.
  void link(Word sizes, llvm::ArrayRef<int64_t> elements);

  /// Chooses small sizes.
  void choose();
  /// After `choose`.
  int64_t small(unsigned size) const;
  /// A number of elements, linked to a size, in the small step.
  int64_t small(unsigned size, int64_t elements) const;

private:
  struct Letter {
    int64_t size = 1;
    int alias = -1;              ///< it is that one
    int first = -1, second = -1; ///< it was split
    bool kept = false;
    int64_t parts = 1; ///< that it must divide into
    int64_t least = 1, most = INT64_MAX;
    int64_t chosen = 0;
    int proportion = -1; ///< its link
  };
  struct Demand {
    unsigned size;
    int64_t value;
  };
  struct Product {
    unsigned size;
    Word factors;
  };
  struct Link {
    Word sizes;
    llvm::SmallVector<int64_t> elements;
    int64_t divisor = 0; ///< of all; 0: not yet known
    int64_t unit = 0;    ///< that it becomes
  };

  unsigned find(unsigned letter) const;
  Word lettersOf(llvm::ArrayRef<unsigned> word) const;
  void split(unsigned letter, int64_t major);
  void place();
  void spread();
  void gather(Link &link);
  int64_t smallest(const Letter &letter) const;
  void chooseLinked();
  bool suits(const Link &link, int64_t unit) const;

  int64_t usual = 4;
  std::vector<Letter> letters;
  std::vector<Demand> forced, splits, least, most;
  std::vector<Product> products;
  std::vector<std::pair<unsigned, unsigned>> covers;
  std::vector<Link> links;
};

} // namespace kerf

#endif // KERF_LIB_TWIN_SIZES_H
