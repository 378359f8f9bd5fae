#include "mounted_why.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ros2s/api/mount_why.h"
#include "ros2s/base/bytes.h"

namespace ros2s::cli {
namespace {

class Descriptor {
  public:
    explicit Descriptor(int value) : value_(value) {}
    ~Descriptor() {
        if (value_ >= 0) ::close(value_);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    [[nodiscard]] int get() const { return value_; }
    [[nodiscard]] bool is_open() const { return value_ >= 0; }

  private:
    int value_;
};

// Absolute links lead from the container's root, as everywhere in it.
int open_in(int root, const std::string& path, int flags) {
    open_how how{};
    how.flags = static_cast<uint64_t>(flags | O_CLOEXEC | O_NONBLOCK);
    how.resolve = RESOLVE_IN_ROOT;
    return static_cast<int>(
        ::syscall(SYS_openat2, root, path.empty() ? "." : path.c_str(), &how, sizeof how));
}

std::string directory_of(const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "" : path.substr(0, slash);
}

struct Asked {
    api::MountWhy answer;
    Duration took{};
};

Result<Asked> ask(int file, const api::MountWhy& question, Reactor& reactor) {
    Asked asked{.answer = question};
    const Time begin = reactor.now();
    if (::ioctl(file, api::mount_why_ioctl, &asked.answer) != 0) return fail_errno(errno);
    asked.took = reactor.now() - begin;
    return asked;
}

// One write to a file that has lost its name, so that nothing is left of it.
Result<std::optional<api::RequestTrace>> trace_write(int root, const Place& place,
                                                     Reactor& reactor) {
    const Descriptor directory(open_in(root, directory_of(place.path), O_RDONLY | O_DIRECTORY));
    if (!directory.is_open()) return fail_errno(errno);
    const std::string name = fmt::format(".ros2store-why.{}", ::getpid());
    const Descriptor scratch(::openat(directory.get(), name.c_str(),
                                      O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!scratch.is_open()) return fail_errno(errno);
    if (::unlinkat(directory.get(), name.c_str(), 0) != 0) return fail_errno(errno);
    const AlignedBuffer block(block_bytes);
    std::memset(block.data(), 0x5a, block.size());
    if (::pwrite(scratch.get(), block.data(), block.size(), 0) < 0) return fail_errno(errno);
    ROS2S_TRY_ASSIGN(const Asked asked, ask(scratch.get(), {.write = 1}, reactor));
    return api::decode_answer(asked.answer).write;
}

struct Found {
    std::optional<MountedTrace> trace;
    std::string failed;  // what did, where something did
};

Result<> look(const Place& place, const WhyOptions& options, Reactor& reactor, Found& found) {
    const Descriptor root(::open(place.host.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root.is_open()) return fail_errno(errno);
    struct statfs system{};
    if (::fstatfs(root.get(), &system) != 0) return fail_errno(errno);
    if (system.f_type != FUSE_SUPER_MAGIC) return {};
    // A local path may lead anywhere; one in a container stays in it.
    const Descriptor file(place.local
                              ? ::openat(root.get(), place.path.empty() ? "." : place.path.c_str(),
                                         O_RDONLY | O_CLOEXEC | O_NONBLOCK)
                              : open_in(root.get(), place.path, O_RDONLY));
    if (!file.is_open()) return fail_errno(errno);
    const auto asked = ask(file.get(), {.offset = options.offset}, reactor);
    if (!asked) {
        if (asked.error().os_errno == ENOTTY && place.local) return {};  // somebody else's mount
        return fail(asked.error());
    }
    struct stat status{};
    if (::fstat(file.get(), &status) != 0) return fail_errno(errno);
    found.trace = {.trace = api::decode_answer(asked->answer),
                   .around = asked->took - Duration(static_cast<int64_t>(asked->answer.handled_ns)),
                   .size = static_cast<uint64_t>(status.st_size)};
    if (options.write) {
        found.failed =
            "cannot trace a write, which takes a file of its own in the same directory (ask "
            "without --write, or unmount and ask again)";
        ROS2S_TRY_ASSIGN(found.trace->trace.write, trace_write(root.get(), place, reactor));
    }
    return {};
}

}  // namespace

Task<Result<std::optional<MountedTrace>>> trace_through_mount(Workplace work, const Place& place,
                                                              const WhyOptions& options) {
    if (place.host.empty()) co_return std::optional<MountedTrace>();
    Found found;
    Reactor& reactor = work.environment.reactor;
    const Result<> looked = co_await work.environment.blocking.run(
        reactor, [&] { return look(place, options, reactor, found); });
    if (looked) co_return std::move(found.trace);
    if (looked.error().os_errno == ENOTTY) {
        co_return work.report.fail(
            looked.error(),
            fmt::format("{}: the process that has it mounted is of another version and cannot say "
                        "how I/O on it travels; unmount it (ros2store down) and ask again",
                        place.shown));
    }
    const std::string what =
        found.failed.empty() ? place.shown : fmt::format("{}: {}", place.shown, found.failed);
    co_return explain(work, what, looked.error());
}

}  // namespace ros2s::cli
