#include "ros2s/pool/pool_config.h"

#include "ros2s/object/object_store.h"

namespace ros2s::pool {
namespace {

using namespace std::chrono_literals;

config::Table describe(PoolConfig& c) {
    return {
        {"",
         "A ros2store pool. Changes take effect when the pool is opened the next time.",
         {config::text("pool", c.pool, "The pool's name in URIs: 1 to 127 of A-Z a-z 0-9 . _ -.")
              .required()}},
        {"engine",
         "The storage engine.",
         {config::size("memory", c.memory_bytes, memory_bytes_min, uint64_t{1} << 40,
                       "Memory for everything that grows with load or with the pool: caches, "
                       "staged writes, the index. It holds for any pool size."),
          config::count(
              "groups_in_flight", c.groups_in_flight, uint32_t{1}, uint32_t{8},
              "Commit groups written side by side. One batches best on every disk measured."),
          config::count("cleaner_percent", c.cleaner_percent, uint32_t{0}, uint32_t{1000},
                        "For 100 blocks that are written, the cleaner may move up to this many to "
                        "keep free space contiguous. 0: there is no cleaner.")}},
        {"io",
         "How the devices are reached.",
         {config::choice("back_end", c.back_end, {"auto", "io_uring", "threads"},
                         "auto: io_uring, or threads where the kernel refuses it. io_uring: the "
                         "pool does not open then."),
          config::flag("page_cache", c.page_cache,
                       "Use the kernel's page cache, for file systems without O_DIRECT. It is "
                       "slower, and takes memory beyond the limit above."),
          config::flag("accept_copies", c.accept_copies,
                       "Open the pool even if a device is another medium (an NVMe namespace with "
                       "another identity) than the one that it was made on. The copy then replaces "
                       "it permanently. Otherwise such a pool is refused."),
          config::flag("discard", c.discard,
                       "Discard the unused blocks of an NVMe namespace, if its controller supports "
                       "that (TRIM). No effect on files and persistent memory."),
          config::duration("poll", c.poll, 0s, 10ms,
                           "How long a program that has the pool open polls for work before it "
                           "sleeps. It polls less often if it finds none. 0: never.")}}};
}

}  // namespace

Result<PoolConfig> PoolConfig::parse(std::string_view yaml, std::string_view where,
                                     Report& report) {
    PoolConfig config;
    ROS2S_TRY(config::parse(yaml, where, describe(config), report));
    if (!object::is_valid_label(config.pool)) {
        return report.fail(Code::invalid,
                           "{}: the pool name '{}' is not 1 to 127 of A-Z a-z 0-9 . _ -", where,
                           config.pool);
    }
    return config;
}

std::string PoolConfig::document() const { return config::document(*this, describe); }

void PoolConfig::apply_to(OsReactorOptions& options) const {
    options.ring = back_end == "io_uring"  ? RingChoice::io_uring
                   : back_end == "threads" ? RingChoice::threads
                                           : RingChoice::automatic;
    options.poll_for = poll;
}

}  // namespace ros2s::pool
