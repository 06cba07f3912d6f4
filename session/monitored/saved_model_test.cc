#include "session/monitored/saved_model.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/memory_files.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"
#include "session/monitored/test_program.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFloat[] = "attr { key: 'dtype' value { type: DT_FLOAT } }";

// y = x * w, with w = 3, and a counter that the initializer of the model sets to 7.
class SavedModelTest : public testing::Test {
 protected:
  void SetUp() override {
    const Output x = Placeholder(g_, DType::kFloat32, {-1}, {.name = "x"});
    const ModelVariable w = MakeVariable(g_, "w", Tensor::Scalar(3.0f));
    const Output y = Mul(g_, x, w.value, {.name = "y"});
    const Output counter = VarHandleOp(g_, DType::kInt64, Shape(), {.shared_name = "counter"});
    content_.initializer = AssignVariableOp(g_, counter, Const(g_, int64_t{7}));
    const Output count = ReadVariableOp(g_, counter, DType::kInt64);
    content_.signatures = {{"serving_default", SignatureOf({{"x", x}}, {{"y", y}})},
                           {"count", SignatureOf({}, {{"count", count}})}};
    init_ = InitializeVariables(g_);
    saver_ = Saver::Build(g_).value();
    session_ = SessionOver(g_.graph());
    ASSERT_TRUE(session_->Run({}, {}, {init_}).ok());
  }

  std::unique_ptr<Session> SessionOver(const Graph& graph) {
    return Session::Create(graph, {&worker_}, runtime_->kernels(), {.isolate_session_state = true}).value();
  }

  std::string Written() {
    const std::string directory = EmptyDirectory("model");
    const absl::Status status = WriteSavedModel(directory, *session_, saver_.get(), content_);
    EXPECT_TRUE(status.ok()) << status;
    return directory;
  }

  std::unique_ptr<Runtime> runtime_ = Runtime::Create().value();
  LocalWorker worker_{*runtime_, runtime_->task()};
  GraphBuilder g_{StandardOps()};
  Node* init_ = nullptr;
  SavedModelContent content_;
  std::unique_ptr<Saver> saver_;
  std::unique_ptr<Session> session_;
};

TEST_F(SavedModelTest, GoesRound) {
  const std::string directory = Written();
  const auto model = SavedModel::Read(directory, StandardOps());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE((*model)->skipped().empty());
  const auto session = SessionOver((*model)->graph());
  ASSERT_TRUE((*model)->Restore(*session).ok());
  const auto outputs = (*model)->Run(*session, "serving_default", {{"x", Tensor::Vector<float>({1, 2})}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(outputs->at("y").ToString(), "float[2] {3, 6}");
  EXPECT_EQ((*model)->Run(*session, "count", {})->at("count").scalar<int64_t>(), 7);
  // Only what belongs to a SavedModel.
  EXPECT_THAT(PosixFileSystem().ListDirectory(directory).value(),
              testing::UnorderedElementsAre("saved_model.pb", "variables"));
}

TEST_F(SavedModelTest, DefaultsStandForInputsThatAreNotGiven) {
  content_.signatures["serving_default"].defaults.emplace("x", Tensor::Vector<float>({5}));
  const std::string directory = Written();
  const auto model = SavedModel::Read(directory, StandardOps()).value();
  const auto session = SessionOver(model->graph());
  ASSERT_TRUE(model->Restore(*session).ok());
  EXPECT_EQ(model->Run(*session, "serving_default", {})->at("y").ToString(), "float[1] {15}");
}

TEST_F(SavedModelTest, GraphsWithoutVariablesAndAssets) {
  GraphBuilder g(StandardOps());
  const std::string outside = EmptyDirectory("outside");
  const std::string file = outside + "/names.txt";
  ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), file, "left\nright\n").ok());
  const Output path = Const(g, file, {.name = "path"});
  const Output table = HashTableV2(g, DType::kInt64, DType::kString);
  Node* const fill = InitializeTableFromTextFileV2(g, table, path, /*key_index=*/-1, /*value_index=*/-2);
  const Output key = Placeholder(g, DType::kInt64, Shape(), {.name = "key"});
  const Output name = LookupTableFindV2(g, table, key, Const(g, "nowhere"));
  ASSERT_TRUE(g.ok()) << g.status();
  const auto writer = SessionOver(g.graph());
  SavedModelContent content = {.signatures = {{"name", SignatureOf({{"key", key}}, {{"name", name}})}},
                               .initializer = fill,
                               .assets = {{"path:0", file}}};
  const std::string directory = EmptyDirectory("assets");
  const absl::Status written = WriteSavedModel(directory, *writer, nullptr, content);
  ASSERT_TRUE(written.ok()) << written;
  ASSERT_TRUE(PosixFileSystem().Remove(file).ok());
  const auto model = SavedModel::Read(directory, StandardOps()).value();
  const auto session = SessionOver(model->graph());
  const absl::Status restored = model->Restore(*session);
  ASSERT_TRUE(restored.ok()) << restored;
  EXPECT_EQ(
      model->Run(*session, "name", {{"key", Tensor::Scalar<int64_t>(1)}})->at("name").scalar<std::string>(),
      "right");

  const std::string other = EmptyDirectory("other");
  EXPECT_EQ(WriteSavedModel(other, *writer, nullptr, content).code(),
            absl::StatusCode::kNotFound);  // the file is gone
  ASSERT_TRUE(PosixFileSystem().CreateDirectories(outside + "/more").ok());
  for (const char* folder : {"/", "/more/"}) {
    ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), outside + folder + "names.txt", "left\n").ok());
  }
  content.assets = {{"path:0", file}, {"key:0", outside + "/more/names.txt"}};
  EXPECT_THAT(Message(WriteSavedModel(other, *writer, nullptr, content)),
              HasSubstr("would have one name in the model"));
  content.assets = {{"gone:0", file}};
  EXPECT_EQ(WriteSavedModel(other, *writer, nullptr, content).code(), absl::StatusCode::kNotFound);
}

