"""CUDA sources: cuda_library compiles them with nvcc where there is a toolkit, and is empty where there is none."""

load("@cuda//:toolkit.bzl", "CUDA_HOME", "NVCC_VERSION")
load(":cc.bzl", "cc_library")

# Code for the H100 and the H200, and an intermediate form that drivers compile for GPUs to come.
_ARCHITECTURES = ["-gencode=arch=compute_90,code=[sm_90,compute_90]"]

# The warnings of .bazelrc, as far as what nvcc generates passes them.
_WARNINGS = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-missing-field-initializers", "-Wno-sign-compare"]

_FLAGS = [
    "-std=c++20",
    "-O3",
    "-ccbin=g++",
    # Functions of the standard library that are constexpr are for the device, too.
    "--expt-relaxed-constexpr",
    # Products and sums are rounded one by one, as the CPU's kernels do it: who wants them fused says std::fma.
    "--fmad=false",
    "-Xcompiler=" + ",".join(["-fPIC", "-ffunction-sections", "-fdata-sections"] + _WARNINGS),
]

def _cuda_objects_impl(ctx):
    context = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps]).compilation_context
    includes = (["-I" + path for path in context.quote_includes.to_list()] +
                ["-isystem=" + path for path in context.includes.to_list() + context.system_includes.to_list()])
    objects = []
    for source in ctx.files.srcs:
        out = ctx.actions.declare_file("%s/%s.o" % (ctx.label.name, source.basename[:-len(".cu")]))
        objects.append(out)
        ctx.actions.run(
            executable = CUDA_HOME + "/bin/nvcc",
            arguments = _FLAGS + _ARCHITECTURES + includes + ["-c", source.path, "-o", out.path],
            # The toolkit's files are no inputs: another version of it is another action all the same.
            env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "WEIR_NVCC_VERSION": NVCC_VERSION},
            inputs = depset([source] + ctx.files.hdrs, transitive = [context.headers]),
            outputs = [out],
            mnemonic = "CudaCompile",
            progress_message = "Compiling " + source.short_path,
        )
    return [DefaultInfo(files = depset(objects))]

_cuda_objects = rule(
    implementation = _cuda_objects_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"], mandatory = True),
        "hdrs": attr.label_list(allow_files = [".h"]),
        "deps": attr.label_list(providers = [CcInfo]),
    },
)

def cuda_library(name, srcs, hdrs = [], deps = [], visibility = None):
    """A cc_library of .cu files; without a toolkit nothing is behind its headers, and who calls it must select as it does."""
    _cuda_objects(
        name = name + "_objects",
        srcs = srcs,
        hdrs = hdrs,
        deps = deps,
        tags = ["manual"],
        visibility = ["//visibility:private"],
    )
    cc_library(
        name = name,
        srcs = select({
            "@cuda//:available": [":%s_objects" % name],
            "//conditions:default": [],
        }),
        hdrs = hdrs,
        visibility = visibility,
        deps = deps + ["//third_party:cudart"],
    )
