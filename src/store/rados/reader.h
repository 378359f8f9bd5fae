// Reader: fetches, lists and queries. A fetch reads entry and segments, which name the bytes, and
// then the bytes. What the store knows of an object is used if its head is still the same: then
// head and bytes are read at the same time. Part of an open store. Used on one core.
//
// Invariants
// - Bytes that do not match their checksums are never returned.
// - A fetch sees an array at one instant: if named data is gone, the fetch starts again.
// - Each page of a listing is of one instant.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "containers.h"
#include "heads.h"

namespace ros2s::rados {

class Reader {
  public:
    Reader(const Env& env, Heads& heads, Containers& containers)
        : env_(env), heads_(heads), containers_(containers) {}

    // As those of ObjectStore.
    Task<Result<>> fetch(const Call& call, object::ContainerId container,
                         std::span<object::FetchItem> items);
    Task<Result<object::ListReply>> list(const Call& call, object::ContainerId container,
                                         const object::ListRequest& request);
    Task<Result<object::QueryReply>> query(const Call& call, object::ContainerId container,
                                           object::ObjectId object, const object::Akey& akey);

    // Fetches one item. `failure`: the call has ended.
    Task<> fetch_item(const Call& call, std::string space, object::FetchItem& item,
                      Result<>& failure);
    // Errors: not_found, invalid, too_small.
    [[nodiscard]] static Result<> take_value(const Fact& fact, object::FetchItem& item);
    // Reads what the view does not know.
    Task<Result<object::QueryReply>> query_object(const Call& call, std::string space, View& view,
                                                  const object::Akey& akey);
    // Reads all visible bytes of a segment within the extent. Errors: busy (the segment has
    // changed), corrupt.
    Task<Result<>> read_visible(std::string space, object::ObjectId object, const Segment& segment,
                                object::Extent extent, Bytes into);

  private:
    struct Parts;
    struct Target {
        object::Extent part;
        Bytes into;
    };
    // False: the data was removed meanwhile. The caller reads the item again.
    Task<Result<bool>> fetch_once(const Call& call, std::string space, object::FetchItem& item);
    // Parts in the data pool.
    Task<> read_parts(std::string space, object::ObjectId object, object::Extent extent,
                      const Parts& parts, Bytes window, std::vector<Result<>>& results);
    // Also the parts in the omap.
    Task<> read_all(std::string space, object::ObjectId object, object::Extent extent,
                    const Parts& parts, Bytes window, std::vector<Result<>>& results);
    // `targets` ascend.
    Task<> read_run(ObjectName name, const Run& run, std::vector<Target> targets, Result<>& result);
    static void take_inline(const Parts& parts, object::Extent extent,
                            const Result<ReadReply>& reply, Bytes window,
                            std::vector<Result<>>& results);
    // Copies a part of a run from the reply. Errors: not_found; corrupt (detail: the end of the bad
    // block).
    [[nodiscard]] static Result<> take_bytes(const Run& run, object::Extent part,
                                             const Result<ReadReply>& reply, Bytes into);
    Task<Result<object::ListReply>> list_objects(const Call& call, std::string space,
                                                 const object::ListRequest& request);
    Task<Result<object::ListReply>> list_keys(const Call& call, std::string space,
                                              const object::ListRequest& request);

    const Env& env_;
    Heads& heads_;
    Containers& containers_;
};

}  // namespace ros2s::rados
