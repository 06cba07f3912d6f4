#include "distributed/command/doctor_command.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "distributed/command/flag_parser.h"
#include "distributed/command/printable_stream.h"
#include "distributed/doctor/doctor.h"
#include "distributed/server.h"
#include "distributed/task_config.h"
#include "graph/types/status_macros.h"
#include "kernels/cuda/cuda_libraries.h"
#include "kernels/cuda/cudart_api.h"
#include "kernels/cuda/gpu_report.h"

namespace weir {
namespace {

struct DoctorFlags {
  std::string cluster_spec;
  std::string ps_hosts;
  std::string worker_hosts;
  std::string job_name;
  int task_index = 0;
  std::string token_file;
  double timeout_seconds = 5;
  DoctorOptions doctor;
};

void Declare(DoctorFlags* values, FlagParser* flags) {
  SecurityOptions& security = values->doctor.security;
  flags->Add(
      "cluster_spec", &values->cluster_spec,
      "all tasks: 'ps|host:port,worker|host:port;host:port' (or $TF_CONFIG, or a scheduler's variables)");
  flags->Add("ps_hosts", &values->ps_hosts, "or the ps tasks, 'host:port,host:port'");
  flags->Add("worker_hosts", &values->worker_hosts, "and the workers");
  flags->Add("job_name", &values->job_name, "the job of this machine's task, if it has one");
  flags->Add("task_index", &values->task_index, "its index in the job", {.least = 0});
  flags->Add("model_dir", &values->doctor.model_dir, "a directory that the job will write to");
  flags->Add("timeout", &values->timeout_seconds, "seconds to wait for each answer",
             {.least = 0.001, .most = 3600});
  flags->Add("token_file", &values->token_file, "file with the job's secret (or $WEIR_JOB_TOKEN)");
  flags->Add("tls_cert", &security.tls_cert_file, "certificate, PEM (or $WEIR_TLS_CERT)");
  flags->Add("tls_key", &security.tls_key_file, "its key, PEM (or $WEIR_TLS_KEY)");
  flags->Add("tls_ca", &security.tls_ca_file, "CA of the others' certificates, PEM (or $WEIR_TLS_CA)");
  flags->Add("insecure", &security.insecure, "its servers let everybody in who reaches them");
}

// "a:1,b:2" as the tasks of a job of the flag cluster_spec.
std::string JobText(const std::string& job, const std::string& hosts) {
  return absl::StrCat(job, "|", absl::StrReplaceAll(hosts, {{",", ";"}, {" ", ""}}));
}

absl::Status ReadCluster(const DoctorFlags& flags, DoctorOptions* doctor) {
  std::string spec = flags.cluster_spec;
  if (!flags.worker_hosts.empty() || !flags.ps_hosts.empty()) {
    if (!spec.empty() || flags.worker_hosts.empty()) {
      return absl::InvalidArgumentError(
          "weir doctor: --worker_hosts with or without --ps_hosts, or --cluster_spec alone");
    }
    if (!flags.ps_hosts.empty()) spec = JobText("ps", flags.ps_hosts) + ",";
    spec += JobText("worker", flags.worker_hosts);
  }
  if (spec.empty()) {
    WEIR_ASSIGN_OR_RETURN(const TaskConfig task, TaskConfigFromEnvironment());
    doctor->cluster = task.cluster();
    if (doctor->cluster.address(task.task()).ok()) doctor->self = task.task();
    return absl::OkStatus();
  }
  WEIR_ASSIGN_OR_RETURN(doctor->cluster, ClusterSpec::FromFlag(spec));
  if (flags.job_name.empty()) return absl::OkStatus();
  doctor->self = TaskName{flags.job_name, flags.task_index};
  return TaskConfig::Create(doctor->cluster, *doctor->self).status();
}

void Print(const std::vector<Finding>& findings) {
  size_t width = sizeof("cluster") - 1;  // what is printed later stands below the same columns
  for (const Finding& finding : findings) width = std::max(width, finding.subject.size());
  for (const Finding& finding : findings) {
    const char* const kind = finding.kind == Finding::Kind::kGood       ? "ok   "
                             : finding.kind == Finding::Kind::kDoubtful ? "note "
                                                                        : "WRONG";
    std::printf("%s  %-*s  %s\n", kind, static_cast<int>(width), finding.subject.c_str(),
                Printable(finding.text).c_str());
  }
}

}  // namespace

absl::StatusOr<int> RunDoctor(const std::vector<std::string>& args) {
  DoctorFlags values;
  FlagParser flags(
      "weir doctor", "[flags]",
      "Says what is wrong with a cluster: names, ports, who answers there, tokens, versions, clocks,\n"
      "disk; and which GPUs this machine has. It may be asked before a job, or from any machine while\n"
      "it runs. The exit code is 1 when something is wrong.");
  Declare(&values, &flags);
  WEIR_RETURN_IF_ERROR(flags.Parse(args));
  if (flags.wants_help()) {
    std::fputs(flags.Help().c_str(), stdout);
    return 0;
  }
  if (!flags.positional().empty()) {
    return absl::InvalidArgumentError(absl::StrCat("weir doctor: '", flags.positional()[0], "' is no flag"));
  }
  DoctorOptions& doctor = values.doctor;
  doctor.timeout = absl::Seconds(values.timeout_seconds);
  doctor.listen = TextFromEnvironment("WEIR_LISTEN");
  WEIR_RETURN_IF_ERROR(flags.CheckNotEmpty({"token_file", "tls_cert", "tls_key", "tls_ca"}));
  if (!values.token_file.empty()) {
    WEIR_ASSIGN_OR_RETURN(doctor.security.token, ReadTokenFile(values.token_file));
  }
  WEIR_RETURN_IF_ERROR(ReadCluster(values, &doctor));
  const std::vector<Finding> findings = Examine(doctor);
  Print(findings);
  std::fflush(stdout);  // a driver may take its time, or hang
  const std::unique_ptr<CudaApi> cuda = MakeCudartApi();
  CudaLibraries libraries(CudaLibraryFolders());
  const std::vector<Finding> of_gpus = ExamineGpus(ReportGpus(cuda.get(), libraries));
  Print(of_gpus);
  const auto is_bad = [](const Finding& finding) { return finding.kind == Finding::Kind::kBad; };
  return std::any_of(findings.begin(), findings.end(), is_bad) ||
         std::any_of(of_gpus.begin(), of_gpus.end(), is_bad);
}

}  // namespace weir
