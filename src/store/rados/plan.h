// Plan: computes the changes that a transaction makes to its objects, from views of them. No I/O:
// if a view does not know enough, the caller reads and runs the plan again from the start.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ros2s/object/object_store.h"
#include "ros2s/rados/records.h"
#include "ros2s/rados/view.h"

namespace ros2s::rados {

using Views = std::map<object::ObjectId, View>;

// A part of the bytes of a `write`, cut at the borders of segments.
struct WrittenRun {
    size_t operation = 0;  // its index
    Run run;
    ConstBytes bytes{};  // if the run is inline
};

// Adds or removes bytes in the omap. Errors: corrupt, bad_version.
[[nodiscard]] Result<> add_inline(View& view, const Run& run, ConstBytes bytes);
[[nodiscard]] Result<> discard_inline(View& view, const Run& run);

class Plan {
  public:
    // Both outlive this. `written` ascends by operation.
    Plan(const object::Transaction& transaction, const std::vector<WrittenRun>& written)
        : transaction_(transaction), written_(written) {}
    // Adds a view of each object that the transaction reads or changes.
    void add_to(Views& views) const;

    // Adds the transaction's changes to those of the views. Checks the conditions first: if one
    // does not hold, it adds nothing. Errors: condition_failed (detail: its index), invalid,
    // corrupt, bad_version. The result is valid only if all views are complete; otherwise the
    // caller runs it again.
    [[nodiscard]] Result<> run(Views& views, object::Epoch epoch, WallTime time);
    // After run(): the data that the objects no longer have.
    [[nodiscard]] const std::map<object::ObjectId, std::vector<DataId>>& garbage() const {
        return garbage_;
    }
    // After run(): the change of the number of entries, for each changed object.
    [[nodiscard]] const std::map<object::ObjectId, int64_t>& more_entries() const {
        return more_entries_;
    }
    // After run(): whether it adds data: bytes of arrays, or more entries than it removes.
    [[nodiscard]] bool adds_data() const;
    // After run(): segments with more visible parts than visible_parts_max.
    [[nodiscard]] const std::set<std::pair<object::ObjectId, std::string>>& long_segments() const {
        return long_segments_;
    }

  private:
    [[nodiscard]] Result<bool> holds(View& view, const object::Condition& condition);
    [[nodiscard]] Result<> apply(View& view, size_t index);
    [[nodiscard]] Result<> modify(View& view, const object::Operation& operation, size_t index);
    [[nodiscard]] Result<> write_array(View& view, const object::Operation& operation, size_t index,
                                       Entry& entry);
    [[nodiscard]] Result<> punch_array(View& view, const std::string& key, object::Extent extent,
                                       Entry& entry);
    // Keys of entries and segments.
    [[nodiscard]] Result<> punch_keys(View& view, const std::vector<std::string>& keys);
    [[nodiscard]] Result<> punch_object(View& view);
    // The object no longer has the bytes.
    [[nodiscard]] Result<> discard(View& view, const Run& run);
    // Stores the segment, or removes it if it is empty.
    [[nodiscard]] Result<> store(View& view, const std::string& key, Segment segment,
                                 const Segment& before);
    [[nodiscard]] Result<> count(View& view, const object::Akey& akey, int64_t entries,
                                 int64_t blocks);

    const object::Transaction& transaction_;
    const std::vector<WrittenRun>& written_;
    object::Epoch epoch_{};
    WallTime time_{};
    std::map<object::ObjectId, std::vector<DataId>> garbage_;
    std::map<object::ObjectId, int64_t> more_entries_;
    std::set<std::pair<object::ObjectId, std::string>> long_segments_;
};

}  // namespace ros2s::rados
