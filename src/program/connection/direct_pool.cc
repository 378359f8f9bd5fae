#include "direct_pool.h"

#include <fmt/format.h>

#include "ros2s/client/verifying_store.h"
#include "ros2s/remote/remote_store.h"

namespace ros2s::connection {

Task<Result<std::unique_ptr<DirectPool>>> DirectPool::open(Reactor& reactor, Options options,
                                                           Log log, Report& report) {
    std::unique_ptr<DirectPool> pool(new DirectPool);
    const auto begun = co_await pool->begin(reactor, std::move(options), std::move(log), report);
    if (begun) co_return std::move(pool);
    co_await pool->close();
    co_return fail(begun.error());
}

Task<Result<>> DirectPool::begin(Reactor& reactor, Options options, Log log, Report& report) {
    const Call call = options.opening;
    options.purpose = session::Purpose::store;
    options.service = remote::object_service;
    ROS2S_CO_TRY_ASSIGN(
        connection_,
        stack_.push("Connection", co_await Connection::open(reactor, std::move(options), report)));
    channel_ = &connection_->channel();
    ROS2S_CO_TRY_ASSIGN(remote_, stack_.push("RemoteStore", co_await remote::RemoteStore::open(
                                                                call, *channel_, report)));
    client_ = stack_.push("VerifyingStore", std::make_unique<client::VerifyingStore>(
                                                reactor, *remote_, std::move(log)));
    co_return Result<>{};
}

void DirectPool::try_again() noexcept { channel_->try_again(); }
void DirectPool::expect_no_reconnect() noexcept { channel_->expect_no_reconnect(); }

Task<Result<>> DirectPool::show_capability(Report& report) {
    co_return co_await connection_->tickets().show(report);
}

object::ObjectStore& DirectPool::store() { return *client_; }

std::string DirectPool::path() const { return client_->path(); }

std::string DirectPool::path_without_address() const {
    return fmt::format("{} to its {}", provider(), remote_->path_there());
}

std::string DirectPool::provider() const { return channel_->provider(); }

const std::optional<rpc::Absence>& DirectPool::absence() const { return channel_->absence(); }

}  // namespace ros2s::connection
