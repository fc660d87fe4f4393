"""A covering array, case by case: every triple of values of three axes in some case that is legal.

The values of all axes are numbered through ("items"). `left[i][j]` has a bit for each item k whose triple
with i and j no case has covered yet, so what an item adds to a case is a few counts of bits. A case begins
with a triple that is left; the other axes follow in random order and take what covers most. Which combinations
the compiler refuses is learned: a pair that was refused in several companies and never accepted is avoided.
"""

import itertools
import random

from axes import BOUND, complete, fits

STEPS = 500  # of choosing the best values, before any that fit are taken
CANDIDATES = 6  # of which the case that covers most is taken
TRIES_OF_TRIPLE, TRIES_OF_PAIR, TRIES_OF_DOUBT = 4, 10, 3


class Array:
    def __init__(self, axes, seed):
        self.random = random.Random(seed)
        self.axes, self.values = list(axes), axes
        self.items = [(axis, value) for axis in axes for value in axes[axis]]
        self.number = {item: i for i, item in enumerate(self.items)}
        self.of_axis = {axis: [self.number[axis, value] for value in axes[axis]] for axis in axes}
        count = len(self.items)
        self.tried = [[0] * count for _ in range(count)]  # by pair
        self.right = [[0] * count for _ in range(count)]
        self.tries = {}  # by triple
        self.impossible, self.given_up = set(), set()
        self.left = [[0] * count for _ in range(count)]
        self.queue = []  # all that are left, and some that are not
        for chosen in itertools.combinations(self.axes, 3):
            self.queue += itertools.product(*(self.of_axis[axis] for axis in chosen))
        self.total = len(self.queue)
        for triple in self.queue:
            self.mark(triple, left=True)
        self.random.shuffle(self.queue)

    def mark(self, triple, left):
        for i, j, k in itertools.permutations(triple):
            if left:
                self.left[i][j] |= 1 << k
            else:
                self.left[i][j] &= ~(1 << k)

    def is_left(self, triple):
        i, j, k = triple
        return bool(self.left[i][j] >> k & 1)

    def count_left(self):
        return sum(bits.bit_count() for row in self.left for bits in row) // 6

    def gain(self, item, chosen, mask):
        return sum((self.left[item][other] & mask).bit_count() for other in chosen) // 2

    def is_doubtful(self, item, chosen):
        """Whether a pair with the item was only refused so far."""
        return any(
            self.right[item][other] == 0 and self.tried[item][other] >= TRIES_OF_DOUBT for other in chosen
        )

    def ranked(self, axis, chosen):
        """The items of an axis, best first."""
        mask = sum(1 << item for item in chosen)
        items = self.of_axis[axis][:]
        self.random.shuffle(items)
        return sorted(items, key=lambda item: (self.is_doubtful(item, chosen), -self.gain(item, chosen, mask)))

    def fill(self, case, chosen, rest, steps):
        """Completes a case; None where no values fit."""
        if not rest:
            return dict(case)
        axis = rest[0]
        for item in self.ranked(axis, chosen):
            steps[0] -= 1
            if steps[0] < 0:
                return None
            case[axis] = self.items[item][1]
            if fits(case, axis):
                found = self.fill(case, chosen + [item], rest[1:], steps)
                if found:
                    return found
            del case[axis]
        return None

    def around(self, triple):
        """A case with the triple, or None."""
        case = {}
        for item in triple:
            axis, value = self.items[item]
            case[axis] = value
            if not fits(case, axis):
                return None
        rest = [axis for axis in self.axes if axis not in case]
        self.random.shuffle(rest)
        rest.sort(key=lambda axis: axis not in BOUND)  # what may not fit is known early
        found = self.fill(dict(case), list(triple), rest, [STEPS])
        values = {axis: self.random.sample(every, len(every)) for axis, every in self.values.items()}
        if found or not complete(case, values):
            return found
        rest = [axis for axis in rest if axis not in case]
        return self.fill(case, [self.number[item] for item in case.items()], rest, [STEPS])

    def numbers(self, case):
        return [self.number[axis, case[axis]] for axis in self.axes]

    def adds(self, case):
        items = self.numbers(case)
        mask = sum(1 << item for item in items)
        return sum(self.gain(item, items, mask) for item in items) // 3

    def seeds(self):
        """Triples to begin with: those next in the queue. They stay in it until they are covered."""
        found = []
        while self.queue and len(found) < CANDIDATES:
            triple = self.queue.pop()
            if self.is_left(triple):
                found.append(triple)
        self.queue += reversed(found)
        return found

    def next_case(self):
        """A case and the triples it is the first with, or None when nothing is left. They count as covered
        until the case is refused."""
        while seeds := self.seeds():
            found = []
            for triple in seeds:
                case = self.around(triple)
                if case:
                    found.append((self.adds(case), case))
                else:
                    self.mark(triple, left=False)
                    self.impossible.add(triple)
            if found:
                case = max(found, key=lambda pair: pair[0])[1]
                return case, self.take(case)
        return None

    def settle(self):
        """Finds which of those that are left are impossible."""
        for triple in filter(self.is_left, self.queue):
            case = dict(self.items[item] for item in triple)
            if not all(fits(case, axis) for axis in list(case)) or not complete(case, self.values):
                self.mark(triple, left=False)
                self.impossible.add(triple)

    def take(self, case):
        """Marks what a case covers; returns what it was the first to cover."""
        new = [triple for triple in itertools.combinations(sorted(self.numbers(case)), 3) if self.is_left(triple)]
        for triple in new:
            self.mark(triple, left=False)
        return new

    def learn(self, case, new, accepted):
        """What became of a case. Triples of one that was refused are tried again in other company."""
        for i, j in itertools.permutations(self.numbers(case), 2):
            self.tried[i][j] += 1
            self.right[i][j] += accepted
        if accepted:
            self.given_up.difference_update(itertools.combinations(sorted(self.numbers(case)), 3))
            return
        self.random.shuffle(new)
        for triple in new:
            self.tries[triple] = self.tries.get(triple, 0) + 1
            if self.tries[triple] >= TRIES_OF_TRIPLE or self.is_hopeless(triple):
                self.given_up.add(triple)
            else:
                self.mark(triple, left=True)
                self.queue.insert(0, triple)

    def is_hopeless(self, triple):
        return any(
            self.right[i][j] == 0 and self.tried[i][j] >= TRIES_OF_PAIR
            for i, j in itertools.combinations(triple, 2)
        )

    def summary(self):
        """What no legal case covers: single values, pairs, then triples, each by the fewest that say it."""
        never = lambda i, j: self.right[i][j] == 0 and self.tried[i][j] > 0
        name = lambda items: " x ".join("=".join(self.items[item]) for item in items)
        pairs, triples = set(), []
        for triple in sorted(self.given_up):
            bad = [pair for pair in itertools.combinations(triple, 2) if never(*pair)]
            pairs.update(bad)
            if not bad:
                triples.append(name(triple))
        return [name(pair) for pair in sorted(pairs)], triples
