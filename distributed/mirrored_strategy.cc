#include "distributed/mirrored_strategy.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "distributed/broadcast_variables.h"
#include "distributed/collectives/device_group.h"
#include "distributed/collectives/gpu_group.h"
#include "graph/types/device_name.h"
#include "graph/types/status_macros.h"
#include "kernels/cuda/gpu_links.h"
#include "ops/mirrored_variables.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"

namespace weir {
namespace {

using Collections = std::map<std::string, std::vector<std::string>>;

// Of which every tower's entries count.
constexpr const char* kCollectionsOfAll[] = {"local_variables", "metric_variables", "update_ops"};

// The same in every process that has devices of these names: FNV-1a.
int64_t GroupKeyOf(const std::vector<std::string>& devices, bool has_processes, bool nccl) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : absl::StrCat(absl::StrJoin(devices, ","), has_processes ? " of each process" : "",
                                   nccl ? "" : " without NCCL")) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return static_cast<int64_t>(hash >> 1) | Communicator::kFirstDeviceGroup;
}

// "/device:CPU:1"
std::string WithinTask(const DeviceName& name) {
  DeviceName result;
  result.type = name.type;
  result.index = name.index;
  return result.ToString();
}

// The definition of another copy, whose handle has that name.
VariableDef CopyOf(const VariableDef& first, const std::string& handle) {
  VariableDef copy = first;
  copy.variable_name = std::string(absl::StripSuffix(handle, ":0"));
  copy.handle_name = handle;
  copy.initializer_name = copy.variable_name + "/Assign";
  copy.snapshot_name = copy.variable_name + "/Read/ReadVariableOp:0";
  return copy;
}

absl::Status CheckGradients(absl::string_view asker, const DistributedOptimizerOptions& options) {
  WEIR_RETURN_IF_ERROR(CheckGradientAveraging(asker, options));
  if (options.backward_passes_per_step == 1) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(asker, ": each run of the train op makes a step; backward_passes_per_step must be 1, is ",
                   options.backward_passes_per_step));
}

std::string Describe(const Graph& graph, const VariableDef& def) {
  const absl::StatusOr<Output> value = graph.FindOutput(def.snapshot_name);
  return absl::StrCat("'", def.variable_name, "', ",
                      value.ok() ? TypeString(value->dtype(), value->shape()) : "?",
                      def.trainable ? "" : ", not trainable");
}

// Gives each of the devices, in their order, its rank of the group under that name. A strategy of the same
// devices before has made the same group.
absl::Status Offer(const std::vector<Device*>& devices, const std::string& name,
                   const std::vector<RefPtr<Communicator>>& ranks) {
  for (size_t i = 0; i < devices.size(); ++i) {
    const auto joined = devices[i]->resources().LookupOrCreate<Communicator>(
        Communicator::kContainer, name, [&]() -> absl::StatusOr<RefPtr<Communicator>> { return ranks[i]; });
    WEIR_RETURN_IF_ERROR(joined.status());
  }
  return absl::OkStatus();
}

// None where one of them is no GPU of NVIDIA.
std::vector<RefPtr<GpuLinks>> LinksOf(const std::vector<Device*>& devices) {
  std::vector<RefPtr<GpuLinks>> links;
  for (Device* const device : devices) {
    absl::StatusOr<RefPtr<GpuLinks>> found =
        device->resources().Lookup<GpuLinks>(Communicator::kContainer, GpuLinks::kName);
    if (!found.ok()) return {};
    links.push_back(*std::move(found));
  }
  return links;
}

bool AreAlike(const Graph& graph, const VariableDef& a, const VariableDef& b) {
  const absl::StatusOr<Output> value_a = graph.FindOutput(a.snapshot_name);
  const absl::StatusOr<Output> value_b = graph.FindOutput(b.snapshot_name);
  return value_a.ok() && value_b.ok() && value_a->dtype() == value_b->dtype() &&
         value_a->shape() == value_b->shape() && a.trainable == b.trainable;
}

}  // namespace

