"""One family of ops: a folder ops/<family> with one list of ops in each file (ops/families.h)."""

load("//tools:camel_case.bzl", "camel_case")

def op_family(name, support = [], deps = []):
    """A library <name>_ops of the family's files, and the list of these.

    A file FILE.cc without a header of its name defines std::vector<OpDef> FileOps(), and is found here.

    Args:
      name: the family, and its folder.
      support: what only these files include: headers, and their sources.
      deps: what they need beyond what every family does.
    """
    with_header = [header[:-len("h")] + "cc" for header in native.glob(["*.h"])]
    files = native.glob(["*.cc"], exclude = with_header + ["*_test.cc"])
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
    native.genrule(
        name = name + "_files",
        outs = [name + "_files.cc"],
        cmd = "cat > $@ <<'END'\n%s\nEND" % "\n".join(lines),
    )
    native.cc_library(
        name = name + "_ops",
        srcs = files + support + [name + "_files.cc"],
        copts = ["-O1"],  # tables of records that run once: not worth the optimiser's time
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
