// Configurations that are wrong, each by itself: every one is refused before anything is served, with a text
// that says what was found and what is wanted, and without the job's token in it.
#include <unistd.h>

#include <cstdlib>
#include <map>

#include "absl/strings/str_cat.h"
#include "distributed/command/serve_command.h"
#include "distributed/transport/listening_sockets.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kToken[] = "0123456789abcdef-of-this-job";

constexpr char kUnset[] = "(not set)";

struct Wrong {
  const char* name;
  std::vector<std::string> flags;
  std::map<std::string, std::string> environment;
  const char* text;  // of the error
};

std::string TfConfig(const std::string& cluster, const std::string& task) {
  return absl::StrCat("{\"cluster\": ", cluster, ", \"task\": ", task, "}");
}

constexpr char kCluster[] = "--cluster_spec=ps|127.0.0.1:0,worker|127.0.0.1:1";
constexpr char kJob[] = "--job_name=ps";
constexpr char kJsonCluster[] = R"({"ps": ["127.0.0.1:0"], "worker": ["127.0.0.1:1"]})";

std::vector<Wrong> Table() {
  std::vector<Wrong> table = {
      // Which cluster, which task.
      {"nothing", {}, {}, "--cluster_spec is missing"},
      {"no_job", {kCluster}, {}, "--job_name is missing"},
      {"no_cluster", {kJob}, {}, "--cluster_spec is missing"},
      {"unknown_job", {kCluster, "--job_name=chef"}, {}, "chef"},
      {"index_beyond", {kCluster, kJob, "--task_index=1"}, {}, "ps:1"},
      {"index_far_beyond", {kCluster, kJob, "--task_index=2147483647"}, {}, "2147483647"},
      {"index_negative", {kCluster, kJob, "--task_index=-1"}, {}, "must be at least 0"},
      {"index_text", {kCluster, kJob, "--task_index=zero"}, {}, "--task_index='zero'"},
      {"index_overflow", {kCluster, kJob, "--task_index=99999999999"}, {}, "--task_index='99999999999'"},
      {"cluster_without_jobs", {"--cluster_spec=127.0.0.1:1", kJob}, {}, "--cluster_spec"},
      {"cluster_empty_job", {"--cluster_spec=ps|", kJob}, {}, "--cluster_spec"},
      {"cluster_no_port", {"--cluster_spec=ps|127.0.0.1", kJob}, {}, "127.0.0.1"},
      {"cluster_port_text", {"--cluster_spec=ps|127.0.0.1:x", kJob}, {}, "127.0.0.1:x"},
      {"cluster_port_large", {"--cluster_spec=ps|127.0.0.1:65536", kJob}, {}, "65536"},
      {"cluster_port_negative", {"--cluster_spec=ps|127.0.0.1:-1", kJob}, {}, "127.0.0.1:-1"},
      {"cluster_no_host", {"--cluster_spec=ps|:2222", kJob}, {}, ":2222"},
      {"cluster_space", {"--cluster_spec=ps|a b:1", kJob}, {}, "a b"},
      {"cluster_job_twice", {"--cluster_spec=ps|h:1,ps|h:2", kJob}, {}, "ps"},
      {"cluster_address_twice", {"--cluster_spec=ps|h:1,worker|h:1", kJob}, {}, "h:1"},
      {"two_chiefs", {"--cluster_spec=chief|h:1;h:2,worker|h:3", "--job_name=chief"}, {}, "chief"},
      {"two_masters", {"--cluster_spec=chief|h:1,master|h:2,worker|h:3", "--job_name=chief"}, {}, "master"},
      {"cluster_shell", {"--cluster_spec=ps|$(reboot):1", kJob}, {}, "$(reboot)"},
      // Flags of other kinds.
      {"unknown_flag", {kCluster, kJob, "--port=1"}, {}, "port"},
      {"not_a_flag", {kCluster, kJob, "serve"}, {}, "'serve' is no flag"},
      {"threads_negative", {kCluster, kJob, "--num_threads=-1"}, {}, "must be from 0 to 1024"},
      {"threads_many", {kCluster, kJob, "--num_threads=1025"}, {}, "must be from 0 to 1024"},
      {"threads_text", {kCluster, kJob, "--num_threads=all"}, {}, "--num_threads='all'"},
      {"cpus_none", {kCluster, kJob, "--num_cpus=0"}, {}, "must be from 1 to 64"},
      {"gpus_many", {kCluster, kJob, "--num_fake_gpus=65"}, {}, "must be from 0 to 64"},
      {"lease_zero", {kCluster, kJob, "--lease_seconds=0"}, {}, "must be from 0.1 to 86400"},
      {"lease_nan", {kCluster, kJob, "--lease_seconds=nan"}, {}, "--lease_seconds='nan'"},
      {"lease_inf", {kCluster, kJob, "--lease_seconds=inf"}, {}, "--lease_seconds='inf'"},
      {"grace_negative", {kCluster, kJob, "--termination_grace_seconds=-1"}, {}, "must be from 0 to 86400"},
      {"insecure_text", {kCluster, kJob, "--insecure=maybe"}, {}, "--insecure='maybe'"},
      // Where to listen.
      {"listen_space", {kCluster, kJob, "--listen=a b"}, {}, "cannot listen at 'a b'"},
      {"listen_port_large", {kCluster, kJob, "--listen=127.0.0.1:70000"}, {}, "127.0.0.1:70000"},
      {"listen_bracket", {kCluster, kJob, "--listen=[::1"}, {}, "[::1"},
      {"listen_elsewhere", {kCluster, kJob, "--listen=192.0.2.1:0"}, {}, "192.0.2.1:0"},
      {"listen_environment", {kCluster, kJob}, {{"WEIR_LISTEN", "x:y:z"}}, "x:y:z"},
      {"exposed",
       {kCluster, kJob, "--listen=0.0.0.0"},
       {{"WEIR_JOB_TOKEN", kUnset}},
       "refusing to listen at 0.0.0.0"},
      {"exposed_ipv6",
       {kCluster, kJob, "--listen=[::]"},
       {{"WEIR_JOB_TOKEN", kUnset}},
       "refusing to listen at [::]"},
      {"data_ports_text", {kCluster, kJob, "--data_ports=x"}, {}, "WEIR_DATA_PORTS): 'x' is no range"},
      {"data_ports_empty", {kCluster, kJob, "--data_ports=7001-7000"}, {}, "'7001-7000' is no range"},
      {"data_ports_environment", {kCluster, kJob}, {{"WEIR_DATA_PORTS", "70000"}}, "'70000'"},
      {"metrics_text", {kCluster, kJob, "--metrics_port=x"}, {}, "WEIR_METRICS_PORT) is 'x'"},
      {"metrics_large", {kCluster, kJob, "--metrics_port=65536"}, {}, "'65536'"},
      {"metrics_host", {kCluster, kJob, "--metrics_port=a b:1"}, {}, "'a b:1'"},
      {"metrics_environment", {kCluster, kJob}, {{"WEIR_METRICS_PORT", "-1"}}, "'-1'"},
      // Who may call.
      {"token_empty", {kCluster, kJob}, {{"WEIR_JOB_TOKEN", ""}}, "WEIR_JOB_TOKEN, is set but empty"},
      {"token_short", {kCluster, kJob}, {{"WEIR_JOB_TOKEN", "short"}}, "has 5 characters"},
      {"token_long", {kCluster, kJob}, {{"WEIR_JOB_TOKEN", std::string(5000, 'x')}}, "has 5000 characters"},
      {"token_space",
       {kCluster, kJob},
       {{"WEIR_JOB_TOKEN", "a token with spaces in it"}},
       "not visible ASCII"},
      {"token_file_missing", {kCluster, kJob, "--token_file=/no/such"}, {}, "'/no/such'"},
      {"token_file_folder", {kCluster, kJob, "--token_file=/"}, {}, "token file '/'"},
      {"token_file_empty", {kCluster, kJob, "--token_file=/dev/null"}, {}, "has 0 characters"},
      {"token_file_endless", {kCluster, kJob, "--token_file=/dev/zero"}, {}, "token file '/dev/zero'"},
      {"tls_no_key", {kCluster, kJob, "--tls_cert=/etc/hosts"}, {}, "must be given together"},
      {"tls_no_cert", {kCluster, kJob, "--tls_key=/etc/hosts"}, {}, "must be given together"},
      {"tls_missing",
       {kCluster, kJob, "--tls_cert=/no/cert", "--tls_key=/no/key"},
       {},
       "cannot read '/no/cert'"},
      {"tls_no_pem", {kCluster, kJob, "--tls_cert=/etc/hosts", "--tls_key=/etc/hosts"}, {}, "is no PEM file"},
      {"tls_no_ca", {kCluster, kJob, "--tls_ca=/no/ca"}, {}, "cannot read '/no/ca'"},
      {"tls_ca_alone", {kCluster, kJob, "--tls_ca=/etc/hosts"}, {}, "TLS"},
      {"tls_environment", {kCluster, kJob}, {{"WEIR_TLS_CERT", "/no/cert"}}, "must be given together"},
      {"tls_names_alone", {kCluster, kJob, "--tls_task_names"}, {}, "needs a certificate"},
      {"tls_revoked_alone", {kCluster, kJob, "--tls_revoked=/etc/hosts"}, {}, "are those of a CA"},
      {"tls_revoked_missing",
       {kCluster, kJob, "--tls_ca=/etc/hosts", "--tls_revoked=/no/list"},
       {},
       "revoked certificates: cannot read '/no/list'"},
      {"tls_revoked_empty",
       {kCluster, kJob},
       {{"WEIR_TLS_REVOKED", ""}},
       "WEIR_TLS_REVOKED is set but empty"},
      {"tls_revoked_blank", {kCluster, kJob, "--tls_revoked="}, {}, "--tls_revoked is given but empty"},
      {"tls_ca_blank", {kCluster, kJob, "--tls_ca="}, {}, "--tls_ca is given but empty"},
      {"tls_cert_blank", {kCluster, kJob, "--tls_cert", ""}, {}, "--tls_cert is given but empty"},
      {"tls_key_blank", {kCluster, kJob, "--tls_key="}, {}, "--tls_key is given but empty"},
      {"token_file_blank", {kCluster, kJob, "--token_file="}, {}, "--token_file is given but empty"},
      {"tls_cert_empty", {kCluster, kJob}, {{"WEIR_TLS_CERT", ""}}, "WEIR_TLS_CERT is set but empty"},
      {"tls_key_empty", {kCluster, kJob}, {{"WEIR_TLS_KEY", ""}}, "WEIR_TLS_KEY is set but empty"},
      {"tls_task_names_empty",
       {kCluster, kJob},
       {{"WEIR_TLS_TASK_NAMES", ""}},
       "WEIR_TLS_TASK_NAMES is set but empty"},
      {"tls_ca_empty", {kCluster, kJob}, {{"WEIR_TLS_CA", ""}}, "WEIR_TLS_CA is set but empty"},
      {"limits_name", {kCluster, kJob, "--peer_limits=cakes=1"}, {}, "'cakes=1' is none"},
      {"limits_zero", {kCluster, kJob, "--peer_limits=steps=0"}, {}, "'steps=0' is none"},
      {"limits_environment", {kCluster, kJob}, {{"WEIR_PEER_LIMITS", "steps"}}, "'steps' is none"},
      {"folders_none", {kCluster, kJob, "--allow_dir=:"}, {}, "names no folder"},
      {"folders_missing", {kCluster, kJob, "--allow_dir=/no/such/folder"}, {}, "/no/such/folder"},
      {"folders_environment", {kCluster, kJob}, {{"WEIR_ALLOWED_DIRS", ":"}}, "names no folder"},
      {"threads_environment", {kCluster, kJob}, {{"WEIR_NUM_THREADS", "many"}}, "WEIR_NUM_THREADS is 'many'"},
      {"scheduler_unknown", {}, {{"WEIR_ENVIRONMENT", "moon"}}, "moon"},
  };
  // TF_CONFIG.
  const std::vector<std::pair<const char*, std::string>> configs = {
      {"json_cut", "{\"cluster\": {"},
      {"json_text", "worker 0"},
      {"json_list", "[]"},
      {"json_number", "7"},
      {"json_deep", std::string(100, '[')},
      {"json_nul", std::string("{\"cluster\": \"\\u0000\"}")},
      {"cluster_text", TfConfig("\"ps\"", "{\"type\": \"ps\", \"index\": 0}")},
      {"cluster_job_text", TfConfig("{\"ps\": true}", "{\"type\": \"ps\", \"index\": 0}")},
      {"cluster_job_number", TfConfig("{\"ps\": [1]}", "{\"type\": \"ps\", \"index\": 0}")},
      {"cluster_bad_address", TfConfig("{\"ps\": [\"h\"]}", "{\"type\": \"ps\", \"index\": 0}")},
      {"task_text", TfConfig(kJsonCluster, "\"ps:0\"")},
      {"task_type_number", TfConfig(kJsonCluster, "{\"type\": 1, \"index\": 0}")},
      {"task_index_text", TfConfig(kJsonCluster, "{\"type\": \"ps\", \"index\": \"one\"}")},
      {"task_index_fraction", TfConfig(kJsonCluster, "{\"type\": \"ps\", \"index\": 0.5}")},
      {"task_index_negative", TfConfig(kJsonCluster, "{\"type\": \"ps\", \"index\": -1}")},
      {"task_index_beyond", TfConfig(kJsonCluster, "{\"type\": \"ps\", \"index\": 9}")},
      {"task_unknown", TfConfig(kJsonCluster, "{\"type\": \"chef\", \"index\": 0}")},
      {"task_missing", absl::StrCat("{\"cluster\": ", kJsonCluster, "}")},
      {"two_chiefs", TfConfig("{\"chief\": [\"h:1\", \"h:2\"], \"worker\": [\"h:3\"]}",
                              "{\"type\": \"chief\", \"index\": 0}")},
  };
  for (const auto& [name, config] : configs) table.push_back({name, {}, {{"TF_CONFIG", config}}, ""});
  return table;
}