// One pass over all towers: what each of them makes, and what it sees of the others.
class MirroredStrategy::Towers {
 public:
  Towers(GraphBuilder& g, const std::vector<std::string>& devices)
      : g_(g), devices_(devices), before_(g.graph().collections()) {}

  void Build(int index, absl::FunctionRef<void()> build, SourceLocation where) {
    const auto device = g_.DeviceScope(devices_[index]);
    if (index == 0) return BuildFirst(build);
    const auto scope = g_.NameScope(absl::StrCat("replica_", index));
    const std::vector<VariableDef> all = g_.graph().variables();
    const Collections collected = g_.graph().collections();
    g_.graph().variables() = SeenBy(index, all);
    g_.graph().collections() = before_;
    g_.graph().collections()["global_step"] = CollectedIn(collected, "global_step");
    const auto num_seen = static_cast<int64_t>(g_.graph().variables().size());
    build();
    const std::vector<VariableDef> made(g_.graph().variables().begin() + num_seen,
                                        g_.graph().variables().end());
    const Collections own = std::exchange(g_.graph().collections(), collected);
    g_.graph().variables() = all;
    if (g_.ok()) Keep(own);
    if (g_.ok()) Mirror(index, made, where);
  }

  // After the last tower.
  void Finish() {
    if (!g_.ok() || devices_.size() == 1) return;
    for (const std::vector<std::string>& handles : handles_) NoteMirrored(g_.graph(), handles);
  }

 private:
  static std::vector<std::string> CollectedIn(const Collections& collections, const std::string& name) {
    const auto found = collections.find(name);
    return found == collections.end() ? std::vector<std::string>() : found->second;
  }

  void BuildFirst(absl::FunctionRef<void()> build) {
    const size_t num_before = g_.graph().variables().size();
    build();
    const std::vector<std::string> steps = CollectedIn(g_.graph().collections(), "global_step");
    const std::vector<VariableDef>& all = g_.graph().variables();
    for (size_t i = num_before; i < all.size(); ++i) {
      // There is one global step, whoever asks for it first.
      if (std::find(steps.begin(), steps.end(), all[i].variable_name) != steps.end()) continue;
      made_.push_back(all[i]);
      handles_.push_back({all[i].handle_name});
    }
  }

  // The variables as that replica's tower sees them: its own copies.
  std::vector<VariableDef> SeenBy(int index, const std::vector<VariableDef>& all) const {
    std::vector<VariableDef> seen;
    for (const VariableDef& def : all) {
      const auto is_def = [&def](const VariableDef& other) { return other.handle_name == def.handle_name; };
      if (std::any_of(made_.begin(), made_.end(), is_def)) continue;
      const std::vector<Output> copies = OtherCopies(g_.graph(), def.handle_name);
      const bool is_mirrored = static_cast<int>(copies.size()) >= index;
      seen.push_back(is_mirrored ? CopyOf(def, copies[index - 1].name()) : def);
    }
    return seen;
  }

  void Keep(const Collections& own) {
    for (const char* const name : kCollectionsOfAll) {
      const std::vector<std::string> entries = CollectedIn(own, name);
      std::vector<std::string>& all = g_.graph().collections()[name];
      all.insert(all.end(), entries.begin() + static_cast<int64_t>(CollectedIn(before_, name).size()),
                 entries.end());
    }
  }

  // What this tower made are copies of what the first one made.
  void Mirror(int index, const std::vector<VariableDef>& made, SourceLocation where) {
    Graph& graph = g_.graph();
    for (size_t i = 0; i < std::max(made.size(), made_.size()); ++i) {
      if (i < made.size() && i < made_.size() && AreAlike(graph, made_[i], made[i])) continue;
      const auto describe = [&](const std::vector<VariableDef>& tower) {
        return i < tower.size() ? Describe(graph, tower[i]) : "none";
      };
      return g_.SetError(absl::InvalidArgumentError(absl::StrCat(
                             "MirroredStrategy: all towers must make the same variables; as number ", i + 1,
                             " that of replica 0 makes ", describe(made_), ", that of replica ", index, " ",
                             describe(made))),
                         where);
    }
    for (size_t i = 0; i < made.size(); ++i) {
      const absl::StatusOr<Output> value = graph.FindOutput(made_[i].snapshot_name);
      Node* const assign = graph.FindNode(made[i].initializer_name);
      const VariableDef expected = CopyOf(made_[i], made[i].handle_name);
      if (!value.ok() || assign == nullptr || expected.initializer_name != made[i].initializer_name ||
          expected.snapshot_name != made[i].snapshot_name) {
        return g_.SetError(
            absl::InvalidArgumentError(absl::StrCat("MirroredStrategy: the names around variable '",
                                                    made[i].variable_name, "' are taken by other nodes")),
            where);
      }
      graph.SetInput(assign, 1, *value);
      graph.collections()["local_variables"].push_back(made[i].handle_name);
      handles_[i].push_back(made[i].handle_name);
    }
  }

