#include "opening.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpointer.h"
#include "superblocks.h"

namespace ros2s::engine {

std::string Opening::read_only_reason() const {
    if (pool_.superblock.read_only_features != 0) {
        return fmt::format(
            "it uses features that this program can read but not write (bits "
            "{:#x}): write to it with the version of ros2store that made it",
            pool_.superblock.read_only_features);
    }
    if (pool_.options.read_only) return std::string(pool_.options.read_only_reason);
    return {};
}

Task<Result<Recovered>> Opening::run(Report& report) {
    ROS2S_CO_TRY(co_await pool_.open_handles(pool_.superblock, 0, report));
    Recovery recovery(pool_.env, pool_.cores.home().devices, pool_.superblock, pool_.cores,
                      pool_.publisher, pool_.state, pool_.journal, *pool_.index);
    recovery.relieve = [this, &report](const Committer::JournalEnd& journal_end, Recovered& out,
                                       bool durable) {
        return relieve(journal_end, out, durable, report);
    };
    ROS2S_CO_TRY_ASSIGN(Recovered recovered, co_await recovery.run(report));
    if (recovered.read_only_reason.empty()) recovered.read_only_reason = read_only_reason();
    co_await pool_.cores.share_containers(pool_.state.visible_containers());
    if (!recovered.read_only_reason.empty()) co_return recovered;
    ROS2S_CO_TRY(co_await recovery.write_again(report));
    if (!pool_.journal.fits(1)) {
        // No room for the restart record. Everything replayed is durable, so a checkpoint can make
        // room.
        ROS2S_CO_TRY(
            co_await checkpoint(recovered.journal_end, recovered.checkpoint_number, report));
    }
    ROS2S_CO_TRY(co_await recovery.restart(recovered.journal_end, report));
    ROS2S_CO_TRY(
        co_await renew_superblocks(pool_.env.reactor, pool_.devices, pool_.superblock, report));
    co_return recovered;
}

Task<Result<>> Opening::checkpoint(const Committer::JournalEnd& journal_end, uint64_t& number,
                                   Report& report) {
    Committer committer(pool_.env, pool_.cores.home().devices, pool_.cores, pool_.publisher,
                        pool_.state, pool_.journal, pool_.options, journal_end, {});
    Checkpointer checkpointer(pool_.env, *pool_.index, *pool_.devices[0], pool_.cores,
                              pool_.publisher, pool_.state, pool_.journal, committer,
                              pool_.superblock.pool, pool_.superblock.checkpoint_first, number);
    const Result<> written = co_await checkpointer.checkpoint();
    if (!written) {
        co_return report.fail(written.error(),
                              "the checkpoint in recovery failed: " + describe(written.error()));
    }
    ++number;
    co_return Result<>();
}

Task<Result<>> Opening::relieve(const Committer::JournalEnd& journal_end, Recovered& recovered,
                                bool durable, Report& report) {
    Cores& cores = pool_.cores;
    recovered.cache_bytes_max = std::max(recovered.cache_bytes_max, cores.cache_bytes());
    const bool writes = read_only_reason().empty() && recovered.read_only_reason.empty();
    if (writes && durable && cores.is_dirty_beyond(cores.dirty_share())) {
        ROS2S_CO_TRY(co_await checkpoint(journal_end, recovered.checkpoint_number, report));
    }
    co_await cores.trim();
    // If nothing may be written, the replayed changes stay in memory. The journal can hold more of
    // them than a pool has memory for, if it is opened with less memory than before.
    if (writes || !cores.is_dirty_beyond(cores.home().cache_bytes_max)) co_return Result<>();
    co_return report.fail(
        Code::no_memory,
        "replaying the journal needs more memory than the {} MiB for caches in engine.memory, "
        "because nothing may be written to the pool. Raise engine.memory in config.yaml{}; nothing "
        "was changed",
        pool_.options.cache_share() >> 20,
        recovered.read_only_reason.empty() ? ", or open the pool for writing" : "");
}

}  // namespace ros2s::engine
