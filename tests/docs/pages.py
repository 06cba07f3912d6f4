"""Reads the Markdown pages: their fenced blocks, and the comments that say what a test does with a block.

A comment stands right before its block. Readers do not see it.

  <!-- program: NAME -->             a whole C++ file, built as the program NAME
  <!-- snippet: NAME -->             part of the body of the function NAME of this page, which a test runs
  <!-- declarations: NAME -->        the same, but before that function
  <!-- hidden snippet: NAME
  CODE
  -->                                CODE is part of the body, and is not shown; hidden declarations: likewise
  <!-- from: PATH -->                the block stands in that file of the checkout, but for white space
  <!-- run: NAME -->                 a shell block that a test runs; blocks of one name are one script
  <!-- output: NAME -->              each line of this block is a line of what the script NAME prints, with any numbers
  <!-- run after: NAME -->           a Python block that is run after the script NAME, where there is a TensorFlow for it
  <!-- error -->                     the error text of one place in the sources; <words> stand for any text
"""

import os
import re
import textwrap

BLOCK = re.compile(r"(?:^ *<!-- (?P<kind>[a-z][a-z ]*?)(?:: (?P<name>[\w./-]+))? -->\n)?"
                   r"^ *```(?P<language>\w*)\n(?P<code>.*?)^ *```$"
                   r"|^<!-- hidden (?P<hidden_kind>snippet|declarations): (?P<hidden_name>\w+)\n(?P<hidden_code>.*?)^-->$",
                   re.DOTALL | re.MULTILINE)


class Block:
    """A fenced block: `kind` and `name` are the comment's ("" where there is none), `line` is that of the code."""

    def __init__(self, page, match):
        text = match.string
        hidden = match["hidden_kind"] is not None
        self.page = page
        self.kind = match["hidden_kind"] if hidden else match["kind"] or ""
        self.name = (match["hidden_name"] if hidden else match["name"]) or ""
        self.language = "cpp" if hidden else match["language"]
        self.code = match["hidden_code"] if hidden else textwrap.dedent(match["code"])
        self.line = text.count("\n", 0, match.start("hidden_code" if hidden else "code")) + 1

    def where(self):
        return "%s:%d" % (self.page, self.line)


def blocks(page, text):
    return [Block(page, match) for match in BLOCK.finditer(text)]


def markdown_files(root):
    """The pages: those of docs/, and the documents that stand beside the sources. Paths from the root."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if not f.startswith((".", "bazel-"))]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names if name.endswith(".md")]
    return sorted(found)