TEST_F(SavedModelTest, ClearedDevices) {
  GraphBuilder g(StandardOps());
  ModelVariable w;
  {
    const auto device = g.DeviceScope("/device:CPU:0");
    w = MakeVariable(g, "w", Tensor::Scalar(3.0f));
  }
  Node* const init = InitializeVariables(g);
  const auto saver = Saver::Build(g).value();
  const auto session = SessionOver(g.graph());
  ASSERT_TRUE(session->Run({}, {}, {init}).ok());
  const std::string directory = EmptyDirectory("cleared");
  ASSERT_TRUE(WriteSavedModel(directory, *session, saver.get(), {.clear_devices = true}).ok());
  const auto model = SavedModel::Read(directory, StandardOps()).value();
  EXPECT_EQ(model->graph().FindNode("w")->requested_device().ToString(), "");
}

TEST_F(SavedModelTest, MistakesInWritingAreNamed) {
  const std::string directory = Written();
  EXPECT_EQ(WriteSavedModel(directory, *session_, saver_.get(), content_).code(),
            absl::StatusCode::kAlreadyExists);
  const std::string other = EmptyDirectory("other");
  SavedModelContent wrong = content_;
  wrong.tags.clear();
  EXPECT_EQ(WriteSavedModel(other, *session_, saver_.get(), wrong).code(),
            absl::StatusCode::kInvalidArgument);
  wrong = content_;
  wrong.signatures["serving_default"].outputs["y"].name = "z:0";
  const absl::Status unknown = WriteSavedModel(other, *session_, saver_.get(), wrong);
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(unknown), HasSubstr("the signature 'serving_default': 'y': the graph has no node 'z'"));
  wrong = content_;
  wrong.signatures["serving_default"].inputs["x"].dtype = DType::kInt32;
  EXPECT_THAT(Message(WriteSavedModel(other, *session_, saver_.get(), wrong)),
              HasSubstr("the signature says int32, the graph's 'x:0' is float"));
  EXPECT_THAT(PosixFileSystem().ListDirectory(other).value(), ElementsAre());
}

TEST_F(SavedModelTest, MissingAndDamagedFilesAreNamed) {
  const std::string directory = Written();
  EXPECT_EQ(SavedModel::Read(directory + "/none", StandardOps()).status().code(),
            absl::StatusCode::kNotFound);
  const auto tags = SavedModel::Read(directory, StandardOps(), {.tags = {"train"}}).status();
  EXPECT_EQ(tags.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(tags), HasSubstr("no MetaGraphDef has the tags [train]; there are 1: [serve]"));

  const std::string bytes = ReadWholeFile(PosixFileSystem(), directory + "/saved_model.pb").value();
  MemoryFiles files;
  files.Put("/m/saved_model.pb", bytes.substr(0, bytes.size() / 2));
  const auto cut = SavedModel::Read("/m", StandardOps(), {.file_system = &files}).status();
  EXPECT_EQ(cut.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(cut), HasSubstr("/m/saved_model.pb: the SavedModel does not parse"));

  // The graph alone.
  files.Put("/m/saved_model.pb", bytes);
  const auto model = SavedModel::Read("/m", StandardOps(), {.file_system = &files}).value();
  const auto session = SessionOver(model->graph());
  const absl::Status missing = model->Restore(*session);
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(missing),
              HasSubstr("/m/variables/variables.index: no such file, but the graph of /m has 1 variables"));
}

