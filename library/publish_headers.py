#!/usr/bin/env python3
"""Writes the tree of headers that users of the library see.

usage: publish_headers.py --out=DIR --root=DIR... HEADER...

A public HEADER becomes DIR/weir/NAME. What public headers include becomes DIR/weir/internal/PATH, PATH being its
path below one of the roots; the includes among them are rewritten to match. An include in quotes that is found below no
root must be a system's library: its name has to begin with one of SYSTEM.
"""
import argparse
import os
import re
import sys

INCLUDE = re.compile(r'^(\s*#\s*include\s+)"([^"]+)"')
SYSTEM = ("absl/",)


class Publisher:
    def __init__(self, out, roots):
        self.out = out
        self.roots = [root or "." for root in roots]
        self.published = {}

    def find(self, path):
        for root in self.roots:
            found = os.path.join(root, path)
            if os.path.exists(found):
                return found
        return None

    def publish_internal(self, path, source):
        if path not in self.published:
            self.published[path] = os.path.join("weir/internal", path)
            self.write(source, self.published[path])
        return self.published[path]

    def rewritten(self, line, source):
        match = INCLUDE.match(line)
        if not match or match[2].startswith(SYSTEM):
            return line
        found = self.find(match[2])
        if not found:
            sys.exit(f"publish_headers: {source} includes {match[2]}, which is no header of the library")
        target = self.published.get(match[2]) or self.publish_internal(match[2], found)
        return f'{match[1]}"{target}"{line[match.end():]}'

    def write(self, source, target):
        with open(source, encoding="utf-8") as file:
            lines = [self.rewritten(line, source) for line in file]
        target = os.path.join(self.out, target)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8") as file:
            file.writelines(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--root", action="append", required=True)
    parser.add_argument("headers", nargs="+")
    arguments = parser.parse_args()
    publisher = Publisher(arguments.out, arguments.root)
    for header in arguments.headers:
        publisher.published["library/" + os.path.basename(header)] = "weir/" + os.path.basename(header)
    for header in arguments.headers:
        publisher.write(header, "weir/" + os.path.basename(header))


if __name__ == "__main__":
    main()
