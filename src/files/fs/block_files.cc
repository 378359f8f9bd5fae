#include "block_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "payload_checksums.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/base/digest.h"
#include "ros2s/fs/container.h"
#include "ros2s/object/checksum.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::fs {

using object::BlockHead;
using object::blocks_object;
using object::Commit;

namespace {

FetchItem data_item(const std::string& key, Window into, uint64_t offset) {
    return {.object = blocks_object,
            .dkey = {key},
            .akey = object::block_data_akey(),
            .extent = {offset, into.length},
            .window = into};
}

}  // namespace

// ---- opening, nodes ------------------------------------------------------------------------

Task<Result<std::unique_ptr<FileSystem>>> BlockFiles::open(const Call& call,
                                                           object::ObjectStore& store,
                                                           object::ContainerId container,
                                                           Reactor& reactor, DfsOptions options) {
    InodeRecord root;
    FetchItem item = record_item(object_of(root_node), record_dkey(), inode_akey(), root);
    ROS2S_CO_TRY(co_await store.fetch(call, container, {&item, 1}));
    ROS2S_CO_TRY_ASSIGN(root, record_of(item, root));
    co_return std::unique_ptr<FileSystem>(
        std::make_unique<BlockFiles>(store, container, reactor, std::move(options), root));
}

BlockFiles::BlockFiles(object::ObjectStore& store, object::ContainerId container, Reactor& reactor,
                       DfsOptions options, const InodeRecord& root)
    : store_(store),
      container_(container),
      reactor_(reactor),
      options_(std::move(options)),
      root_(root),
      slots_(reactor, container.uuid, options_.slots),
      summing_(reactor),
      unfinished_(options_.unfinished == nullptr ? own_unfinished_ : *options_.unfinished),
      listings_(options_.listings == nullptr ? own_listings_ : *options_.listings),
      secret_(reactor.secrets().next()) {}

// What is written and not closed is given up.
Task<> BlockFiles::close_all() {
    open_.clear();
    nodes_.clear();
    if (!has_pinned_) co_return;
    const Call call{.deadline = reactor_.now() + close_within};
    const std::string all;
    (void)co_await unpin(call, {&all, 1});
}

NodeId BlockFiles::node_of(std::string_view key) const {
    uint64_t id = Digest().add(secret_).add(key).value();
    for (;; ++id) {
        if (id <= root_node.value) continue;
        const auto found = nodes_.find(id);
        if (found == nodes_.end() || found->second.key == key) return {id};
    }
}

BlockFiles::Node& BlockFiles::keep(NodeId node, std::string_view key) {
    Node& kept = nodes_[node.value];
    kept.key = key;
    return kept;
}

void BlockFiles::drop_unused(NodeId node) {
    const auto found = nodes_.find(node.value);
    if (found == nodes_.end() || found->second.looked_up > 0 || found->second.opened > 0) return;
    nodes_.erase(found);
}

void BlockFiles::forget(NodeId node, uint64_t count) {
    const auto found = nodes_.find(node.value);
    if (found == nodes_.end()) return;
    found->second.looked_up -= std::min(count, found->second.looked_up);
    drop_unused(node);
}

Attributes BlockFiles::root_attributes() const {
    return fs::attributes_of(root_node, root_, {}, block_bytes);
}

Attributes BlockFiles::attributes_of(NodeId node, uint64_t length) const {
    return {.node = node,
            .mode = S_IFREG | 0444,
            .links = 1,
            .uid = root_.uid,
            .gid = root_.gid,
            .size = length,
            .bytes_used = round_up(length, block_bytes),
            .accessed = from_ns(root_.created_ns),
            .modified = from_ns(root_.created_ns),
            .changed = from_ns(root_.created_ns),
            .created = from_ns(root_.created_ns)};
}

// ---- look-ups ------------------------------------------------------------------------------

