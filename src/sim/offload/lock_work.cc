#include "lock_work.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "ros2s/fs/lock_wait.h"
#include "ros2s/object/locks.h"
#include "ros2s/sim/no_call.h"

namespace ros2s::sim {
namespace {

using namespace std::chrono_literals;
using object::Lock;
using object::LockMode;
using object::LockSpace;

constexpr size_t files_count = 2;
constexpr uint64_t file_bytes = 100;
// A call that waits longer is given up, and then what it did is unknown.
constexpr Duration waits_most = 2s, waits_little = 50ms;
// The time in which locks of the dead end: that of two sessions, and of a store that was opened.
constexpr Duration end_within = 30s;

std::string locked_name(size_t file) { return fmt::format("locked-{}", file); }

std::string text_of(const Lock& lock) {
    const std::string_view mode = lock.mode == LockMode::exclusive ? "exclusive" : "shared";
    if (lock.space == LockSpace::flock) return fmt::format("{} (flock)", mode);
    return fmt::format("{} {}-{}", mode, lock.first, lock.last);
}

}  // namespace

LockWork::Totals& LockWork::Totals::operator+=(const Totals& other) {
    granted += other.granted;
    refused += other.refused;
    unknown += other.unknown;
    lost += other.lost;
    overtaken += other.overtaken;
    return *this;
}

Task<Result<>> LockWork::prepare(fs::FileSystem& files) {
    for (size_t file = 0; file < files_count; ++file) {
        ROS2S_CO_TRY_ASSIGN(const auto made,
                            co_await files.create(no_call, fs::root_node, locked_name(file), 0644,
                                                  {.write = true}, {}));
        const std::string bytes(file_bytes, 'x');
        ROS2S_CO_TRY(
            co_await files.pwrite(no_call, made.handle, fs::Window::local(as_bytes(bytes)), 0));
        ROS2S_CO_TRY(co_await files.close(no_call, made.handle));
    }
    co_return Result<>{};
}

Task<Result<fs::FileHandle>> LockWork::open(fs::FileSystem& files, size_t file) {
    ROS2S_CO_TRY_ASSIGN(const auto found,
                        co_await files.lookup(no_call, fs::root_node, locked_name(file)));
    ROS2S_CO_TRY_ASSIGN(const auto opened,
                        co_await files.open(no_call, found.node, {.write = true}));
    files.forget(found.node, 1);
    co_return opened.handle;
}

Lock LockWork::draw(Random& random) {
    constexpr std::pair<uint64_t, uint64_t> ranges[] = {
        {0, 49}, {40, 89}, {80, UINT64_MAX}, {0, UINT64_MAX}, {UINT64_MAX, UINT64_MAX}};
    Lock lock{.mode = random.one_in(3) ? LockMode::shared : LockMode::exclusive,
              .owner = ++last_owner_};
    if (random.one_in(2)) {
        lock.space = LockSpace::flock;
    } else {
        std::tie(lock.first, lock.last) = ranges[random.below(std::size(ranges))];
    }
    return lock;
}

Task<Result<>> LockWork::step(const Client& client, Random& random) {
    const size_t file = random.below(files_count);
    ROS2S_CO_TRY_ASSIGN(const fs::FileHandle handle, co_await open(client.files, file));
    ROS2S_CO_TRY_ASSIGN(const bool closes, co_await hold(client, file, handle, random));
    if (closes) ROS2S_CO_TRY(co_await client.files.close(no_call, handle));
    co_return Result<>{};
}

Task<Result<bool>> LockWork::hold(const Client& client, size_t file, fs::FileHandle handle,
                                  Random& random) {
    Lock lock = draw(random);
    const fs::LockHow how = random.one_in(3) ? fs::LockHow::now : fs::LockHow::wait;
    const Duration waits = random.one_in(2) ? waits_most : waits_little;
    ROS2S_CO_TRY_ASSIGN(Answer answer, co_await ask(client, file, handle, lock, how, waits));
    if (answer.is_unknown) co_return false;
    for (bool converts = random.one_in(3); answer.held != 0; converts = false) {
        ROS2S_CO_TRY_ASSIGN(const bool is_held, co_await use(client, handle, answer.held, random));
        if (!is_held || !converts) break;
        lock.mode = lock.mode == LockMode::shared ? LockMode::exclusive : LockMode::shared;
        held_.erase(answer.held);
        ROS2S_CO_TRY_ASSIGN(answer,
                            co_await ask(client, file, handle, lock, fs::LockHow::now, waits));
    }
    held_.erase(answer.held);
    if (random.one_in(4)) co_return true;  // it ends with the handle
    lock = {.space = lock.space, .owner = lock.owner};
    ROS2S_CO_TRY(co_await client.files.lock(no_call, handle, lock, fs::LockHow::now));
    co_return true;
}

Task<Result<LockWork::Answer>> LockWork::ask(const Client& client, size_t file,
                                             fs::FileHandle handle, Lock lock, fs::LockHow how,
                                             Duration waits) {
    const Call call{.deadline = client.clock.now() + waits};
    const uint64_t ends = ends_of_(client.number);
    const Locked done = co_await client.files.lock(call, handle, lock, how);
    if (done && !done->has_value()) {
        const uint64_t held = grant({.client = client.number,
                                     .file = file,
                                     .lock = lock,
                                     .ends = ends,
                                     .since = reactor_.now()});
        co_return Answer{.held = held};
    }
    if (!done && done.error().code == Code::io) {
        ++totals_.lost;
    } else if (!done && fs::may_be_done(done.error())) {
        ++totals_.unknown;
        co_return Answer{.is_unknown = true};
    } else if (!done) {
        co_return fail(done.error());
    } else {
        ++totals_.refused;
    }
    co_return Answer{};
}

uint64_t LockWork::grant(Held granted) {
    ++totals_.granted;
    for (auto& [number, other] : held_) {
        if (other.client == granted.client || other.file != granted.file) continue;
        if (!object::exclude_each_other(other.lock, granted.lock)) continue;
        if (ends_of_(other.client) == other.ends) {
            say(granted, fmt::format("while client {} has {} since {} ns", other.client,
                                     text_of(other.lock), other.since.time_since_epoch().count()));
        }
        ++totals_.overtaken;
        other.overtaken = std::min(other.overtaken, reactor_.now());
    }
    held_.emplace(++last_, std::move(granted));
    return last_;
}

Task<Result<bool>> LockWork::use(const Client& client, fs::FileHandle handle, uint64_t held,
                                 Random& random) {
    constexpr uint64_t uses_max = 8;
    constexpr uint64_t pause_ms_max = 200;
    for (uint64_t uses = random.below(uses_max); uses > 0; --uses) {
        co_await sleep_for(client.clock, std::chrono::milliseconds(random.below(pause_ms_max)));
        const Time begun = reactor_.now();
        std::array<std::byte, file_bytes> bytes{};
        const auto got =
            co_await client.files.pread(no_call, handle, fs::Window::local(Bytes(bytes)), 0);
        const auto found = held_.find(held);
        if (!got && got.error().code != Code::io) co_return fail(got.error());
        if (!got || found == held_.end()) {
            ++totals_.lost;
            co_return false;
        }
        if (found->second.overtaken < begun) {
            say(found->second, "and reads although another owner has had it");
        }
    }
    co_return true;
}

void LockWork::say(const Held& held, std::string_view what) {
    problems_.push_back(fmt::format("at {} ns client {} has file {}, {}, {}",
                                    reactor_.now().time_since_epoch().count(), held.client,
                                    held.file, text_of(held.lock), what));
}

Task<> LockWork::judge(fs::FileSystem& files, Reactor& clock) {
    for (size_t file = 0; file < files_count; ++file) {
        const auto handle = co_await open(files, file);
        if (!handle) co_return problems_.push_back("a locked file cannot be opened");
        for (const LockSpace space : {LockSpace::range, LockSpace::flock}) {
            const Lock whole{.space = space, .mode = LockMode::exclusive, .owner = UINT32_MAX};
            const Call call{.deadline = clock.now() + end_within};
            const Locked done = co_await files.lock(call, *handle, whole, fs::LockHow::wait);
            if (done) continue;
            problems_.push_back(fmt::format("a lock of file {} ({}) outlives its owner: {}", file,
                                            space == LockSpace::flock ? "flock" : "range",
                                            describe(done.error())));
        }
        (void)co_await files.close(no_call, *handle);
    }
}

}  // namespace ros2s::sim
