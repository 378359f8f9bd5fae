// RecordChain: several records and the facts about nodes' contents, in one request (a chain of the
// store). A record may be of a node that an earlier one names.
//
// Used by one call. The structures that are added must not move, and live as long as the chain.
#pragma once
#include <cstddef>
#include <vector>

#include "records.h"

namespace ros2s::fs {

using object::Link;
using object::QueryReply;

// A node, or the one that an earlier item of the chain names.
struct ChainNode {
    NodeId node{};
    Link::Reference named_by{};
};
// The record of a directory, and of a name in it.
struct ChainName {
    InodeRecord parent;
    EntryRecord entry;
    uint32_t at = 0;  // the index of the first item

    // The node that has the name.
    [[nodiscard]] ChainNode node() const {
        return {.named_by = {.item = at + 1, .offset = offsetof(EntryRecord, node)}};
    }
};
// The record of a node, and the facts about its contents: those of a file's chunks or of a
// directory's names.
struct ChainWhole {
    InodeRecord inode;
    uint32_t at = 0;  // the index of the first item
};

class RecordChain {
  public:
    // Of a name has two items, and of a whole node three.
    static constexpr size_t name_items = 2;
    static constexpr size_t whole_items = 3;
    explicit RecordChain(size_t items = name_items + whole_items) {
        items_.reserve(items);
        links_.reserve(items);
    }
    void add(ChainNode parent, std::string_view name, ChainName& into) {
        into.at = size();
        inodes_.push_back(into.at);
        add_record(parent, record_dkey(), inode_akey(), into.parent);
        add_record(parent, name_dkey(name), entry_akey(), into.entry);
    }
    // `kind`: fetch, or pin.
    void add(ChainNode node, ChainWhole& into, Link::Kind kind = Link::Kind::fetch) {
        into.at = size();
        inodes_.push_back(into.at);
        add_record(node, record_dkey(), inode_akey(), into.inode, kind);
        add_query(node, data_akey(), into.at, S_IFREG);
        add_query(node, entry_akey(), into.at, S_IFDIR);
    }

    // Of a fixed node. Returns the index of its item.
    template <class Record>
    uint32_t add(NodeId node, Dkey dkey, Akey akey, Record& into) {
        add_record({.node = node}, std::move(dkey), std::move(akey), into);
        return size() - 1;
    }

    [[nodiscard]] std::span<FetchItem> items() { return items_; }
    [[nodiscard]] std::span<Link> links() { return links_; }
    [[nodiscard]] const FetchItem& item(uint32_t index) const { return items_[index]; }

    // Asks for a lease of each node.
    void want_leases() {
        for (const uint32_t index : inodes_) links_[index].wants_lease = true;
    }
    [[nodiscard]] std::span<const uint32_t> inodes() const { return inodes_; }  // their items

    // After the fetch: the facts. Empty for a node without such contents.
    [[nodiscard]] Result<QueryReply> contents_of(const ChainWhole& node, mode_t mode) const {
        if (!S_ISREG(mode) && !S_ISDIR(mode)) return QueryReply{};
        const uint32_t index = node.at + (S_ISREG(mode) ? 1 : 2);
        ROS2S_TRY(items_[index].status);
        return links_[index].facts;
    }

  private:
    [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(items_.size()); }
    template <class Record>
    void add_record(ChainNode node, Dkey dkey, Akey akey, Record& into,
                    Link::Kind kind = Link::Kind::fetch) {
        items_.push_back(record_item(object_of(node.node), std::move(dkey), std::move(akey), into));
        links_.push_back({.kind = kind, .object = node.named_by});
    }
    // The query has a result only if the node is of this type.
    void add_query(ChainNode node, Akey akey, uint32_t inode, mode_t type) {
        items_.push_back({.object = object_of(node.node), .akey = std::move(akey)});
        // The second byte of the mode, which is little-endian, has the type.
        links_.push_back({.kind = Link::Kind::query,
                          .object = node.named_by,
                          .when = {.item = inode, .offset = offsetof(InodeRecord, mode) + 1},
                          .mask = S_IFMT >> 8,
                          .value = static_cast<uint8_t>(type >> 8)});
    }

    std::vector<FetchItem> items_;
    std::vector<Link> links_;
    InlineVector<uint32_t, 8> inodes_;
};

}  // namespace ros2s::fs