Task<std::vector<Result<BlockFiles::FoundHead>>> BlockFiles::find_heads(const Call& call,
                                                                        const Keys& keys) {
    std::vector<Result<FoundHead>> heads(keys.size());
    std::vector<FetchItem> items;
    std::vector<size_t> places;
    for (size_t i = 0; i < keys.size(); ++i) {
        if (!keys[i]) {
            heads[i] = fail(keys[i].error());
            continue;
        }
        places.push_back(i);
        items.push_back(
            record_item(blocks_object, {*keys[i]}, object::block_head_akey(), heads[i]->head));
    }
    if (items.empty()) co_return heads;
    const auto fetched = co_await store_.fetch(call, container_, items);
    for (size_t i = 0; i < items.size(); ++i) {
        Result<FoundHead>& found = heads[places[i]];
        const Result<> status = fetched ? items[i].status : fetched;
        if (!status) {
            found = fail(status.error());
        } else if (!object::parse_block_head(object_bytes(found->head))) {
            found = fail(Code::corrupt);
        } else {
            found->epoch = items[i].epoch;
        }
    }
    co_return heads;
}

Task<Result<BlockFiles::FoundHead>> BlockFiles::find_head(const Call& call,
                                                          const std::string& key) {
    const Keys keys{key};
    auto found = co_await find_heads(call, keys);
    co_return std::move(found.front());
}

Task<Result<Attributes>> BlockFiles::lookup(const Call& call, NodeId parent,
                                            std::string_view name) {
    if (parent == root_node && (name == "." || name == "..")) co_return root_attributes();
    auto found = co_await lookup_many(call, parent, {&name, 1});
    co_return std::move(found.front());
}

Task<std::vector<Result<Attributes>>> BlockFiles::lookup_many(
    const Call& call, NodeId parent, std::span<const std::string_view> names) {
    ROS2S_CHECK(names.size() <= names_together_max);
    std::vector<Result<Attributes>> results(names.size());
    if (parent != root_node) {
        std::ranges::fill(results, Result<Attributes>(fail(Code::not_directory)));
        co_return results;
    }
    Keys keys;
    for (const std::string_view name : names) {
        auto key = block_key_of(name);
        // There is no such file. To create one is an error.
        if (!key && key.error().code == Code::invalid) key = fail(Code::not_found);
        keys.push_back(std::move(key));
    }
    const auto heads = co_await find_heads(call, keys);
    for (size_t i = 0; i < heads.size(); ++i) {
        if (!heads[i]) {
            results[i] = fail(heads[i].error());
            continue;
        }
        const NodeId node = node_of(*keys[i]);
        ++keep(node, *keys[i]).looked_up;
        results[i] = attributes_of(node, heads[i]->head.length);
    }
    co_return results;
}

Task<Result<Attributes>> BlockFiles::get_attributes(const Call& call, NodeId node) {
    if (node == root_node) co_return root_attributes();
    const auto found = nodes_.find(node.value);
    if (found == nodes_.end()) co_return fail(Code::stale);
    const std::string key = found->second.key;
    const auto head = co_await find_head(call, key);
    if (head) co_return attributes_of(node, head->head.length);
    // It may be closed since.
    const auto kept = nodes_.find(node.value);
    if (kept != nodes_.end() && !kept->second.writers.empty()) {
        co_return attributes_of(node, length_of(*open_.at(*kept->second.writers.begin())));
    }
    co_return fail(head.error().code == Code::not_found ? Error{Code::stale} : head.error());
}

// Times are not kept. To set one is a use of the block, as a read is.
Task<Result<Attributes>> BlockFiles::set_attributes(const Call& call, NodeId node,
                                                    const SetAttributes& changes) {
    const bool only_times = !changes.mode && !changes.uid && !changes.gid && !changes.size &&
                            !changes.flags && !changes.clears_set_ids;
    if (!only_times) co_return fail(Code::unsupported);
    if (const auto found = nodes_.find(node.value); found != nodes_.end()) {
        FetchItem item = data_item(found->second.key, {}, 0);
        ROS2S_CO_TRY(co_await store_.fetch(call, container_, {&item, 1}));
    }
    co_return co_await get_attributes(call, node);
}

