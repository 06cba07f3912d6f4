"""The repositories that Bazel 4 wants in every workspace: Debian's packages and two folders of ours, nothing from the network."""

load(":cuda.bzl", "cuda_repository")

def _folder_repository_impl(context):
    # A path of a label's file is the way to a folder of this repository, wherever that is.
    if context.attr.beside:
        folder = context.path(context.attr.beside).dirname
    else:
        folder = context.path(context.attr.path)
    if not folder.exists:
        fail("@%s: there is no folder %s: install Debian's package %s" % (context.name, folder, context.attr.package))
    for child in folder.readdir():
        context.symlink(child, child.basename)

_folder_repository = repository_rule(
    implementation = _folder_repository_impl,
    attrs = {
        "path": attr.string(doc = "An absolute path."),
        "beside": attr.label(doc = "A file of the folder, instead of path."),
        "package": attr.string(doc = "Who brings the folder; for the error."),
    },
    doc = "A repository with the files of a folder of this machine.",
)

def weir_repositories():
    """What @weir needs to be built. Call it in WORKSPACE; repositories that are there already are kept."""
    wanted = {
        "platforms": dict(path = "/usr/share/bazel/platforms", package = "bazel-platforms"),
        "rules_java": dict(path = "/usr/share/bazel/rules/java", package = "bazel-rules-java"),
        "rules_proto": dict(path = "/usr/share/bazel/rules/proto", package = "bazel-rules-proto"),
        "rules_cc": dict(beside = Label("//third_party/rules_cc:WORKSPACE")),
        "remote_coverage_tools": dict(beside = Label("//third_party/remote_coverage_tools:WORKSPACE")),
    }
    for name, folder in wanted.items():
        if name not in native.existing_rules():
            _folder_repository(name = name, **folder)
    if "cuda" not in native.existing_rules():
        cuda_repository(name = "cuda")
