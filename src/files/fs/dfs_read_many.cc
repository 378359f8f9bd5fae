// read_many: open, read and close of many files, in few requests. Names are resolved level by
// level, the entries of all files of a level in one batch. Then all sizes are queried, many in a
// request. Then all records and contents come in one batch. Files with holes are queried once more:
// what was not there may have been truncated meanwhile.
#include <map>

#include "caller.h"
#include "dfs_mount.h"
#include "payload_checksums.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::fs {
namespace {
// Files in progress at once. More files are processed group by group.
constexpr size_t group_files_max = 512;
// Sizes in one request. The store finds them one after the other.
constexpr size_t query_files_max = 32;
static_assert(query_files_max <= object::chain_items_max);
}  // namespace

struct DfsMount::ManyFile {
    ReadManyItem* item = nullptr;
    NodeId at{};            // resolved so far
    std::string_view rest;  // the rest of the name
    NodeState* state = nullptr;
    InodeRecord inode;
    Epoch changed{};  // the contents, as of the last query
    int queries = 0;
    bool has_holes = false;
    bool is_read = false;
    uint32_t crc = 0;  // of the bytes, if they are forwarded
};
struct DfsMount::ManyFetch {
    bool is_forwarded = false;
    std::vector<FetchItem> items{};
    std::vector<ManyFile*> owners{};
    [[nodiscard]] bool full() const { return items.size() == object::fetch_items_max; }
    void add(ManyFile& file, FetchItem item) {
        items.push_back(std::move(item));
        owners.push_back(&file);
    }
};

bool DfsMount::is_forwarded(const Call& call) const {
    return call.checksums != nullptr && store_.features().checksums;
}

Task<Result<>> DfsMount::resolve_many(const Call& call, std::span<ManyFile> files) {
    std::vector<ManyFile*> pending;
    for (ManyFile& file : files) pending.push_back(&file);
    while (!pending.empty()) {
        // Files in one directory share the entries of the directories above it.
        std::map<std::pair<NodeId, std::string_view>, std::vector<ManyFile*>> wanted;
        for (ManyFile* file : pending) {
            const size_t slash = file->rest.find('/');
            const std::string_view name = file->rest.substr(0, slash);
            file->rest = slash == file->rest.npos ? "" : file->rest.substr(slash + 1);
            // A trailing slash requires a directory.
            const bool bad_end = slash != name.npos && file->rest.empty();
            file->item->status = bad_end ? fail(Code::invalid) : check_name(name);
            if (file->item->status) wanted[{file->at, name}].push_back(file);
        }
        pending.clear();
        std::vector<EntryRecord> records(wanted.size());
        std::map<NodeId, Result<InodeRecord>> directories;  // only if they must be checked
        std::vector<FetchItem> items;
        items.reserve(wanted.size());
        for (const auto& [key, sharers] : wanted) {
            items.push_back(record_item(object_of(key.first), name_dkey(key.second), entry_akey(),
                                        records[items.size()]));
            if (call.caller != nullptr) directories.emplace(key.first, InodeRecord{});
        }
        for (auto& [node, record] : directories) {
            items.push_back(record_item(object_of(node), record_dkey(), inode_akey(), *record));
        }
        static_assert(2 * group_files_max <= object::fetch_items_max);
        if (items.empty()) break;
        ROS2S_CO_TRY(co_await store_.fetch(call, container_, items));
        size_t index = wanted.size();
        for (auto& [node, record] : directories) {
            record = record_of(items[index++], *record);
            if (!record) continue;
            const auto may = co_await check_access(call, node, *record, Wanted::search);
            if (!may) record = fail(may.error());
        }
        index = 0;
        for (const auto& [key, sharers] : wanted) {
            const auto entry = record_of(items[index], records[index]);
            ++index;
            const auto directory = directories.find(key.first);
            for (ManyFile* file : sharers) {
                if (directory != directories.end() && !directory->second) {
                    file->item->status = fail(directory->second.error());
                } else if (!entry) {
                    file->item->status = fail(entry.error());
                } else if (S_ISLNK(entry->type_bits())) {
                    file->item->status = fail(Code::loop);
                } else if (!file->rest.empty()) {
                    file->at = NodeId{entry->node};
                    if (entry->is_directory()) {
                        pending.push_back(file);
                    } else {
                        file->item->status = fail(Code::not_directory);
                    }
                } else if (!S_ISREG(entry->type_bits())) {
                    file->item->status =
                        fail(entry->is_directory() ? Code::is_directory : Code::invalid);
                } else {
                    file->at = NodeId{entry->node};
                }
            }
        }
    }
    co_return Result<>();
}

// If a file is truncated while it is read, it seems to have holes that were never in it. They were
// in it if nothing has changed since the query before. Of a file that changes all the time, only
// the size is compared.
void DfsMount::take_contents(ManyFile& file, const QueryReply& contents) const {
    const uint64_t size = file_size(contents, chunk_bytes_);
    const bool changes_always = file.queries++ > rereads_max;
    file.is_read = file.has_holes && size == file.item->size &&
                   (changes_always || contents.last_epoch == file.changed);
    file.changed = contents.last_epoch;
    file.item->size = size;
    file.item->bytes = std::min(size, file.item->window.length);
}

Task<> DfsMount::query_many(const Call& call, std::span<ManyFile* const> files) {
    std::vector<FetchItem> items;
    for (const ManyFile* file : files) {
        items.push_back({.object = object_of(file->at), .akey = data_akey()});
    }
    std::vector<Link> links(files.size(), Link{.kind = Link::Kind::query});
    const auto fetched = co_await store_.fetch_chain(call, container_, holder_, items, links);
    const bool is_of_one =
        !fetched && (fetched.error().code == Code::corrupt || fetched.error().code == Code::io);
    if (is_of_one && files.size() > 1) {
        for (size_t i = 0; i < files.size(); ++i) co_await query_many(call, files.subspan(i, 1));
        co_return;
    }
    for (size_t i = 0; i < files.size(); ++i) {
        const Result<> found = fetched ? items[i].status : fetched;
        if (found) {
            take_contents(*files[i], links[i].facts);
        } else {
            files[i]->item->status = fail(found.error());
        }
    }
}