  GraphBuilder& g_;
  const std::vector<std::string>& devices_;
  const Collections before_;
  std::vector<VariableDef> made_;                  // by the first tower
  std::vector<std::vector<std::string>> handles_;  // of the copies of each of them
};

absl::StatusOr<std::vector<std::string>> MirroredStrategy::ChooseDevices(
    const Runtime& runtime, const std::vector<std::string>& asked) {
  std::vector<std::string> all, chosen;
  for (const bool wants_gpus : {true, false}) {
    for (const std::unique_ptr<Device>& device : runtime.devices()) {
      if ((device->type() == "GPU") != wants_gpus || (!wants_gpus && device->type() != "CPU")) continue;
      all.push_back(WithinTask(device->name()));
    }
    if (wants_gpus) chosen = all;
  }
  if (asked.empty()) return chosen.empty() ? all : chosen;
  chosen.clear();
  std::set<std::string> seen;
  for (const std::string& text : asked) {
    WEIR_ASSIGN_OR_RETURN(const DeviceName name, DeviceName::Parse(text));
    const std::string device = WithinTask(name);
    if (std::find(all.begin(), all.end(), device) == all.end()) {
      return absl::InvalidArgumentError(absl::StrCat("MirroredStrategy: there is no device '", text,
                                                     "' in this process, which has ",
                                                     absl::StrJoin(all, ", ")));
    }
    if (!seen.insert(device).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("MirroredStrategy: the device '", text, "' is listed twice"));
    }
    chosen.push_back(device);
  }
  return chosen;
}

absl::StatusOr<int64_t> MirroredStrategy::JoinDevices(Runtime& runtime,
                                                      const std::vector<std::string>& devices,
                                                      const RefPtr<RankGroup>& processes, bool nccl) {
  const int64_t key = GroupKeyOf(devices, processes != nullptr, nccl);
  std::vector<Device*> found(devices.size());
  for (const std::unique_ptr<Device>& device : runtime.devices()) {
    const auto at = std::find(devices.begin(), devices.end(), WithinTask(device->name()));
    if (at != devices.end()) found[at - devices.begin()] = device.get();
  }
  WEIR_RETURN_IF_ERROR(Offer(found, Communicator::NameOfGroup(key), MakeDeviceGroup(devices, processes)));
  // With other processes behind them, devices meet in the host's memory.
  const std::vector<RefPtr<GpuLinks>> links =
      processes == nullptr && nccl ? LinksOf(found) : std::vector<RefPtr<GpuLinks>>();
  if (!links.empty()) {
    WEIR_RETURN_IF_ERROR(Offer(found, NameOfGpuGroup(key), MakeGpuGroup(links, MakeDeviceGroup(devices))));
  }
  return key;
}

absl::StatusOr<std::unique_ptr<MirroredStrategy>> MirroredStrategy::Create(Runtime& runtime,
                                                                           const MirroredOptions& options) {
  WEIR_RETURN_IF_ERROR(CheckGradients("MirroredStrategy", options.gradients));
  WEIR_ASSIGN_OR_RETURN(std::vector<std::string> devices, ChooseDevices(runtime, options.devices));
  WEIR_ASSIGN_OR_RETURN(const int64_t key, JoinDevices(runtime, devices, nullptr, options.nccl));
  return std::unique_ptr<MirroredStrategy>(
      new MirroredStrategy(std::move(devices), options.gradients, 0, 1, key));
}

