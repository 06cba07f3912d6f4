// Writes and reads files for formats_interop_test.py, which compares them with what TensorFlow writes and
// reads.
//
//   format_tool write_checkpoint PREFIX     tensors of every dtype, one of them in slices
//   format_tool print_checkpoint PREFIX     one JSON line per tensor: name, dtype, shape, bytes or strings in
//   hex format_tool write_events DIRECTORY      scalars, a histogram, a graph format_tool write_records PATH
//   KIND     KIND: none, gzip, zlib format_tool print_records PATH KIND     each record in hex format_tool
//   write_graph DIRECTORY       graph.pb, graph.pbtxt, graph.meta of y = x * w + 1 with a variable w
//   format_tool print_graph PATH            a binary GraphDef as we import it: one line "NAME OP" per node
#include <cmath>
#include <complex>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "graph/graph_builder.h"
#include "graph/interchange/graph_def.h"
#include "graph/interchange/meta_graph.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/bundle_reader.h"
#include "kernels/formats/bundle_writer.h"
#include "kernels/formats/checkpoint_state.h"
#include "kernels/formats/event_file.h"
#include "kernels/formats/record_io.h"
#include "nlohmann/json.hpp"
#include "ops/register_ops.h"

namespace weir {
namespace {

absl::Status WriteCheckpoint(const std::string& prefix) {
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<BundleWriter> writer, BundleWriter::Create(prefix));
  std::vector<float> matrix(300 * 200);
  for (size_t i = 0; i < matrix.size(); ++i) matrix[i] = 0.5f * static_cast<float>(i);
  const std::vector<std::pair<std::string, Tensor>> tensors = {
      {"dense/kernel", Tensor::FromSpan<float>({300, 200}, matrix)},
      {"float64", Tensor::Vector<double>({1e300, -0.0, 3.141592653589793})},
      {"int32", Tensor::From<int32_t>({2, 1}, {-1, 2147483647})},
      {"uint8", Tensor::Vector<uint8_t>({0, 255})},
      {"int16", Tensor::Vector<int16_t>({-32768})},
      {"int8", Tensor::Vector<int8_t>({-128, 127})},
      {"string",
       Tensor::From<std::string>({2, 2}, {"", "abc", std::string("\0\xff", 2), std::string(1000, 'x')})},
      {"complex64", Tensor::Vector<std::complex<float>>({{1, -2}})},
      {"int64", Tensor::Vector<int64_t>({std::numeric_limits<int64_t>::min()})},
      {"bool", Tensor::Vector<bool>({true, false})},
      {"bfloat16", Tensor::Vector<Bfloat16>({Bfloat16(1.5f)})},
      {"uint16", Tensor::Vector<uint16_t>({65535})},
      {"complex128", Tensor::Scalar<std::complex<double>>({3, 4})},
      {"float16", Tensor::Vector<Half>({Half(-65504.0f)})},
      {"uint32", Tensor::Vector<uint32_t>({4294967295u})},
      {"uint64", Tensor::Vector<uint64_t>({std::numeric_limits<uint64_t>::max()})},
      {"global_step", Tensor::Scalar<int64_t>(42)},
      {"empty", Tensor(DType::kFloat32, Shape({0, 3}))},
  };
  for (const auto& [name, tensor] : tensors) WEIR_RETURN_IF_ERROR(writer->Add(name, tensor));
  for (int part = 0; part < 3; ++part) {
    const TensorSlice slice{{{part * 100, 100}, {0, TensorSlice::Extent::kAll}}};
    WEIR_RETURN_IF_ERROR(writer->AddSlice("partitioned", Shape({300, 200}), slice,
                                          tensors[0].second.Slice(part * 100, part * 100 + 100)));
  }
  // Enough names for several restart points of the index.
  for (int i = 0; i < 200; ++i) {
    WEIR_RETURN_IF_ERROR(writer->Add(absl::StrCat("layer_", i, "/bias"), Tensor::Scalar<int32_t>(i)));
  }
  WEIR_RETURN_IF_ERROR(writer->Finish());
  return WriteCheckpointState(DirectoryOf(prefix), {prefix, {prefix}});
}

absl::Status PrintCheckpoint(const std::string& prefix) {
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<BundleReader> reader, BundleReader::Open(prefix));
  for (const std::string& name : reader->names()) {
    WEIR_ASSIGN_OR_RETURN(const Tensor tensor, reader->Read(name));
    nlohmann::json line = {{"name", name}, {"dtype", std::string(DTypeName(tensor.dtype()))}};
    line["shape"] = std::vector<int64_t>(tensor.shape().dims().begin(), tensor.shape().dims().end());
    if (tensor.dtype() == DType::kString) {
      line["strings"] = nlohmann::json::array();
      for (const std::string& value : tensor.flat<std::string>())
        line["strings"].push_back(absl::BytesToHexString(value));
    } else {
      line["bytes"] = absl::BytesToHexString(
          absl::string_view(static_cast<const char*>(tensor.data()), tensor.num_bytes()));
    }
    std::printf("%s\n", line.dump().c_str());
  }
  return absl::OkStatus();
}

