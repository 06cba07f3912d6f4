#!/usr/bin/env python3
"""Checks the references that the build writes: docs/write_api.py's pages have everything that the headers declare, nothing
private, no bodies; the list of ops has the default of each option.

usage: api_test.py HEADERS.tar OPS.md PAGE...
"""

import os
import re
import sys
import tarfile

INCLUDE = re.compile(r'^#include "(weir/internal/[^"]+)"', re.MULTILINE)
# clang-format puts what a namespace declares at the beginning of a line.
TYPE = re.compile(r"^(?:class|struct|enum class) (\w+)[^;,>]*\{$", re.MULTILINE)
FUNCTION = re.compile(r"^[A-Za-z][\w:<>,*& ]*?[ &*](\w+)\([^{]*?\);$", re.MULTILINE)
CODE = re.compile(r"^```cpp\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LITERAL_OR_COMMENT = re.compile(r'//.*|"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)\'')


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def headers_in(path):
    with tarfile.open(path) as archive:
        return {member.name: archive.extractfile(member).read().decode() for member in archive if member.isfile()}


def page_has_what_headers_declare(headers, page):
    """Of the headers that the public one includes directly."""
    name = os.path.splitext(os.path.basename(page))[0]
    headings = set(re.findall(r"^### (?:\w+ )?(?:\w+::)*(\S+)$", read(page), re.MULTILINE))
    complaints, count = [], 0
    for path in INCLUDE.findall(headers["weir/%s.h" % name]):
        header = headers[path]
        for declared in TYPE.findall(header) + FUNCTION.findall(header):
            count += 1
            if declared not in headings:
                complaints.append("%s: %s of %s is missing" % (page, declared, path))
    umbrella = name == "layers"
    return complaints if count > 2 or umbrella else complaints + ["%s: only %d declarations found" % (page, count)]


def code_is_public_and_whole(page):
    complaints = ["%s: a heading is no name: %s" % (page, name)
                  for name in re.findall(r"^### (bool|int|double|void|char|std::\w+|\W*)$", read(page), re.MULTILINE)]
    for code in CODE.findall(read(page)):
        plain = LITERAL_OR_COMMENT.sub("", code)
        if re.search(r"\benum\b[^;{]*\{\s*\}", plain):
            complaints.append("%s: an enumeration without its values:\n%s" % (page, code))
        if "private:" in plain:
            complaints.append("%s: private parts:\n%s" % (page, code))
        if re.search(r"\)[^;=]*\{ return", plain):
            complaints.append("%s: a function's body:\n%s" % (page, code))
        if any(plain.count(a) != plain.count(b) for a, b in ("{}", "()", "[]")):
            complaints.append("%s: brackets do not match:\n%s" % (page, code))
    return complaints


def ops_have_defaults(page):
    """An op that takes options of its own lists their fields, each with a value."""
    complaints, count = [], 0
    for section in read(page).split("\n### ")[1:]:
        op = section.partition("\n")[0]
        if not re.search(r"const (?!NodeOptions)\w+Options& options", section):
            continue
        count += 1
        fields = re.search(r"^- Options and their defaults: (.*)$", section, re.MULTILINE)
        if not fields or not all(re.fullmatch(r"`\.\w+ = [^`]+`", field) for field in re.split(r", (?=`)", fields[1])):
            complaints.append("%s: %s has options without defaults" % (page, op))
    return complaints if count > 100 else complaints + ["%s: only %d ops with options" % (page, count)]


def main(archive, ops, *api_pages):
    headers = headers_in(archive)
    complaints = ops_have_defaults(ops)
    print("\n".join(complaints + ["[%s] api.ops_have_defaults" % ("  FAILED  " if complaints else "       OK ")]))
    failed = bool(complaints)
    for page in api_pages:
        complaints = page_has_what_headers_declare(headers, page) + code_is_public_and_whole(page)
        failed += bool(complaints)
        name = os.path.splitext(os.path.basename(page))[0]
        print("\n".join(complaints + ["[%s] api.%s" % ("  FAILED  " if complaints else "       OK ", name)]))
    return 1 if failed or not api_pages else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