void MirroredStrategy::RunAll(GraphBuilder& g, absl::FunctionRef<void(const Replica&)> build,
                              SourceLocation where) const {
  const int num_copies = NumCopies(g.graph());
  if (num_copies != 0 && num_copies != num_devices()) {
    g.SetError(
        absl::InvalidArgumentError(absl::StrCat("MirroredStrategy: the graph's variables have ", num_copies,
                                                " copies, but there are ", num_devices(), " devices")),
        where);
  }
  Towers towers(g, devices_);
  for (int i = 0; i < num_devices(); ++i) {
    towers.Build(
        i,
        [&] {
          build({.index = i,
                 .rank = process_ * num_devices() + i,
                 .num_replicas_in_sync = num_replicas_in_sync()});
        },
        where);
  }
  towers.Finish();
}

bool MirroredStrategy::CheckOneForEach(GraphBuilder& g, absl::string_view what, size_t count,
                                       SourceLocation where) const {
  if (g.ok() && count != devices_.size()) {
    g.SetError(absl::InvalidArgumentError(absl::StrCat("MirroredStrategy: there are ", num_devices(),
                                                       " devices in this process, but ", count, " ", what)),
               where);
  }
  return g.ok();
}

std::vector<Output> MirroredStrategy::Split(GraphBuilder& g, Output batch, SourceLocation where) {
  if (num_devices() == 1) return {batch};
  std::vector<Output> parts =
      weir::Split(g, Const(g, 0, {}, where), batch, num_devices(), {.name = "split_batch"}, where);
  parts.resize(num_devices());  // after an error there are none
  return parts;
}

Output MirroredStrategy::Reduce(GraphBuilder& g, const std::vector<Output>& values, Reduction reduction,
                                bool averages, SourceLocation where) {
  if (!CheckOneForEach(g, "values to reduce", values.size(), where)) return {};
  if (num_replicas_in_sync() == 1) return values[0];
  const int64_t instance = CollectiveNodes::NextInstance(g);
  const std::vector<Output> reduced = Run(g, [&](const Replica& replica) {
    return NodesFrom(instance).AllReduce(g, values[replica.index], reduction, averages, where);
  });
  if (!g.ok()) return {};
  // A step that wants one of them must run all.
  std::vector<Node*> nodes;
  for (const Output& one : reduced) nodes.push_back(one.node);
  const auto device = g.DeviceScope(devices_[0]);
  const auto after_all = g.ControlScope(nodes);
  return Identity(g, reduced[0], {.name = "Reduce"}, where);
}

std::unique_ptr<MirroredOptimizer> MirroredStrategy::MakeOptimizerOf(
    std::function<std::unique_ptr<Optimizer>()> make) {
  std::vector<std::unique_ptr<Optimizer>> optimizers;
  for (int i = 0; i < num_devices(); ++i) optimizers.push_back(make());
  return std::unique_ptr<MirroredOptimizer>(new MirroredOptimizer(*this, std::move(optimizers)));
}

absl::Status MirroredOptimizer::Check(GraphBuilder& g, absl::string_view what, size_t count,
                                      SourceLocation where) const {
  if (!strategy_.CheckOneForEach(g, what, count, where)) return g.status();
  for (const std::unique_ptr<Optimizer>& optimizer : optimizers_) {
    if (optimizer == nullptr) {
      g.SetError(absl::InvalidArgumentError("MirroredStrategy: the optimizer is null"), where);
    }
  }
  return g.status();
}

absl::StatusOr<Node*> MirroredOptimizer::Minimize(GraphBuilder& g, const std::vector<Output>& losses,
                                                  const ModelVariable& global_step,
                                                  const GradientOptions& options, SourceLocation where) {
  WEIR_ASSIGN_OR_RETURN(const auto gradients, ComputeGradients(g, losses, options, where));
  return ApplyGradients(g, gradients, global_step, where);
}

