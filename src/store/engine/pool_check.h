// PoolCheck: compares what an open pool has in its index and journal with itself. Changes nothing.
//
//   entries    ─ can be read; each block is in use in the space map, and has one entry
//   space map  ─ each block in use has an entry
//   summaries  ─ are those of the entries
//   containers ─ count what is there, for caps
//   data       ─ matches its checksums (if asked for)
//
// One pass over the entries and summaries in the order of their keys, and a second one if a block
// has two entries. No update may run meanwhile.
//
// Memory: a bit for each block of the devices, a page of the index, and the akeys of one object.
//
// A problem is reported once. What follows from an entry that cannot be read is not judged: the
// counts above it, and blocks without an entry.
//
// Used on core 0.
#pragma once
#include <map>
#include <optional>

#include "check.h"
#include "recovered_pool.h"

namespace ros2s::engine {

class PoolCheck {
  public:
    PoolCheck(RecoveredPool& pool, const Call& call, const CheckOptions& options);
    // Called once. Errors: those of the index other than corrupt, cancelled, deadline. An index
    // that cannot be read to its end is a problem, and ends the check.
    Task<Result<CheckedPool>> run();

  private:
    class TableScan;
    // About one akey over all dkeys of the object.
    struct AkeyCounts {
        uint64_t entries = 0, blocks = 0;
        std::string highest;
        bool has_summary = false;
    };
    // The last entry that was no segment.
    struct Head {
        EntryKey key;
        EntryValue::Kind kind{};
        uint64_t size = 0;
        bool is_known = true;  // false: it could not be read
    };

    Task<Result<>> visit_entries(TableScan& entries, TableScan& summaries);
    void visit(const EntryKey& key, const EntryValue& value);
    void bad_entry(const std::optional<EntryKey>& key, std::string_view fault);
    void begin_container(object::ContainerId id);
    void end_container();
    void check_shape(const EntryKey& key, const EntryValue& value);
    void count(const EntryKey& key, const EntryValue& value);
    void claim(const EntryKey& key, const EntryValue& value);
    Task<Result<>> read_data(const EntryKey& key, const EntryValue& value);
    // Compares the summaries up to the current object's with the entries.
    Task<Result<>> end_object(TableScan& summaries);
    // The rest of the summaries.
    Task<Result<>> end_summaries(TableScan& summaries);
    void check_summary(const SummaryKey& key, const SummaryValue& value, AkeyCounts* counts);
    // Names the entries of blocks that have several.
    Task<Result<>> name_shared_blocks();
    void find_unnamed_blocks();

    void problem(std::string sentence) { options_.problem(container_, std::move(sentence)); }
    [[nodiscard]] std::string blocks_text(BlockAddress first, uint64_t blocks) const;
    [[nodiscard]] Core& home() { return pool_.cores.home(); }

    RecoveredPool& pool_;
    const Call& call_;
    const CheckOptions& options_;
    DataAreas areas_;
    std::vector<std::vector<uint64_t>> claimed_;  // by device: blocks that have an entry
    uint64_t claimed_blocks_ = 0;
    // Blocks with several entries, and these entries. The first ones.
    std::map<BlockAddress, std::vector<std::string>> shared_;
    bool any_unreadable_ = false;

    object::ContainerId container_{};
    State::Container* record_ = nullptr;  // null: there is none
    CheckedContainer* checked_ = nullptr;
    object::Amount used_{};
    bool container_unreadable_ = false;

    std::optional<object::ObjectId> object_;
    std::map<std::string, AkeyCounts, std::less<>> akeys_;
    bool object_unreadable_ = false, too_many_akeys_ = false;
    std::optional<Head> head_;

    std::map<object::ContainerId, CheckedContainer> containers_;
};

}  // namespace ros2s::engine
