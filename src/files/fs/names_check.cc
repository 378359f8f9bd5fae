#include "names_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "dfs_mount.h"
#include "node_scan.h"

namespace ros2s::fs {
namespace {

// Names of a path in a sentence, and names that are compared to find one.
constexpr size_t path_names_max = 64;
constexpr size_t compared_names_max = size_t{1} << 16;

constexpr std::string_view free_it =
    "its space is lost until `ros2store container check --free` frees it";
constexpr std::string_view restore = "restore it from a copy";

std::string_view type_text(mode_t mode) {
    switch (mode & S_IFMT) {
        case S_IFDIR: return "directory";
        case S_IFREG: return "file";
        case S_IFLNK: return "symbolic link";
        default: return "special file";
    }
}

class NamesCheck {
  public:
    NamesCheck(const Call& call, object::ObjectStore& store, object::ContainerId container,
               const NamesCheckOptions& options)
        : call_(call), store_(store), container_(container), options_(options) {}

    Task<Result<CheckedNames>> run();

  private:
    // A node of this part, and what names say about it.
    struct Node {
        uint64_t id = 0;
        uint64_t parent = 0;
        uint32_t links = 0;
        uint32_t names = 0;
        uint16_t type = 0;  // the S_IFMT bits; 0: no inode that can be read
        bool has_inode = false;
        bool is_orphan = false;
        bool in_parent = false;  // one of its names is in `parent`
        bool under_root = false;
        bool is_reported = false;  // more about it would follow from the same problem

        [[nodiscard]] bool is_directory() const { return S_ISDIR(type); }
    };

    Task<Result<>> read_superblock();
    Task<Result<>> check_counter(uint64_t highest);
    Task<Result<>> check_orphan_list();
    // Fills nodes_ with the next part. False: there are no more nodes.
    Task<Result<bool>> next_part(NodeScan& scan);
    Task<Result<>> check_contents(const ScannedNode& node);
    // Counts the names that lead to this part.
    Task<Result<>> count_names(bool is_whole);
    Task<Result<>> visit_directory(NodeId directory);
    Task<Result<>> visit_name(NodeId directory, const object::ListEntry& listed);
    Task<Result<>> judge();
    Task<Result<>> judge(Node& node);
    // Directories that lead to the root.
    Task<Result<>> follow_parents();
    Task<Result<uint64_t>> parent_of(uint64_t directory);

    [[nodiscard]] Node* find(uint64_t id) {
        const auto found = std::ranges::lower_bound(nodes_, id, {}, &Node::id);
        return found == nodes_.end() || found->id != id ? nullptr : &*found;
    }
    [[nodiscard]] bool is_in_part(uint64_t id) const { return id >= first_ && id <= last_; }
    template <class Record>
    Task<Result<Record>> fetch(NodeId node, Akey akey) {
        Record record;
        FetchItem item = record_item(object_of(node), record_dkey(), std::move(akey), record);
        ROS2S_CO_TRY(co_await store_.fetch(call_, container_, {&item, 1}));
        co_return record_of(item, record);
    }
    // "/a/b", for sentences.
    Task<std::string> path_of(NodeId directory);
    Task<std::string> path_of(NodeId directory, std::string_view name);
    Task<std::optional<std::string>> name_in(uint64_t parent, uint64_t node);
    Task<std::string> text_of(const Node& node);

