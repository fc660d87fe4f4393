#!/usr/bin/env python3
"""Prints a factor graph of the shape of one differentiated Llama layer on one axis.

    layer_graph.py [layers [seed]]

Variables: the option of each op forward and backward, the state that several readers
of a value share, the state in which a value is kept, and three resting states per
parameter. Tables join producer, shared state and reader. Costs are random picoseconds;
only shape and sizes matter here. `layers` are chained by their boundary values.
"""

import random
import sys

INF = "inf"
# Ops forward: name, values read, value made, parameter.
OPS = [
    ("norm1", ["x"], "n1", "wn1"), ("q", ["n1"], "q", "wq"), ("k", ["n1"], "k", "wk"),
    ("v", ["n1"], "v", "wv"), ("ropeq", ["q"], "rq", None), ("ropek", ["k"], "rk", None),
    ("attention", ["rq", "rk", "v"], "a", None), ("o", ["a"], "ao", "wo"),
    ("add1", ["x", "ao"], "r", None), ("norm2", ["r"], "n2", "wn2"),
    ("gate", ["n2"], "g", "wg"), ("up", ["n2"], "u", "wu"), ("act", ["g", "u"], "m", None),
    ("down", ["m"], "d", "wd"), ("add2", ["r", "d"], "y", None),
]  # fmt: skip
# Values that the backward ops of an op read.
KEEPS = {
    "norm1": ["x"], "q": ["n1"], "k": ["n1"], "v": ["n1"], "attention": ["rq", "rk", "v", "a"],
    "o": ["a"], "norm2": ["r"], "gate": ["n2"], "up": ["n2"], "act": ["g", "u"], "down": ["m"],
}  # fmt: skip


class Graph:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.domains, self.tables = [], []

    def variable(self, states):
        self.domains.append(states)
        return len(self.domains) - 1

    def table(self, *variables, impossible=0.0):
        variables = sorted(set(variables))
        entries = 1
        for v in variables:
            entries *= self.domains[v]
        costs = [
            INF if self.random.random() < impossible else self.random.randrange(10**10)
            for _ in range(entries)
        ]
        self.tables.append((variables, costs))

    def print(self):
        print("domains", *self.domains)
        for variables, costs in self.tables:
            print("table", *variables, end=": ")
            print(*costs)


def layer(graph, incoming, incoming_gradient):
    """Adds a layer; returns the ops that make its output and its input's gradient."""
    option, made, readers = {}, {"x": incoming}, {}
    for name, reads, makes, param in OPS:
        option[name] = graph.variable(6 if param or name == "attention" else 5)
        graph.table(option[name])
        made[makes] = option[name]
        for value in reads:
            readers.setdefault(value, []).append(option[name])
    for value, users in readers.items():
        shared = [graph.variable(4)] if len(users) > 1 else []
        for user in users:
            graph.table(made[value], *shared, user, impossible=0.1)
    kept = {}
    for value in sorted({v for values in KEEPS.values() for v in values}):
        kept[value] = graph.variable(4)
        graph.table(made[value], kept[value])
    gradient = {"y": incoming_gradient}
    sums = {}
    for name, reads, makes, param in reversed(OPS):
        back = graph.variable(5)
        graph.table(back)
        graph.table(option[name], back)
        graph.table(gradient[makes], back, impossible=0.1)
        for value in KEEPS.get(name, []):
            graph.table(kept[value], back)
        for value in reads:
            if value in gradient:
                graph.table(gradient[value], back)
            gradient[value] = back
        if param:
            weight_back = graph.variable(5)
            graph.table(gradient[makes], weight_back)
            for value in KEEPS[name][:1]:
                graph.table(kept[value], weight_back)
            sums[param] = weight_back
            weight, accumulator, optimizer = (graph.variable(n) for n in (3, 3, 2))
            graph.table(weight, option[name])
            graph.table(weight, back)
            graph.table(accumulator, weight_back)
            graph.table(weight, accumulator, optimizer)
    return made["y"], gradient["x"]


def main():
    layers = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    graph = Graph(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    value, gradient = graph.variable(4), graph.variable(4)
    for _ in range(layers):
        value, gradient = layer(graph, value, gradient)
    graph.print()


main()
