#include "ros2s/pool/owners_pool.h"

#include <utility>

#include "pool_files.h"
#include "pool_service.h"
#include "ros2s/base/trusted_file.h"
#include "ros2s/client/verifying_store.h"
#include "ros2s/fabric/shm/shm.h"
#include "ros2s/pool/owner.h"
#include "ros2s/pool/pool_process.h"
#include "ros2s/remote/remote_store.h"
#include "ros2s/rpc/channel.h"
#include "ros2s/runtime/backoff.h"

namespace ros2s::pool {
namespace {

// An owner admits the processes of its user without tickets. Asked for one, this makes sure that
// the pool has an owner. `stale`: it has none that can be asked. Requests wait for one for
// ChannelOptions::renewal_within.
class Successor final : public rpc::TicketSource {
  public:
    Successor(Reactor& reactor, Log log, StopToken stop, std::string directory, std::string program,
              ServiceAddress address)
        : reactor_(reactor),
          log_(std::move(log)),
          stop_(stop),
          directory_(std::move(directory)),
          program_(std::move(program)),
          address_(std::move(address)) {}
    [[nodiscard]] std::string address() const override { return address_.path; }
    Task<Result<std::string>> take(Report& report) override {
        // Another user could listen there, and would get this process's requests.
        ROS2S_CO_TRY(check_trusted(in(directory_, service_name), report));
        // Whoever opens it looks for an owner first.
        if (std::exchange(is_first_, false) || program_.empty()) co_return std::string();
        Report ignored;
        const auto owner = find_owner(directory_, ignored).value_or(OwnerRecord{});
        if (owner.pid > 0 && !owner.shares) {
            co_return report.fail(Code::stale, "{}", describe_owner(directory_, owner));
        }
        if (owner.pid != 0) co_return std::string();
        if (reactor_.now() < next_start_) co_return report.fail(Code::stale, "{}", why_);
        Report why;
        const auto started =
            co_await start_pool_process(reactor_, program_, directory_, stop_, why);
        if (started) {
            pauses_.attempts = 0;
            co_return std::string();
        }
        // Requests that wait can only say that nobody answers.
        if (why.text() != why_ && !stop_.stop_requested()) log_.warning("{}", why.text());
        why_ = why.text();
        next_start_ = reactor_.now() + pauses_.next();
        report.say(why_);
        // One that has not answered yet may still open it.
        co_return fail(started.error().code == Code::deadline ? started.error()
                                                              : Error{.code = Code::stale});
    }

  private:
    Reactor& reactor_;
    const Log log_;
    const StopToken stop_;
    const std::string directory_, program_;
    const ServiceAddress address_;
    bool is_first_ = true;
    Time next_start_{};
    // After a start that failed: a pool that cannot be opened now can often not be opened soon.
    Backoff pauses_{.first = std::chrono::seconds(1), .longest = std::chrono::seconds(30)};
    std::string why_;
};

}  // namespace

OwnersPool::~OwnersPool() = default;

Task<Result<>> OwnersPool::close() {
    closing_.request_stop();  // it does not wait for a process that is starting
    co_return co_await stack_.close();
}

Task<Result<std::unique_ptr<OwnersPool>>> OwnersPool::open(const Call& call, Reactor& reactor,
                                                           Log log, std::string directory,
                                                           std::string program, Report& report) {
    std::unique_ptr<OwnersPool> pool(new OwnersPool);
    const auto begun = co_await pool->begin(call, reactor, std::move(log), std::move(directory),
                                            std::move(program), report);
    if (begun) co_return std::move(pool);
    co_await pool->close();
    co_return fail(begun.error());
}

Task<Result<>> OwnersPool::begin(const Call& call, Reactor& reactor, Log log, std::string directory,
                                 std::string program, Report& report) {
    ROS2S_CO_TRY_ASSIGN(ServiceAddress address, ServiceAddress::in(directory, report));
    successor_ = std::make_unique<Successor>(reactor, log, closing_.token(), directory,
                                             std::move(program), std::move(address));
    auto* const domain = stack_.push("Domain", fabric::shm::open_domain(reactor));
    ROS2S_CO_TRY_ASSIGN(
        auto* const channel,
        stack_.push("Channel", co_await rpc::Channel::open(
                                   reactor, *domain, successor_->address(), *successor_,
                                   {.service = remote::object_service,
                                    .client = Uuid::make(reactor.secrets())},
                                   report, call)));
    ROS2S_CO_TRY_ASSIGN(
        auto* const remote,
        stack_.push("RemoteStore", co_await remote::RemoteStore::open(call, *channel, report)));
    client_ = stack_.push("VerifyingStore", std::make_unique<client::VerifyingStore>(
                                                reactor, *remote, std::move(log)));
    co_return Result<>{};
}

object::ObjectStore& OwnersPool::store() { return *client_; }

std::string OwnersPool::path() const { return client_->path(); }

}  // namespace ros2s::pool