    const Call& call_;
    object::ObjectStore& store_;
    const object::ContainerId container_;
    const NamesCheckOptions& options_;
    CheckedNames checked_;
    uint64_t chunk_bytes_ = 0;
    std::vector<Node> nodes_;        // ascending
    uint64_t first_ = 0, last_ = 0;  // ids of the part
    bool is_first_part_ = true;      // directories are judged once
    NodeId shown_{};                 // the directory of the last path
    std::string shown_path_;
};

// ---- paths, for sentences ------------------------------------------------------------------

Task<std::optional<std::string>> NamesCheck::name_in(uint64_t parent, uint64_t node) {
    Listing listing{{.what = object::ListRequest::What::dkeys,
                     .object = object_of({parent}),
                     .akey = entry_akey()}};
    for (size_t compared = 0; listing.more && compared < compared_names_max;) {
        const auto page = co_await next_page(call_, store_, container_, listing);
        if (!page) co_return std::nullopt;
        compared += page->size() + 1;
        for (const object::ListEntry& listed : *page) {
            const auto record = decode<EntryRecord>(as_bytes(listed.value));
            if (record && record->node == node) co_return listed.key;
        }
    }
    co_return std::nullopt;
}

Task<std::string> NamesCheck::path_of(NodeId directory) {
    if (directory == shown_) co_return shown_path_;
    std::string path;
    NodeId at = directory;
    for (size_t names = 0; at != root_node; ++names) {
        const auto inode = co_await fetch<InodeRecord>(at, inode_akey());
        std::optional<std::string> name;
        if (inode && names < path_names_max) name = co_await name_in(inode->parent, at.value);
        if (!name) {
            path = fmt::format("(directory {}){}", at.value, path);
            break;
        }
        path = "/" + *name + path;
        at = {inode->parent};
    }
    shown_ = directory;
    shown_path_ = path;
    co_return path;
}
Task<std::string> NamesCheck::path_of(NodeId directory, std::string_view name) {
    co_return co_await path_of(directory) + "/" + std::string(name);
}

// "node 1024, a file of /a".
Task<std::string> NamesCheck::text_of(const Node& node) {
    std::string text = fmt::format("node {}", node.id);
    if (node.type == 0) co_return text;
    text += fmt::format(", a {}", type_text(node.type));
    if (node.parent == 0) co_return text;
    const std::string parent = co_await path_of({node.parent});
    co_return text + " of " + (parent.empty() ? "/" : parent);
}

// ---- the whole -----------------------------------------------------------------------------

Task<Result<CheckedNames>> NamesCheck::run() {
    ROS2S_CO_TRY(co_await read_superblock());
    NodeScan scan(
        store_, container_,
        static_cast<uint32_t>(std::min<size_t>(options_.nodes_at_once, NodeScan::page_max)));
    uint64_t highest = 0;
    while (true) {
        ROS2S_CO_TRY_ASSIGN(const bool any, co_await next_part(scan));
        if (!any) break;
        if (!nodes_.empty()) highest = nodes_.back().id;
        ROS2S_CO_TRY(co_await count_names(is_first_part_ && !scan.more()));
        ROS2S_CO_TRY(co_await judge());
        is_first_part_ = false;
    }
    checked_.foreign_objects = scan.foreign_objects();
    ROS2S_CO_TRY(co_await check_orphan_list());
    ROS2S_CO_TRY(co_await check_counter(highest));
    co_return checked_;
}

Task<Result<>> NamesCheck::read_superblock() {
    ROS2S_CO_TRY_ASSIGN(const auto superblock,
                        co_await fetch<Superblock>(root_node, superblock_akey()));
    if ((superblock.features_needed & Superblock::is_cache) != 0) co_return fail(Code::not_found);
    const uint32_t unknown = superblock.features_needed & ~Superblock::known;
    if (superblock.format != format_version || unknown != 0) {
        co_return fail(Code::bad_version, superblock.format);
    }
    chunk_bytes_ = superblock.chunk_bytes;
    checked_.is_encrypted = (superblock.features_needed & Superblock::needs_decryption) != 0;
    co_return Result<>();
}

Task<Result<>> NamesCheck::check_counter(uint64_t highest) {
    const auto counter = co_await fetch<NumberRecord>(counter_node, counter_akey());
    if (!counter && counter.error().code != Code::not_found &&
        counter.error().code != Code::corrupt) {
        co_return fail(counter.error());
    }
    if (!counter) {
        options_.problem(
            fmt::format("the counter of node ids cannot be used: {}; no file can be created; {}",
                        describe(counter.error()), restore));
    } else if (highest >= counter->number) {
        options_.problem(fmt::format(
            "the counter of node ids is {}, and there is a node {}: a new file could get its id; "
            "copy the container into a new one",
            counter->number, highest));
    }
    co_return Result<>();
}

Task<Result<>> NamesCheck::check_orphan_list() {
    Listing listing{{.what = object::ListRequest::What::dkeys,
                     .object = object_of(orphan_node),
                     .akey = orphan_akey()}};
    while (listing.more) {
        ROS2S_CO_TRY_ASSIGN(const auto page,
                            co_await next_page(call_, store_, container_, listing));
        for (const object::ListEntry& listed : page) {
            ++checked_.orphans;
            if (listed.key.size() == sizeof(uint64_t)) continue;
            options_.problem(
                fmt::format("the list of nodes without a name has a key of {} bytes, which is no "
                            "node: it is never removed; copy the container into a new one",
                            listed.key.size()));
        }
    }
    co_return Result<>();
}

// ---- nodes ---------------------------------------------------------------------------------

Task<Result<bool>> NamesCheck::next_part(NodeScan& scan) {
    if (!is_first_part_ && !scan.more()) co_return false;
    first_ = is_first_part_ ? 0 : last_ + 1;
    nodes_.clear();
    while (scan.more() && nodes_.size() < options_.nodes_at_once) {
        ROS2S_CO_TRY_ASSIGN(const auto page, co_await scan.next(call_));
        for (const ScannedNode& scanned : page) {
            Node& node = nodes_.emplace_back();
            node.id = scanned.node.value;
            node.has_inode = scanned.has_inode();
            node.is_orphan = scanned.has_orphan_record;
            if (scanned.inode) {
                node.type = static_cast<uint16_t>(scanned.inode->mode & S_IFMT);
                node.links = scanned.inode->links;
                node.parent = scanned.inode->parent;
                ++(node.is_directory()  ? checked_.directories
                   : S_ISREG(node.type) ? checked_.files
                                        : checked_.others);
                ROS2S_CO_TRY(co_await check_contents(scanned));
            } else if (node.has_inode) {
                node.is_reported = true;
                options_.problem(fmt::format("the inode of node {} cannot be used: {}; {}", node.id,
                                             describe(scanned.inode.error()), restore));
            }
        }
        if (options_.progress) {
            options_.progress(checked_.directories + checked_.files + checked_.others);
        }
    }
    last_ = scan.more() && !nodes_.empty() ? nodes_.back().id : UINT64_MAX;
    co_return true;
}

// The size of a file follows from its last chunk.
Task<Result<>> NamesCheck::check_contents(const ScannedNode& scanned) {
    const InodeRecord& inode = *scanned.inode;
    const ObjectId object = object_of(scanned.node);
    if (S_ISLNK(inode.mode)) {
        FetchItem item{.object = object, .dkey = record_dkey(), .akey = target_akey()};
        ROS2S_CO_TRY(co_await store_.fetch(call_, container_, {&item, 1}));
        const bool is_there = item.status || item.status.error().code == Code::too_small;
        if (is_there && item.size == inode.target_bytes) co_return Result<>();
        options_.problem(fmt::format(
            "node {}, a symbolic link, has a target of {} bytes, and its inode counts {}; {}",
            scanned.node.value, is_there ? item.size : 0, inode.target_bytes, restore));
    }
    if (!S_ISREG(inode.mode)) co_return Result<>();
    ROS2S_CO_TRY_ASSIGN(const QueryReply contents,
                        co_await store_.query(call_, container_, object, data_akey()));
    if (!contents.exists) co_return Result<>();
    const std::string& last = contents.highest_dkey.bytes;
    if (last.size() != sizeof(uint64_t) || last[0] != '\0') {
        options_.problem(fmt::format("node {}, a file, has data under a key that is no chunk; {}",
                                     scanned.node.value, restore));
    } else if (contents.size > chunk_bytes_) {
        options_.problem(
            fmt::format("the last chunk of node {}, a file, has {} bytes, more than the {} of a "
                        "chunk: its size is wrong; {}",
                        scanned.node.value, contents.size, chunk_bytes_, restore));
    }
    co_return Result<>();
}

// ---- names ---------------------------------------------------------------------------------

Task<Result<>> NamesCheck::count_names(bool is_whole) {
    if (is_whole) {
        // The part has all directories.
        for (size_t i = 0; i < nodes_.size(); ++i) {
            if (nodes_[i].is_directory()) {
                ROS2S_CO_TRY(co_await visit_directory({nodes_[i].id}));
            }
        }
        co_return Result<>();
    }
    NodeScan all(store_, container_);
    while (all.more()) {
        ROS2S_CO_TRY_ASSIGN(const auto page, co_await all.next(call_));
        for (const ScannedNode& scanned : page) {
            if (scanned.is_directory()) ROS2S_CO_TRY(co_await visit_directory(scanned.node));
        }
    }
    co_return Result<>();
}

Task<Result<>> NamesCheck::visit_directory(NodeId directory) {
    Listing listing{{.what = object::ListRequest::What::dkeys,
                     .object = object_of(directory),
                     .akey = entry_akey()}};
    while (listing.more) {
        ROS2S_CO_TRY_ASSIGN(const auto page,
                            co_await next_page(call_, store_, container_, listing));
        for (const object::ListEntry& listed : page) {
            ROS2S_CO_TRY(co_await visit_name(directory, listed));
        }
    }
    co_return Result<>();
}

Task<Result<>> NamesCheck::visit_name(NodeId directory, const object::ListEntry& listed) {
    if (is_first_part_) ++checked_.names;
    const auto entry = decode<EntryRecord>(as_bytes(listed.value));
    if (!entry || is_no_entry(listed)) {
        if (!is_first_part_) co_return Result<>();
        options_.problem(fmt::format(
            "{} has a key that is no name of a file: it is not listed, and the directory cannot be "
            "removed until `ros2store container check --free` removes the key",
            co_await path_of(directory, "")));
        co_return Result<>();
    }
    if (!is_in_part(entry->node)) co_return Result<>();
    Node* const node = find(entry->node);
    if (node == nullptr || !node->has_inode) {
        if (node != nullptr) node->is_reported = true;
        options_.problem(
            fmt::format("{} leads to node {}, which does not exist; remove the name, and {}",
                        co_await path_of(directory, listed.key), entry->node, restore));
        co_return Result<>();
    }
    ++node->names;
    node->in_parent |= node->parent == directory.value;
    const mode_t type = entry->type_bits();
    if (node->type != 0 && type != node->type) {
        options_.problem(fmt::format("{} is the name of a {}, and its node {} is a {}; {}",
                                     co_await path_of(directory, listed.key), type_text(type),
                                     node->id, type_text(node->type), restore));
    }
    co_return Result<>();
}

// ---- verdicts ------------------------------------------------------------------------------

Task<Result<>> NamesCheck::judge() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
        ROS2S_CO_TRY(call_.check(Time{}));
        if (!nodes_[i].is_reported) ROS2S_CO_TRY(co_await judge(nodes_[i]));
    }
    co_return co_await follow_parents();
}