absl::StatusOr<std::vector<std::vector<GradientAndVariable>>> MirroredOptimizer::ComputeGradients(
    GraphBuilder& g, const std::vector<Output>& losses, const GradientOptions& options,
    SourceLocation where) {
  WEIR_RETURN_IF_ERROR(Check(g, "losses", losses.size(), where));
  // Chosen among the first copies, by their names.
  std::vector<ModelVariable> chosen = options.variables ? *options.variables : TrainableVariables(g);
  if (options.only) {
    chosen.erase(std::remove_if(chosen.begin(), chosen.end(),
                                [&](const ModelVariable& variable) { return !options.only(variable); }),
                 chosen.end());
  }
  for (const ModelVariable& variable : chosen) {
    if (strategy_.num_devices() == 1 || !variable.handle) break;
    const size_t num_others = OtherCopies(g.graph(), variable.handle.name()).size();
    if (num_others + 1 == static_cast<size_t>(strategy_.num_devices())) continue;
    g.SetError(absl::InvalidArgumentError(absl::StrCat(
                   "MirroredStrategy: the variable '", variable.name,
                   "' has no copy on each device: it must be made in a tower, which Run builds")),
               where);
    return g.status();
  }
  std::vector<std::vector<GradientAndVariable>> gradients;
  absl::Status status;
  strategy_.RunAll(
      g,
      [&](const Replica& replica) {
        std::vector<ModelVariable> variables;
        for (const ModelVariable& first : chosen) {
          variables.push_back(first);
          if (replica.index == 0 || !first.handle) continue;
          const std::string handle =
              OtherCopies(g.graph(), first.handle.name())[static_cast<size_t>(replica.index) - 1].name();
          for (const ModelVariable& copy : AllVariables(g)) {
            if (copy.handle.name() == handle) variables.back() = copy;
          }
        }
        absl::StatusOr<std::vector<GradientAndVariable>> own = optimizers_[replica.index]->ComputeGradients(
            g, losses[replica.index], {.variables = variables}, where);
        status.Update(own.status());
        if (own.ok()) gradients.push_back(*std::move(own));
      },
      where);
  WEIR_RETURN_IF_ERROR(g.status());
  WEIR_RETURN_IF_ERROR(status);
  return gradients;
}

// No device updates before all of this process have averaged. `*begin`, where there are other processes: the
// node that all updates come after.
std::vector<std::vector<GradientAndVariable>> MirroredOptimizer::Average(
    GraphBuilder& g, const std::vector<std::vector<GradientAndVariable>>& gradients, Node** begin,
    SourceLocation where) const {
  const int64_t instance = CollectiveNodes::NextInstance(g);
  std::vector<AveragedGradients> averaged;
  std::vector<Node*> done;
  strategy_.RunAll(
      g,
      [&](const Replica& replica) {
        const auto scope = g.NameScope("MirroredStrategy");
        averaged.push_back(AverageGradients(g, strategy_.NodesFrom(instance), gradients[replica.index],
                                            strategy_.gradients_, where));
        done.push_back(Group(g, averaged.back().collectives, {.name = "averaged"}, where));
      },
      where);
  std::vector<std::vector<GradientAndVariable>> result;
  if (strategy_.num_processes_ > 1) {
    *begin = BeginUpdates(g, done, where);
    done = {*begin};
  }
  if (!g.ok()) return result;
  strategy_.RunAll(
      g,
      [&](const Replica& replica) {
        const auto scope = g.NameScope("MirroredStrategy");
        result.push_back(GradientsAfter(g, done, std::move(averaged[replica.index].gradients), where));
      },
      where);
  return result;
}

// One section for all devices: between those of two of them a failure would be told, and one of them would
// never update.
Node* MirroredOptimizer::BeginUpdates(GraphBuilder& g, const std::vector<Node*>& after,
                                      SourceLocation where) const {
  if (!g.ok()) return nullptr;
  const auto device = g.DeviceScope(strategy_.devices_[0]);
  const auto scope = g.NameScope("MirroredStrategy");
  const auto control = g.ControlScope(after);
  return strategy_.NodesFrom(CollectiveNodes::NextInstance(g)).BeginUpdates(g, where);
}

