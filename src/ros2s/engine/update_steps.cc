// Steps of an update that are done on the core of its dkeys.
#include "parts.h"

namespace ros2s::engine {

// ---- conditions ----------------------------------------------------------------------------

Task<Result<bool>> EngineStore::Parts::holds(Core& core, object::ContainerId container,
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

// Those that this core has the keys of; it must hold the locks of all of them.
Task<Result<>> EngineStore::Parts::judge(Core& core, object::ContainerId container,
                                         const object::Transaction& transaction,
                                         const Draft& draft) {
    for (size_t i = 0; i < transaction.conditions.size(); ++i) {
        const object::Condition& condition = transaction.conditions[i];
        if (condition.is_about_pins()) continue;  // stage()
        const bool here = condition.kind == object::Condition::Kind::no_dkeys
                              ? core.number == 0
                              : draft.is_on(core.number, condition.object, condition.dkey.bytes);
        if (!here) continue;
        ROS2S_CO_TRY_ASSIGN(const bool held, co_await holds(core, container, condition));
        if (!held) co_return fail(Code::condition_failed, i);
    }
    co_return Result<>();
}

// ---- partly written blocks -----------------------------------------------------------------

// Old bytes of blocks that are written in part: verified, so that rot is never given a new CRC.
// Those that this core has planned; the others have theirs already, or get them later.
Task<Result<>> EngineStore::Parts::read_edges(Core& core, Trace* trace, Draft& draft) {
    for (Draft::Edge& edge : draft.edges()) {
        if (!edge.memory.bytes().empty()) continue;
        core.metrics.partial_blocks.add();
        edge.memory = AlignedBuffer(block_bytes);
        const BlockRef base = edge.base;
        const Result<> read = co_await read_verified(core, trace, {&base, 1}, edge.memory.bytes());
        // The caller knows what it writes; where in it the old bytes are bad is not told.
        if (!read) co_return fail(Error{read.error().code, read.error().os_errno, 0});
    }
    co_return Result<>();
}

}  // namespace ros2s::engine