// ---- handles -------------------------------------------------------------------------------

uint64_t BlockFiles::length_of(const Open& file) {
    if (file.ahead.empty()) return file.written.size();
    const auto& [offset, piece] = *file.ahead.rbegin();
    return offset + piece.size();
}

std::shared_ptr<BlockFiles::Open> BlockFiles::find(FileHandle handle) const {
    const auto found = open_.find(handle);
    return found == open_.end() ? nullptr : found->second;
}

FileHandle BlockFiles::add(std::shared_ptr<Open> file) {
    const FileHandle handle{++last_handle_};
    if (!file->is_directory) {
        Node& node = keep(file->node, file->key);
        ++node.opened;
        if (file->is_new) node.writers.insert(handle);
    }
    open_[handle] = std::move(file);
    return handle;
}

Task<Result<Opened>> BlockFiles::open(const Call& call, NodeId node, OpenFlags flags) {
    auto file = std::make_shared<Open>();
    file->node = node;
    file->flags = flags;
    const bool writes = flags.write || flags.append || flags.truncate;
    if (node == root_node) {
        if (writes) co_return fail(Code::is_directory);
        file->is_directory = true;
        file->cookies = std::make_unique<ReaddirCookies>(listings_);
        co_return Opened{.handle = add(std::move(file)), .attributes = root_attributes()};
    }
    const auto found = nodes_.find(node.value);
    if (found == nodes_.end()) co_return fail(Code::stale);
    if (writes) co_return fail(Code::denied);
    file->key = found->second.key;
    const auto head = co_await find_head(call, file->key);
    if (!head) {
        co_return fail(head.error().code == Code::not_found ? Error{Code::stale} : head.error());
    }
    file->length = head->head.length;
    file->epoch = head->epoch;
    const uint64_t length = file->length;
    co_return Opened{.handle = add(std::move(file)), .attributes = attributes_of(node, length)};
}

Task<Result<Opened>> BlockFiles::create(const Call&, NodeId parent, std::string_view name, mode_t,
                                        OpenFlags flags, Owner) {
    if (parent != root_node) co_return fail(Code::not_directory);
    if (flags.nameless) co_return fail(Code::unsupported);
    if (!flags.write) co_return fail(Code::denied);
    ROS2S_CO_TRY_ASSIGN(std::string key, block_key_of(name));
    auto file = std::make_shared<Open>();
    file->node = node_of(key);
    file->key = std::move(key);
    file->flags = flags;
    file->is_new = true;
    ++keep(file->node, file->key).looked_up;
    const Attributes attributes = attributes_of(file->node, 0);
    co_return Opened{.handle = add(std::move(file)), .attributes = attributes};
}

Task<Result<>> BlockFiles::close(const Call& call, FileHandle handle) {
    const auto found = open_.find(handle);
    if (found == open_.end()) co_return fail(Code::stale);
    const std::shared_ptr<Open> file = std::move(found->second);
    open_.erase(found);
    Result<> done;
    if (file->is_new) {
        nodes_.at(file->node.value).writers.erase(handle);
        done = call.stop.stop_requested() ? fail(Code::cancelled) : file->intact;
        // The block would lack the bytes of a write that has not ended.
        if (done && file->writes > 0) done = fail(Code::busy);
        if (done && !file->ahead.empty()) done = fail(Code::invalid);
        object::Checksums checksums;
        if (done) {
            done = co_await object::array_checksums_in_slices(summing_, call, 0, file->written,
                                                              checksums);
        }
        if (done) done = co_await put(call, file->key, file->written, checksums);
    }
    if (const auto node = nodes_.find(file->node.value); node != nodes_.end()) {
        --node->second.opened;
        drop_unused(file->node);
    }
    co_return done;
}

