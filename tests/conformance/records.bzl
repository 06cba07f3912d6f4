"""The list of files with records of the conformance suite (suite.h)."""

load("//tools:file_lists.bzl", "camel_case", "write_source")

def _function(file):
    return "Add%sRecords" % camel_case(file.split("/")[-1][:-len(".cc")])

def record_list(name, files):
    """Writes <name>.cc, which defines RecordFiles().

    Args:
      name: of the target.
      files: of records, as FAMILY/FILE.cc.
    """
    functions = [_function(file) for file in files]
    lines = ["#include \"tests/conformance/suite.h\"", "namespace weir::conformance {"]
    lines += ["void %s(Suite& suite);" % function for function in functions]
    lines += [
        "const std::vector<AddRecords>& RecordFiles() {",
        "  static const auto* const files = new std::vector<AddRecords>{",
    ]
    lines += ["      %s," % function for function in functions]
    lines += ["  };", "  return *files;", "}", "}  // namespace weir::conformance"]
    write_source(name, name + ".cc", lines)
