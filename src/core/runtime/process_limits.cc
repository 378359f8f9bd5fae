#include "ros2s/runtime/process_limits.h"

#include <fmt/format.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <new>
#include <semaphore>
#include <string_view>
#include <thread>
#include <vector>

#include "ros2s/base/descriptor.h"
#include "thread.h"

namespace ros2s {
namespace {

// Standard streams, rings and wake-ups, a pool's lock, devices and index, and connections.
constexpr uint64_t descriptors_in_any_case = 32;

// The C library gives each thread a heap of its own, which takes so much address space. This
// variable bounds their number, the first thread's included.
constexpr uint64_t heap_bytes = uint64_t{64} << 20;
constexpr const char* heaps_variable = "MALLOC_ARENA_MAX";

uint64_t heaps_of(size_t threads) noexcept {
    const char* const text = std::getenv(heaps_variable);
    const uint64_t most = text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
    return most == 0 ? threads : std::min<uint64_t>(threads, most - 1);
}

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

uint64_t thread_stack_bytes() noexcept {
    pthread_attr_t usual;
    size_t bytes = size_t{8} << 20;
    if (::pthread_getattr_default_np(&usual) != 0) return bytes;
    ::pthread_attr_getstacksize(&usual, &bytes);
    ::pthread_attr_destroy(&usual);
    return bytes;
}

Result<> check_address_space(size_t threads, uint64_t bytes, const std::string& whose,
                             Report& report) {
    const uint64_t left = address_space_left();
    const uint64_t without_heaps = threads * thread_stack_bytes() + bytes;
    const uint64_t need = without_heaps + heaps_of(threads) * heap_bytes;
    if (need <= left) return {};
    const auto mib = [](uint64_t all) { return (all + (1 << 20) - 1) >> 20; };
    const auto limit_for = [used = limit_of(RLIMIT_AS) - left](uint64_t more) {
        return (used + more + 1023) >> 10;
    };
    std::string sentence = fmt::format(
        "{} needs {} MiB more of address space, and {} MiB are left to this process: raise its "
        "limit to this at least: ulimit -v {}",
        whose, mib(need), mib(left), limit_for(need));
    if (need > without_heaps) {
        sentence += fmt::format("; with MALLOC_ARENA_MAX=1 in its environment, ulimit -v {}",
                                limit_for(without_heaps));
    }
    return report.fail(fail_errno(ENOMEM).error(), sentence);
}

void prepare_for_limits() noexcept {
    (void)std::signal(SIGXFSZ, SIG_IGN);
    if (limit_of(RLIMIT_AS) == UINT64_MAX || std::getenv(heaps_variable) != nullptr) return;
    // Programs that this one starts have the same limit.
    if (::setenv(heaps_variable, "1", 0) == 0) ::mallopt(M_ARENA_MAX, 1);
}

void end_without_memory() noexcept {
    std::set_new_handler([] {
        constexpr std::string_view text =
            "this program has no memory left, and ends: raise its limit on memory (ulimit -v, "
            "MemoryMax=)\n";
        [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
        ::_exit(1);
    });
}

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