Task<Result<std::vector<DirectoryEntry>>> BlockFiles::readdir(const Call& call, FileHandle handle,
                                                              uint64_t cookie, size_t limit) {
    const auto file = find(handle);
    if (file == nullptr) co_return fail(Code::stale);
    if (!file->is_directory) co_return fail(Code::not_directory);
    std::vector<DirectoryEntry> entries;
    if (limit == 0 || file->cookies->is_behind_end(cookie)) co_return entries;
    object::ListRequest request{
        .what = object::ListRequest::What::dkeys,
        .object = blocks_object,
        .akey = object::block_head_akey(),
        .limit = static_cast<uint32_t>(std::clamp<size_t>(limit, 1, object::fetch_items_max))};
    if (cookie != 0) {
        auto name = file->cookies->find(cookie);
        if (!name) co_return fail(Code::invalid);
        request.after = *block_key_of(*name);
    }
    ROS2S_CO_TRY_ASSIGN(const object::ListReply page,
                        co_await store_.list(call, container_, request));
    file->cookies->begin(cookie, call.tenant);
    for (const object::ListEntry& listed : page.entries) {
        std::string name = block_name_of(listed.key);
        const uint64_t own = file->cookies->add(name);
        entries.push_back(
            {.name = std::move(name), .node = node_of(listed.key), .type = S_IFREG, .cookie = own});
    }
    if (!page.more) file->cookies->reached_end();
    file->cookies->end();
    co_return entries;
}

Task<Result<FileSystemSpace>> BlockFiles::space(const Call& call) {
    ROS2S_CO_TRY_ASSIGN(const object::PoolSpace space, co_await store_.space(call, container_));
    co_return FileSystemSpace{.total_bytes = space.total_bytes, .free_bytes = space.free_bytes};
}

// ---- reading -------------------------------------------------------------------------------

namespace {

// By the checksums of the pieces. It does not look at the bytes, which a host may change meanwhile,
// unless the store has no checksums. Zeros fill the last piece, if the block ends in it.
bool matches(const BlockHead& head, const FetchItem& data) {
    static constexpr std::array<std::byte, block_bytes> zeros{};
    const uint64_t length = head.length;
    const uint64_t fetched = std::min(round_up(length, block_bytes), data.extent.length);
    const uint32_t of_key = crc32c(as_bytes(data.dkey.bytes));
    const std::span<const uint32_t> pieces(data.checksums);
    const size_t count = object::piece_count(0, fetched);
    if (pieces.size() < count) {
        return crc32c_extend(of_key, data.window.bytes().first(length)) == head.crc;
    }
    const uint32_t found = object::combined_checksum(0, fetched, pieces.first(count));
    return crc32c_combine(of_key, found, fetched) ==
           crc32c_extend(head.crc, ConstBytes(zeros).first(fetched - length));
}

// Of the bytes that the item got, if the store has checksums. A head's is linear in its two parts.
uint32_t forwarded_checksum(const ReadManyItem& item, const BlockHead& head,
                            const FetchItem& data) {
    if (item.bytes < item.size) {
        return object::combined_checksum(0, item.bytes, data.checksums);
    }
    return head.crc ^ crc32c_combine(crc32c(as_bytes(data.dkey.bytes)), 0, item.bytes);
}

}  // namespace

Task<Result<uint64_t>> BlockFiles::pread(const Call& call, FileHandle handle, Window into,
                                         uint64_t offset) {
    const auto file = find(handle);
    if (file == nullptr) co_return fail(Code::stale);
    if (file->is_directory) co_return fail(Code::is_directory);
    if (!file->flags.read) co_return fail(Code::denied);
    if (file->is_new) co_return fail(Code::unsupported);
    if (offset >= file->length) co_return 0;
    into.length = std::min(into.length, file->length - offset);
    FetchItem item = data_item(file->key, into, offset);
    ROS2S_CO_TRY(co_await store_.fetch(call, container_, {&item, 1}));
    if (!item.status && item.status.error().code != Code::not_found)
        co_return fail(item.status.error());
    // Bytes and head of a block have one epoch.
    if (!item.status || item.epoch != file->epoch) co_return fail(Code::stale);
    ++file->reads;
    file->read_bytes += into.length;
    co_return into.length;
}

