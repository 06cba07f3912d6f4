#include "distributed/election/etcd/etcd_store.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "distributed/cluster_spec.h"
#include "distributed/election/etcd/etcd.pb.h"
#include "distributed/transport/grpc/pem_file.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr char kMethod[] = "/etcdserverpb.KV/Txn";
constexpr size_t kMaxJobName = 200;
// An answer is one record.
constexpr int kMaxAnswerBytes = 64 << 10;
constexpr int kReconnectMs = 1000;

absl::Status StatusOf(const grpc::Status& status, const std::string& server) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      absl::StrCat("etcd at ", server, ": ", status.error_message().substr(0, 500)));
}

class EtcdStore final : public AuthorityStore {
 public:
  EtcdStore(EtcdAddress address, const std::shared_ptr<grpc::ChannelCredentials>& credentials)
      : address_(std::move(address)), key_(absl::StrCat("/weir/authority/", address_.job)) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kMaxAnswerBytes);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMs);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMs / 10);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    for (const std::string& server : address_.servers) {
      stubs_.emplace_back(grpc::CreateCustomChannel("dns:///" + server, credentials, arguments));
    }
  }

  ~EtcdStore() override {
    {
      absl::MutexLock lock(&shared_->calls_mutex);
      for (grpc::ClientContext* call : shared_->calls) call->TryCancel();
    }
    {
      absl::WriterMutexLock lock(&shared_->mutex);
      shared_->is_over = true;
    }
    // The last owner of a channel stops gRPC's threads that call back: it must not be one of them.
    absl::MutexLock lock(&shared_->calls_mutex);
    const auto have_ended = [this]() ABSL_SHARED_LOCKS_REQUIRED(shared_->calls_mutex) {
      return shared_->num_calls == 0;
    };
    shared_->calls_mutex.Await(absl::Condition(&have_ended));
  }

  void Read(absl::Duration timeout, Then then) override {
    etcd::Transaction read;
    read.add_success()->mutable_range()->set_key(key_);
    Run(std::move(read), AuthorityRecord(), timeout, std::move(then));
  }

  void Replace(const Stored& before, const AuthorityRecord& record, absl::Duration timeout,
               Then then) override {
    etcd::Transaction replace;
    etcd::Compare& unchanged = *replace.add_compare();
    unchanged.set_result(etcd::Compare::EQUAL);
    unchanged.set_target(etcd::Compare::MOD);
    unchanged.set_key(key_);
    unchanged.set_mod_revision(before.revision);  // of a key that is not there: 0
    if (before.revision != 0) {
      etcd::Compare& same = *replace.add_compare();
      same.set_result(etcd::Compare::EQUAL);
      same.set_target(etcd::Compare::VALUE);
      same.set_key(key_);
      same.set_value(before.record.Encode());
    }
    etcd::Put& put = *replace.add_success()->mutable_put();
    put.set_key(key_);
    put.set_value(record.Encode());
    replace.add_failure()->mutable_range()->set_key(key_);
    Run(std::move(replace), record, timeout, std::move(then));
  }

 private:
  using Stub = grpc::TemplatedGenericStub<etcd::Transaction, etcd::TransactionAnswer>;
  struct Shared {
    absl::Mutex mutex;  // read while `then` runs
    bool is_over ABSL_GUARDED_BY(mutex) = false;
    absl::Mutex calls_mutex;
    std::set<grpc::ClientContext*> calls ABSL_GUARDED_BY(calls_mutex);  // that may be cancelled
    int num_calls ABSL_GUARDED_BY(calls_mutex) = 0;                     // that own the channel
    std::atomic<size_t> asked{0};                                       // which server, modulo their number
  };
  struct Call {
    grpc::ClientContext context;
    etcd::Transaction request;
    etcd::TransactionAnswer answer;
  };

  void Run(etcd::Transaction request, const AuthorityRecord& put, absl::Duration timeout, Then then) {
    auto call = std::make_shared<Call>();
    call->request = std::move(request);
    call->context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(timeout));
    const size_t asked = shared_->asked;
    const size_t index = asked % stubs_.size();
    {
      absl::MutexLock lock(&shared_->calls_mutex);
      shared_->calls.insert(&call->context);
      ++shared_->num_calls;
    }
    stubs_[index].UnaryCall(
        &call->context, kMethod, {}, &call->request, &call->answer,
        [shared = shared_, call, put, asked, server = address_.servers[index],
         then = std::move(then)](const grpc::Status& status) mutable {
          {
            absl::MutexLock lock(&shared->calls_mutex);
            shared->calls.erase(&call->context);
          }
          // The next one, unless somebody else has gone on already.
          size_t expected = asked;
          if (!status.ok()) shared->asked.compare_exchange_strong(expected, asked + 1);
          {
            absl::ReaderMutexLock lock(&shared->mutex);
            if (!shared->is_over) {
              then(status.ok() ? ReadAnswer(call->answer, put, server) : StatusOf(status, server));
            }
          }
          call.reset();
          absl::MutexLock lock(&shared->calls_mutex);
          --shared->num_calls;
        });
  }

  // `put`: what was put where the transaction has succeeded with a put.
  static absl::StatusOr<Stored> ReadAnswer(const etcd::TransactionAnswer& answer, const AuthorityRecord& put,
                                           const std::string& server) {
    const int64_t revision = answer.header().revision();
    if (answer.succeeded() && put.term != 0) return Stored{revision, put, revision};
    if (answer.responses_size() != 1 || answer.responses(0).range().kvs_size() > 1) {
      return absl::InternalError(
          absl::StrCat("etcd at ", server, " has given another answer than was asked for"));
    }
    if (answer.responses(0).range().kvs_size() == 0) return Stored{.store_revision = revision};
    const etcd::KeyValue& found = answer.responses(0).range().kvs(0);
    absl::StatusOr<AuthorityRecord> record = AuthorityRecord::Decode(found.value());
    if (!record.ok() || found.mod_revision() <= 0) {
      return absl::DataLossError(absl::StrCat("etcd at ", server, " has '", found.key().substr(0, 300),
                                              "': ", record.status().message()));
    }
    return Stored{found.mod_revision(), *std::move(record), revision};
  }

  const EtcdAddress address_;
  const std::string key_;
  std::vector<Stub> stubs_;
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