Task<Result<>> NamesCheck::judge(Node& node) {
    if (node.id == root_node.value) {
        node.under_root = true;
        if (node.names == 0 && node.links == 1 && node.is_directory()) co_return Result<>();
        options_.problem(
            fmt::format("the root directory has {} names and {} links, and needs none and one; {}",
                        node.names, node.links, restore));
        co_return Result<>();
    }
    if (!node.has_inode) {
        // It is being removed: its inode goes first, its orphan record last.
        if (node.is_orphan) co_return Result<>();
        ROS2S_CO_TRY_ASSIGN(
            const QueryReply contents,
            co_await store_.query(call_, container_, object_of({node.id}), data_akey()));
        options_.problem(fmt::format("an object of {} bytes, node {}, has no inode; {}",
                                     contents.bytes_used, node.id, free_it));
        co_return Result<>();
    }
    const bool needs_parent = node.is_directory() || node.parent != 0;
    const bool is_sound = node.names == 0 ? node.links == 0 && node.is_orphan
                                          : node.names == node.links && !node.is_orphan &&
                                                (node.in_parent || !needs_parent);
    if (is_sound) co_return Result<>();
    node.is_reported = true;
    const std::string text = co_await text_of(node);
    if (node.names == 0 && node.links == 0) {
        options_.problem(fmt::format(
            "no name leads to {}, and it is not on the list of nodes to be removed: its space is "
            "lost; copy the container into a new one to have it again",
            text));
    } else if (node.names == 0) {
        options_.problem(fmt::format(
            "no name leads to {}, which counts {} links: it cannot be reached, and its space is "
            "lost; {}, or copy the container into a new one",
            text, node.links, restore));
    } else if (node.is_orphan) {
        options_.problem(fmt::format(
            "{} has {} names and is on the list of nodes to be removed: it may be removed while it "
            "has a name; copy it to a new file",
            text, node.names));
    } else if (node.names != node.links) {
        options_.problem(
            fmt::format("{} counts {} links, and has {} names: {}; copy it to a new file, and "
                        "remove the old names",
                        text, node.links, node.names,
                        node.links < node.names ? "it goes with a name that is not its last"
                                                : "its space is not freed with its last name"));
    } else {
        options_.problem(fmt::format(
            "{} has no name there: its inode names another directory than the one with its name; "
            "rename it",
            text));
    }
    co_return Result<>();
}