Task<Result<>> BlockFiles::read_many(const Call& call, NodeId directory,
                                     std::span<ReadManyItem> items) {
    if (directory != root_node) co_return fail(Code::not_directory);
    if (call.checksums != nullptr) call.checksums->items.clear();
    while (!items.empty()) {
        const auto group = items.first(std::min(items.size(), names_together_max));
        ROS2S_CO_TRY(co_await read_group(call, group));
        items = items.subspan(group.size());
    }
    co_return Result<>{};
}

Task<Result<>> BlockFiles::read_group(const Call& call, std::span<ReadManyItem> items) {
    static_assert(2 * names_together_max <= object::fetch_items_max);
    const bool is_forwarded = call.checksums != nullptr && store_.features().checksums;
    std::vector<BlockHead> heads(items.size());
    std::vector<uint32_t> crcs(items.size());  // of no bytes: 0
    std::vector<FetchItem> fetches;
    std::vector<size_t> places;
    for (size_t i = 0; i < items.size(); ++i) {
        if (!begin_read(items[i])) continue;
        const auto key = block_key_of(items[i].name);
        if (!key) {
            items[i].status = fail(Code::not_found);
            continue;
        }
        Window into = items[i].window;
        into.length = std::min(into.length, object::block_length_max);
        places.push_back(i);
        fetches.push_back(data_item(*key, into, 0));
        fetches.back().forwarded = is_forwarded;
    }
    // Behind the data: an engine reads blocks at multiples of 4 KiB of its memory without a copy.
    for (size_t place = 0; place < places.size(); ++place) {
        fetches.push_back(record_item(blocks_object, fetches[place].dkey, object::block_head_akey(),
                                      heads[places[place]]));
    }
    if (!fetches.empty()) ROS2S_CO_TRY(co_await store_.fetch(call, container_, fetches));
    std::vector<std::string> corrupt;
    for (size_t place = 0; place < places.size(); ++place) {
        ReadManyItem& item = items[places[place]];
        const FetchItem& data = fetches[place];
        const FetchItem& head = fetches[places.size() + place];
        item.status = head.status ? data.status : head.status;
        const auto found = object::parse_block_head(object_bytes(heads[places[place]]));
        // It was replaced between the two fetches.
        if (item.status && head.epoch != data.epoch) item.status = fail(Code::not_found);
        if (item.status && found) {
            item.size = found->length;
            item.bytes = std::min(item.size, data.extent.length);
            const bool is_whole = item.bytes == item.size;
            if (is_whole && !matches(*found, data)) {
                item.status = fail(Code::corrupt);
            } else if (is_forwarded) {
                crcs[places[place]] = forwarded_checksum(item, *found, data);
            }
        } else if (item.status) {
            item.status = fail(Code::corrupt);
        }
        if (item.status) continue;
        item.bytes = item.size = 0;
        if (item.status.error().code != Code::corrupt) continue;
        corrupt.push_back(head.dkey.bytes);
        item.status = fail(Code::not_found);
    }
    // If that fails, it is a miss all the same.
    if (!corrupt.empty()) (void)co_await punch(call, corrupt);
    if (!is_forwarded) co_return Result<>{};
    for (const uint32_t crc : crcs) call.checksums->items.push_back(crc);
    co_return Result<>{};
}

