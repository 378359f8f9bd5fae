// Plan: what a transaction does to its objects, computed from views of them. No I/O: if a view does
// not know enough, the caller reads, and runs the plan again from the start.
#pragma once
#include <map>
#include <vector>

#include "ros2s/object/object_store.h"
#include "ros2s/rados/records.h"
#include "ros2s/rados/view.h"

namespace ros2s::rados {

using Views = std::map<object::ObjectId, View>;

// Bytes that were written for a `write`, cut at the borders of segments.
struct WrittenRun {
    size_t operation = 0;  // its index
    Run run;
};

class Plan {
  public:
    // Both outlive this. `written` ascends by operation.
    Plan(const object::Transaction& transaction, const std::vector<WrittenRun>& written)
        : transaction_(transaction), written_(written) {}
    // The objects that it reads or changes.
    [[nodiscard]] Views views() const;

    // Conditions first. Errors: condition_failed (detail: its index), invalid, corrupt,
    // bad_version. The answer counts only if all views are complete; otherwise it is repeated.
    [[nodiscard]] Result<> run(Views& views, object::Epoch epoch, WallTime time);
    // After run(): the data that the objects have no more.
    [[nodiscard]] const std::map<object::ObjectId, std::vector<DataId>>& garbage() const {
        return garbage_;
    }
    // After run(): the number of entries of each object that was changed.
    [[nodiscard]] const std::map<object::ObjectId, int64_t>& more_entries() const {
        return more_entries_;
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
    // Stores the segment, or removes it if it is empty.
    void store(View& view, const std::string& key, Segment segment, const Segment& before);
    [[nodiscard]] Result<> count(View& view, const object::Akey& akey, int64_t entries,
                                 int64_t blocks);

    const object::Transaction& transaction_;
    const std::vector<WrittenRun>& written_;
    object::Epoch epoch_{};
    WallTime time_{};
    std::map<object::ObjectId, std::vector<DataId>> garbage_;
    std::map<object::ObjectId, int64_t> more_entries_;
};

}  // namespace ros2s::rados
