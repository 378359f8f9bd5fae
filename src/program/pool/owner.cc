#include "ros2s/pool/owner.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <string_view>
#include <vector>

#include "ros2s/base/descriptor.h"
#include "ros2s/base/mount_table.h"
#include "ros2s/base/process_end.h"
#include "ros2s/base/text_parts.h"
#include "ros2s/base/trusted_file.h"

namespace ros2s::pool {

bool is_unmounted(pid_t pid, const std::string& mount_point) {
    std::ifstream table(fmt::format("/proc/{}/mountinfo", pid));
    const std::vector<MountEntry> mounts = read_mounts(table);
    return !mounts.empty() &&
           std::ranges::find(mounts, mount_point, &MountEntry::mount_point) == mounts.end();
}

namespace {

constexpr size_t record_bytes_max = 16 * 1024;

// One "key: value" per line; a mount point may hold any byte except NUL.
std::string encode_value(std::string_view value) {
    std::string out;
    for (const char c : value) {
        if (c == '%' || static_cast<uint8_t>(c) < 0x20) {
            out += fmt::format("%{:02x}", static_cast<uint8_t>(c));
        } else {
            out += c;
        }
    }
    return out;
}

std::string decode_value(std::string_view value) {
    std::string out;
    for (size_t i = 0; i < value.size(); ++i) {
        uint8_t byte = 0;
        if (value[i] == '%' && i + 3 <= value.size() &&
            parse_number(value.substr(i + 1, 2), byte, 16)) {
            out += static_cast<char>(byte);
            i += 2;
        } else {
            out += value[i];
        }
    }
    return out;
}

// The names of programs have at most 15 characters, which may be encoded by three each.
constexpr size_t users_recorded_max = 64;

// Process numbers of another namespace say nothing here. 0: unknown.
uint64_t pid_namespace() {
    struct stat st{};
    return ::stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

std::string encode(const OwnerRecord& record) {
    std::string text =
        fmt::format("pid: {}\nprogram: {}\nmount_point: {}\ncontainer: {}\nshares: {}\n",
                    record.pid, encode_value(record.program), encode_value(record.mount_point),
                    encode_value(record.container), record.shares ? "yes" : "no");
    text += fmt::format("awaits: {}\npid_namespace: {}\n", record.awaits ? "yes" : "no",
                        pid_namespace());
    for (size_t i = 0; i < std::min(record.users.size(), users_recorded_max); ++i) {
        const PoolUser& user = record.users[i];
        text += fmt::format("user: {} {}\n", user.pid, encode_value(user.program));
    }
    return text;
}

// Ignores what it cannot parse: the lock decides, the text only explains.
OwnerRecord decode(std::string_view text) {
    OwnerRecord record;
    while (!text.empty()) {
        const auto line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        const auto colon = line.find(": ");
        if (colon == std::string_view::npos) continue;
        const auto key = line.substr(0, colon);
        const auto value = line.substr(colon + 2);
        if (key == "pid") std::from_chars(value.data(), value.data() + value.size(), record.pid);
        if (key == "program") record.program = decode_value(value);
        if (key == "mount_point") record.mount_point = decode_value(value);
        if (key == "container") record.container = decode_value(value);
        if (key == "shares") record.shares = value == "yes";
        if (key == "awaits") record.awaits = value == "yes";
        if (key == "user") {
            const auto space = std::min(value.find(' '), value.size());
            PoolUser user{.program = decode_value(value.substr(std::min(space + 1, value.size())))};
            const auto pid = value.substr(0, space);
            std::from_chars(pid.data(), pid.data() + pid.size(), user.pid);
            record.users.push_back(std::move(user));
        }
    }
    return record;
}

std::string read_text(int descriptor) {
    std::string text(record_bytes_max, '\0');
    const ssize_t size = ::pread(descriptor, text.data(), text.size(), 0);
    text.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
    return text;
}

OwnerRecord read_record(int descriptor) { return decode(read_text(descriptor)); }

// Whether the owner that left this record, and all its users, have ended. An owner that ends
// in order leaves none.
bool have_all_ended(const std::string& text) {
    const OwnerRecord killed = decode(text);
    const uint64_t here = pid_namespace();
    if (killed.pid <= 0 || !killed.shares || killed.awaits || here == 0 ||
        !text.contains(fmt::format("\npid_namespace: {}\n", here)) ||
        killed.users.size() >= users_recorded_max || !is_ending(killed.pid)) {
        return false;
    }
    return std::ranges::all_of(killed.users, [](const PoolUser& user) {
        return user.pid > 0 && (is_killed(user.pid) || has_ended(user.pid));
    });
}

// A lock of the open file description: closing another descriptor of the file does not drop it, and
// it can be queried without taking it.
struct flock whole_file(short type) {
    struct flock lock{};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    return lock;
}

// False: errno says why. A child that another thread forks meanwhile does not keep the lock.
bool lock_whole(const Descriptor& file, short type) {
    close_in_forked_child(file.get());
    struct flock lock = whole_file(type);
    if (::fcntl(file.get(), F_OFD_SETLK, &lock) == 0) return true;
    forget_in_forked_child(file.get());
    return false;
}

constexpr auto patience_in_all = std::chrono::minutes(1);
// Also the command that lists a directory takes seconds where the disk is busy.
constexpr auto patience_with_one = std::chrono::seconds(20);

// Returns the time to wait for an owner.
Duration patience_with(const OwnerRecord& owner) {
    if (owner.pid <= 0) return std::chrono::seconds(5);
    // In this order: a process that ends meanwhile has no mount table any more.
    if (!owner.mount_point.empty() && is_unmounted(owner.pid, owner.mount_point)) {
        return patience_with_one;
    }
    if (is_ending(owner.pid)) return patience_with_one;
    const bool is_command = owner.program == command_program && owner.mount_point.empty();
    // Without users it ends at once.
    if (owner.program == pool_program && owner.users.empty()) return patience_with_one;
    // This process would wait for itself.
    if (is_command && owner.pid != ::getpid()) return patience_with_one;
    return {};
}

// A user that can open the file can hold a lock on it, and so keep the pool closed.
constexpr mode_t owner_mode = 0600;

std::string owner_path(const std::string& directory) { return directory + "/owner"; }

}  // namespace

Result<std::unique_ptr<Ownership>> Ownership::take(const std::string& directory,
                                                   const OwnerRecord& self, OwnerRecord& present,
                                                   Report& report) {
    const std::string path = owner_path(directory);
    // It is overwritten below. Another directory's file that a link names must not be.
    Report why;
    auto opened = open_trusted(path, O_RDWR | O_CREAT | O_NOFOLLOW, why, owner_mode);
    if (!opened) {
        const bool may_not_write =
            opened.error().code == Code::denied && !is_distrust(opened.error());
        return report.fail(opened.error(), "the pool cannot be taken: {}{}", why.text(),
                           may_not_write ? "; run the command as the user who made the pool" : "");
    }
    Descriptor file = std::move(*opened);
    // An earlier version made it readable by every user. The mode of another user's file stays as
    // it is.
    [[maybe_unused]] const int changed = ::fchmod(file.get(), owner_mode);
    if (!lock_whole(file, F_WRLCK)) {
        const int cause = errno;
        present = read_record(file.get());
        if (cause == EAGAIN || cause == EACCES) {
            return report.fail(Code::busy, describe_owner(directory, present));
        }
        return report.fail(fail_errno(cause).error(),
                           "cannot lock {} ({}): a pool needs a file system with fcntl locks", path,
                           std::strerror(cause));
    }
    return record(std::unique_ptr<Ownership>(new Ownership(file.release())), self, report);
}

Result<std::unique_ptr<Ownership>> Ownership::adopt(int descriptor, const OwnerRecord& self,
                                                    Report& report) {
    close_in_forked_child(descriptor);
    return record(std::unique_ptr<Ownership>(new Ownership(descriptor)), self, report);
}

Result<std::unique_ptr<Ownership>> Ownership::record(std::unique_ptr<Ownership> taken,
                                                     const OwnerRecord& self, Report& report) {
    taken->all_before_ended_ = have_all_ended(read_text(taken->descriptor_));
    if (taken->write(self)) return taken;
    const int cause = errno;
    // The lock decides. On a full disk the owner has no record, and the pool can be read.
    if (cause == ENOSPC || cause == EDQUOT) return taken;
    return report.fail(fail_errno(cause).error(), "cannot write the file of the pool's owner: {}",
                       std::strerror(cause));
}

// A reader may see the end of the previous record behind the new one: users that are gone.
bool Ownership::write(const OwnerRecord& self) const {
    const std::string text = encode(self);
    const auto size = static_cast<ssize_t>(text.size());
    return ::pwrite(descriptor_, text.data(), text.size(), 0) == size &&
           ::ftruncate(descriptor_, size) == 0;
}

void Ownership::update(const OwnerRecord& self) {
    [[maybe_unused]] const bool written = write(self);
}

Result<int> lock_for_another(const std::string& directory, Report& report) {
    ROS2S_TRY_ASSIGN(
        Descriptor file,
        open_trusted(owner_path(directory), O_RDWR | O_CREAT | O_NOFOLLOW, report, owner_mode));
    if (!lock_whole(file, F_WRLCK)) return -1;
    return file.release();
}

namespace {

using Taken = Result<std::unique_ptr<Ownership>>;

// Repeats `take`, which fills `present`, as long as the owner will probably leave soon.
Task<Taken> patiently(Reactor& reactor, const std::function<Taken(Report&)>& take,
                      const OwnerRecord& present, Report& report) {
    const Time began = reactor.now();
    Time owner_since = began;
    pid_t waited_for = -1;
    for (;;) {
        Report attempt;
        auto taken = take(attempt);
        const Time now = reactor.now();
        // The next owner, or one that is just leaving, gets a waiting time of its own.
        if (!taken && present.pid != waited_for) {
            waited_for = present.pid;
            owner_since = now;
        }
        if (taken || taken.error().code != Code::busy ||
            now - owner_since >= patience_with(present) || now - began >= patience_in_all) {
            if (!taken) report.say(attempt.text());
            co_return std::move(taken);
        }
        co_await sleep_for(reactor, std::chrono::milliseconds(2));
    }
}

}  // namespace

Task<Taken> Ownership::take_patiently(Reactor& reactor, std::string directory, OwnerRecord self,
                                      OwnerRecord& present, Report& report) {
    const std::function<Taken(Report&)> attempt = [&](Report& why) {
        return take(directory, self, present, why);
    };
    co_return co_await patiently(reactor, attempt, present, report);
}

Task<Taken> Ownership::share_patiently(Reactor& reactor, std::string directory,
                                       OwnerRecord& present, Report& report) {
    const std::function<Taken(Report&)> attempt = [&](Report& why) {
        return share(directory, present, why);
    };
    co_return co_await patiently(reactor, attempt, present, report);
}

Result<std::unique_ptr<Ownership>> Ownership::share(const std::string& directory,
                                                    OwnerRecord& present, Report& report) {
    const std::string path = owner_path(directory);
    ROS2S_TRY_ASSIGN(Descriptor file, open_trusted(path, O_RDONLY | O_NOFOLLOW, report));
    if (!lock_whole(file, F_RDLCK)) {
        present = read_record(file.get());
        return report.fail(Code::busy, describe_owner(directory, present));
    }
    return std::unique_ptr<Ownership>(new Ownership(file.release()));
}

Ownership::~Ownership() {
    if (mark_.in_forked_child()) return;
    // An empty record means that there is no owner, also where locks cannot be queried.
    [[maybe_unused]] const int truncated = ::ftruncate(descriptor_, 0);
    close_everywhere(descriptor_);
}

Result<OwnerRecord> find_owner(const std::string& directory, Report& report) {
    const std::string path = owner_path(directory);
    ROS2S_TRY_ASSIGN(const Descriptor file, open_trusted(path, O_RDONLY, report));
    struct flock lock = whole_file(F_WRLCK);
    OwnerRecord record;
    if (::fcntl(file.get(), F_OFD_GETLK, &lock) != 0) {
        const int cause = errno;
        return report.fail(fail_errno(cause).error(), "cannot query the lock on {}: {}", path,
                           std::strerror(cause));
    }
    if (lock.l_type != F_UNLCK) {
        record = read_record(file.get());
        // Between taking the lock and writing the record, or after a failed write.
        if (record.pid == 0) record.pid = -1;
    }
    return record;
}

std::string describe_owner(const std::string& directory, const OwnerRecord& owner) {
    if (owner.pid <= 0) {
        return fmt::format(
            "the pool in {0} is in use by another process, which has not recorded "
            "its identity; find it with: fuser -v {0}/owner",
            directory);
    }
    const std::string who = fmt::format("process {} ({})", owner.pid,
                                        owner.program.empty() ? "unnamed" : owner.program);
    if (owner.pid == ::getpid()) {
        return fmt::format("the pool in {} is already open in this {}: close it there first",
                           directory, who);
    }
    if (!owner.mount_point.empty()) {
        return fmt::format(
            "the pool in {0} is in use by {1}, which has its container '{2}' mounted "
            "at {3}: use the files there, or unmount it first: ros2store down {0}",
            directory, who, owner.container, owner.mount_point);
    }
    if (owner.program == engine_program) {
        return fmt::format(
            "the pool in {0} is served by {1}: reach it there with a URI like "
            "ros2s:///POOL/CONTAINER?dir={0}, or stop it: ros2store down {0}",
            directory, who);
    }
    if (!owner.users.empty()) {
        std::string users;
        for (const PoolUser& user : owner.users) {
            users += fmt::format("{}{} ({})", users.empty() ? "" : ", ", user.pid, user.program);
        }
        return fmt::format(
            "the pool in {} is in use by {}, through which other processes use it: {}. Wait until "
            "they all have closed it, or end them",
            directory, who, users);
    }
    return fmt::format("the pool in {} is in use by {}: wait until it ends, or end it: kill {}",
                       directory, who, owner.pid);
}

}  // namespace ros2s::pool
