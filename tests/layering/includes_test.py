#!/usr/bin/env python3
"""Checks that a target depends directly on every target whose headers its sources include.

It is what clang's layering_check finds (`--config=clang`), without a second compiler and a second build: a header that
comes in through somebody else's dependency is gone when that target stops needing it.
"""

import collections
import os
import re
import sys
import xml.etree.ElementTree as ElementTree

import house

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
ROOT = os.path.dirname(os.path.realpath(os.path.join(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"], "WORKSPACE")))

Rule = collections.namedtuple("Rule", "label sources headers deps")


def path_of(label):
    return label[2:].replace(":", "/")


def cc_rules(query_file):
    for rule in ElementTree.parse(query_file).getroot().iter("rule"):
        if not rule.get("class").startswith("cc_") or not rule.get("name").startswith("//"):
            continue
        lists = {values.get("name"): [label.get("value") for label in values.iter("label")] for values in rule.findall("list")}
        headers = [path_of(label) for label in lists.get("hdrs", []) + lists.get("textual_hdrs", [])]
        sources = headers + [path_of(label) for label in lists.get("srcs", [])]
        yield Rule(rule.get("name"), sources, headers, set(lists.get("deps", [])))


def includes(path):
    """What the file includes; nothing for a generated one."""
    path = os.path.join(ROOT, path)
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return INCLUDE.findall(file.read())


def main(query_file):
    rules = list(cc_rules(query_file))
    owners = collections.defaultdict(set)
    for rule in rules:
        for header in rule.headers:
            owners[header].add(rule.label)

    def included_targets_are_named():
        if len(rules) < 50:
            return ["%s has %d cc rules: the query no longer sees the program" % (query_file, len(rules))]
        return sorted({"%s: %s includes %s: add %s to its deps" % (rule.label, source, header, " or ".join(sorted(owners[header])))
                       for rule in rules for source in rule.sources for header in includes(source)
                       if header not in rule.sources and header in owners and not owners[header] & rule.deps})

    return house.run([("includes.included_targets_are_named", included_targets_are_named)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