Task<Result<uint64_t>> BlockFiles::seek(const Call&, FileHandle handle, uint64_t offset,
                                        SeekFor what) {
    const auto file = find(handle);
    if (file == nullptr) co_return fail(Code::stale);
    if (file->is_directory || offset >= file->length) co_return fail_errno(ENXIO);
    co_return what == SeekFor::data ? offset : file->length;
}

Result<PathReport> BlockFiles::path_report(FileHandle handle) const {
    const auto file = find(handle);
    if (file == nullptr) return fail(Code::stale);
    return PathReport{.path = store_.path(), .reads = file->reads, .read_bytes = file->read_bytes};
}

// ---- writing -------------------------------------------------------------------------------

namespace {

uint64_t end_of(const std::pair<const uint64_t, std::vector<std::byte>>& piece) {
    return piece.first + piece.second.size();
}

}  // namespace

Task<Result<uint64_t>> BlockFiles::pwrite(const Call& call, FileHandle handle, Window from,
                                          uint64_t offset) {
    const auto file = find(handle);
    if (file == nullptr) co_return fail(Code::stale);
    if (!file->is_new) co_return fail(Code::denied);
    if (!from.is_local()) co_return fail(Code::unsupported);
    ++file->writes;
    const auto done = co_await write(call, handle, *file, from.bytes(), offset);
    --file->writes;
    if (done) co_return from.length;
    if (file->intact) file->intact = done;
    co_return fail(done.error());
}

Result<> BlockFiles::add_room(const Call& call, Quota::Share& room, uint64_t bytes) {
    if (bytes == 0) return {};
    if (room.amount() > 0) {
        if (!room.check(bytes)) return fail(Code::no_memory, unfinished_.bounds().in_all);
        room.add(bytes);
        return {};
    }
    auto taken = unfinished_.take({.tenant = call.tenant, .subject = call.tenant}, bytes);
    if (!taken) return fail(Code::no_memory, unfinished_.bounds().in_all);
    room = std::move(*taken);
    return {};
}

Task<Result<>> BlockFiles::write(const Call& call, FileHandle handle, Open& file, ConstBytes from,
                                 uint64_t offset) {
    std::vector<std::byte> copy;
    if (call.checksums != nullptr) {
        // Of a copy: the sender may change its memory, and another write moves `written`.
        Quota::Share room;
        ROS2S_CO_TRY(add_room(call, room, from.size()));
        copy.assign(from.begin(), from.end());
        ROS2S_CO_TRY(co_await compare_checksums(call, copy, offset));
        room.end();
        if (find(handle).get() != &file) co_return fail(Code::stale);
        from = copy;
    }
    if (file.flags.append) offset = length_of(file);
    if (offset > object::block_length_max || from.size() > object::block_length_max - offset) {
        co_return fail(Code::too_large, object::block_length_max);
    }
    co_return offset > file.written.size() ? add_ahead(call, file, from, offset)
                                           : add_written(call, file, from, offset);
}

Result<> BlockFiles::add_written(const Call& call, Open& file, ConstBytes from, uint64_t offset) {
    const uint64_t before = file.written.size();
    const uint64_t size = std::max(before, offset + from.size());
    ROS2S_TRY(add_room(call, file.room, size - before));
    file.written.resize(size);
    std::ranges::copy(from, file.written.begin() + static_cast<ptrdiff_t>(offset));
    join_ahead(file);
    return {};
}

// A gap is not filled: zeros up to a far offset would take as long as a write of all of them.
Result<> BlockFiles::add_ahead(const Call& call, Open& file, ConstBytes from, uint64_t offset) {
    if (from.empty()) return {};
    const auto next = file.ahead.lower_bound(offset);
    const bool meets_next = next != file.ahead.end() && next->first < offset + from.size();
    const bool meets_previous = next != file.ahead.begin() && end_of(*std::prev(next)) > offset;
    if (meets_next || meets_previous) return fail(Code::invalid);
    if (file.ahead.size() == pieces_ahead_max) return fail(Code::no_memory, pieces_ahead_max);
    ROS2S_TRY(add_room(call, file.room, from.size()));
    file.ahead.emplace_hint(next, offset, std::vector(from.begin(), from.end()));
    return {};
}

