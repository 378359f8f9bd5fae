#include "engine_store.h"

#include "parts.h"

namespace ros2s::engine {

object::PoolId EngineStore::pool() const { return {parts_->superblock.pool}; }
std::string EngineStore::read_only_reason() const { return parts_->read_only_reason(); }
uint64_t EngineStore::replayed_groups() const { return parts_->replayed_groups; }
uint32_t EngineStore::targets() const { return parts_->superblock.targets; }
uint32_t EngineStore::cores() const { return parts_->cores.size(); }

uint64_t EngineStore::memory_bytes() const {
    const Parts& p = *parts_;
    uint64_t bounced = 0;
    for (uint32_t i = 0; i < p.cores.size(); ++i) {
        bounced += p.cores[i].metrics.bounce_bytes.value();
    }
    return p.cores.cache_bytes() + p.committer->chunks.memory_bytes() + bounced +
           p.state.space.memory_bytes() + p.state.replies.memory_bytes() +
           p.checkpointer->batch_bytes();
}

std::vector<const device::BlockDevice*> EngineStore::devices() const {
    std::vector<const device::BlockDevice*> devices;
    for (const auto& device : parts_->devices) devices.push_back(device.get());
    for (uint32_t i = 1; i < parts_->cores.size(); ++i) {
        for (const auto& device : parts_->cores[i].own_devices) devices.push_back(device.get());
    }
    return devices;
}

object::Features EngineStore::features() const {
    return {.multi_object_transactions = true,
            .conditions = true,
            .stored_replies = true,
            .checksums = true,
            .durable = true};
}

std::string EngineStore::path() const {
    const size_t count = parts_->devices.size();
    return std::string(parts_->options.name) + ", " + parts_->devices[0]->path() + ", " +
           std::to_string(count) + (count == 1 ? " device" : " devices") +
           (cores() == 1 ? "" : ", " + std::to_string(cores()) + " cores");
}

// ---- requests ------------------------------------------------------------------------------

namespace {

// From another core to core 0 and back. The caller's stop token stays where it belongs.
template <class Part, class R, class... Arguments>
Task<R> from_afar(Cores& cores, Part& part, Task<R> (Part::*request)(const Call&, Arguments...),
                  const Call& call, std::type_identity_t<Arguments>... arguments) {
    Reactor& from = cores.here().env.reactor;
    ROS2S_CO_TRY(call.check(from.now()));
    Call inner = call;
    inner.stop = {};
    co_await hop(cores.home().env.reactor);
    R result = co_await (part.*request)(inner, std::forward<Arguments>(arguments)...);
    co_await hop(from);
    co_return result;
}
// Makes a request that is core 0's.
template <class Part, class R, class... Arguments>
Task<R> at_home(Cores& cores, Part& part, Task<R> (Part::*request)(const Call&, Arguments...),
                const Call& call, std::type_identity_t<Arguments>... arguments) {
    if (!cores.home().is_current()) {
        return from_afar(cores, part, request, call, std::forward<Arguments>(arguments)...);
    }
    return (part.*request)(call, std::forward<Arguments>(arguments)...);
}

}  // namespace

Task<Result<>> EngineStore::fetch(const Call& call, object::ContainerId container,
                                  std::span<object::FetchItem> items) {
    return parts_->reader.fetch(call, container, items);
}
Task<Result<object::Commit>> EngineStore::update(const Call& call, object::ContainerId container,
                                                 const object::Transaction& transaction) {
    return at_home(parts_->cores, *parts_->writer, &Writer::update, call, container, transaction);
}
Task<Result<object::ListReply>> EngineStore::list(const Call& call, object::ContainerId container,
                                                  const object::ListRequest& request) {
    return at_home(parts_->cores, parts_->lister, &Lister::list, call, container, request);
}
Task<Result<object::QueryReply>> EngineStore::query(const Call& call, object::ContainerId container,
                                                    object::ObjectId object,
                                                    const object::Akey& akey) {
    return at_home(parts_->cores, parts_->lister, &Lister::query, call, container, object, akey);
}
Task<Result<object::ContainerRecord>> EngineStore::create_container(
    const Call& call, const object::ContainerProperties& properties) {
    return at_home(parts_->cores, *parts_->containers, &Containers::create, call, properties);
}
Task<Result<>> EngineStore::destroy_container(const Call& call, object::ContainerId container) {
    return at_home(parts_->cores, *parts_->containers, &Containers::destroy, call, container);
}
Task<Result<std::vector<object::ContainerRecord>>> EngineStore::list_containers(const Call& call) {
    return at_home(parts_->cores, *parts_->containers, &Containers::list, call);
}
Task<Result<object::PoolSpace>> EngineStore::space(const Call& call) {
    return at_home(parts_->cores, *parts_->containers, &Containers::space, call);
}
Task<Result<>> EngineStore::pin(const Call& call, object::ContainerId container,
                                const object::Holder& holder, object::FetchItem& item) {
    return at_home(parts_->cores, parts_->reader, &Reader::pin, call, container, holder, item);
}
Task<Result<bool>> EngineStore::unpin(const Call& call, object::ContainerId container,
                                      const object::Holder& holder, object::ObjectId object) {
    return at_home(parts_->cores, parts_->reader, &Reader::unpin, call, container, holder, object);
}
void EngineStore::session_ended(uint64_t session) {
    const Time now = parts_->env.reactor.now();
    parts_->pins.session_ended(session, now, now + parts_->options.pin_grace);
}

// ---- metrics -------------------------------------------------------------------------------

void EngineStore::visit_metrics(const MetricVisitor& visit) const {
    const Parts& p = *parts_;
    const auto counter = [&](std::string_view name, std::string_view help, const Counter& value) {
        visit(name, help, value.value());
    };
    const auto sum = [&](std::string_view name, std::string_view help, auto&& of) {
        uint64_t total = 0;
        for (uint32_t i = 0; i < p.cores.size(); ++i) total += of(p.cores[i]).value();
        visit(name, help, total);
    };
    const auto counted = [&](std::string_view name, std::string_view help,
                             Counter CoreMetrics::* metric) {
        sum(name, help, [&](const Core& core) -> const Counter& { return core.metrics.*metric; });
    };
    using Of = CoreMetrics;
    counted("ros2store_engine_fetches_total", "Fetch requests.", &Of::fetches);
    counted("ros2store_engine_fetch_items_total", "Extents and values fetched.", &Of::fetch_items);
    counted("ros2store_engine_fetch_bytes_total", "Bytes fetched.", &Of::fetch_bytes);
    counted("ros2store_engine_fetch_bounced_total", "Reads copied once more (unaligned).",
            &Of::fetch_bounced);
    counted("ros2store_engine_fetch_rereads_total",
            "Reads repeated into engine memory after a mismatch in the caller's.",
            &Of::fetch_rereads);
    counted("ros2store_engine_fetch_corrupt_total", "Reads whose media bytes were rotten.",
            &Of::fetch_corrupt);
    counted("ros2store_engine_updates_total", "Update requests.", &Of::updates);
    counted("ros2store_engine_update_bytes_total", "Bytes written to data blocks.",
            &Of::update_bytes);
    counted("ros2store_engine_updates_failed_total", "Update requests that failed.",
            &Of::updates_failed);
    counted("ros2store_engine_replays_total", "Updates answered from a stored reply.",
            &Of::replays);
    visit("ros2store_engine_stored_replies", "Request slots whose last answer is kept.",
          p.state.replies.count());
    counted("ros2store_engine_partial_blocks_total", "Blocks read to be written in part.",
            &Of::partial_blocks);
    counted("ros2store_engine_lists_total", "List requests.", &Of::lists);
    counted("ros2store_engine_queries_total", "Query requests.", &Of::queries);
    sum("ros2store_engine_index_misses_total", "Entries loaded from the index.",
        [](const Core& core) -> const Counter& { return core.loader.counters.misses; });
    sum("ros2store_engine_index_scans_total", "Pages scanned in the index.",
        [](const Core& core) -> const Counter& { return core.loader.counters.scans; });
    visit("ros2store_engine_targets", "Partitions of the dkeys.", targets());
    visit("ros2store_engine_cores", "Cores that the targets are spread over.", cores());
    const Committer::Counters& c = p.committer->counters;
    counter("ros2store_engine_groups_total", "Groups committed.", c.groups);
    counter("ros2store_engine_empty_groups_total", "Groups committed to prove earlier ones.",
            c.empty_groups);
    counter("ros2store_engine_transactions_total", "Transactions committed.", c.transactions);
    counter("ros2store_engine_blocks_total", "Data blocks written.", c.blocks);
    counter("ros2store_engine_runs_total", "Contiguous runs that they were written in.", c.runs);
    counter("ros2store_engine_journal_bytes_total", "Bytes of journal records.", c.record_bytes);
    counter("ros2store_engine_journal_waits_total", "Times a full journal held a group up.",
            c.journal_waits);
    const Checkpointer::Counters& k = p.checkpointer->counters;
    counter("ros2store_engine_checkpoints_total", "Checkpoints written.", k.checkpoints);
    counter("ros2store_engine_checkpoint_bytes_total", "Bytes of their batches.", k.batch_bytes);
    visit("ros2store_engine_cache_bytes", "Memory of cached entries.", p.cores.cache_bytes());
    visit("ros2store_engine_recovery_cache_bytes",
          "The most that cached entries took while the journal was replayed.",
          p.recovery_cache_bytes_max);
    visit("ros2store_engine_dirty_bytes", "Of these, not yet in the index.", p.cores.dirty_bytes());
    visit("ros2store_engine_memory_bytes", "Memory that the cap bounds.", memory_bytes());
    visit("ros2store_engine_staging_bytes", "Of it, for payload being written, and spare",
          p.committer->chunks.memory_bytes());
    visit("ros2store_engine_journal_used_bytes", "Journal in use.",
          p.journal.used_blocks() * block_bytes);
    visit("ros2store_engine_quarantined_bytes", "Displaced blocks not yet free.",
          p.state.space.quarantined_blocks() * block_bytes);
    const Discarder::Counters& d = p.committer->discarder().counters;
    counter("ros2store_engine_discards_total", "Discards (TRIM) that devices carried out.",
            d.discards);
    counter("ros2store_engine_discarded_bytes_total", "Bytes of them.", d.bytes);
    counter("ros2store_engine_discards_left_out_bytes_total",
            "Bytes that became free without, for want of room or of time.", d.left_out_bytes);
    visit("ros2store_engine_used_bytes", "Data in use.", p.state.space.used_blocks() * block_bytes);
    visit("ros2store_engine_total_bytes", "Room for data.",
          p.state.space.total_blocks() * block_bytes);
    sum("ros2store_engine_lock_waits_total", "Times a transaction waited for another.",
        [](const Core& core) -> const Counter& { return core.locks.waits(); });
    visit("ros2store_engine_inconsistencies_total", "Blocks used or freed twice; always 0.",
          p.state.inconsistencies);
}

}  // namespace ros2s::engine
