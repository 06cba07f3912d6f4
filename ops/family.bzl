"""One family of ops: a folder ops/<family> with one list of ops in each file (ops/families.h)."""

load("//tools:cc.bzl", "cc_library")
load("//tools:file_lists.bzl", "camel_case", "files_without_header", "write_source")

def op_family(name, support = [], deps = []):
    """A library <name>_ops of the family's files, and the list of these.

    A file FILE.cc without a header of its name defines std::vector<OpDef> FileOps(), and is found here.

    Args:
      name: the family, and its folder.
      support: what only these files include: headers, and their sources.
      deps: what they need beyond what every family does.
    """
    files = files_without_header(["*_test.cc"])
    lists = [camel_case(file[:-len(".cc")]) + "Ops" for file in files]
    lines = ["#include \"ops/families.h\"", "namespace weir {"]
    lines += ["std::vector<OpDef> %s();" % list for list in lists]
    lines += [
        "const std::vector<OpList>& %sFiles() {" % camel_case(name),
        "  static const auto* const files = new std::vector<OpList>{%s};" % ", ".join(lists),
        "  return *files;",
        "}",
        "}  // namespace weir",
    ]
    write_source(name + "_files", name + "_files.cc", lines)
    cc_library(
        name = name + "_ops",
        srcs = files + support + [name + "_files.cc"],
        copts = ["-O1"],  # tables of records that run once: not worth the optimiser's time
        precompiled = True,
        visibility = ["//ops:__subpackages__"],
        deps = [
            "//graph",
            "//graph:gradients",
            "//graph/types:shape",
            "//graph/types:status_macros",
            "//graph/types:tensor",
            "//ops:families",
            "//ops:gradient_formulas",
            "//ops:shape_functions",
            "//third_party:absl",
        ] + deps,
    )
