// An exclusive mount, which has its container alone: it holds the lock of the container
// (object/locks.h), so that its users may keep what they read and changes that are not sent yet.
// Each transaction has the condition that the lock is held, in this session. In a new era the mount
// claims it. If another one may have used the container meanwhile, the lock is lost: then nothing
// is read or changed any more.
#include <fmt/format.h>

#include "dfs_mount.h"
#include "free_wait.h"
#include "ros2s/base/text_parts.h"

namespace ros2s::fs {
namespace {

using object::Lock;
using object::LockMode;
using object::LockRequest;
using object::LockSpace;

// Of a store that does not know such locks.
bool is_unknown(const Error& error) {
    return error.code == Code::unsupported || error.code == Code::invalid ||
           error.code == Code::corrupt;
}

std::string taken_by(std::string_view shown, const std::string& holder) {
    return fmt::format("{} is mounted with `exclusive` by {}: unmount it there, then try again",
                       shown, holder.empty() ? "another client" : printable(holder));
}

}  // namespace

Task<std::string> DfsMount::who_has(const Call& call, object::ObjectStore& store,
                                    object::ContainerId container, std::string shown) {
    const LockRequest asked{.object = {},
                            .lock = {.space = LockSpace::container, .mode = LockMode::exclusive},
                            .how = LockRequest::How::test};
    const auto found = co_await store.lock(call, container, {}, asked);
    co_return taken_by(shown, found && *found ? (*found)->holder : "");
}

Task<DfsMount::LockResult> DfsMount::ask_container(const Call& call, LockMode mode,
                                                   LockRequest::How how) {
    const LockRequest asked{
        .object = {},
        .lock = {.space = LockSpace::container, .mode = mode, .holder = options_.exclusive_as},
        .how = how};
    co_return co_await store_.lock(call, container_, holder_, asked);
}

Task<Result<>> DfsMount::take_container(const Call& call, Report& report) {
    if (!is_exclusive()) co_return Result<>();
    if (!is_deferred_) {
        co_return report.fail(
            Code::unsupported, "{} cannot be mounted with `exclusive`: {}", options_.shown,
            store_.features().deferred
                ? "each change of it is durable when it returns. Leave that out, or use `ros2store "
                  "container set --durability fsync`"
                : "its store keeps no changes in memory. Leave that out");
    }
    is_holder_ = true;
    // A call without an answer may lock it, too.
    is_container_locked_ = true;
    const auto ask = [&] {
        return ask_container(call, LockMode::exclusive, LockRequest::How::set);
    };
    const auto is_taken = [](const LockResult& done) {
        return done ? done->has_value() : done.error().code == Code::busy;
    };
    const auto locked = co_await when_free(call, reactor_, ask, is_taken);
    if (locked && !*locked) co_return Result<>();
    if (locked && (*locked)->mode == LockMode::exclusive) {
        co_return report.fail(Code::busy, "{}", taken_by(options_.shown, (*locked)->holder));
    }
    if (is_taken(locked)) {
        co_return report.fail(
            Code::busy,
            "{} is open elsewhere, or was, half a minute ago, at a client that is gone, so it "
            "cannot be mounted with `exclusive`: close it there (`ros2store leases` names "
            "clients), or leave `exclusive` out",
            options_.shown);
    }
    co_return report.fail(locked.error(), "{} cannot be mounted with `exclusive`: {}",
                          options_.shown,
                          is_unknown(locked.error()) ? "its server is of an older release"
                                                     : describe(locked.error()));
}

Task<Result<Commit>> DfsMount::commit_exclusive(const Call& call, OperationSlots::HeldSlot& slot) {
    const object::Transaction& transaction = slot.transaction();
    // It may be tried again.
    const auto& conditions = transaction.conditions;
    if (conditions.empty() || conditions.back().object != ObjectId{})
        slot.require(container_is_locked());
    for (int attempt = 0;; ++attempt) {
        const auto done = co_await store_.update(call, container_, transaction);
        if (done) co_return done;
        const bool is_unlocked = done.error().code == Code::condition_failed &&
                                 done.error().detail == conditions.size() - 1;
        if (!is_unlocked || attempt == attempts_max) co_return co_await failed(call, slot, done);
        ROS2S_CO_TRY(co_await claim_container(call));
    }
}

Task<Result<>> DfsMount::claim_container(const Call& call) {
    ROS2S_CO_TRY(co_await claims_container_.acquire_for(call));
    const SemaphoreHold hold(claims_container_);
    if (deferred_->refuses_all()) co_return fail(Code::io);
    const auto claimed = co_await ask_container(call, LockMode::exclusive, LockRequest::How::claim);
    if (claimed && !*claimed) co_return Result<>();
    if (!claimed && claimed.error().code != Code::stale) co_return fail(claimed.error());
    deferred_->refuse_all();
    options_.log.error(
        "{}: the server of this exclusive mount was away for too long, and another client may have "
        "used the container. This mount changes and reads nothing any more (EIO), and what was not "
        "synced is lost: unmount it, and mount again",
        options_.shown);
    co_return fail(Code::io);
}

Task<> DfsMount::release_container() {
    if (!std::exchange(is_container_locked_, false)) co_return;
    (void)co_await ask_container({.deadline = unpin_until_}, LockMode::none, LockRequest::How::set);
}

}  // namespace ros2s::fs