Task<Result<>> DfsMount::fetch_many(const Call& call, std::span<ManyFile> files) {
    std::vector<ManyFile*> unread;
    for (ManyFile& file : files) {
        if (file.item->status) unread.push_back(&file);
    }
    for (int attempt = 0; attempt < attempts_max && !unread.empty(); ++attempt) {
        {
            Nursery nursery(reactor_, options_.fan_out);
            for (size_t begin = 0; begin < unread.size(); begin += query_files_max) {
                const size_t count = std::min(query_files_max, unread.size() - begin);
                co_await nursery.spawn(query_many(call, std::span(unread).subspan(begin, count)));
            }
            co_await nursery.join();
        }
        std::erase_if(unread, [](const ManyFile* file) { return file->is_read; });
        ROS2S_CO_TRY(co_await fetch_contents(call, unread));
        std::erase_if(unread,
                      [](const ManyFile* file) { return !file->item->status || !file->has_holes; });
    }
    for (ManyFile* file : unread) file->item->status = fail(Code::busy);
    co_return Result<>();
}

// The record shows whether the file was unlinked before. It is fetched with the contents, unless
// these go to memory of the caller's host: then the caller must be known to have the right first.
Task<Result<>> DfsMount::fetch_contents(const Call& call, std::span<ManyFile* const> files) {
    ManyFetch batch{.is_forwarded = is_forwarded(call)};
    bool is_shared = false;
    for (ManyFile* file : files) {
        file->has_holes = false;
        file->crc = 0;
        if (!file->item->status) continue;
        is_shared = is_shared || file->item->window.shared;
        if (batch.full()) ROS2S_CO_TRY(co_await flush_many(call, batch));
        batch.add(*file,
                  record_item(object_of(file->at), record_dkey(), inode_akey(), file->inode));
    }
    if (is_shared && call.caller != nullptr) ROS2S_CO_TRY(co_await flush_many(call, batch));
    for (ManyFile* file : files) {
        if (!file->item->status) continue;
        for (uint64_t done = 0; done < file->item->bytes;) {
            if (batch.full()) ROS2S_CO_TRY(co_await flush_many(call, batch));
            const uint64_t count = within_chunk(done, file->item->bytes - done);
            batch.add(*file, data_item(file->at, file->item->window.slice(done, count), done));
            batch.items.back().forwarded = batch.is_forwarded;
            done += count;
        }
    }
    co_return co_await flush_many(call, batch);
}

Task<Result<>> DfsMount::flush_many(const Call& call, ManyFetch& batch) {
    if (batch.items.empty()) co_return Result<>();
    ROS2S_CO_TRY(co_await store_.fetch(call, container_, batch.items));
    for (size_t i = 0; i < batch.items.size(); ++i) {
        const FetchItem& item = batch.items[i];
        ManyFile& file = *batch.owners[i];
        const bool is_data = item.akey == data_akey();
        file.has_holes = file.has_holes || (is_data && !is_complete(item));
        if (!file.item->status) continue;
        auto read = is_data ? read_status(item) : item.status;
        if (read && item.forwarded) {
            read = add_checksums({&item, 1}, item.extent.length, file.crc);
        }
        if (!read) {
            file.item->status = fail(read.error());
        } else if (!is_data && call.caller != nullptr) {
            file.item->status = co_await check_access(call, file.at, file.inode, Wanted::read);
        }
    }
    batch.items.clear();
    batch.owners.clear();
    co_return Result<>();
}

Task<Result<>> DfsMount::read_group(const Call& call, NodeId directory,
                                    std::span<ReadManyItem> items) {
    std::vector<ManyFile> files;
    files.reserve(items.size());
    for (ReadManyItem& item : items) {
        item.status = {};
        item.bytes = item.size = 0;
        files.push_back({.item = &item, .at = directory, .rest = item.name});
    }
    ROS2S_CO_TRY(co_await resolve_many(call, files));
    // Pinned, so that an unlink does not remove the contents until they are read.
    for (ManyFile& file : files) {
        if (!file.item->status) continue;
        NodeState& state = co_await pin(file.at);
        file.state = &state;
    }
    const auto fetched = co_await fetch_many(call, files);
    for (ManyFile& file : files) {
        if (file.state != nullptr) (void)co_await unpin(*file.state);
        if (file.item->status) {
            metrics_.reads.add();
            metrics_.read_bytes.add(file.item->bytes);
        } else {
            file.item->bytes = 0;
            file.crc = 0;
        }
        if (is_forwarded(call)) call.checksums->items.push_back(file.crc);
    }
    co_return fetched;
}

Task<Result<>> DfsMount::read_many(const Call& call, NodeId directory,
                                   std::span<ReadManyItem> items) {
    const Span span(call.trace, reactor_, "fs.read_many");
    const auto inode = co_await fetch_inode(call, directory);
    if (!inode) co_return fail(inode.error());
    if (!S_ISDIR(inode->record.mode)) co_return fail(Code::not_directory);
    if (is_forwarded(call)) call.checksums->items.clear();
    for (size_t begin = 0; begin < items.size(); begin += group_files_max) {
        const size_t count = std::min(group_files_max, items.size() - begin);
        ROS2S_CO_TRY(co_await read_group(call, directory, items.subspan(begin, count)));
    }
    co_return Result<>();
}

}  // namespace ros2s::fs