absl::Status BadAddress(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("the store of the authority (--authority_store, WEIR_AUTHORITY_STORE) is '",
                   text.substr(0, 300), "': ", why, "; it is to be 'etcd://host:port,host:port/job'"));
}

}  // namespace

absl::StatusOr<EtcdAddress> EtcdAddress::Parse(absl::string_view text) {
  absl::string_view rest = text;
  if (!absl::ConsumePrefix(&rest, "etcd://")) return BadAddress(text, "it does not begin with 'etcd://'");
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(rest, absl::MaxSplits('/', 1));
  EtcdAddress address;
  for (const absl::string_view server : absl::StrSplit(parts.first, ',')) {
    const absl::StatusOr<HostPort> host_port = HostPort::Parse(server);
    if (!host_port.ok()) return BadAddress(text, host_port.status().message());
    if (host_port->port == 0) return BadAddress(text, "nobody listens at port 0");
    address.servers.push_back(host_port->ToString());
  }
  address.job = std::string(parts.second);
  const bool is_name = !address.job.empty() && address.job.size() <= kMaxJobName &&
                       std::all_of(address.job.begin(), address.job.end(), [](unsigned char c) {
                         return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
                       });
  if (!is_name) return BadAddress(text, "the job has no name of letters, digits, '.', '_' and '-' there");
  return address;
}

absl::StatusOr<std::unique_ptr<AuthorityStore>> MakeEtcdStore(absl::string_view address,
                                                              const SecurityOptions& security) {
  WEIR_ASSIGN_OR_RETURN(EtcdAddress servers, EtcdAddress::Parse(address));
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (security.uses_tls()) {
    WEIR_ASSIGN_OR_RETURN(const std::string certificate, ReadPem(security.tls_cert_file));
    WEIR_ASSIGN_OR_RETURN(const std::string key, ReadPem(security.tls_key_file));
    WEIR_ASSIGN_OR_RETURN(const std::string ca, ReadPem(security.tls_ca_file));
    credentials = grpc::SslCredentials({ca, key, certificate});
  }
  return std::make_unique<EtcdStore>(std::move(servers), credentials);
}

}  // namespace weir
