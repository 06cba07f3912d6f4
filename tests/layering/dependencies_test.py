#!/usr/bin/env python3
"""Checks every edge between Bazel targets that something shipped depends on. No forbidden edge: no forbidden path."""

import re
import sys

import house

EDGE = re.compile(r'^  "([^"]+)" -> "([^"]+)"$')


def folder_and_name(label):
    folder, _, name = label[2:].partition(":")
    return folder, name


def main(graph_file):
    with open(graph_file, encoding="utf-8") as file:
        edges = [match.groups() for match in map(EDGE.match, file) if match]
    edges = [edge for edge in edges if edge[0].startswith("//") and edge[1].startswith("//")]

    def rooms_reach_only_the_rooms_below():
        # An empty or unreadable query would pass every rule.
        if len(edges) < 100:
            return ["%s has %d edges: the query no longer sees the program" % (graph_file, len(edges))]
        return ["%s -> %s: %s" % (source, target, why)
                for source, target in edges
                for why in [house.broken_rule(source[2:].replace(":", "/"), target[2:].replace(":", "/"))] if why]

    def libraries_stay_in_their_folders():
        complaints = []
        for source, target in edges:
            folder, name = folder_and_name(target)
            why = folder == "third_party" and house.broken_library_rule(folder_and_name(source)[0], name)
            if why:
                complaints.append("%s -> %s: %s" % (source, target, why))
        return complaints

    def graph_needs_abseil_alone():
        # But for interchange, which is TensorFlow's form of a graph and so knows protobuf.
        return ["%s -> %s: %s" % (source, target, house.WHY["graph"])
                for source, target in edges
                if source.startswith("//graph") and not source.startswith("//graph/interchange")
                and target.startswith("//third_party:") and target != "//third_party:absl"]

    return house.run([
        ("dependencies.rooms_reach_only_the_rooms_below", rooms_reach_only_the_rooms_below),
        ("dependencies.libraries_stay_in_their_folders", libraries_stay_in_their_folders),
        ("dependencies.graph_needs_abseil_alone", graph_needs_abseil_alone),
    ])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
