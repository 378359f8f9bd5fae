// The metrics of an open pool.
#include "open_pool.h"

namespace ros2s::engine {
namespace {

void show_cores(const auto& show, const Cores& cores) {
    const auto sum = [&](std::string_view name, std::string_view help, auto of) {
        uint64_t total = 0;
        for (uint32_t i = 0; i < cores.size(); ++i) total += of(cores[i]).value();
        show(name, help, total);
    };
    const auto counted = [&](std::string_view name, std::string_view help,
                             Counter CoreMetrics::* metric) {
        sum(name, help, [=](const Core& core) -> const Counter& { return core.metrics.*metric; });
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
    counted("ros2store_engine_partial_blocks_total", "Blocks read to be written in part.",
            &Of::partial_blocks);
    counted("ros2store_engine_lists_total", "List requests.", &Of::lists);
    counted("ros2store_engine_queries_total", "Query requests.", &Of::queries);
    sum("ros2store_engine_index_misses_total", "Entries loaded from the index.",
        [](const Core& core) -> const Counter& { return core.loader.counters.misses; });
    sum("ros2store_engine_index_scans_total", "Pages scanned in the index.",
        [](const Core& core) -> const Counter& { return core.loader.counters.scans; });
    sum("ros2store_engine_lock_waits_total", "Times a transaction waited for another.",
        [](const Core& core) -> const Counter& { return core.locks.waits(); });
    show("ros2store_engine_cache_bytes", "Memory of cached entries.", cores.cache_bytes());
    show("ros2store_engine_dirty_bytes", "Of these, not yet in the index.", cores.dirty_bytes());
}

void show_holders(const auto& show, const object::LockTable& locks,
                  const object::LeaseTable& leases) {
    show("ros2store_engine_locks", "Locks by fcntl and flock that mounts have.", locks.count());
    const object::LockTable::Counters& of_locks = locks.counters();
    show("ros2store_engine_lock_refused_total",
         "Calls for locks with another lock in the way; one that waits asks again.",
         of_locks.refused);
    show("ros2store_engine_lock_held_off_total",
         "Calls for locks after a start, before former holders have claimed theirs.",
         of_locks.held_off);
    show("ros2store_engine_lock_bounded_total", "Locks that a bound refused.", of_locks.bounded);
    show("ros2store_engine_leases", "Nodes that mounts may keep in their caches.", leases.count());
    show("ros2store_engine_lease_holders", "Mounts that listen for recalls of leases.",
         leases.holders().size());
    const object::LeaseCounters& of = leases.counters();
    show("ros2store_engine_lease_recalls_total", "Leases that were asked back.", of.recalls);
    show("ros2store_engine_lease_expired_total", "Recalls without an answer in time.", of.expired);
    show("ros2store_engine_lease_refused_total", "Leases that a bound refused.", of.refused);
    show("ros2store_engine_lease_cuts_total", "Mounts cut off because they answered too late.",
         of.cuts);
    show("ros2store_engine_lease_evictions_total", "Mounts whose leases an operator ended.",
         of.evictions);
}

void show_writing(const auto& show, const Committer& committer,
                  const Checkpointer::Counters& checkpoints, const Cleaner::Counters& cleaner) {
    const Committer::Counters& of = committer.counters;
    show("ros2store_engine_groups_total", "Groups committed.", of.groups);
    show("ros2store_engine_empty_groups_total", "Groups committed to prove earlier ones.",
         of.empty_groups);
    show("ros2store_engine_deferred_groups_total",
         "Groups acknowledged before their flush (durability=fsync).", of.deferred_groups);
    show("ros2store_engine_deferred_flushes_total", "Flushes for these alone.",
         of.deferred_flushes);
    const GroupStates& states = committer.states();
    show("ros2store_engine_volatile_groups", "Acknowledged groups that await their flush.",
         states.visible() - std::min(states.visible(), states.durable()));
    show("ros2store_engine_volatile_milliseconds", "For so long the first of them has waited.",
         static_cast<uint64_t>(committer.volatile_for() / std::chrono::milliseconds(1)));
    show("ros2store_engine_transactions_total", "Transactions committed.", of.transactions);
    show("ros2store_engine_blocks_total", "Data blocks written.", of.blocks);
    show("ros2store_engine_runs_total", "Contiguous runs that they were written in.", of.runs);
    show("ros2store_engine_journal_bytes_total", "Bytes of journal records.", of.record_bytes);
    show("ros2store_engine_journal_waits_total", "Times a full journal held a group up.",
         of.journal_waits);
    show("ros2store_engine_checkpoints_total", "Checkpoints written.", checkpoints.checkpoints);
    show("ros2store_engine_checkpoint_bytes_total", "Bytes of their batches.",
         checkpoints.batch_bytes);
    const Discarder::Counters& discards = committer.discarder().counters;
    show("ros2store_engine_discards_total", "Discards (TRIM) that devices carried out.",
         discards.discards);
    show("ros2store_engine_discarded_bytes_total", "Bytes of them.", discards.bytes);
    show("ros2store_engine_discards_left_out_bytes_total",
         "Bytes that became free without a discard, because there was no room or time.",
         discards.left_out_bytes);
    show("ros2store_engine_cleaner_passes_total", "Times that the cleaner began.", cleaner.passes);
    show("ros2store_engine_cleaner_moved_bytes_total",
         "Bytes that it moved. Write amplification: 1 + these / update_bytes_total.",
         cleaner.moved_blocks.value() * block_bytes);
    show("ros2store_engine_cleaner_spared_blocks_total",
         "Blocks that it left because they could not be read or are corrupt.",
         cleaner.spared_blocks);
}

void show_caches(const auto& show, const Caches& all) {
    const object::CacheUse caches = all.use();
    show("ros2store_cache_blocks", "Blocks in caches.", caches.blocks);
    show("ros2store_cache_pinned_blocks", "Blocks that are pinned.", caches.pinned);
    show("ros2store_cache_hits_total", "Blocks of caches that were read.", caches.hits);
    show("ros2store_cache_misses_total", "Reads of blocks that are not in their cache.",
         caches.misses);
    show("ros2store_cache_puts_total", "Blocks put into caches.", caches.puts);
    show("ros2store_cache_evictions_total", "Blocks removed for others.", caches.evicted);
    show("ros2store_cache_expired_total", "Blocks removed because of their age.", caches.expired);
    show("ros2store_cache_removed_total", "Blocks removed by request.", caches.removed);
    show("ros2store_cache_table_bytes", "Memory of the keys of blocks.", all.memory_bytes());
}

}  // namespace

void EngineStore::visit_times(const HistogramVisitor& visit) const {
    visit("ros2store_lease_answer_duration_seconds",
          "Time that updates waited for the answer to a recall.", {},
          pool_->leases.answers().read());
    constexpr std::string_view ages = "ros2store_cache_age_seconds";
    constexpr std::string_view help = "Ages of blocks of caches when they were got or evicted.";
    visit(ages, help, "hit", pool_->caches.hit_ages().read());
    visit(ages, help, "evicted", pool_->caches.evicted_ages().read());
}

void EngineStore::visit_metrics(const MetricVisitor& visit) const {
    const auto show = [&visit](std::string_view name, std::string_view help, const auto& value) {
        if constexpr (requires { value.value(); }) {
            visit(name, help, value.value());
        } else {
            visit(name, help, value);
        }
    };
    const OpenPool& pool = *pool_;
    const RecoveredPool& base = *pool.base;
    show("ros2store_engine_targets", "Partitions of the dkeys.", targets());
    show("ros2store_engine_cores", "Cores that the targets are spread over.", cores());
    show_cores(show, base.cores);
    show("ros2store_engine_stored_replies", "Request slots whose last answer is kept.",
         base.state.replies.count());
    show("ros2store_engine_pins", "Open files that mounts have pinned.", pool.pins.count());
    show_holders(show, pool.locks, pool.leases);
    show("ros2store_engine_awaited_clients",
         "Clients that may have to repeat changes that a loss of power took back.",
         pool.awaited.count());
    show_writing(show, pool.committer, pool.checkpointer.counters, pool.cleaner.counters);
    show("ros2store_engine_recovery_cache_bytes",
         "The most that cached entries took while the journal was replayed.",
         pool.recovered.cache_bytes_max);
    show("ros2store_engine_memory_bytes", "Memory that the cap bounds.", memory_bytes());
    show("ros2store_engine_staging_bytes", "Of it, for payload being written, and spare",
         pool.committer.chunks.memory_bytes());
    show("ros2store_engine_journal_used_bytes", "Journal in use.",
         base.journal.used_blocks() * block_bytes);
    const SpaceMap& space = base.state.space;
    uint64_t clear_blocks = 0;
    for (uint32_t d = 0; d < space.devices(); ++d) clear_blocks += space.clear_blocks(d);
    show("ros2store_engine_quarantined_bytes", "Displaced blocks not yet free.",
         space.quarantined_blocks() * block_bytes);
    show("ros2store_engine_clear_bytes", "Free space in whole, aligned MiB.",
         clear_blocks * block_bytes);
    show("ros2store_engine_used_bytes", "Data in use.", space.used_blocks() * block_bytes);
    show("ros2store_engine_total_bytes", "Room for data.", space.total_blocks() * block_bytes);
    show_caches(show, pool.caches);
    show("ros2store_engine_inconsistencies_total", "Blocks used or freed twice; always 0.",
         base.state.inconsistencies);
}

}  // namespace ros2s::engine
