#include "host_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include "host_mount_locator.h"
#include "ros2s/connection/connection.h"
#include "ros2s/hostlink/link_client.h"

namespace ros2s::connection {

fs::UserClaim user_of_process() {
    fs::UserClaim user{.uid = ::geteuid(), .gid = ::getegid(), .groups = {}};
    const int count = ::getgroups(0, nullptr);
    if (count > 0) user.groups.resize(static_cast<size_t>(count));
    if (count <= 0 || ::getgroups(count, user.groups.data()) != count) user.groups.clear();
    if (user.groups.size() > fs::caller_groups_max) user.groups.resize(fs::caller_groups_max);
    return user;
}

Task<Result<std::unique_ptr<HostFiles>>> HostFiles::open(Reactor& reactor, HostOptions options,
                                                         Report& report) {
    std::unique_ptr<HostFiles> host(new HostFiles);
    const auto begun = co_await host->begin(reactor, std::move(options), report);
    if (begun) co_return std::move(host);
    co_await host->close();
    co_return fail(begun.error());
}

Task<Result<>> HostFiles::begin(Reactor& reactor, HostOptions options, Report& report) {
    const std::string pool = options.dpu.pool;
    ROS2S_CO_TRY_ASSIGN(
        auto* const connection,
        stack_.push("Connection", co_await Connection::open(reactor,
                                                            {.server = std::move(options.dpu),
                                                             .purpose = session::Purpose::link,
                                                             .service = hostlink::file_service,
                                                             .opening = options.opening},
                                                            report)));
    channel_ = &connection->channel();
    locator_ = stack_.push(
        "HostMountLocator",
        std::make_unique<HostMountLocator>(reactor, connection->control(), connection->tickets(),
                                           pool, options.container, options.how));
    ROS2S_CO_TRY(co_await locator_->mount(options.opening, report));
    link_ = stack_.push("LinkClient",
                        std::make_unique<hostlink::LinkClient>(
                            reactor, *channel_, *locator_,
                            hostlink::LinkClient::Options{
                                .client = connection->client(),
                                .user = user_of_process(),
                                .behind = "the DPU at " + channel_->address(),
                                .takes_leases = options.takes_leases && locator_->may_lease(),
                                .log = std::move(options.log)}));
    co_await locator_->follow([this](const Call& call) { return link_->reopen_all(call); });
    co_return Result<>{};
}

// The locator follows the session until then, and opens files of the link again.
Task<Result<>> HostFiles::close() {
    if (locator_ != nullptr) co_await locator_->stop();
    co_return co_await stack_.close();
}

bool HostFiles::squashes_root() const { return locator_->squashes_root(); }

fs::FileSystem& HostFiles::file_system() { return *link_; }

std::string HostFiles::path() const {
    const std::string storage = locator_->storage();
    return fmt::format("offload over {} to the DPU at {}{}{}", channel_->provider(),
                       channel_->address(), storage.empty() ? "" : ", ", storage);
}

}  // namespace ros2s::connection
