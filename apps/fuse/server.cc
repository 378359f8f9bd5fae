#include "server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fuse.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "kernel_notices.h"
#include "operations.h"
#include "ros2s/base/check.h"
#include "ros2s/base/mount_table.h"
#include "ros2s/base/process_end.h"
#include "ros2s/fs/acl.h"
#include "ros2s/fs/caller.h"
#include "ros2s/runtime/rest.h"

namespace ros2s::fuse {
namespace {

// libfuse's messages while mounting become part of our sentence. Its log function has no user
// argument, so the text is a global.
std::string* said_while_mounting = nullptr;

void keep_what_libfuse_says(fuse_log_level, const char* format, va_list arguments) {
    char line[512];
    std::vsnprintf(line, sizeof line, format, arguments);
    if (said_while_mounting == nullptr) {
        std::fputs(line, stderr);
        return;
    }
    std::string_view text(line);
    while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
    if (!said_while_mounting->empty()) *said_while_mounting += "; ";
    *said_while_mounting += text;
}

// The body of the kernel's request. All zeros if the request is shorter.
template <class T>
T body_of(ConstBytes request) noexcept {
    T body{};
    if (request.size() < sizeof(fuse_in_header) + sizeof body) return body;
    std::memcpy(&body, request.data() + sizeof(fuse_in_header), sizeof body);
    return body;
}

// Flags of FUSE_INIT, its second word in the upper half. libfuse 3.14 (Debian 12's) does not know
// them: they are read from the kernel's request and set in libfuse's answer.
constexpr uint64_t direct_io_allow_mmap = uint64_t{1} << 36;  // Linux 6.6
constexpr uint64_t handle_killpriv = FUSE_HANDLE_KILLPRIV_V2;
constexpr uint64_t setxattr_ext = FUSE_SETXATTR_EXT;
// libfuse knows this one, and does not pass it on.
constexpr uint64_t parallel_dirops = FUSE_PARALLEL_DIROPS;

// Requests that libfuse 3.14 does not know, either. FUSE_TMPFILE (Linux 6.2) has the body and the
// reply of FUSE_CREATE; an overlay sends it without O_TMPFILE in the flags. FUSE_STATX (Linux 6.6)
// begins as FUSE_GETATTR.
constexpr uint32_t opcode_tmpfile = 51;
constexpr uint32_t opcode_statx = 52;

uint64_t offered_flags(ConstBytes request) noexcept {
    const auto offered = body_of<fuse_init_in>(request);
    const uint64_t more = (offered.flags & FUSE_INIT_EXT) != 0 ? offered.flags2 : 0;
    return more << 32 | offered.flags;
}

ssize_t read_from_kernel(int descriptor, void* into, size_t bytes, void*) noexcept {
    return ::read(descriptor, into, bytes);
}

// Requests taken at once before everything else on the core gets its turn.
constexpr int requests_per_turn = 16;
// Nodes of which is known which lists they have, and the time within which the kernel asks for one.
constexpr size_t acl_flags_max = 4096;
constexpr auto acl_asked_within = std::chrono::seconds(1);
// The mount is idle after this time without requests.
constexpr auto rest_after = std::chrono::seconds(2);
// The longest time by which programs that continue to use the mount may delay its end.
constexpr auto longest_stop = std::chrono::seconds(60);

}  // namespace

Server::Server(fs::FileSystem& file_system, Reactor& reactor, BlockingPool& blocking,
               ServerOptions options)
    : file_system_(file_system),
      reactor_(reactor),
      blocking_(blocking),
      options_(std::move(options)),
      ready_(reactor),
      slots_(reactor, options_.requests_max),
      nursery_(reactor, options_.requests_max + left_behind_max),
      killed_looks_(reactor, 1),
      waits_(reactor, waits_max),
      receive_buffers_(16),
      read_buffers_(16),
      write_handles_(file_system),
      cached_pages_(reactor, options_.cached_pages_bytes_max),
      kernel_caches_(file_system, reactor, blocking, page_reads_, kernel_drops_),
      borrowed_files_(*this) {}

Server::~Server() {
    unmount();
    if (session_ != nullptr) fuse_session_destroy(session_);
}

Result<> Server::mount(Report& report) {
    fuse_args arguments = FUSE_ARGS_INIT(0, nullptr);
    char* mount_options = nullptr;
    std::string flags = "default_permissions,subtype=ros2store,max_read=";
    flags += std::to_string(transfer_bytes_max);
    if (options_.read_only) flags += ",ro";
    if (options_.allow_other) flags += ",allow_other";
    if (options_.no_exec) flags += ",noexec";
    const std::string source = "fsname=" + options_.source;
    const bool built = fuse_opt_add_opt(&mount_options, flags.c_str()) == 0 &&
                       fuse_opt_add_opt_escaped(&mount_options, source.c_str()) == 0 &&
                       fuse_opt_add_arg(&arguments, "ros2store-fuse") == 0 &&
                       fuse_opt_add_arg(&arguments, "-o") == 0 &&
                       fuse_opt_add_arg(&arguments, mount_options) == 0;
    ROS2S_CHECK(built);

    std::string said;
    said_while_mounting = &said;
    fuse_set_log_func(keep_what_libfuse_says);
    const fuse_lowlevel_ops table = operations(options_.sharing);
    session_ = fuse_session_new(&arguments, &table, sizeof table, this);
    int failed = session_ == nullptr ? -1 : 0;
    // libfuse takes a mount that was made by this name.
    const std::string place =
        options_.device < 0 ? options_.mount_point : fmt::format("/dev/fd/{}", options_.device);
    if (failed == 0) failed = fuse_session_mount(session_, place.c_str());
    said_while_mounting = nullptr;
    fuse_opt_free_args(&arguments);
    std::free(mount_options);
    if (failed != 0) {
        return report.fail(Code::denied,
                           "cannot mount on " + options_.mount_point + ": " +
                               (said.empty() ? "libfuse gave no reason" : said) +
                               "; in a container add --device /dev/fuse --cap-add SYS_ADMIN; "
                               "an ordinary user needs the package fuse3 and must own the "
                               "mount point; `ros2store doctor` checks both");
    }
    mounted_ = true;
    const int descriptor = fuse_session_fd(session_);
    const fuse_custom_io io{.writev = write_to_kernel,
                            .read = read_from_kernel,
                            .splice_receive = nullptr,
                            .splice_send = nullptr};
    ROS2S_CHECK(fuse_session_custom_io(session_, &io, descriptor) == 0);
    requests_.emplace(reactor_, descriptor);
    const int status = ::fcntl(descriptor, F_GETFL);
    if (status < 0 || ::fcntl(descriptor, F_SETFL, status | O_NONBLOCK) < 0) {
        const auto error = fail_errno(errno);
        unmount();
        return error;
    }
    return {};
}

void Server::note_failure(fs::NodeId node, const Error& error) {
    constexpr uint32_t lines_max = 100;
    if (error.code != Code::corrupt || ++corrupt_ > lines_max) return;
    options_.log.error(
        "inode {0} on {1}: {2}; `find {1} -xdev -inum {0}` names the file: restore it from a copy, "
        "and check the disk",
        node.value, options_.mount_point, describe(error));
}

void Server::note_cut_time(fs::NodeId node, int64_t set, int64_t kept) {
    constexpr uint32_t lines_max = 100;
    if (++cut_times_ > lines_max) return;
    options_.log.warning(
        "inode {} on {}: a time was set to {} s from 1970 and became {} s, the nearest one that "
        "can be stored{}",
        node.value, options_.mount_point, set, kept,
        cut_times_ == lines_max ? " (further ones are not logged)" : "");
}

void Server::unmount() noexcept {
    if (!mounted_) return;
    mounted_ = false;
    fuse_session_unmount(session_);
}

void Server::connected(fuse_conn_info& connection) noexcept {
    const auto want = [&](unsigned capability, bool wanted) {
        if (wanted && (connection.capable & capability) != 0) {
            connection.want |= capability;
        } else {
            connection.want &= ~capability;
        }
    };
    if (options_.sharing == Sharing::shared && options_.caching) {
        constexpr unsigned expires_names = 38;  // Linux 6.2
        kernel_caches_.start(session_, connection.proto_minor >= expires_names);
    }
    connection.max_write = transfer_bytes_max;
    connection.max_read = transfer_bytes_max;
    connection.max_readahead = transfer_bytes_max;
    connection.max_background = static_cast<unsigned>(options_.requests_max);
    connection.congestion_threshold = connection.max_background * 3 / 4;
    // Otherwise an acknowledged write is durable, so the kernel must not acknowledge writes itself.
    want(FUSE_CAP_WRITEBACK_CACHE, is_exclusive());
    want(FUSE_CAP_SPLICE_READ, false);
    want(FUSE_CAP_SPLICE_WRITE, false);
    want(FUSE_CAP_SPLICE_MOVE, false);
    want(FUSE_CAP_ASYNC_READ, true);
    // The kernel drops the pages of a direct write before it is sent and, if it waits for the
    // reply, after that. It does not if the write is asynchronous: a page that was read meanwhile
    // would stay, with the old bytes.
    want(FUSE_CAP_ASYNC_DIO, !caches());
    want(FUSE_CAP_ATOMIC_O_TRUNC, true);
    want(FUSE_CAP_EXPORT_SUPPORT, true);
    // Attributes that come with names are for the kernel's cache. Without it, the kernel would drop
    // them at once and ask again.
    const bool keeps = caches() || takes_leases();
    want(FUSE_CAP_READDIRPLUS, keeps);
    want(FUSE_CAP_READDIRPLUS_AUTO, keeps);
    // Our own writes change the modification time, which must not drop the pages that they left.
    want(FUSE_CAP_AUTO_INVAL_DATA, !caches());
    want(FUSE_CAP_EXPLICIT_INVAL_DATA, caches());
    want(FUSE_CAP_CACHE_SYMLINKS, keeps);
    // The kernel evaluates access lists, and leaves to us what new nodes inherit, and the umask.
    want(FUSE_CAP_POSIX_ACL, options_.access_lists);
    want(FUSE_CAP_DONT_MASK, options_.access_lists);
    // The kernel then leaves set-id bits to us, and says who may keep them. And it does not look
    // for file capabilities before each write.
    const uint64_t wanted = handle_killpriv | parallel_dirops |
                            (caches() ? 0 : direct_io_allow_mmap) |
                            (options_.access_lists ? setxattr_ext : 0);
    flags_past_libfuse_ = offered_flags(current_request()) & wanted;
    shaking_hands_ = true;
    ready_.set();
}

ConstBytes Server::current_request() const noexcept {
    return {static_cast<const std::byte*>(current_.get()), current_bytes_};
}

int Server::kernel_descriptor() const noexcept { return fuse_session_fd(session_); }

bool Server::maps_shared() const noexcept {
    return caches() || (flags_past_libfuse_ & direct_io_allow_mmap) != 0;
}

bool Server::clears_set_ids() const noexcept {
    const ConstBytes request = current_request();
    fuse_in_header header;
    if (request.size() < sizeof header) return true;
    std::memcpy(&header, request.data(), sizeof header);
    if (header.uid != 0) return true;
    switch (header.opcode) {
        case FUSE_WRITE:
            return (body_of<fuse_write_in>(request).write_flags & FUSE_WRITE_KILL_SUIDGID) != 0;
        case FUSE_OPEN:
            return (body_of<fuse_open_in>(request).open_flags & FUSE_OPEN_KILL_SUIDGID) != 0;
        case FUSE_CREATE:
            return (body_of<fuse_create_in>(request).open_flags & FUSE_OPEN_KILL_SUIDGID) != 0;
        case FUSE_SETATTR:
            return (body_of<fuse_setattr_in>(request).valid & FATTR_KILL_SUIDGID) != 0;
        default: return true;
    }
}

void Server::set_ids_may_be_gone(fs::NodeId node) noexcept {
    constexpr off_t attributes_only = -1;  // it does not wait for pages
    if ((!caches() && !takes_leases()) || !has_set_ids(node)) return;
    (void)fuse_lowlevel_notify_inval_inode(session_, node.value, attributes_only, 0);
}

void Server::note_attributes(const fs::Attributes& attributes, bool by_name, uint64_t acl_changes) {
    borrowed_files_.kernel().gets_attributes(attributes.node);
    if (options_.access_lists && !takes_leases() && acl_changes == acl_changes_) {
        if (acl_flags_.size() >= acl_flags_max) acl_flags_.clear();
        acl_flags_[attributes.node.value] = {attributes.flags, reactor_.now()};
    }
    if (S_ISREG(attributes.mode) && (attributes.mode & (S_ISUID | S_ISGID)) != 0) {
        set_id_files_.insert(attributes.node.value);
    } else if (!set_id_files_.empty()) {
        set_id_files_.erase(attributes.node.value);
    }
    if (!S_ISDIR(attributes.mode)) return;
    directories_.see(attributes, reactor_.now(), by_name);
    if ((attributes.mode & S_ISGID) != 0) {
        set_group_id_directories_[attributes.node.value] = attributes.gid;
    } else if (!set_group_id_directories_.empty()) {
        set_group_id_directories_.erase(attributes.node.value);
    }
}

bool Server::lacks_attribute(fs::NodeId node, std::string_view name) const {
    const auto found = acl_flags_.find(node.value);
    const bool is_new =
        found != acl_flags_.end() && reactor_.now() - found->second.at < acl_asked_within;
    const uint32_t flag = fs::flag_of_attribute(name);
    return is_new && flag != 0 && (found->second.flags & flag) == 0;
}

void Server::forget(fs::NodeId node, uint64_t count) {
    acl_flags_.erase(node.value);
    set_group_id_directories_.erase(node.value);
    set_id_files_.erase(node.value);
    directories_.forget(node);
    page_reads_.forget(node);
    file_system_.forget(node, count);
}

std::optional<gid_t> Server::inherited_group(fs::NodeId parent) const {
    const auto found = set_group_id_directories_.find(parent.value);
    if (found == set_group_id_directories_.end()) return std::nullopt;
    return found->second;
}

std::vector<uint32_t> Server::groups_of(fuse_req_t request, bool needed) {
    constexpr size_t groups_max = 256;
    constexpr Duration lifetime = std::chrono::seconds(1);
    const fuse_ctx* const context = fuse_req_ctx(request);
    if (!(options_.asks_for_groups || needed) || context->uid == 0 || context->pid == 0) return {};
    const Time now = reactor_.now();
    if (groups_.size() >= groups_max) groups_.clear();
    const auto [known, is_new] = groups_.try_emplace(context->pid);
    if (is_new || now - known->second.read_at >= lifetime) {
        std::array<gid_t, fs::caller_groups_max> groups{};
        const int count = fuse_req_getgroups(request, groups.size(), groups.data());
        const size_t kept = std::clamp<int>(count, 0, groups.size());
        known->second = {now, {groups.begin(), groups.begin() + static_cast<ptrdiff_t>(kept)}};
    }
    return known->second.groups;
}

ssize_t Server::write_to_kernel(int descriptor, iovec* parts, int count, void* server) noexcept {
    auto& self = *static_cast<Server*>(server);
    if (std::exchange(self.shaking_hands_, false) && self.flags_past_libfuse_ != 0) {
        ROS2S_CHECK(count == 2 && parts[1].iov_len >= sizeof(fuse_init_out));
        auto& answer = *static_cast<fuse_init_out*>(parts[1].iov_base);
        answer.flags |= FUSE_INIT_EXT | static_cast<uint32_t>(self.flags_past_libfuse_);
        answer.flags2 |= static_cast<uint32_t>(self.flags_past_libfuse_ >> 32);
    }
    return ::writev(descriptor, parts, count);
}

Server::Received Server::receive() {
    if (!current_) current_ = receive_buffers_.take();
    fuse_buf buffer{};
    buffer.mem = current_.release();
    const int received = fuse_session_receive_buf(session_, &buffer);
    current_.reset(buffer.mem);
    if (received > 0) {
        current_bytes_ = buffer.size;
        return Received::request;
    }
    switch (-received) {
        case EAGAIN: return Received::nothing;
        case EINTR:
        case ENOENT: return Received::again;  // the caller was killed while we were reading
        default: return Received::end;        // 0 or ENODEV: unmounted
    }
}

void Server::translate() noexcept {
    current_opcode_ = 0;
    setxattr_flags_ = 0;
    fuse_in_header header;
    if (current_bytes_ < sizeof header) return;
    std::memcpy(&header, current_.get(), sizeof header);
    current_opcode_ = header.opcode;
    current_identity_ = {.unique = header.unique, .thread = static_cast<pid_t>(header.pid)};
    switch (header.opcode) {
        case FUSE_SETXATTR:
            if ((flags_past_libfuse_ & setxattr_ext) != 0) shorten_setxattr(header);
            break;
        case opcode_tmpfile: header.opcode = FUSE_CREATE; break;
        case opcode_statx: header.opcode = FUSE_GETATTR; break;
        default: return;
    }
    std::memcpy(current_.get(), &header, sizeof header);
}

// libfuse expects the name where the flags are.
void Server::shorten_setxattr(fuse_in_header& header) noexcept {
    constexpr size_t short_bytes = FUSE_COMPAT_SETXATTR_IN_SIZE;
    constexpr size_t more = sizeof(fuse_setxattr_in) - short_bytes;
    if (current_bytes_ < sizeof header + sizeof(fuse_setxattr_in)) return;
    setxattr_flags_ = body_of<fuse_setxattr_in>(current_request()).setxattr_flags;
    auto* const name = static_cast<std::byte*>(current_.get()) + sizeof header + short_bytes;
    std::memmove(name, name + more, current_bytes_ - sizeof header - sizeof(fuse_setxattr_in));
    current_bytes_ -= more;
    header.len = static_cast<uint32_t>(current_bytes_);
}

bool Server::creates_nameless() const noexcept { return current_opcode_ == opcode_tmpfile; }
bool Server::asks_for_birth_time() const noexcept { return current_opcode_ == opcode_statx; }

void Server::dispatch() {
    translate();
    if (current_opcode_ == FUSE_INTERRUPT) {
        interrupted(body_of<fuse_interrupt_in>(current_request()).unique);
    }
    fuse_buf buffer{};
    buffer.mem = current_.get();
    buffer.size = current_bytes_;
    current_runs_ = false;
    ++requests_taken_;
    fuse_session_process_buf(session_, &buffer);
    if (!current_runs_) slots_.release();
}

void Server::run(Task<> task) {
    ROS2S_CHECK(!current_runs_);
    current_runs_ = true;
    // serve() holds a unit of the slots. The nursery accepts more than there are.
    ROS2S_CHECK(nursery_.try_spawn(run_and_release(std::move(task), current_identity_)));
}

void Server::wait(Task<> task) { ROS2S_CHECK(waits_.try_spawn(std::move(task))); }

Task<> Server::run_and_release(Task<> task, RunningRequests::Request request) {
    {
        const RunningRequests::Running running(running_requests_, request);
        co_await std::move(task);
        if (running.is_left_behind()) {
            --left_behind_;
            co_return;
        }
    }
    slots_.release();
}

void Server::answer_for_killed(uint64_t unique) {
    answer_killed(kernel_descriptor(), unique);
    if (left_behind_ == left_behind_max || !running_requests_.leave_behind(unique)) return;
    ++left_behind_;
    slots_.release();
}

void Server::interrupted(uint64_t unique) {
    // Where the kernel keeps names for long, it must learn how a change ended.
    if (caches() || !running_requests_.note_signal(unique, reactor_.now())) return;
    (void)killed_looks_.try_spawn(answer_killed_programs());
}

// The kernel tells only the first signal, and a program may live on after that. A server that
// answers at all has done so after a second: then the names that the kernel keeps for a moment are
// gone, too.
Task<> Server::answer_killed_programs() {
    constexpr Duration after = std::chrono::seconds(1), pause = std::chrono::milliseconds(100);
    while (running_requests_.has_signalled() &&
           co_await sleep_for(reactor_, pause, waits_end_.token())) {
        running_requests_.look_at_signalled(reactor_.now() - after,
                                            [this](const RunningRequests::Request& request) {
                                                if (!is_killed(request.thread)) return false;
                                                answer_for_killed(request.unique);
                                                return true;
                                            });
    }
}

Task<> Server::look_when_full(StopToken stop) {
    if (caches()) co_return;  // see interrupted()
    uint64_t before = 0;
    while (co_await sleep_for(reactor_, std::chrono::seconds(1), stop)) {
        // None was taken for a second, and there is no room for another one.
        const bool is_full =
            nursery_.running() - left_behind_ == options_.requests_max && before == requests_taken_;
        before = requests_taken_;
        if (!is_full) continue;
        running_requests_.note_signals(reactor_.now());
        (void)killed_looks_.try_spawn(answer_killed_programs());
    }
}

Task<> Server::serve() {
    int in_a_row = 0;
    Nursery beside(reactor_, 1);
    StopSource served;
    co_await beside.spawn(look_when_full(served.token()));
    while (!stop_by_ || reactor_.now() < *stop_by_) {
        co_await slots_.acquire();
        const Received received = receive();
        if (received == Received::request) {
            dispatch();
            if (++in_a_row < requests_per_turn) continue;
            in_a_row = 0;
            co_await yield(reactor_);
            continue;
        }
        slots_.release();
        in_a_row = 0;
        if (received == Received::end) break;
        if (received == Received::nothing) {
            // Each reply may let the kernel send requests that it held back. The end is reached
            // when no request is in progress and none is queued.
            if (stop_by_ && nursery_.running() == 0) {
                if (kernel_drops_ == 0) break;
                // It may wait for a page whose request comes next.
                co_await sleep_for(reactor_, std::chrono::milliseconds(1));
            }
            if (stop_by_) co_await nursery_.join();
            co_await requests_->readable();
        }
    }
    answered_all_ = !stop_by_ || reactor_.now() < *stop_by_;
    co_await nursery_.join();
    served.request_stop();
    co_await beside.join();
    waits_end_.request_stop();
    co_await waits_.join();
    co_await killed_looks_.join();
    co_await borrowed_files_.close();
    co_await kernel_caches_.stop();
    ready_.set();
}

Task<> Server::give_memory_back_at_rest(StopToken stop) {
    RestWatch watch;
    while (co_await sleep_for(reactor_, rest_after, stop)) {
        if (!watch.came_to_rest(requests_taken_)) continue;
        receive_buffers_.drop();
        read_buffers_.drop();
        give_free_memory_back();
    }
}

Task<> Server::drop_old_pages(StopToken stop) {
    if (caches()) co_return;  // nobody else writes
    while (co_await sleep_for(reactor_, PageReads::look_interval, stop)) {
        if (stop_by_) co_return;
        const auto due = page_reads_.take_due(reactor_.now());
        if (due.empty()) continue;
        ++kernel_drops_;
        const auto found = co_await blocking_.run(reactor_, [&]() -> Result<MappedReads> {
            MappedReads reads = find_mapped(due, mounted_on(options_.mount_point).device);
            for (const PageReads::Read& each : reads.others) {
                drop_pages(fuse_session_fd(session_), each.node, each.begin, each.end);
            }
            return reads;
        });
        --kernel_drops_;
        co_await look_at_mapped(std::move(found->mapped));
    }
}

// Drops what another mount has changed since the pages were read.
Task<> Server::look_at_mapped(std::vector<PageReads::Read> reads) {
    std::map<fs::NodeId, Result<fs::Attributes>> files;
    std::vector<PageReads::Read> old;
    for (PageReads::Read& each : reads) {
        auto found = files.find(each.node);
        if (found == files.end()) {
            auto asked = co_await file_system_.get_attributes({}, each.node);
            found = files.emplace(each.node, std::move(asked)).first;
        }
        const Result<fs::Attributes>& file = found->second;
        if (!file || each.changed != file->changed) old.push_back(each);
        if (!file) continue;
        each.changed = file->changed;
        page_reads_.keep(reactor_.now(), each);
    }
    if (old.empty()) co_return;
    ++kernel_drops_;
    std::ignore = co_await blocking_.run(reactor_, [&]() -> Result<> {
        for (const PageReads::Read& each : old) {
            drop_pages(fuse_session_fd(session_), each.node, each.begin, each.end);
        }
        return {};
    });
    --kernel_drops_;
}

void Server::stop() noexcept {
    stop_by_ = reactor_.now() + longest_stop;
    waits_end_.request_stop();
    requests_->cancel();
}

}  // namespace ros2s::fuse
