#include "hasty_pool.h"

#include <algorithm>

#include "ros2s/rados/keys.h"
#include "ros2s/rados/records.h"

namespace ros2s::sim {

using rados::Change;

bool HastyPool::is_answered_early(const Change& change) const {
    const auto sets = [&change](auto matches) { return std::ranges::any_of(change.set, matches); };
    if (missing_ == RadosRule::data_first) return !change.data.empty();
    if (missing_ == RadosRule::prepare_first) {
        return sets([](const auto& each) { return each.first == rados::pending_key; });
    }
    if (missing_ == RadosRule::commit_first) {
        return sets([](const auto& each) {
            rados::Coordination record;
            return rados::decode(each.second, record) &&
                   record.state == rados::Coordination::State::committed;
        });
    }
    return false;
}

Task<Result<>> HastyPool::apply(const Change& change) {
    if (!missing_) co_return co_await pool_.apply(change);
    if (is_answered_early(change)) {
        (void)later_.try_spawn(apply_later(change, std::string(as_text(change.data))));
        co_return Result<>{};
    }
    Change changed = change;
    if (missing_ == RadosRule::expect_head) {
        std::erase_if(changed.equal,
                      [](const auto& each) { return each.first == rados::head_key; });
    }
    const auto applied = co_await pool_.apply(changed);
    const bool is_doubtful = !applied && rados::may_be_done(applied.error());
    // The one answer that proves that nothing was done.
    if (missing_ == RadosRule::doubt_refusal && is_doubtful) co_return fail(Code::no_space);
    co_return applied;
}

Task<> HastyPool::apply_later(Change change, std::string data) {
    co_await sleep_for(reactor_, std::chrono::milliseconds(reactor_.random().below(100)));
    change.data = as_bytes(data);
    (void)co_await pool_.apply(change);
}

}  // namespace ros2s::sim
