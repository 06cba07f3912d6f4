// Checkpoints: what their ops refuse.
#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;
using D = DType;
using List = std::vector<int64_t>;

Tensor Words(std::vector<std::string> words) {
  const auto count = static_cast<int64_t>(words.size());
  return Strings({count}, std::move(words));
}

void AddSaveV2(Suite& suite) {
  using Tensors = std::vector<Tensor>;
  const Tensor prefix = Strings({}, {"/does/not/exist/model"});
  OpRecord& record =
      suite.Op("SaveV2").TestedElsewhere("files: tests/conformance/io/files_and_checks_test.cc");
  record
      .Hostile({Words({"a", "b"}), Words({"w"}), Words({""}), Tensors{Floats({2})}},
               "prefix must be one string")
      .Hostile({prefix, Words({"w", "x"}), Words({""}), Tensors{Floats({2})}}, "tensor_names must be [1]")
      .Hostile({prefix, Words({"w"}), Words({}), Tensors{Floats({2})}}, "shape_and_slices must be [1]");
}

void AddRestoreV2(Suite& suite) {
  const Tensor prefix = Strings({}, {"/does/not/exist/model"});
  const AttrMap one_float = {{"dtypes", std::vector<DType>{D::kFloat32}}};
  OpRecord& record =
      suite.Op("RestoreV2").TestedElsewhere("files: tests/conformance/io/files_and_checks_test.cc");
  record.Hostile({Words({}), Words({"w"}), Words({""})}, "prefix must be one string", one_float)
      .Hostile({prefix, Words({}), Words({""})}, "tensor_names must be [1]", one_float)
      .Hostile({prefix, Words({"w"}), Words({"", ""})}, "shape_and_slices must be [1]", one_float)
      .Hostile({prefix, Words({"w"}), Words({""})}, "/does/not/exist", one_float,
               absl::StatusCode::kNotFound);
}

void AddFirstFormat(Suite& suite) {
  using Tensors = std::vector<Tensor>;
  const char kElsewhere[] = "files: tests/interop/saver_interop_test.py";
  const Tensor file = Strings({}, {"/does/not/exist/model"}), names = Words({"w"}), name = Strings({}, {"w"});
  const Tensors floats = {Floats({2})};
  suite.Op("Save")
      .TestedElsewhere(kElsewhere)
      .Hostile({Words({"a", "b"}), names, floats}, "")
      .Hostile({file, Words({"w", "x"}), floats}, "tensor_names must be [1]")
      .Hostile({file, Words({"w", "w"}), Tensors{Floats({2}), Floats({2})}}, "slices overlap")
      .Hostile({file, names, Tensors{Tensor(D::kUint64, Shape({1}))}},
               "Trying to save a tensor of type uint64");
  suite.Op("SaveSlices")
      .TestedElsewhere(kElsewhere)
      .Hostile({file, names, Words({}), floats}, "shapes_and_slices must be [1]")
      .Hostile({file, names, Words({"x"}), floats}, "x")
      .Hostile({file, names, Words({"4 0,3"}), floats}, "does not match the shape of the tensor to save")
      .Hostile({file, names, Words({"4 3,2"}), floats}, "");
  const AttrMap one = {{"dt", D::kFloat32}};
  const auto missing = absl::StatusCode::kNotFound;
  suite.Op("Restore")
      .TestedElsewhere(kElsewhere)
      .Hostile({file, name}, "/does/not/exist", one, missing)
      .Hostile({Words({"a", "b"}), name}, "", one);
  suite.Op("RestoreSlice")
      .TestedElsewhere(kElsewhere)
      .Hostile({file, name, Strings({}, {""})}, "/does/not/exist", one, missing)
      .Hostile({file, name, Words({"a", "b"})}, "shape_and_slice must be one string", one);
}

void AddShards(Suite& suite) {
  suite.Op("ShardedFilename")
      .TestedElsewhere("names: tests/conformance/io/files_and_checks_test.cc")
      .Hostile({Words({"a", "b"}), Int(0), Int(1)}, "basename must be one string")
      .Hostile({Strings({}, {"a"}), Ints({1, 2}), Int(1)}, "shard must be a scalar")
      .Hostile({Strings({}, {"a"}), Int(0), Ints({1, 2})}, "num_shards must be a scalar");
  suite.Op("ShardedFilespec")
      .Reference([](reference::Call& call) {
        std::string digits = std::to_string(call.in(1)[0].integer());
        digits.insert(0, digits.size() < 5 ? 5 - digits.size() : 0, '0');
        call.outputs[0] = reference::Array(reference::Index());
        call.outputs[0][0].text = call.in(0)[0].text + "-" + std::string(5, '?') + "-of-" + digits;
      })
      .Call({Strings({}, {"model"}), Int(3)})
      .Call({Strings({}, {""}), Int(1234567)})
      .Hostile({Words({"a", "b"}), Int(1)}, "basename must be one string")
      .Hostile({Strings({}, {"a"}), Ints({1, 2})}, "num_shards must be a scalar, got shape [2]");
  suite.Op("MergeV2Checkpoints")
      .TestedElsewhere("files: tests/conformance/io/files_and_checks_test.cc")
      .Hostile({Words({"a"}), Words({})}, "destination_prefix must be one string")
      .Hostile({Words({"/does/not/exist/model"}), Strings({}, {"/does/not/exist/merged"})}, "/does/not/exist",
               {}, absl::StatusCode::kNotFound);
}

}  // namespace

void AddCheckpointsRecords(Suite& suite) {
  AddSaveV2(suite);
  AddRestoreV2(suite);
  AddFirstFormat(suite);
  AddShards(suite);
}

}  // namespace weir::conformance