// What was written later is there already.
void BlockFiles::join_ahead(Open& file) {
    for (auto next = file.ahead.begin();
         next != file.ahead.end() && next->first <= file.written.size();
         next = file.ahead.erase(next)) {
        const std::span<const std::byte> piece = next->second;
        const size_t known = std::min(file.written.size() - next->first, piece.size());
        file.room.subtract(known);
        file.written.insert(file.written.end(), piece.begin() + static_cast<ptrdiff_t>(known),
                            piece.end());
    }
}

// A block is never durable before it is closed, and a second later at the latest afterwards.
Task<Result<>> BlockFiles::fsync(const Call& call, FileHandle handle) {
    if (find(handle) == nullptr) co_return fail(Code::stale);
    ROS2S_CO_TRY(co_await store_.sync(call, container_, {}, {}));
    co_return Result<>{};
}

Task<Result<>> BlockFiles::put(const Call& call, const std::string& key, ConstBytes bytes,
                               const object::Checksums& checksums) {
    constexpr int attempts_max = 4;
    const BlockHead head{
        .crc = crc32c_combine(crc32c(as_bytes(key)),
                              object::combined_checksum(0, bytes.size(), checksums), bytes.size()),
        .length = bytes.size()};
    for (int i = 0; i < attempts_max; ++i) {
        const auto done = co_await put_once(call, key, bytes, checksums, head);
        if (done) co_return Result<>{};
        if (done.error().code != Code::condition_failed) co_return fail(done.error());
        const auto present = co_await find_head(call, key);
        if (present) {
            const bool is_same =
                present->head.crc == head.crc && present->head.length == head.length;
            co_return is_same ? Result<>{} : fail(Code::exists);
        }
        // It was removed meanwhile.
        if (present.error().code != Code::not_found) co_return fail(present.error());
    }
    co_return fail(Code::busy);
}

Task<Result<Commit>> BlockFiles::put_once(const Call& call, const std::string& key,
                                          ConstBytes bytes, const object::Checksums& checksums,
                                          const BlockHead& head) {
    using Kind = object::Operation::Kind;
    co_await slots_.wait();
    auto slot = slots_.take();
    slot.require({.kind = object::Condition::Kind::absent,
                  .object = blocks_object,
                  .dkey = {key},
                  .akey = object::block_head_akey()});
    slot.add({.kind = Kind::write,
              .object = blocks_object,
              .dkey = {key},
              .akey = object::block_data_akey(),
              .extent = {0, bytes.size()},
              .window = Window::local(bytes)});
    slot.checksums() = checksums;
    slot.add({.kind = Kind::put,
              .object = blocks_object,
              .dkey = {key},
              .akey = object::block_head_akey(),
              .window = Window::local(object_bytes(head))});
    auto done = co_await store_.update(call, container_, slot.transaction());
    if (!done) slot.failed(done.error());
    co_return done;
}

Task<Result<>> BlockFiles::unlink(const Call& call, NodeId parent, std::string_view name) {
    const auto done = co_await unlink_many(call, parent, {&name, 1});
    co_return done.front();
}

