#include "distributed/election/etcd/etcd_store.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
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

bool IsSendable(const std::string& token) {
  return !token.empty() && std::all_of(token.begin(), token.end(), absl::ascii_isgraph);
}

constexpr char kTransactMethod[] = "/etcdserverpb.KV/Txn";
constexpr char kAuthenticateMethod[] = "/etcdserverpb.Auth/Authenticate";
constexpr char kTokenKey[] = "token";
constexpr std::streamsize kMaxUserBytes = 1000;
constexpr size_t kMaxJobName = 200;
// An answer is one record.
constexpr int kMaxAnswerBytes = 64 << 10;
constexpr int kReconnectMs = 1000;

absl::Status StatusOf(const grpc::Status& status, const std::string& server) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      absl::StrCat("etcd at ", server, ": ", status.error_message().substr(0, 500)));
}

// Whether a token that etcd gave once does not count any more: it was idle for long, etcd was started anew,
// or its users have changed.
bool IsOldToken(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
         absl::StrContains(status.error_message(), "revision of auth store is old");
}

class EtcdStore final : public AuthorityStore {
 public:
  EtcdStore(EtcdAddress address, EtcdUser user, const std::shared_ptr<grpc::ChannelCredentials>& credentials)
      : address_(std::move(address)),
        user_(std::move(user)),
        key_(absl::StrCat("/weir/authority/", address_.job)) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kMaxAnswerBytes);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMs);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMs / 10);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    for (const std::string& server : address_.servers) {
      const std::shared_ptr<grpc::Channel> channel =
          grpc::CreateCustomChannel("dns:///" + server, credentials, arguments);
      servers_.push_back({server, TransactionStub(channel), AuthenticationStub(channel)});
    }
    absl::MutexLock lock(&shared_->calls_mutex);
    shared_->num_open.resize(servers_.size());
  }

  ~EtcdStore() override {
    {
      absl::MutexLock lock(&shared_->calls_mutex);
      shared_->is_ending = true;
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
  using TransactionStub = grpc::TemplatedGenericStub<etcd::Transaction, etcd::TransactionAnswer>;
  using AuthenticationStub = grpc::TemplatedGenericStub<etcd::UserAndPassword, etcd::AuthToken>;
  struct Server {
    std::string address;
    TransactionStub transactions;
    AuthenticationStub authentication;
  };
  struct Shared {
    absl::Mutex mutex;  // read while `then` runs
    bool is_over ABSL_GUARDED_BY(mutex) = false;
    absl::Mutex calls_mutex;
    bool is_ending ABSL_GUARDED_BY(calls_mutex) = false;
    std::set<grpc::ClientContext*> calls ABSL_GUARDED_BY(calls_mutex);  // that may be cancelled
    int num_calls ABSL_GUARDED_BY(calls_mutex) = 0;                     // that own the channel
    std::string token ABSL_GUARDED_BY(calls_mutex);                     // of all servers
    size_t preferred ABSL_GUARDED_BY(calls_mutex) = 0;                  // the server that has answered last
    std::vector<int> num_open ABSL_GUARDED_BY(calls_mutex);  // questions that each has not answered
  };
  // One read or replacement: a transaction, and what it takes to be a user.
  struct Question {
    etcd::Transaction transaction;
    AuthorityRecord put;
    std::chrono::system_clock::time_point deadline;
    Then then;
    size_t number;  // of the server
    Server* server;
    bool has_new_token = false;
  };

  void Run(etcd::Transaction transaction, const AuthorityRecord& put, absl::Duration timeout, Then then) {
    const auto deadline = std::chrono::system_clock::now() + absl::ToChronoMilliseconds(timeout);
    std::string token;
    size_t number = 0;
    {
      absl::MutexLock lock(&shared_->calls_mutex);
      token = shared_->token;
      number = ChooseServerLocked();
      ++shared_->num_open[number];
    }
    const auto question = std::make_shared<Question>(
        Question{std::move(transaction), put, deadline, std::move(then), number, &servers_[number]});
    if (user_.name.empty() || !token.empty()) return Transact(question, token);
    Authenticate(question);
  }

  // The next one that owes no answer. A silent server would take this question's time, too.
  size_t ChooseServerLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared_->calls_mutex) {
    for (size_t i = 0; i < servers_.size(); ++i) {
      const size_t number = (shared_->preferred + i) % servers_.size();
      if (shared_->num_open[number] == 0) return number;
    }
    return shared_->preferred;
  }

  void Authenticate(const std::shared_ptr<Question>& question) {
    etcd::UserAndPassword user;
    user.set_name(user_.name);
    user.set_password(user_.password);
    Ask(question->server->authentication, kAuthenticateMethod, user, "", question->deadline,
        [this, question](const grpc::Status& status, const etcd::AuthToken& answer) {
          if (!status.ok()) return Finish(*question, status, {});
          // gRPC ends the process for one that cannot be sent.
          if (!IsSendable(answer.token())) {
            return Finish(*question,
                          grpc::Status(grpc::StatusCode::INTERNAL,
                                       "etcd gave a token that is no text of visible ASCII"),
                          {});
          }
          question->has_new_token = true;
          {
            absl::MutexLock lock(&shared_->calls_mutex);
            shared_->token = answer.token();
          }
          Transact(question, answer.token());
        });
  }

  void Transact(const std::shared_ptr<Question>& question, const std::string& token) {
    Ask(question->server->transactions, kTransactMethod, question->transaction, token, question->deadline,
        [this, question](const grpc::Status& status, const etcd::TransactionAnswer& answer) {
          const bool is_user = !user_.name.empty() && !question->has_new_token;
          if (is_user && IsOldToken(status)) return Authenticate(question);
          if (!status.ok()) {
            // An etcd that has lost its data waits for the time that the token is of: the next question asks
            // with another one.
            absl::MutexLock lock(&shared_->calls_mutex);
            shared_->token.clear();
          }
          Finish(*question, status, answer);
        });
  }

  // `then` may ask again: this object lives until it has returned.
  template <typename Request, typename Answer, typename Then>
  void Ask(grpc::TemplatedGenericStub<Request, Answer>& stub, const char* method, const Request& request,
           const std::string& token, std::chrono::system_clock::time_point deadline, Then then) {
    struct Call {
      grpc::ClientContext context;
      Request request;
      Answer answer;
    };
    auto call = std::make_shared<Call>();
    call->request = request;
    call->context.set_deadline(deadline);
    if (!token.empty()) call->context.AddMetadata(kTokenKey, token);
    {
      absl::MutexLock lock(&shared_->calls_mutex);
      if (shared_->is_ending) return;  // nobody waits for the answer
      shared_->calls.insert(&call->context);
      ++shared_->num_calls;
    }
    stub.UnaryCall(&call->context, method, {}, &call->request, &call->answer,
                   [shared = shared_, call, then](const grpc::Status& status) mutable {
                     {
                       absl::MutexLock lock(&shared->calls_mutex);
                       shared->calls.erase(&call->context);
                     }
                     then(status, call->answer);
                     call.reset();
                     absl::MutexLock lock(&shared->calls_mutex);
                     --shared->num_calls;
                   });
  }

  void Finish(const Question& question, const grpc::Status& status, const etcd::TransactionAnswer& answer) {
    {
      absl::MutexLock lock(&shared_->calls_mutex);
      --shared_->num_open[question.number];
      if (status.ok()) {
        shared_->preferred = question.number;
      } else if (shared_->preferred == question.number) {
        shared_->preferred = (question.number + 1) % servers_.size();
      }
    }
    const std::string& server = question.server->address;
    absl::ReaderMutexLock lock(&shared_->mutex);
    if (shared_->is_over) return;
    question.then(status.ok() ? ReadAnswer(answer, question.put, server) : StatusOf(status, server));
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
  const EtcdUser user_;
  const std::string key_;
  std::vector<Server> servers_;
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

absl::StatusOr<EtcdUser> EtcdUser::ReadFile(const std::string& path) {
  if (path.empty()) return EtcdUser();
  std::ifstream file(path, std::ios::binary);
  std::string line(kMaxUserBytes + 1, '\0');
  file.read(line.data(), static_cast<std::streamsize>(line.size()));  // a device has no end
  line.resize(file.gcount());
  const bool is_whole = file.eof();
  absl::StripTrailingAsciiWhitespace(&line);
  const size_t colon = line.find(':');
  if (is_whole && colon != std::string::npos && colon > 0 && colon + 1 < line.size()) {
    return EtcdUser{line.substr(0, colon), line.substr(colon + 1)};
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the file '", path,
      "' with the user of the authority's store (--authority_store_user_file, "
      "WEIR_AUTHORITY_STORE_USER_FILE) ",
      is_whole || line.size() > kMaxUserBytes ? "has no line" : "cannot be read: it is to have a line",
      " 'name:password' of at most ", kMaxUserBytes, " bytes"));
}

absl::StatusOr<std::unique_ptr<AuthorityStore>> MakeEtcdStore(absl::string_view address,
                                                              const SecurityOptions& security,
                                                              const std::string& user_file) {
  WEIR_ASSIGN_OR_RETURN(EtcdAddress servers, EtcdAddress::Parse(address));
  WEIR_ASSIGN_OR_RETURN(EtcdUser user, EtcdUser::ReadFile(user_file));
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (security.uses_tls()) {
    WEIR_ASSIGN_OR_RETURN(const std::string certificate, ReadPem(security.tls_cert_file));
    WEIR_ASSIGN_OR_RETURN(const std::string key, ReadPem(security.tls_key_file));
    WEIR_ASSIGN_OR_RETURN(const std::string ca, ReadPem(security.tls_ca_file));
    credentials = grpc::SslCredentials({ca, key, certificate});
  }
  return std::make_unique<EtcdStore>(std::move(servers), std::move(user), credentials);
}

}  // namespace weir
