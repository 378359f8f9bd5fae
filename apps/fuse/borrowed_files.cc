#include "borrowed_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <optional>

#include "borrowed_table.h"
#include "request.h"
#include "ros2s/fabric/shm/shm.h"
#include "ros2s/hostlink/link_server.h"
#include "ros2s/rpc/server.h"
#include "ros2s/session/gate.h"

namespace ros2s::fuse {
namespace {

// Shared memory of all programs.
constexpr uint64_t segments_bytes_max = uint64_t{2} << 30;
constexpr session::SessionTable::Options sessions{.sessions_max = 512, .per_subject_max = 128};
constexpr std::string_view borrowed = "borrowed files";  // the name of what sessions mount

std::string subject_of(int64_t user) { return fmt::format("user {}", user); }

std::string program_of(pid_t process) {
    std::ifstream file(fmt::format("/proc/{}/comm", process));
    std::string name;
    std::getline(file, name);
    return fmt::format("{}, process {}", name, process);
}

}  // namespace

// The data plane, and the tables that the ioctls fill.
struct BorrowedFiles::Link final : rpc::Gate, session::FileSystemSource {
    Link(Server& of, BorrowedTable& borrowed_files)
        : server(of), table(borrowed_files), reactor(of.reactor()), reaping(reactor, 1) {}
    ~Link() override = default;

    Task<Result<>> listen(Report& report) {
        domain = fabric::shm::open_domain(reactor, {.segments_bytes_max = segments_bytes_max});
        const auto secret = [this] { return reactor.secrets().next(); };
        ROS2S_CO_TRY_ASSIGN(listener,
                            co_await rpc::Server::listen(
                                reactor, *domain,
                                fmt::format("@ros2store-mount-{:016x}{:016x}", secret(), secret()),
                                service, *this, {}, report));
        gate.add(*listener);
        ROS2S_CHECK(reaping.try_spawn(table_of_sessions.reap(stop.token())));
        co_return Result<>{};
    }
    Task<> close() {
        stop.request_stop();
        if (listener != nullptr) {
            gate.remove(*listener);
            co_await listener->close();
        }
        listener.reset();
        co_await domain->close();
        domain.reset();
        co_await table_of_sessions.close_all();
        co_await reaping.join();
    }

    // The kernel's credentials of the peer take the place of a certificate.
    Result<rpc::Guest> admit(const rpc::HelloBody& hello, const fabric::Peer& peer) override {
        fabric::Peer user = peer;
        user.subject = subject_of(peer.user);
        return session::admit(table_of_sessions, {.purpose = session::Purpose::link}, {}, hello,
                              user);
    }
    void misused(const rpc::Guest& guest, const fabric::Peer& peer) override {
        gate.misused(guest, peer);
    }
    void turned_away(const rpc::Guest& guest, const fabric::Peer& peer, const Error& error,
                     std::string_view why) override {
        gate.turned_away(guest, peer, error, why);
    }
    void left(const rpc::Guest& guest) override { gate.left(guest); }

    Task<Result<std::unique_ptr<fs::FileSystem>>> open(const Call& call,
                                                       const session::MountedContainer& which,
                                                       Report& report) override;