Task<Result<uint64_t>> NamesCheck::parent_of(uint64_t directory) {
    if (const Node* const node = find(directory)) {
        co_return node->is_directory() ? Result<uint64_t>(node->parent) : fail(Code::not_found);
    }
    ROS2S_CO_TRY_ASSIGN(const auto inode, co_await fetch<InodeRecord>({directory}, inode_akey()));
    co_return S_ISDIR(inode.mode) && inode.links > 0 ? Result<uint64_t>(inode.parent)
                                                     : fail(Code::not_found);
}

Task<Result<>> NamesCheck::follow_parents() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
        const Node& first = nodes_[i];
        if (!first.is_directory() || first.under_root || first.is_reported || first.names == 0) {
            continue;
        }
        std::vector<uint64_t> way;
        std::set<uint64_t> passed;
        bool is_loop = false;
        for (uint64_t at = first.id; at != root_node.value;) {
            const Node* const node = find(at);
            if (node != nullptr && (node->under_root || node->is_reported)) break;
            is_loop = !passed.insert(at).second;
            if (is_loop) break;
            way.push_back(at);
            const auto parent = co_await parent_of(at);
            if (!parent && parent.error().code != Code::not_found) co_return fail(parent.error());
            if (!parent) break;
            at = *parent;
        }
        for (const uint64_t id : way) {
            if (Node* const node = find(id)) node->under_root = true;  // or the loop is reported
        }
        if (!is_loop) continue;
        options_.problem(
            fmt::format("directory {} is inside itself, through {} directories: no path leads to "
                        "them from the root; restore the container from a copy",
                        first.id, way.size()));
    }
    co_return Result<>();
}

}  // namespace

Task<Result<CheckedNames>> check_names(const Call& call, object::ObjectStore& store,
                                       object::ContainerId container,
                                       const NamesCheckOptions& options) {
    NamesCheck check(call, store, container, options);
    co_return co_await check.run();
}

}  // namespace ros2s::fs
