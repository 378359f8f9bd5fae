#include "conditions.h"

namespace ros2s::engine {

static Task<Result<bool>> holds(Core& core, object::ContainerId container,
                                const object::Condition& condition) {
    using Kind = object::Condition::Kind;
    if (condition.kind == Kind::no_dkeys) {
        ROS2S_CO_TRY_ASSIGN(
            Node * summary,
            co_await core.loader.load(
                summary_key(container, condition.object, condition.akey.bytes).take()));
        core.cache.unpin(*summary);
        co_return summary->is_absent() || summary->summary()->entries == 0;
    }
    if (condition.akey.bytes.empty()) {
        KeyBuilder prefix(Table::entries);
        prefix.container(container).object(condition.object).string(condition.dkey.bytes);
        std::string from = prefix.take();
        bool exists = false;
        for (bool more = true; more && !exists;) {
            ROS2S_CO_TRY_ASSIGN(const Loader::Page page,
                                co_await core.loader.scan(from, prefix_end(prefix.view()), 16));
            exists = !page.items.empty();
            more = page.more;
            from = page.next;
        }
        co_return exists == (condition.kind == Kind::exists);
    }
    ROS2S_CO_TRY_ASSIGN(Node * node, co_await core.loader.load(
                                         entry_key(container, condition.object,
                                                   condition.dkey.bytes, condition.akey.bytes, 0)
                                             .take()));
    core.cache.unpin(*node);
    const EntryValue* const entry = node->entry();
    switch (condition.kind) {
        case Kind::exists: co_return entry != nullptr;
        case Kind::absent: co_return entry == nullptr;
        case Kind::epoch_equals:
            co_return (entry == nullptr ? 0 : entry->epoch.value) == condition.value;
        default: co_return (entry == nullptr ? 0 : entry->size) == condition.value;
    }
}

Task<Result<>> judge(Core& core, object::ContainerId container,
                     const object::Transaction& transaction, const Draft& draft) {
    for (size_t i = 0; i < transaction.conditions.size(); ++i) {
        const object::Condition& condition = transaction.conditions[i];
        if (condition.is_about_pins()) continue;  // Writer::stage()
        const bool here = condition.kind == object::Condition::Kind::no_dkeys
                              ? core.number == 0
                              : draft.is_on(core.number, condition.object, condition.dkey.bytes);
        if (!here) continue;
        ROS2S_CO_TRY_ASSIGN(const bool held, co_await holds(core, container, condition));
        if (!held) co_return fail(Code::condition_failed, i);
    }
    co_return Result<>();
}

}  // namespace ros2s::engine
