"""The list of a family's files with kernels."""

load("//tools:camel_case.bzl", "camel_case")

def kernel_list(name, files):
    """Writes <name>_kernels.cc, which defines Register<Name>Kernels of register_kernels.h.

    Args:
      name: of the family.
      files: FILE.cc has a function RegisterFileKernels.
    """
    functions = ["Register%sKernels" % camel_case(file[:-len(".cc")]) for file in files]
    lines = ["#include \"kernels/cpu/register_kernels.h\"", "namespace weir {"]
    lines += ["void %s(DeviceKernels& kernels);" % function for function in functions]
    lines += ["void Register%sKernels(DeviceKernels& kernels) {" % camel_case(name)]
    lines += ["  %s(kernels);" % function for function in functions]
    lines += ["}", "}  // namespace weir"]
    native.genrule(
        name = name + "_kernel_list",
        outs = [name + "_kernels.cc"],
        cmd = "cat > $@ <<'END'\n%s\nEND" % "\n".join(lines),
    )
