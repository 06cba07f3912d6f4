#!/usr/bin/env python3
"""Checks that the documents agree with the checkout: quoted code is in its file, links lead somewhere, packages are listed."""

import os
import re
import sys

LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")
ANY_CODE = re.compile(r"```.*?```", re.DOTALL)
CODE = re.compile(r"```cpp\n(.*?)```", re.DOTALL)
DOCUMENTS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/dependencies.md", "kernels/null/README.md"]

ROOT = os.path.dirname(os.path.realpath(os.path.join(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"], "WORKSPACE")))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def code_in_the_readme_is_code_of_an_example():
    # Code that nobody compiles goes stale first where most people look.
    program = read("examples/fashion_mnist/fashion_mnist_terse.cc")
    blocks = CODE.findall(read("README.md"))
    if not blocks:
        return ["README.md shows no code"]
    return ["README.md: this is not in fashion_mnist_terse.cc:\n" + block for block in blocks if block.strip() not in program]


def links_lead_somewhere():
    return ["%s: no %s" % (document, target)
            for document in DOCUMENTS
            for target in LINK.findall(ANY_CODE.sub("", read(document))) if "://" not in target
            if not os.path.exists(os.path.join(ROOT, os.path.dirname(document), target))]


def every_package_has_its_reason():
    listed = re.search(r"PACKAGES=\((.*?)\n\)", read("tools/install_dependencies"), re.DOTALL).group(1)
    packages = re.sub(r"#.*", "", listed).split()
    explained = read("docs/dependencies.md")
    return ["docs/dependencies.md does not say why %s is needed" % package for package in packages
            if not re.search(r"^\|.*\b%s(?![\w-])" % re.escape(package), explained, re.MULTILINE)]


def packages_named_in_documents_exist():
    return ["%s: //%s: is no package" % (document, folder)
            for document in ("README.md", "CONTRIBUTING.md", "tools/quickstart")
            for folder in re.findall(r"(?<![\w/])//(\w[\w/]*):\w", read(document))
            if not os.path.exists(os.path.join(ROOT, folder, "BUILD"))]


def main():
    failed = 0
    for check in (code_in_the_readme_is_code_of_an_example, links_lead_somewhere, every_package_has_its_reason,
                  packages_named_in_documents_exist):
        complaints = check()
        failed += bool(complaints)
        print("\n".join(complaints + ["[%s] docs.%s" % ("  FAILED  " if complaints else "       OK ", check.__name__)]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
