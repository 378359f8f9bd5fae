// NodeScan: the nodes of a container with a file system, page by page, for checks. It looks at
// every object, also at those that no name leads to.
#pragma once
#include <vector>

#include "listing.h"
#include "records.h"

namespace ros2s::fs {

struct ScannedNode {
    NodeId node{};
    // Errors: not_found (it has none), corrupt, bad_version, those of the item.
    Result<InodeRecord> inode = fail(Code::not_found);
    bool has_orphan_record = false;

    [[nodiscard]] bool has_inode() const {
        return inode.has_value() || inode.error().code != Code::not_found;
    }
    [[nodiscard]] bool is_directory() const { return inode && S_ISDIR(inode->mode); }
};

class NodeScan {
  public:
    static constexpr uint32_t page_max = object::fetch_items_max / 2;  // two items for each node
    NodeScan(object::ObjectStore& store, object::ContainerId container, uint32_t page = page_max)
        : store_(store), container_(container) {
        objects_.request.limit = page;
    }
    [[nodiscard]] bool more() const { return objects_.more; }
    // The next nodes, in the order of their ids: the root, and what has an id from first_free_node
    // on. Errors: those of list() and fetch().
    Task<Result<std::vector<ScannedNode>>> next(const Call& call);
    // Objects that belong to no file system, so far.
    [[nodiscard]] uint64_t foreign_objects() const { return foreign_objects_; }

  private:
    object::ObjectStore& store_;
    object::ContainerId container_;
    Listing objects_{{.what = object::ListRequest::What::objects}};
    uint64_t foreign_objects_ = 0;
};

}  // namespace ros2s::fs
