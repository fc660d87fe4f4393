#include "../../../lib/Twin/Sizes.h"

#include "gtest/gtest.h"

using namespace kerf;

// 32 is 4 heads of 8 in one op and 2 halves of 16 in another: 2 x 2 x 8.
TEST(Sizes, SplitsWhatIsSplitDifferently) {
  Sizes sizes;
  unsigned whole = sizes.add(32), heads = sizes.add(4), channels = sizes.add(8);
  unsigned halves = sizes.add(2), rest = sizes.add(16);
  sizes.unify(llvm::ArrayRef(whole), {heads, channels});
  sizes.unify(llvm::ArrayRef(whole), {halves, rest});
  sizes.keep(halves);
  sizes.choose();
  EXPECT_EQ(sizes.small(halves), 2);
  EXPECT_EQ(sizes.small(heads) % 2, 0);
  EXPECT_EQ(sizes.small(whole), sizes.small(heads) * sizes.small(channels));
  EXPECT_EQ(sizes.small(whole), sizes.small(halves) * sizes.small(rest));
}

// 200 x 300 and 300 x 200 share no letters: they stay.
TEST(Sizes, KeepsWhatHasNoCommonParts) {
  Sizes sizes;
  unsigned a = sizes.add(200), b = sizes.add(300), c = sizes.add(300),
           d = sizes.add(200);
  sizes.unify({a, b}, {c, d});
  sizes.choose();
  EXPECT_EQ(sizes.small(a), 200);
  EXPECT_EQ(sizes.small(b), 300);
}

// Two elements for each part, and no more than there are.
TEST(Sizes, DividesIntoParts) {
  Sizes sizes;
  unsigned wide = sizes.add(4096), narrow = sizes.add(6), odd = sizes.add(999);
  sizes.divide(wide, 2);
  sizes.divide(wide, 3);
  sizes.divide(narrow, 6);
  sizes.divide(odd, 3);
  sizes.choose();
  EXPECT_EQ(sizes.small(wide), 12);
  EXPECT_EQ(sizes.small(narrow), 6);
  EXPECT_EQ(sizes.small(odd), 6);
}

// The parts of a dimension are those of its major letter.
TEST(Sizes, DividesTheMajorLetter) {
  Sizes sizes;
  unsigned whole = sizes.add(4096), heads = sizes.add(32),
           channels = sizes.add(128);
  sizes.unify(llvm::ArrayRef(whole), {heads, channels});
  sizes.divide(whole, 8);
  sizes.choose();
  EXPECT_EQ(sizes.small(heads), 16);
  EXPECT_EQ(sizes.small(channels), 4);
}

// 576 = 512 + 64 and 192 = 128 + 64 shrink in one proportion, and what is cut
// out of them at 128 does.
TEST(Sizes, KeepsProportions) {
  Sizes sizes;
  unsigned all = sizes.add(576), latent = sizes.add(512), rope = sizes.add(64);
  unsigned head = sizes.add(192), plain = sizes.add(128), last = sizes.add(64);
  sizes.unify(rope, last);
  sizes.link({all, latent}, {0});
  sizes.link({all, rope}, {512});
  sizes.link({head, plain}, {0});
  sizes.link({head, last}, {128});
  sizes.choose();
  EXPECT_EQ(sizes.small(all), 18);
  EXPECT_EQ(sizes.small(latent), 16);
  EXPECT_EQ(sizes.small(rope), 2);
  EXPECT_EQ(sizes.small(head), 6);
  EXPECT_EQ(sizes.small(plain), 4);
  EXPECT_EQ(sizes.small(all, 512), 16);
  EXPECT_EQ(sizes.small(head, 128), 4);
}

// A table of positions has a row for each; a table of routed tokens one for
// each choice.
TEST(Sizes, FollowsOtherSizes) {
  Sizes sizes;
  unsigned tokens = sizes.add(4096), positions = sizes.add(8192);
  unsigned choices = sizes.add(8), rows = sizes.add(32768);
  sizes.divide(tokens, 16);
  sizes.atMost(choices, 2);
  sizes.cover(positions, tokens);
  sizes.product(rows, {tokens, choices});
  sizes.choose();
  EXPECT_EQ(sizes.small(tokens), 32);
  EXPECT_EQ(sizes.small(positions), 32);
  EXPECT_EQ(sizes.small(rows), 64);
}

// The layers of a repeat are what the plan says.
TEST(Sizes, TakesWhatIsForced) {
  Sizes sizes;
  unsigned layers = sizes.add(48);
  sizes.force(layers, 5);
  sizes.choose();
  EXPECT_EQ(sizes.small(layers), 5);
}
