#!/usr/bin/env python3
"""Checks the site: mkdocs.yml lists every page, links and anchors resolve, quoted errors and flags are in the sources.

usage: site_test.py WEIR
"""

import os
import re
import subprocess
import sys

import pages

ROOT = os.path.dirname(os.path.realpath(os.path.join(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"], "WORKSPACE")))
DOCS = os.path.join(ROOT, "docs")

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ +(.*?)\s*$", re.MULTILINE)
# A literal, and the space between two that the compiler joins.
ESCAPES = {r"\"": '"', r"\n": "\n", r"\\": "\\", r"\t": "\t"}
JOINED = re.compile(r'(?<!\\)"\s*\n\s*"')
PLACEHOLDER = re.compile(r"<[a-z]+>")
# Flags of these are compared with what their --help says.
TOOL = re.compile(r"^(?:\S*/)?(weir (?:doctor|inspect|keys|launch|predict|serve)|tools/\w+)$")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def site_pages():
    return [page for page in pages.markdown_files(ROOT) if page.startswith("docs/")]


def mkdocs_lists_every_page():
    nav = read("mkdocs.yml").partition("\nnav:\n")[2]
    listed = ["docs/" + path for path in re.findall(r": (\S+\.md)$", nav, re.MULTILINE)]
    twice = sorted({page for page in listed if listed.count(page) > 1})
    return (["mkdocs.yml does not list %s" % page for page in sorted(set(site_pages()) - set(listed))] +
            ["mkdocs.yml lists %s, which is not there" % page for page in sorted(set(listed) - set(site_pages()))] +
            ["mkdocs.yml lists %s twice" % page for page in twice])


def anchors(page):
    """As GitHub and mkdocs make them of headings; the first of several alike."""
    found = set()
    for heading in HEADING.findall(FENCE.sub("", read(page))):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        found.add(re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-"))
    return found


def links_and_anchors_resolve():
    complaints = []
    for page in pages.markdown_files(ROOT):
        for link in LINK.findall(FENCE.sub("", read(page))):
            path, _, anchor = link.partition("#")
            if "://" in link or link.startswith("mailto:"):
                continue
            target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            if not os.path.exists(os.path.join(ROOT, target)):
                complaints.append("%s: no %s" % (page, link))
            elif anchor and target.endswith(".md") and anchor not in anchors(target):
                complaints.append("%s: no heading for %s" % (page, link))
    return complaints


def literals(text):
    """The text of a source with joined literals, as the compiler sees them."""
    return re.sub(r"\\[\"nt\\]", lambda match: ESCAPES[match[0]], JOINED.sub("", text))


def sources():
    found = {}
    for room in ("distributed", "graph", "kernels", "ops", "placer", "session"):
        for folder, _, names in os.walk(os.path.join(ROOT, room)):
            for name in names:
                if name.endswith((".cc", ".h")) and not name.endswith("_test.cc"):
                    path = os.path.relpath(os.path.join(folder, name), ROOT)
                    found[path] = literals(read(path))
    return found


def error_texts_are_in_the_sources():
    texts = sources()
    complaints = []
    errors = [block for page in site_pages() for block in pages.blocks(page, read(page)) if block.kind == "error"]
    for block in errors:
        # The parts between the placeholders; one file has them all. PrintNotice puts the first word before them.
        parts = [part for part in PLACEHOLDER.split(block.code.strip().removeprefix("weir: ")) if len(part) > 2]
        if not any(len(part) >= 8 for part in parts):
            complaints.append("%s: too little text to be found: %s" % (block.where(), block.code.strip()))
        elif not any(all(part in text for part in parts) for text in texts.values()):
            complaints.append("%s: no source has this error: %s" % (block.where(), block.code.strip()))
    return complaints if errors else ["no page has an error text"]


def exit_codes_are_those_of_the_header():
    codes = set(re.findall(r"inline constexpr int kExit\w+ = (\d+);", read("session/monitored/exit_code.h")))
    section = read("docs/troubleshooting.md").partition("## Exit codes\n")[2].partition("\n## ")[0]
    listed = set(re.findall(r"^\| (\d+) \|", section, re.MULTILINE))
    if codes and codes == listed:
        return []
    return ["docs/troubleshooting.md lists the exit codes %s, exit_code.h has %s" % (sorted(listed), sorted(codes))]


def shell_commands():
    """Where, and the words up to what belongs to another program, of each command of weir or tools/."""
    for page in pages.markdown_files(ROOT):
        for block in pages.blocks(page, read(page)):
            if block.language not in ("", "sh"):
                continue
            for line in block.code.replace("\\\n", " ").splitlines():
                words = line.partition(" #")[0].partition(" -- ")[0].split()
                for begin in range(len(words)):
                    match = TOOL.match(" ".join(words[begin:begin + 2])) or TOOL.match(words[begin])
                    if match:
                        yield block.where(), match[1], words[begin + 1:]
                        break


def flags_are_those_of_help():
    weir = os.path.abspath(sys.argv[1])
    helps, complaints, count = {}, [], 0
    for where, tool, words in shell_commands():
        if tool not in helps:
            command = [weir, tool.split()[1]] if tool.startswith("weir ") else [os.path.join(ROOT, tool)]
            helps[tool] = subprocess.run(command + ["--help"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                         universal_newlines=True, check=False).stdout
        for word in words:
            flag = word.partition("=")[0].lstrip("-")
            if word.startswith("-") and flag:
                count += 1
                if not re.search(r"(?<![\w-])--?%s(?![\w-])" % re.escape(flag), helps[tool]) and flag != "help":
                    complaints.append("%s: %s has no flag %s" % (where, tool, word))
    return complaints if count > 5 else ["only %d flags found: the test no longer sees the pages" % count]


def main():
    failed = 0
    for check in (mkdocs_lists_every_page, links_and_anchors_resolve, error_texts_are_in_the_sources,
                  exit_codes_are_those_of_the_header, flags_are_those_of_help):
        complaints = check()
        failed += bool(complaints)
        print("\n".join(complaints + ["[%s] site.%s" % ("  FAILED  " if complaints else "       OK ", check.__name__)]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