class WrongConfigurationTest : public ::testing::Test {
 protected:
  void Set(const std::string& name, const std::string& value) {
    if (value == kUnset) {
      unsetenv(name.c_str());
    } else {
      setenv(name.c_str(), value.c_str(), 1);
    }
    names_.push_back(name);
  }
  void Clear() {
    for (const std::string& name : names_) unsetenv(name.c_str());
    names_.clear();
  }

  // The refusal, which is short and names no token.
  absl::Status Refusal(const Wrong& wrong) {
    Set("WEIR_JOB_TOKEN", kToken);
    Set("WEIR_LISTEN", "");
    for (const auto& [name, value] : wrong.environment) Set(name, value);
    ::testing::internal::CaptureStderr();
    ::testing::internal::CaptureStdout();
    const absl::Status status = RunServe(wrong.flags).status();
    const std::string said = absl::StrCat(::testing::internal::GetCapturedStderr(),
                                          ::testing::internal::GetCapturedStdout(), status.message());
    Clear();
    EXPECT_FALSE(status.ok()) << wrong.name;
    EXPECT_THAT(said, Not(HasSubstr(kToken))) << wrong.name;
    EXPECT_GE(status.message().size(), 20u) << wrong.name << ": " << status;
    EXPECT_LE(status.message().size(), 1000u) << wrong.name;
    return status;
  }

