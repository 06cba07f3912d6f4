#!/usr/bin/env python3
"""Writes the reference of the public headers: one page for each header of the library, with every class, function and struct.

usage: write_api.py INCLUDE PAGE...
  INCLUDE   the tree of published headers (library/publish_headers.py)
  PAGE      FOLDER/session.md is the page of weir/session.h

A page has the headers that the public one includes: what they say at their top, and their declarations as they stand in
the source, without private parts and without the bodies of functions. Headers of ops are left out: //docs:ops.md has those.
It reads C++ that clang-format has laid out, no other.
"""

import os
import re
import sys

INCLUDE = re.compile(r'^#include "(weir/internal/[^"]+)"', re.MULTILINE)
NAMESPACE = re.compile(r"^(?:inline )?namespace ([\w:]*) ?\{$")
TYPE = re.compile(r"^(?:template <.*?>\s*)?(class|struct|enum class|enum)\s+(?:\[\[\w+\]\]\s+)?(\w+)\b(?!\s*[,>])", re.DOTALL)
END_OF_NAMESPACE = re.compile(r"^\}(?:  // namespace.*)?$")
ACCESS = ("public:", "protected:", "private:")
FORWARD = re.compile(r"^(?:class|struct) \w+;")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def comment_text(lines):
    """The text of a comment as Markdown: what is indented in it is code."""
    text, code = [], False
    for line in lines:
        line = line[2:]
        is_code = line.startswith("   ") or (code and not line.strip())
        if is_code and not code:
            text += ["", "```"]
        if code and not is_code:
            text += ["```", ""]
        code = is_code
        # In prose, <name> would be a tag.
        text.append(line[3:] if is_code else line[1:].replace("<", r"\<"))
    if code:
        text.append("```")
    # An empty line that ended the code belongs behind it.
    text = re.sub(r"\n\n```\n\n(?=\S)", "\n```\n\n", "\n".join(text)).strip()
    return re.sub(r"\n\n\n+", "\n\n", text)


class Statement:
    """A declaration with the comment in front of it; `indent` is that of its lines."""

    def __init__(self, comment, lines):
        self.comment = comment
        self.lines = lines
        self.text = "\n".join(lines)


def balance(text):
    """How many braces, parentheses and brackets are open, without those in literals and comments."""
    text = re.sub(r'//.*|"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)\'', "", text)
    return sum(text.count(c) for c in "{([") - sum(text.count(c) for c in "})]")


def statements(lines):
    """Splits lines of one level into statements; access labels and empty lines are statements of their own."""
    comment, current, open_brackets = [], [], 0
    for line in lines:
        stripped = line.strip()
        if not current and stripped.startswith("//"):
            comment.append(line)
            continue
        if not current and (not stripped or stripped in ACCESS or END_OF_NAMESPACE.match(line)):
            if comment:
                yield Statement(comment, [])
            comment = []
            yield Statement([], [line])
            continue
        current.append(line)
        open_brackets += balance(line)
        code = re.sub(r"\s*//.*", "", line).rstrip()
        ends = code.endswith((";", "}")) or NAMESPACE.match(line)
        if ends and (open_brackets == 0 or NAMESPACE.match(line)):
            yield Statement(comment, current)
            comment, current, open_brackets = [], [], 0


def declaration(text):
    """A function without its body and its initializers; anything else as it is."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        seen = text[:i].rstrip()
        if depth == 0 and c == "{" and "(" in seen and not seen.endswith("="):
            return seen + ";"
        if depth == 0 and c == ":" and text[i + 1:i + 2] != ":" and text[i - 1:i] != ":" and seen.endswith((")", "noexcept")):
            return seen + ";"
    return text


def public_lines(statement):
    """The lines of a class without private parts and bodies."""
    if statement.text.lstrip().startswith("enum"):
        return statement.lines
    head = next(i for i, line in enumerate(statement.lines) if line.rstrip().endswith("{"))
    shown, is_public = statement.lines[:head + 1], True
    for member in statements(statement.lines[head + 1:-1]):
        text = member.text.strip()
        if text in ACCESS:
            is_public = text != "private:"
        if not is_public or text.startswith("friend"):
            continue
        shown += member.comment
        if TYPE.match(text) and "{" in text and len(member.lines) > 1:
            shown += public_lines(member)
        elif member.lines:
            shown += declaration(member.text).split("\n")
    while not shown[-1].strip():
        shown.pop()
    return shown + [statement.lines[-1]]


def title(statement):
    match = TYPE.match(statement.text)
    if match:
        return "%s %s" % ("enum" if "enum" in match[1] else match[1], match[2])
    if statement.text.startswith("using "):
        return statement.text.split()[1]
    text = re.sub(r"^template <.*>\n", "", statement.text)
    operator = re.search(r"operator\S+?(?=\()", text)
    while re.search(r"<[^<>]*>", text):  # a type's arguments may have parentheses: std::function<bool(int)> Name();
        text = re.sub(r"<[^<>]*>", "", text)
    words = re.findall(r"[\w:]+", re.split(r"[(={;]", text)[0])
    return operator[0] if operator else words[-1]


def code_of(statement):
    if TYPE.match(statement.text) and "{" in statement.text and len(statement.lines) > 1:
        return public_lines(statement)
    return declaration(statement.text).split("\n")


def declarations(lines):
    """(namespace, statement) of what a header declares."""
    namespaces, found = [], []
    for statement in statements(lines):
        match = NAMESPACE.match(statement.text)
        if match:
            namespaces.append(match[1])
        elif END_OF_NAMESPACE.match(statement.text):
            namespaces.pop()
        elif namespaces and namespaces[0].startswith("weir") and statement.text.strip():
            if not FORWARD.match(statement.text) and not statement.text.startswith("using ::"):
                found.append(("::".join(namespaces), statement))
    return found


def header_page(path, text):
    lines = text.split("\n")
    end = next(i for i, line in enumerate(lines) if not line.startswith("//"))
    parts = ["## %s\n\n%s\n" % (os.path.basename(path), comment_text(lines[:end]))]
    body = [line for line in lines[end:] if not line.startswith(("#", "static_assert"))]
    previous = None
    for namespace, statement in declarations(body):
        name = title(statement)
        if name != previous:  # one heading for a function's overloads
            prefix = namespace[len("weir"):].lstrip(":")
            parts.append("\n### %s\n" % (re.sub(r"(\w+)$", prefix + r"::\1", name) if prefix else name))
        if statement.comment:
            parts.append("\n%s\n" % comment_text(statement.comment))
        parts.append("\n```cpp\n%s\n```\n" % "\n".join(code_of(statement)))
        previous = name
    return "".join(parts) if len(parts) > 1 else ""


def headers_of(tree, text, seen):
    """The headers that a public one includes, and those that these include where they declare nothing themselves."""
    for path in INCLUDE.findall(text):
        if path in seen:
            continue
        seen.add(path)
        content = read(os.path.join(tree, path))
        if content.startswith("// Generated by ops/generator"):
            continue
        if "\nnamespace " in content:
            yield path, content
        else:
            yield from headers_of(tree, content, seen)


def main(tree, *outs):
    for out in outs:
        name = os.path.splitext(os.path.basename(out))[0]
        text = read(os.path.join(tree, "weir", name + ".h"))
        top = [line for line in text.split("\n") if line.startswith("//")]
        page = "# weir/%s.h\n\n%s\n" % (name, comment_text(top))
        page += "".join("\n" + header_page(path, content) for path, content in headers_of(tree, text, set()))
        with open(out, "w", encoding="utf-8") as file:
            file.write(page)


if __name__ == "__main__":
    main(*sys.argv[1:])