    Server& server;
    BorrowedTable& table;
    Reactor& reactor;
    session::TicketTable tickets{reactor, {}};
    session::SessionTable table_of_sessions{reactor, tickets, sessions, server.options().log};
    session::Mounts mounts{reactor, table_of_sessions, *this, {.per_session_max = 1}};
    // Payload is in memory of this process, which has huge pages: a disk takes twice the time to
    // read 1 MiB into a program's small pages, which is more than a copy takes.
    hostlink::LinkServer service{reactor, table_of_sessions, mounts, hostlink::Placement::dpu};
    session::SessionGate gate{table_of_sessions, session::Purpose::link};
    std::unique_ptr<fabric::Domain> domain;
    std::unique_ptr<rpc::Server> listener;
    StopSource stop;
    Nursery reaping;
};

Task<Result<std::unique_ptr<fs::FileSystem>>> BorrowedFiles::Link::open(
    const Call&, const session::MountedContainer&, Report&) {
    co_return std::make_unique<BorrowedFileSystem>(table);
}

BorrowedFiles::BorrowedFiles(Server& server)
    : server_(server), kernel_(server), table_(server, kernel_), turn_(server.reactor(), 1) {}
BorrowedFiles::~BorrowedFiles() { ROS2S_CHECK(link_ == nullptr); }

Task<Result<hostlink::LendingSession>> BorrowedFiles::begin(hostlink::LendingSession asked,
                                                            Program program) {
    co_await turn_.acquire();
    const SemaphoreHold turn(turn_);
    Report report;
    if (link_ == nullptr) {
        auto link = std::make_unique<Link>(server_, table_);
        if (const auto listening = co_await link->listen(report); !listening) {
            server_.options().log.error("programs cannot use files past the kernel: {}",
                                        report.text());
            co_await link->close();
            co_return fail(listening.error());
        }
        link_ = std::move(link);
    }
    ROS2S_CO_TRY_ASSIGN(const session::SessionUse session,
                        link_->table_of_sessions.open({.subject = subject_of(program.user),
                                                       .client = asked.client,
                                                       .purpose = session::Purpose::link,
                                                       .pool = std::string(borrowed),
                                                       .program = program_of(program.process)}));
    const Call call;
    ROS2S_CO_TRY_ASSIGN(
        const session::MountId mount,
        co_await link_->mounts.mount(call, *session, std::string(borrowed), {}, report));
    ROS2S_CO_TRY_ASSIGN(const auto issued, link_->table_of_sessions.issue_ticket(*session));
    asked.session = session->id.value;
    asked.mount = mount.value;
    asked.ticket = issued.ticket;
    const std::string& address = link_->listener->address();
    ROS2S_CHECK(address.size() < asked.at.size());
    asked.at = {};
    std::ranges::copy(address, asked.at.begin());
    co_return asked;
}

Task<Result<hostlink::BorrowedFile>> BorrowedFiles::lend(hostlink::BorrowedFile asked,
                                                         Program program, fs::NodeId node,
                                                         fs::FileHandle handle) {
    if (link_ == nullptr) co_return fail(Code::stale);
    const Call call;
    ROS2S_CO_TRY_ASSIGN(const auto attributes,
                        co_await server_.file_system().get_attributes(call, node));
    if (!S_ISREG(attributes.mode)) co_return fail(Code::invalid);
    ROS2S_CO_TRY_ASSIGN(const session::SessionUse session,
                        link_->table_of_sessions.find({asked.session}, subject_of(program.user)));
    ROS2S_CO_TRY_ASSIGN(const session::MountUse mount, link_->mounts.find(*session, {asked.mount}));
    ROS2S_CO_TRY_ASSIGN(session::HandleRoom room, mount->reserve_handle());
    const fs::FileHandle number = table_.add(node, handle, program.user == 0);
    mount->opened(number, std::move(room));
    asked.handle = number.value;
    asked.node = node.value;
    co_return asked;
}

Task<> BorrowedFiles::close() {
    if (link_ == nullptr) co_return;
    kernel_.begin_ending();
    co_await link_->close();
    link_.reset();
}

namespace {

BorrowedFiles::Program program_of(fuse_req_t request) noexcept {
    return {.user = fuse_req_ctx(request)->uid, .process = fuse_req_ctx(request)->pid};
}

template <class T>
void answer(fuse_req_t request, const Result<T>& done) noexcept {
    if (done) {
        fuse_reply_ioctl(request, 0, &*done, sizeof *done);
    } else {
        reply_error(request, done.error());
    }
}

Task<> begin_task(Server& server, fuse_req_t request, hostlink::LendingSession asked) {
    answer(request, co_await server.borrowed_files().begin(asked, program_of(request)));
}

Task<> lend_task(Server& server, fuse_req_t request, hostlink::BorrowedFile asked, fs::NodeId node,
                 fs::FileHandle handle) {
    answer(request,
           co_await server.borrowed_files().lend(asked, program_of(request), node, handle));
}

template <class T>
std::optional<T> body_of(const void* given, size_t bytes) {
    if (bytes < sizeof(T)) return {};
    T body;
    std::memcpy(&body, given, sizeof body);
    return body;
}

}  // namespace

bool lend_by_ioctl(fuse_req_t request, fs::NodeId node, unsigned command,
                   const fuse_file_info* file, const void* given, size_t bytes) {
    if (command == static_cast<unsigned>(hostlink::begin_lending)) {
        const auto asked = body_of<hostlink::LendingSession>(given, bytes);
        if (!asked) return false;
        run(request, begin_task, *asked);
        return true;
    }
    if (command == static_cast<unsigned>(hostlink::lending_version)) {
        constexpr uint32_t version = hostlink::lending_version_now;
        fuse_reply_ioctl(request, 0, &version, sizeof version);
        return true;
    }
    const auto asked = body_of<hostlink::BorrowedFile>(given, bytes);
    if (command != static_cast<unsigned>(hostlink::lend) || !asked) return false;
    run(request, lend_task, *asked, node, handle_of(*file));
    return true;
}

}  // namespace ros2s::fuse