// Two requests. A name that another one removes between them counts as removed.
Task<std::vector<Result<>>> BlockFiles::unlink_many(const Call& call, NodeId parent,
                                                    std::span<const std::string_view> names) {
    ROS2S_CHECK(names.size() <= names_together_max);
    std::vector<Result<>> results(names.size());
    if (parent != root_node) {
        std::ranges::fill(results, Result<>(fail(Code::not_directory)));
        co_return results;
    }
    Keys keys;
    for (const std::string_view name : names) keys.push_back(block_key_of(name));
    const auto heads = co_await find_heads(call, keys);
    std::vector<std::string> present;
    for (size_t i = 0; i < heads.size(); ++i) {
        const bool is_there = heads[i] || heads[i].error().code == Code::corrupt;
        results[i] = is_there ? Result<>{} : fail(heads[i].error());
        const bool is_new = is_there && std::ranges::find(present, *keys[i]) == present.end();
        if (is_new) present.push_back(*keys[i]);
        if (is_there && !is_new) results[i] = fail(Code::not_found);
    }
    if (present.empty()) co_return results;
    const auto punched = co_await punch(call, present);
    for (Result<>& result : results) {
        if (result) result = punched;
    }
    co_return results;
}

Task<Result<>> BlockFiles::punch(const Call& call, std::span<const std::string> keys) {
    co_await slots_.wait();
    auto slot = slots_.take();
    for (const std::string& key : keys) {
        slot.add(
            {.kind = object::Operation::Kind::punch_dkey, .object = blocks_object, .dkey = {key}});
    }
    const auto done = co_await store_.update(call, container_, slot.transaction());
    if (done) co_return Result<>{};
    slot.failed(done.error());
    co_return fail(done.error());
}

// ---- what a block cannot do ----------------------------------------------------------------

Task<Result<Attributes>> BlockFiles::mkdir(const Call&, NodeId, std::string_view, mode_t, Owner) {
    co_return fail(Code::unsupported);
}
Task<Result<Attributes>> BlockFiles::mknod(const Call&, NodeId, std::string_view, mode_t, dev_t,
                                           Owner) {
    co_return fail(Code::unsupported);
}
Task<Result<Attributes>> BlockFiles::symlink(const Call&, NodeId, std::string_view,
                                             std::string_view, Owner) {
    co_return fail(Code::unsupported);
}
Task<Result<Attributes>> BlockFiles::link(const Call&, NodeId, NodeId, std::string_view) {
    co_return fail(Code::unsupported);
}
Task<Result<>> BlockFiles::rmdir(const Call&, NodeId, std::string_view) {
    co_return fail(Code::not_directory);
}
Task<Result<>> BlockFiles::rename(const Call&, NodeId, std::string_view, NodeId, std::string_view,
                                  RenameFlags) {
    co_return fail(Code::unsupported);
}
Task<Result<std::string>> BlockFiles::readlink(const Call&, NodeId) {
    co_return fail(Code::invalid);
}
Task<Result<std::string>> BlockFiles::get_xattr(const Call& call, NodeId node,
                                                std::string_view name) {
    if (node != root_node || name != cache_attribute) co_return fail(Code::unsupported);
    ROS2S_CO_TRY_ASSIGN(const auto found, co_await cache_of(call, store_, container_));
    if (!found) co_return fail(Code::stale);
    const object::CacheUse& use = found->use;
    co_return fmt::format(
        "blocks={} hits={} misses={} puts={} evicted={} evicted_age_s={} expired={} removed={} "
        "pinned={}",
        use.blocks, use.hits, use.misses, use.puts, use.evicted,
        use.evicted_age() / std::chrono::seconds(1), use.expired, use.removed, use.pinned);
}
Task<Result<>> BlockFiles::set_xattr(const Call&, NodeId, std::string_view, ConstBytes, SetXattr) {
    co_return fail(Code::unsupported);
}
Task<Result<>> BlockFiles::remove_xattr(const Call&, NodeId, std::string_view) {
    co_return fail(Code::no_attribute);
}
Task<Result<std::vector<std::string>>> BlockFiles::list_xattrs(const Call&, NodeId node) {
    std::vector<std::string> names;
    if (node == root_node) names.emplace_back(cache_attribute);
    co_return names;
}
Task<Result<>> BlockFiles::punch_hole(const Call&, FileHandle, uint64_t, uint64_t) {
    co_return fail(Code::unsupported);
}

}  // namespace ros2s::fs
