#include "borrowed_files.h"

#include <fmt/format.h>
#include <linux/fuse.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <tuple>

#include "borrowed_file_system.h"
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
    Link(Server& of, Table& borrowed_files)
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
    Table& table;
    Reactor& reactor;
    session::TicketTable tickets{reactor, {}};
    session::SessionTable table_of_sessions{reactor, tickets, sessions, server.options().log};
    session::Mounts mounts{reactor, table_of_sessions, *this, {.per_session_max = 1}};
    hostlink::LinkServer service{reactor, table_of_sessions, mounts, hostlink::Placement::host};
    session::SessionGate gate{table_of_sessions, session::Purpose::link};
    std::unique_ptr<fabric::Domain> domain;
    std::unique_ptr<rpc::Server> listener;
    StopSource stop;
    Nursery reaping;
};

// Borrowed files, by the number of the program's handle.
class BorrowedFiles::Table final : public BorrowedFileSystem::Files {
  public:
    explicit Table(Server& server)
        : server_(server), idle_(server.reactor()), drop_turn_(server.reactor(), 1) {}

    fs::FileHandle add(fs::NodeId node, fs::FileHandle handle, bool keeps_set_ids) {
        const fs::FileHandle number{++last_};
        files_[number] = {.node = node, .handle = handle, .keeps_set_ids = keeps_set_ids};
        borrowed_of_[handle].push_back(number);
        return number;
    }
    Task<> end(fs::FileHandle handle) {
        const auto found = borrowed_of_.extract(handle);
        if (found.empty()) co_return;
        for (const fs::FileHandle number : found.mapped()) {
            const auto file = files_.find(number);
            if (file == files_.end()) continue;
            file->second.has_ended = true;
        }
        for (const fs::FileHandle number : found.mapped()) co_await until_unused(number);
    }
    // Pages that the kernel still has end with the mount.
    void begin_ending() noexcept { is_ending_ = true; }
    [[nodiscard]] bool drops_pages() const noexcept { return dropping_ > 0; }

    Task<Result<uint64_t>> read(const Call& call, fs::FileHandle number, fs::Window into,
                                uint64_t offset) override;
    Task<Result<uint64_t>> write(const Call& call, fs::FileHandle number, fs::Window from,
                                 uint64_t offset) override;
    Task<Result<>> sync(const Call& call, fs::FileHandle number) override;
    Task<> close(fs::FileHandle number) override;

  private:
    struct File {
        fs::NodeId node{};
        fs::FileHandle handle{};  // of the descriptor
        bool keeps_set_ids = false;
        bool has_ended = false;  // with the descriptor
        uint32_t users = 0;      // operations
    };
    // An operation on a borrowed file.
    class Use {
      public:
        Use(Table& table, File& file) : table_(&table), file_(&file) { ++file.users; }
        Use(Use&& other) noexcept
            : table_(std::exchange(other.table_, nullptr)), file_(other.file_) {}
        Use(const Use&) = delete;
        Use& operator=(const Use&) = delete;
        Use& operator=(Use&&) = delete;
        ~Use() {
            if (table_ != nullptr && --file_->users == 0) table_->idle_.wake_all();
        }
        const File* operator->() const { return file_; }

      private:
        Table* table_;
        File* file_;
    };
    Result<Use> use(fs::FileHandle number) {
        const auto found = files_.find(number);
        if (found == files_.end() || found->second.has_ended) return fail(Code::stale);
        return Use(*this, found->second);
    }
    Task<> until_unused(fs::FileHandle number) {
        for (auto file = files_.find(number); file != files_.end() && file->second.users > 0;
             file = files_.find(number)) {
            co_await idle_;
        }
    }
    Task<Result<uint64_t>> write_past_kernel(const Call& call, const File& file, fs::Window from,
                                             uint64_t offset);
    Task<> drop(fs::NodeId node, uint64_t offset, uint64_t bytes, std::optional<std::byte> last);

    Server& server_;
    uint64_t last_ = 0;
    std::map<fs::FileHandle, File> files_;
    std::map<fs::FileHandle, std::vector<fs::FileHandle>>
        borrowed_of_;  // by the descriptor's handle
    Event idle_;
    // A read that it waits for may need a helper thread, too.
    Semaphore drop_turn_;
    size_t dropping_ = 0;
    bool is_ending_ = false;
};

namespace {

// The program's names of updates are not the store's: it never sends one again.
Call call_below(const Call& call) {
    return {.deadline = call.deadline,
            .stop = call.stop,
            .trace = call.trace,
            .checksums = call.checksums};
}

// Makes the kernel's size of the file at least `offset` + 1: it appends where it takes the end to
// be. It then has a page with this byte, for a moment.
void store_last(int fuse_descriptor, fs::NodeId node, uint64_t offset, std::byte last) noexcept {
    fuse_notify_store_out store{.nodeid = node.value, .offset = offset, .size = 1, .padding = 0};
    fuse_out_header header{
        .len = sizeof header + sizeof store + sizeof last, .error = FUSE_NOTIFY_STORE, .unique = 0};
    const iovec parts[] = {{&header, sizeof header}, {&store, sizeof store}, {&last, sizeof last}};
    // It fails if the kernel has dropped the file, or the file system is being unmounted.
    std::ignore = ::writev(fuse_descriptor, parts, 3);
}

}  // namespace

