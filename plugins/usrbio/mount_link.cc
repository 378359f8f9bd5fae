#include "mount_link.h"

#include <fcntl.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <tuple>
#include <utility>

#include "ros2s/fabric/shm/shm.h"
#include "ros2s/runtime/run_blocking.h"

namespace ros2s::usrbio {
namespace {

// A mount that has ended has no other ticket.
class OneTicket final : public rpc::TicketSource {
  public:
    explicit OneTicket(const session::Ticket& ticket) : ticket_(ticket) {}
    Task<Result<std::string>> take(Report& report) override {
        if (std::exchange(is_taken_, true)) {
            constexpr Error ended{.code = Code::denied, .os_errno = ENOTCONN};
            co_return report.fail(ended, "the mount has ended");
        }
        co_return std::string(ticket_.view());
    }

  private:
    const session::Ticket ticket_;
    bool is_taken_ = false;
};

class OneLocation final : public session::MountLocator {
  public:
    explicit OneLocation(session::MountLocation location) : location_(location) {}
    [[nodiscard]] session::MountLocation location() const override { return location_; }
    Task<Result<>> moved(const Call&, session::MountLocation) override {
        co_return fail(Code::stale);
    }

  private:
    const session::MountLocation location_;
};

template <class T>
Result<T> ask(int fd, unsigned long command, T body) {
    if (::ioctl(fd, command, &body) != 0) return fail_errno(errno);
    return body;
}

}  // namespace

bool is_of_lending_mount(int fd) {
    const auto version = ask<uint32_t>(fd, hostlink::lending_version, 0);
    return version && *version == hostlink::lending_version_now;
}

Result<std::shared_ptr<MountLink>> MountLink::open(OsReactor& reactor, int fd) {
    if (!is_of_lending_mount(fd)) return fail_errno(EBADF);
    ROS2S_TRY_ASSIGN(const auto session,
                     ask(fd, hostlink::begin_lending,
                         hostlink::LendingSession{.client = Uuid::make(reactor.secrets())}));
    std::shared_ptr<MountLink> link(new MountLink(reactor));
    ROS2S_TRY(run_blocking(reactor, [&] { return link->connect(session); }));
    return link;
}

Task<Result<>> MountLink::connect(hostlink::LendingSession session) {
    if (session.at.back() != '\0') co_return fail(Code::corrupt);
    place_ = {{session.session}, {session.mount}};
    ticket_ = std::make_unique<OneTicket>(session.ticket);
    locator_ = std::make_unique<OneLocation>(place_);
    auto* const domain = stack_.push("Domain", fabric::shm::open_domain(reactor_));
    Report report;
    ROS2S_CO_TRY_ASSIGN(
        channel_,
        stack_.push(
            "Channel",
            co_await rpc::Channel::open(
                reactor_, *domain, session.at.data(), *ticket_,
                {.service = hostlink::file_service, .client = session.client, .requests_max = 256},
                report)));
    client_ = stack_.push("LinkClient", std::make_unique<hostlink::LinkClient>(
                                            reactor_, *channel_, *locator_,
                                            hostlink::LinkClient::Options{.client = session.client,
                                                                          .behind = "a mount"}));
    co_return Result<>{};
}

MountLink::~MountLink() {
    std::ignore = run_blocking(reactor_, [this] { return stack_.close(); });
}

Result<fs::FileHandle> MountLink::borrow(int fd, int status) {
    ROS2S_TRY_ASSIGN(
        const auto borrowed,
        ask(fd, hostlink::lend,
            hostlink::BorrowedFile{.session = place_.session.value, .mount = place_.mount.value}));
    return run_blocking(reactor_, [&] { return adopt(borrowed, status & O_ACCMODE); });
}

Task<fs::FileHandle> MountLink::adopt(hostlink::BorrowedFile file, int access) {
    const fs::OpenFlags flags{.read = access != O_WRONLY, .write = access != O_RDONLY};
    co_return client_->adopt({file.handle}, {file.node}, flags);
}

void MountLink::give_back(fs::FileHandle handle) {
    const Call call;
    std::ignore = run_blocking(reactor_, [&] { return client_->close(call, handle); });
}

bool MountLink::has_ended() {
    return run_blocking(reactor_, [this] { return is_disconnected(); });
}

Task<bool> MountLink::is_disconnected() const { co_return !channel_->is_connected(); }

}  // namespace ros2s::usrbio
