"""The library of a family's kernels, and the list of its files."""

load("//tools:cc.bzl", "cc_library")
load("//tools:file_lists.bzl", "camel_case", "files_without_header", "write_source")

def kernel_family(name, deps, support = [], elsewhere = [], copts = []):
    """Defines <name>_kernels: every .cc file of the folder, and Register<Name>Kernels of register_kernels.h.

    A file FILE.cc without a header of its name has a function RegisterFileKernels, and is found here.

    Args:
      name: of the family.
      deps: of the library.
      support: files of the library, .h and .cc, that register no kernels.
      elsewhere: .cc files without a header of their name that belong to other libraries of the folder.
      copts: compiler flags, VECTOR_COPTS where the compiler is to vectorise.
    """
    files = files_without_header(support + elsewhere)
    functions = ["Register%sKernels" % camel_case(file[:-len(".cc")]) for file in files]
    lines = ["#include \"kernels/cpu/register_kernels.h\"", "namespace weir {"]
    lines += ["void %s(DeviceKernels& kernels);" % function for function in functions]
    lines += ["void Register%sKernels(DeviceKernels& kernels) {" % camel_case(name)]
    lines += ["  %s(kernels);" % function for function in functions]
    lines += ["}", "}  // namespace weir"]
    write_source(name + "_kernel_list", name + "_kernels.cc", lines)
    cc_library(
        name = name + "_kernels",
        srcs = files + support + [name + "_kernels.cc"],
        copts = copts,
        deps = deps + ["//kernels/cpu:kernel_list", "//kernels:kernel"],
    )
