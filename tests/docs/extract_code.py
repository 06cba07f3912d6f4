#!/usr/bin/env python3
"""Writes the C++ of the pages as sources that can be compiled (pages.py has the comments that mark it).

usage: extract_code.py PAGE... -- OUT...
  An OUT named NAME.cc is the program NAME. The OUT named snippets.cc has a test for each snippet of all pages.
  It is an error when a program has no OUT, or an OUT has no program.
"""

import os
import re
import sys

import pages

INCLUDE = re.compile(r"^#include .*\n", re.MULTILINE)


def fail(message):
    sys.exit("extract_code.py: " + message)


class Snippet:
    """One function: its declarations and its body, each a list of blocks."""

    def __init__(self):
        self.parts = {"declarations": [], "snippet": []}

    def text(self, kind):
        # A compiler's message names the page and the line.
        return "".join('#line %d "%s"\n%s' % (block.line, block.page, INCLUDE.sub("\n", block.code))
                       for block in self.parts[kind])

    def includes(self):
        return {line for blocks in self.parts.values() for block in blocks for line in INCLUDE.findall(block.code)}


def capitalized(text):
    return "".join(word.capitalize() for word in re.split(r"\W|_", text))


def snippets_file(snippets):
    text = "// Written by tests/docs/extract_code.py from the pages.\n#include \"gtest/gtest.h\"\n#include \"weir/weir.h\"\n"
    text += "".join(sorted({line for snippet in snippets.values() for line in snippet.includes()}))
    for (page, name), snippet in snippets.items():
        suite = capitalized(os.path.splitext(page)[0])
        text += "\nnamespace %s_%s {\nnamespace {\nusing namespace weir;\n" % (suite, name)
        text += snippet.text("declarations")
        text += "absl::Status Body() {\n%s\n  return absl::OkStatus();\n}\n" % snippet.text("snippet")
        text += "TEST(%s, %s) {\n  const absl::Status status = Body();\n  EXPECT_TRUE(status.ok()) << status;\n}\n" % (
            suite, capitalized(name))
        text += "}  // namespace\n}  // namespace %s_%s\n" % (suite, name)
    return text


def main(arguments):
    split = arguments.index("--")
    outs = {os.path.basename(path): path for path in arguments[split + 1:]}
    programs, snippets = {}, {}
    for page in arguments[:split]:
        with open(page, encoding="utf-8") as file:
            blocks = pages.blocks(page, file.read())
        for block in blocks:
            if block.kind == "program":
                if block.name + ".cc" in programs:
                    fail("%s: there is a program '%s' already" % (block.where(), block.name))
                programs[block.name + ".cc"] = '#line %d "%s"\n%s' % (block.line, block.page, block.code)
            elif block.kind in ("snippet", "declarations"):
                snippets.setdefault((page, block.name), Snippet()).parts[block.kind].append(block)
    expected = set(outs) - {"snippets.cc"}
    if expected != set(programs):
        fail("BUILD lists the programs %s, the pages have %s" % (sorted(expected), sorted(programs)))
    for name, path in outs.items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(snippets_file(snippets) if name == "snippets.cc" else programs[name])


if __name__ == "__main__":
    main(sys.argv[1:])
