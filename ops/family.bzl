"""One family of ops: a folder ops/<family> with one list of ops in each file (ops/families.h)."""

def op_family(name, srcs, hdrs = [], deps = []):
    """A library <name>_ops of the family's files.

    Args:
      name: the family, and its folder.
      srcs: its files.
      hdrs: headers that only these files include.
      deps: what they need beyond that.
    """
    native.cc_library(
        name = name + "_ops",
        srcs = srcs + hdrs,
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
