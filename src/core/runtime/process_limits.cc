#include "ros2s/runtime/process_limits.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <semaphore>
#include <thread>
#include <vector>

#include "ros2s/base/descriptor.h"
#include "thread.h"

namespace ros2s {
namespace {

// Standard streams, rings and wake-ups, a pool's lock, devices and index, and connections.
constexpr uint64_t descriptors_in_any_case = 32;

uint64_t limit_of(__rlimit_resource_t resource) noexcept {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
    return limit.rlim_cur;
}

sigset_t file_size_signal() noexcept {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    return set;
}

}  // namespace

uint64_t descriptors_max() noexcept { return limit_of(RLIMIT_NOFILE); }
uint64_t file_bytes_max() noexcept { return limit_of(RLIMIT_FSIZE); }

Result<> check_file_bytes(const std::string& path, uint64_t bytes, Report& report) {
    const uint64_t most = file_bytes_max();
    if (bytes <= most) return {};
    return report.fail(fail_errno(EFBIG).error(),
                       "{}: has {} KiB, and this process may write files of at most {} KiB: raise "
                       "the limit on file sizes (ulimit -f)",
                       path, (bytes + 1023) >> 10, most >> 10);
}

size_t descriptor_share(size_t shares, size_t most) noexcept {
    const uint64_t all = descriptors_max();
    const uint64_t rest = all - std::min(all, descriptors_in_any_case);
    return std::clamp<uint64_t>(rest / shares, 1, most);
}

Result<> check_threads(size_t count, const char* whose, Report& report) {
    std::counting_semaphore<> end(0);
    std::vector<std::thread> threads;
    Result<> done;
    while (done && threads.size() < count) {
        auto thread = start_thread("ros2store-probe", [&end] { end.acquire(); });
        if (thread) {
            threads.push_back(std::move(*thread));
        } else {
            done = fail(thread.error());
        }
    }
    end.release(static_cast<ptrdiff_t>(threads.size()));
    for (std::thread& each : threads) each.join();
    if (done) return done;
    return report.fail(done.error(), no_thread(fmt::format("{} of the {} threads of {}",
                                                           count - threads.size(), count, whose),
                                               done.error()));
}

Result<> check_descriptors(size_t count, const char* whose, Report& report) {
    std::vector<Descriptor> opened;
    while (opened.size() < count) {
        Descriptor each(::eventfd(0, EFD_CLOEXEC));
        if (each.get() < 0) {
            const Error error = fail_errno(errno).error();
            return report.fail(error,
                               "{} needs {} open files more, and this process can open {} ({}): "
                               "raise the limit on open files (ulimit -n, LimitNOFILE=)",
                               whose, count, opened.size(), describe(error));
        }
        opened.push_back(std::move(each));
    }
    return {};
}

uint64_t address_space_left() noexcept {
    const uint64_t limit = limit_of(RLIMIT_AS);
    if (limit == UINT64_MAX) return limit;
    constexpr uint64_t step = uint64_t{1} << 20;
    uint64_t fits = 0;
    uint64_t too_much = limit / step + 1;
    while (too_much - fits > 1) {
        const uint64_t middle = fits + (too_much - fits) / 2;
        void* const there = ::mmap(nullptr, middle * step, PROT_NONE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (there != MAP_FAILED) ::munmap(there, middle * step);
        (there == MAP_FAILED ? too_much : fits) = middle;
    }
    return fits * step;
}

void ignore_file_size_signal() noexcept { (void)std::signal(SIGXFSZ, SIG_IGN); }

NoFileSizeSignal::NoFileSizeSignal() noexcept {
    const sigset_t set = file_size_signal();
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &set, &before_);
}

NoFileSizeSignal::~NoFileSizeSignal() {
    // One of ours is for this thread, and is taken back before it can be delivered.
    const sigset_t set = file_size_signal();
    const timespec at_once{};
    if (!was_pending_) (void)::sigtimedwait(&set, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace ros2s