// y = x * w + 1, with what tf.train.Saver's import needs to know of the variable w.
absl::StatusOr<std::unique_ptr<Graph>> MakeGraph() {
  GraphBuilder g(StandardOps());
  const auto device = g.DeviceScope("/device:CPU:0");
  const Output x =
      g.AddOp("Placeholder", {}, {{"dtype", DType::kFloat32}, {"shape", PartialShape({-1})}}, "x");
  const Output handle =
      g.AddOp("VarHandleOp", {},
              {{"dtype", DType::kFloat32}, {"shape", PartialShape({2})}, {"shared_name", "w"}}, "w");
  const Output initial = g.AddOp(
      "Const", {}, {{"dtype", DType::kFloat32}, {"value", Tensor::Vector<float>({3, 4})}}, "w/initial");
  g.AddNode("AssignVariableOp", {handle, initial}, {{"dtype", DType::kFloat32}}, "w/Assign");
  const Output w = g.AddOp("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}}, "w/Read");
  const Output one =
      g.AddOp("Const", {}, {{"dtype", DType::kFloat32}, {"value", Tensor::From<float>({2}, {1, 1})}}, "one");
  g.AddOp("AddV2", {g.AddOp("Mul", {x, w}, {}, "product"), one}, {}, "y");
  g.graph().variables().push_back({"w", "w:0", "w/Assign", "w/Read:0", "w/initial:0", true});
  g.graph().collections()["losses"] = {"y:0"};
  return g.Finish();
}

absl::Status WriteGraph(const std::string& directory) {
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Graph> graph, MakeGraph());
  FileSystem& files = PosixFileSystem();
  WEIR_ASSIGN_OR_RETURN(const std::string bytes, GraphDefBytes(*graph));
  WEIR_ASSIGN_OR_RETURN(const std::string text, GraphDefText(*graph));
  WEIR_ASSIGN_OR_RETURN(const std::string meta, MetaGraphBytes(*graph, nullptr));
  WEIR_RETURN_IF_ERROR(WriteFileAtomically(files, directory + "/graph.pb", bytes));
  WEIR_RETURN_IF_ERROR(WriteFileAtomically(files, directory + "/graph.pbtxt", text));
  return WriteFileAtomically(files, directory + "/graph.meta", meta);
}

absl::Status PrintGraph(const std::string& path) {
  WEIR_ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(PosixFileSystem(), path));
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Graph> graph, GraphFromGraphDefBytes(bytes, StandardOps()));
  for (const auto& node : graph->nodes())
    std::printf("%s %s\n", node->name().c_str(), node->op_name().c_str());
  return absl::OkStatus();
}

absl::Status WriteEvents(const std::string& directory) {
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<EventWriter> writer, EventWriter::Create(directory));
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Graph> graph, MakeGraph());
  WEIR_ASSIGN_OR_RETURN(const std::string graph_def, GraphDefBytes(*graph));
  WEIR_RETURN_IF_ERROR(writer->AddGraph(0, graph_def));
  WEIR_RETURN_IF_ERROR(writer->AddSessionLog(0, EventWriter::SessionStatus::kStart));
  for (int step = 1; step <= 5; ++step) {
    WEIR_RETURN_IF_ERROR(writer->AddScalar(step, "loss", 1.0f / static_cast<float>(step)));
  }
  WEIR_RETURN_IF_ERROR(writer->AddHistogram(5, "weights", Tensor::Vector<float>({-1, 0, 0.5f, 2})));
  return writer->Close();
}

absl::StatusOr<Compression> ParseKind(const std::string& kind) {
  if (kind == "none") return Compression::kNone;
  if (kind == "gzip") return Compression::kGzip;
  if (kind == "zlib") return Compression::kZlib;
  return absl::InvalidArgumentError(absl::StrCat("unknown compression ", kind));
}

absl::Status WriteRecords(const std::string& path, const std::string& kind) {
  WEIR_ASSIGN_OR_RETURN(const Compression compression, ParseKind(kind));
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<RecordWriter> writer, RecordWriter::Create(path, compression));
  for (int i = 0; i < 100; ++i) {
    WEIR_RETURN_IF_ERROR(writer->Write(std::string(i * i, static_cast<char>(i))));
  }
  return writer->Close();
}

absl::Status PrintRecords(const std::string& path, const std::string& kind) {
  WEIR_ASSIGN_OR_RETURN(const Compression compression, ParseKind(kind));
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<RecordReader> reader, RecordReader::Open(path, compression));
  std::string record;
  while (true) {
    WEIR_ASSIGN_OR_RETURN(const bool found, reader->ReadNext(&record));
    if (!found) return absl::OkStatus();
    std::printf("%s\n", absl::BytesToHexString(record).c_str());
  }
}

absl::Status Run(const std::vector<std::string>& args) {
  const std::string command = args.empty() ? "" : args[0];
  if (command == "write_checkpoint" && args.size() == 2) return WriteCheckpoint(args[1]);
  if (command == "print_checkpoint" && args.size() == 2) return PrintCheckpoint(args[1]);
  if (command == "write_events" && args.size() == 2) return WriteEvents(args[1]);
  if (command == "write_records" && args.size() == 3) return WriteRecords(args[1], args[2]);
  if (command == "print_records" && args.size() == 3) return PrintRecords(args[1], args[2]);
  if (command == "write_graph" && args.size() == 2) return WriteGraph(args[1]);
  if (command == "print_graph" && args.size() == 2) return PrintGraph(args[1]);
  return absl::InvalidArgumentError("see the top of tests/interop/format_tool.cc");
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) {
  const absl::Status status = weir::Run({argv + 1, argv + argc});
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