// Waits for pages that are being read, or written back, by other requests.
Task<> BorrowedFiles::Table::drop(fs::NodeId node, uint64_t offset, uint64_t bytes,
                                  std::optional<std::byte> last) {
    if (is_ending_ || bytes == 0) co_return;
    ++dropping_;
    co_await drop_turn_.acquire();
    const SemaphoreHold turn(drop_turn_);
    const int descriptor = server_.kernel_descriptor();
    std::ignore = co_await server_.blocking().run(server_.reactor(), [&]() -> Result<> {
        if (last) store_last(descriptor, node, offset + bytes - 1, *last);
        drop_pages(descriptor, {.node = node, .begin = offset, .end = offset + bytes});
        return {};
    });
    --dropping_;
}

Task<Result<uint64_t>> BorrowedFiles::Table::read(const Call& call, fs::FileHandle number,
                                                  fs::Window into, uint64_t offset) {
    ROS2S_CO_TRY_ASSIGN(const Use file, use(number));
    if (into.length > INT64_MAX || offset > INT64_MAX - into.length) co_return fail(Code::invalid);
    if (server_.is_mappable(file->node)) co_await drop(file->node, offset, into.length, {});
    const auto got =
        co_await server_.file_system().pread(call_below(call), file->handle, into, offset);
    if (!got) server_.note_failure(file->node, got.error());
    co_return got;
}

Task<Result<uint64_t>> BorrowedFiles::Table::write_past_kernel(const Call& call, const File& file,
                                                               fs::Window from, uint64_t offset) {
    fs::FileSystem& files = server_.file_system();
    if (server_.caches()) {
        if (server_.is_append_only(file.handle)) co_return fs::fail_permission();
        if (!file.keeps_set_ids && server_.has_set_ids(file.node)) {
            ROS2S_CO_TRY(co_await files.set_attributes(call, file.node, {.clears_set_ids = true}));
        }
        co_return co_await files.pwrite(call, file.handle, from, offset);
    }
    const auto running = co_await server_.cached_pages().begin(file.node, CachedPages::Kind::direct,
                                                               {offset, from.length});
    ROS2S_CO_TRY_ASSIGN(
        const fs::FileHandle handle,
        co_await server_.write_handles().find(
            file.node, file.handle, {.appends = false, .keeps_set_ids = file.keeps_set_ids}));
    co_return co_await files.pwrite(call, handle, from, offset);
}

// The kernel writes a page of a mapping back through this process, and must not do so between the
// write and the end of its pages.
Task<Result<uint64_t>> BorrowedFiles::Table::write(const Call& call, fs::FileHandle number,
                                                   fs::Window from, uint64_t offset) {
    ROS2S_CO_TRY_ASSIGN(const Use file, use(number));
    if (from.length > INT64_MAX || offset > INT64_MAX - from.length) co_return fail(Code::invalid);
    if (from.length == 0) co_return 0;
    const std::byte last = from.bytes().back();
    if (server_.is_mappable(file->node)) co_await drop(file->node, offset, from.length, {});
    const auto written =
        co_await write_past_kernel(call_below(call), *file.operator->(), from, offset);
    if (!written) {
        server_.note_failure(file->node, written.error());
        co_return written;
    }
    const bool is_whole = *written == from.length;
    co_await drop(file->node, offset, *written,
                  server_.caches() && is_whole ? std::optional(last) : std::nullopt);
    if (!file->keeps_set_ids) server_.set_ids_may_be_gone(file->node);
    co_return written;
}

Task<Result<>> BorrowedFiles::Table::sync(const Call& call, fs::FileHandle number) {
    ROS2S_CO_TRY_ASSIGN(const Use file, use(number));
    co_return co_await server_.file_system().fsync(call_below(call), file->handle);
}

Task<> BorrowedFiles::Table::close(fs::FileHandle number) {
    const auto file = files_.find(number);
    if (file == files_.end()) co_return;
    file->second.has_ended = true;
    if (const auto all = borrowed_of_.find(file->second.handle); all != borrowed_of_.end()) {
        std::erase(all->second, number);
        if (all->second.empty()) borrowed_of_.erase(all);
    }
    co_await until_unused(number);
    files_.erase(number);
}

Task<Result<std::unique_ptr<fs::FileSystem>>> BorrowedFiles::Link::open(
    const Call&, const session::MountedContainer&, Report&) {
    co_return std::make_unique<BorrowedFileSystem>(table);
}

BorrowedFiles::BorrowedFiles(Server& server) : server_(server), turn_(server.reactor(), 1) {}
BorrowedFiles::~BorrowedFiles() { ROS2S_CHECK(link_ == nullptr); }

Task<Result<hostlink::LendingSession>> BorrowedFiles::begin(hostlink::LendingSession asked,
                                                            Program program) {
    co_await turn_.acquire();
    const SemaphoreHold turn(turn_);
    if (table_ == nullptr) table_ = std::make_unique<Table>(server_);
    Report report;
    if (link_ == nullptr) {
        auto link = std::make_unique<Link>(server_, *table_);
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
    const fs::FileHandle number = table_->add(node, handle, program.user == 0);
    mount->opened(number, std::move(room));
    asked.handle = number.value;
    asked.node = node.value;
    co_return asked;
}

Task<> BorrowedFiles::end(fs::FileHandle handle) {
    if (table_ != nullptr) co_await table_->end(handle);
}

bool BorrowedFiles::drops_pages() const noexcept {
    return table_ != nullptr && table_->drops_pages();
}

Task<> BorrowedFiles::close() {
    if (link_ == nullptr) co_return;
    table_->begin_ending();
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
