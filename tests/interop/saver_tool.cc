// Saves and restores for saver_interop_test.py a model of a float[2] variable "a" on the first CPU device and
// "b" on the second.
//
//   saver_tool save KIND PREFIX        a = {1, 2}, b = {11, 12}; KIND: sharded, renamed, partial,
//   asynchronous saver_tool restore KIND PREFIX     prints "a0 a1 b0 b1" after restoring; before, they are
//   {-1, 0, 9, 10} saver_tool keep PREFIX MINUTES...  saves at those minutes: the newest is kept, and one
//   every two hours
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "graph/graph_builder.h"
#include "graph/types/status_macros.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"
#include "session/local_worker.h"
#include "session/monitored/saver.h"
#include "session/runtime.h"
#include "session/session.h"

namespace weir {
namespace {

absl::StatusOr<SaverOptions> OptionsOf(const std::string& kind) {
  if (kind == "sharded") return SaverOptions{.sharded = true};
  if (kind == "renamed") return SaverOptions{.renamed = {{"old/x", "a"}, {"old/y", "b"}}};
  if (kind == "partial") return SaverOptions{.variables = {"b"}};
  if (kind == "asynchronous") return SaverOptions();
  return absl::InvalidArgumentError("unknown kind " + kind);
}

class Model {
 public:
  explicit Model(float begin)
      : runtime_(Runtime::Create({.num_cpus = 2}).value()),
        worker_(*runtime_, runtime_->task()),
        g(StandardOps()) {
    for (int i : {0, 1}) {
      const auto scope = g.DeviceScope(i == 0 ? "/device:CPU:0" : "/device:CPU:1");
      const float first = begin + 10 * static_cast<float>(i);
      variables_.push_back(MakeVariable(g, i == 0 ? "a" : "b", Tensor::Vector<float>({first, first + 1})));
    }
  }

  absl::StatusOr<Session*> Start() {
    Node* init = InitializeVariables(g);
    WEIR_ASSIGN_OR_RETURN(session_, Session::Create(g.graph(), {&worker_}, runtime_->kernels()));
    WEIR_RETURN_IF_ERROR(session_->Run({}, {}, {init}).status());
    return session_.get();
  }

  absl::Status Print() {
    WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> values,
                          session_->Run({}, {variables_[0].value, variables_[1].value}));
    for (const Tensor& value : values) {
      std::printf("%g %g ", value.flat<float>()[0], value.flat<float>()[1]);
    }
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<Runtime> runtime_;
  LocalWorker worker_;

 public:
  GraphBuilder g;

 private:
  std::vector<ModelVariable> variables_;
  std::unique_ptr<Session> session_;
};

absl::Status Save(const std::string& kind, const std::string& prefix) {
  WEIR_ASSIGN_OR_RETURN(const SaverOptions options, OptionsOf(kind));
  Model model(1);
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Saver> saver, Saver::Build(model.g, options));
  WEIR_ASSIGN_OR_RETURN(Session* const session, model.Start());
  if (kind != "asynchronous") return saver->Save(*session, prefix).status();
  WEIR_RETURN_IF_ERROR(saver->StartSave(*session, prefix).status());
  return saver->AwaitSave();
}

absl::Status Restore(const std::string& kind, const std::string& prefix) {
  WEIR_ASSIGN_OR_RETURN(const SaverOptions options, OptionsOf(kind));
  Model model(-1);
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Saver> saver, Saver::Build(model.g, options));
  WEIR_ASSIGN_OR_RETURN(Session* const session, model.Start());
  WEIR_RETURN_IF_ERROR(saver->Restore(*session, prefix));
  return model.Print();
}

absl::Status Keep(const std::string& prefix, const std::vector<std::string>& minutes) {
  absl::Time now = absl::UnixEpoch() + absl::Hours(1000);
  const absl::Time begin = now;
  Model model(1);
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Saver> saver,
                        Saver::Build(model.g, {.max_to_keep = 1,
                                               .keep_checkpoint_every_n_hours = 2,
                                               .write_meta_graph = false,
                                               .clock = [&now] { return now; }}));
  WEIR_ASSIGN_OR_RETURN(Session* const session, model.Start());
  for (const std::string& text : minutes) {
    int minute = 0;
    if (!absl::SimpleAtoi(text, &minute)) return absl::InvalidArgumentError("no number: " + text);
    now = begin + absl::Minutes(minute);
    WEIR_RETURN_IF_ERROR(saver->Save(*session, prefix, minute).status());
  }
  return absl::OkStatus();
}

absl::Status Run(const std::vector<std::string>& args) {
  if (args.size() == 4 && args[1] == "save") return Save(args[2], args[3]);
  if (args.size() == 4 && args[1] == "restore") return Restore(args[2], args[3]);
  if (args.size() >= 3 && args[1] == "keep") return Keep(args[2], {args.begin() + 3, args.end()});
  return absl::InvalidArgumentError(
      "usage: saver_tool save|restore KIND PREFIX, saver_tool keep PREFIX MINUTES...");
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) {
  const absl::Status status = weir::Run(std::vector<std::string>(argv, argv + argc));
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