 private:
  std::vector<std::string> names_;
};

TEST_F(WrongConfigurationTest, EachIsRefusedWithItsReason) {
  const std::vector<Wrong> table = Table();
  EXPECT_GE(table.size(), 60u);
  for (const Wrong& wrong : table) {
    const absl::Status status = Refusal(wrong);
    EXPECT_THAT(std::string(status.message()), HasSubstr(wrong.text)) << wrong.name;
    EXPECT_TRUE(absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status) ||
                absl::IsNotFound(status))
        << wrong.name << ": " << status;
  }
  std::printf("%zu wrong configurations were refused\n", table.size());
}

TEST_F(WrongConfigurationTest, APortThatIsTakenIsNamed) {
  const ListeningSockets taken = ListenAt("127.0.0.1:0").value();
  const std::string address = absl::StrCat("127.0.0.1:", taken.port);
  for (const Wrong& wrong : std::vector<Wrong>{
           {"port", {absl::StrCat("--cluster_spec=ps|", address, ",worker|127.0.0.1:1"), kJob}, {}, ""},
           {"listen", {kCluster, kJob, absl::StrCat("--listen=", address)}, {}, ""},
           {"metrics", {kCluster, kJob, absl::StrCat("--metrics_port=", taken.port)}, {}, ""}}) {
    const absl::Status status = Refusal(wrong);
    EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << wrong.name << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("cannot listen at ", address)));
  }
  for (const int fd : taken.fds) close(fd);
}

}  // namespace
}  // namespace weir