class SavedModelTextTest : public testing::Test {
 protected:
  // What Restore says of a model with this content.
  absl::Status Restore(const std::string& graph, const std::string& rest) {
    files_.Put("/m/saved_model.pbtxt",
               "meta_graphs { meta_info_def { tags: 'serve' } graph_def { " + graph + " } " + rest + " }");
    auto model = SavedModel::Read("/m", StandardOps(), {.file_system = &files_});
    if (!model.ok()) return model.status();
    model_ = *std::move(model);
    session_ = Session::Create(model_->graph(), {&worker_}, runtime_->kernels()).value();
    return model_->Restore(*session_);
  }

  MemoryFiles files_;
  std::unique_ptr<Runtime> runtime_ = Runtime::Create().value();
  LocalWorker worker_{*runtime_, runtime_->task()};
  std::unique_ptr<SavedModel> model_;
  std::unique_ptr<Session> session_;
};

TEST_F(SavedModelTextTest, HostileModelsAreErrors) {
  const std::string node = "node { name: 'x' op: 'Placeholder' " + std::string(kFloat) + " } ";
  const std::string cycle =
      "node { name: 'a' op: 'Identity' input: 'b' } node { name: 'b' op: 'Identity' input: 'a' }";
  EXPECT_THAT(Message(Restore(cycle, "")), HasSubstr("/m/saved_model.pbtxt: the graph has a cycle: "));
  EXPECT_THAT(
      Message(Restore(node,
                      "asset_file_def { tensor_info { name: 'x:0' } filename: '../etc/passwd' } "
                      "collection_def { key: 'saved_model_main_op' value { node_list { value: 'x' } } }")),
      HasSubstr("the asset '../etc/passwd' is no file in its folder assets"));
  EXPECT_THAT(Message(Restore(node,
                              "asset_file_def { tensor_info { name: 'x:0' } filename: 'gone' } "
                              "collection_def { key: 'legacy_init_op' value { node_list { value: 'x' } } }")),
              HasSubstr("/m/assets/gone"));
  EXPECT_THAT(Message(Restore(node,
                              "collection_def { key: 'saved_model_main_op' value { node_list { value: "
                              "['x', 'x'] } } }")),
              HasSubstr("the collection saved_model_main_op has 2 ops, must have one"));
  EXPECT_THAT(Message(Restore(node, "signature_def { key: '__saved_model_init_op' value {} }")),
              HasSubstr("the signature '__saved_model_init_op' names no op"));
  EXPECT_THAT(
      Message(Restore(
          node, "signature_def { key: 's' value { inputs { key: 'k' value { name: 'x:0' dtype: 77 } } } }")),
      HasSubstr("the signature 's': 'k': dtype 77"));
  EXPECT_THAT(Message(Restore(node,
                              "signature_def { key: 's' value { defaults { key: 'k' value { dtype: DT_FLOAT "
                              "tensor_shape { dim { size: 1000000000000 } } float_val: 1 } } } }")),
              HasSubstr("the signature 's': 'k': "));
}

TEST_F(SavedModelTextTest, SignaturesThatDoNotFitAreErrors) {
  const std::string graph = "node { name: 'x' op: 'Placeholder' " + std::string(kFloat) +
                            " } node { name: 'f' op: 'Unknown' input: 'x' }";
  ASSERT_TRUE(Restore(graph,
                      "signature_def { key: 'unknown' value { outputs { key: 'f' value { name: 'f:0' } } } } "
                      "signature_def { key: 'sparse' value { inputs { key: 's' value { coo_sparse { "
                      "values_tensor_name: 'x:0' } } } } }")
                  .ok());
  EXPECT_EQ(model_->skipped().size(), 1);
  const auto unknown = model_->Run(*session_, "unknown", {});
  EXPECT_THAT(Message(unknown.status()), HasSubstr("no op is named 'Unknown'"));
  const auto sparse = model_->Run(*session_, "sparse", {});
  EXPECT_EQ(sparse.status().code(), absl::StatusCode::kUnimplemented) << sparse.status();
}

}  // namespace
}  // namespace weir