Node* MirroredOptimizer::EndUpdates(GraphBuilder& g, const Node* begin, Node* after,
                                    SourceLocation where) const {
  const auto device = g.DeviceScope(strategy_.devices_[0]);
  const auto scope = g.NameScope("MirroredStrategy");
  const auto control = g.ControlScope({after});
  return CollectiveNodes::EndUpdates(g, begin, where);
}

absl::StatusOr<Node*> MirroredOptimizer::ApplyGradients(
    GraphBuilder& g, const std::vector<std::vector<GradientAndVariable>>& gradients,
    const ModelVariable& global_step, SourceLocation where) {
  WEIR_RETURN_IF_ERROR(Check(g, "lists of gradients", gradients.size(), where));
  Node* begin = nullptr;
  const std::vector<std::vector<GradientAndVariable>> averaged =
      strategy_.num_replicas_in_sync() == 1 ? gradients : Average(g, gradients, &begin, where);
  WEIR_RETURN_IF_ERROR(g.status());
  std::vector<Node*> trains;
  absl::Status status;
  strategy_.RunAll(
      g,
      [&](const Replica& replica) {
        const absl::StatusOr<Node*> train =
            optimizers_[replica.index]->ApplyGradients(g, averaged[replica.index], {}, where);
        status.Update(train.status());
        trains.push_back(train.value_or(nullptr));
      },
      where);
  WEIR_RETURN_IF_ERROR(g.status());
  WEIR_RETURN_IF_ERROR(status);
  Node* train = Join(g, trains, global_step, where);
  WEIR_RETURN_IF_ERROR(g.status());
  if (begin != nullptr) train = EndUpdates(g, begin, train, where);
  WEIR_RETURN_IF_ERROR(g.status());
  g.graph().collections()["train_op"] = {train->name()};
  return train;
}

Node* MirroredOptimizer::Join(GraphBuilder& g, const std::vector<Node*>& trains,
                              const ModelVariable& global_step, SourceLocation where) const {
  if (!global_step.handle) return Group(g, trains, {.name = "train"}, where);
  const auto beside_counter = g.ColocationScope(global_step.handle.node);
  Node* const updated = Group(g, trains, {.name = "train/update"}, where);
  const Output one = ConstOf(g, global_step.dtype, 1, {.name = "train/value"}, where);
  const auto after_updates = g.ControlScope({updated});
  return AssignAddVariableOp(g, global_step.handle, one, {.name = "train"}, where);
}

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(Server& server, std::vector<std::string> devices,
                                                         const MultiWorkerMirroredOptions& options,
                                                         int64_t group_key)
    : MirroredStrategy(std::move(devices), options.gradients, server.replicas()->ranks()->rank(),
                       server.replicas()->ranks()->size(), group_key),
      server_(server),
      timeout_(options.timeout) {}

absl::StatusOr<std::unique_ptr<MultiWorkerMirroredStrategy>> MultiWorkerMirroredStrategy::Create(
    Server& server, const MultiWorkerMirroredOptions& options) {
  WEIR_RETURN_IF_ERROR(CheckGradients("MultiWorkerMirroredStrategy", options.gradients));
  WEIR_RETURN_IF_ERROR(FormReplicas(server, options.timeout));
  WEIR_ASSIGN_OR_RETURN(std::vector<std::string> devices, ChooseDevices(server.runtime(), options.devices));
  WEIR_ASSIGN_OR_RETURN(const int64_t key,
                        JoinDevices(server.runtime(), devices, server.replicas()->ranks(), /*nccl=*/true));
  return std::unique_ptr<MultiWorkerMirroredStrategy>(
      new MultiWorkerMirroredStrategy(server, std::move(devices), options, key));
}

int MultiWorkerMirroredStrategy::worker() const { return server_.replicas()->ranks()->rank(); }
int MultiWorkerMirroredStrategy::num_workers() const { return server_.replicas()->ranks()->size(); }

HookPtr MultiWorkerMirroredStrategy::BroadcastGlobalVariablesHook() {
  return BroadcastVariablesHook(*server_.replicas(), server_.runtime().environment(), timeout_,
                                {.num_devices = num_devices(), .group_key = group_key()});
}

}  // namespace weir
