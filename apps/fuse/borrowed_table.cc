#include "borrowed_table.h"

#include "kernel_view.h"
#include "server.h"

namespace ros2s::fuse {
namespace {

// The program's names of updates are not the store's: it never sends one again.
Call call_below(const Call& call) {
    return {.deadline = call.deadline,
            .stop = call.stop,
            .trace = call.trace,
            .checksums = call.checksums};
}

}  // namespace

BorrowedTable::BorrowedTable(Server& server, KernelView& kernel)
    : server_(server), kernel_(kernel), idle_(server.reactor()) {}

fs::FileHandle BorrowedTable::add(fs::NodeId node, fs::FileHandle handle, bool keeps_set_ids) {
    const fs::FileHandle number{++last_};
    files_[number] = {.node = node, .handle = handle, .keeps_set_ids = keeps_set_ids};
    of_descriptors_[handle].insert(number);
    kernel_.borrowed(node);
    return number;
}

Task<> BorrowedTable::end(fs::FileHandle handle) {
    const auto found = of_descriptors_.extract(handle);
    if (found.empty()) co_return;
    for (const fs::FileHandle number : found.mapped()) {
        const auto file = files_.find(number);
        if (file != files_.end()) file->second.has_ended = true;
    }
    for (const fs::FileHandle number : found.mapped()) co_await until_unused(number);
}

Task<> BorrowedTable::close(fs::FileHandle number) {
    const auto file = files_.find(number);
    if (file == files_.end()) co_return;
    file->second.has_ended = true;
    const auto all = of_descriptors_.find(file->second.handle);
    if (all != of_descriptors_.end()) {
        all->second.erase(number);
        if (all->second.empty()) of_descriptors_.erase(all);
    }
    co_await until_unused(number);
    kernel_.returned(file->second.node);
    files_.erase(number);
}

Result<BorrowedTable::Use> BorrowedTable::use(fs::FileHandle number, uint64_t offset,
                                              uint64_t bytes) {
    const auto found = files_.find(number);
    if (found == files_.end() || found->second.has_ended) return fail(Code::stale);
    if (bytes > INT64_MAX || offset > INT64_MAX - bytes) return fail(Code::invalid);
    return Use(*this, found->second);
}

Task<> BorrowedTable::until_unused(fs::FileHandle number) {
    for (auto file = files_.find(number); file != files_.end() && file->second.users > 0;
         file = files_.find(number)) {
        co_await idle_;
    }
}

Task<Result<uint64_t>> BorrowedTable::read(const Call& call, fs::FileHandle number, fs::Window into,
                                           uint64_t offset) {
    ROS2S_CO_TRY_ASSIGN(const Use file, use(number, offset, into.length));
    co_await kernel_.before(file->node);
    const auto got =
        co_await server_.file_system().pread(call_below(call), file->handle, into, offset);
    if (!got) server_.note_failure(file->node, got.error());
    co_return got;
}

Task<Result<uint64_t>> BorrowedTable::write_there(const Call& call, const File& file,
                                                  fs::Window from, uint64_t offset) {
    fs::FileSystem& files = server_.file_system();
    if (server_.caches()) {
        if (server_.is_append_only(file.handle)) co_return fs::fail_permission();
        if (!file.keeps_set_ids && server_.has_set_ids(file.node)) {
            ROS2S_CO_TRY(co_await files.set_attributes(call, file.node, {.clears_set_ids = true}));
        }
        co_return co_await files.pwrite(call, file.handle, from, offset);
    }
    const auto running = co_await server_.cached_pages().begin(file.node, CachedPages::Kind::direct,
                                                               {offset, from.length});
    ROS2S_CO_TRY_ASSIGN(
        const fs::FileHandle handle,
        co_await server_.write_handles().find(
            file.node, file.handle, {.appends = false, .keeps_set_ids = file.keeps_set_ids}));
    co_return co_await files.pwrite(call, handle, from, offset);
}

Task<Result<uint64_t>> BorrowedTable::write(const Call& call, fs::FileHandle number,
                                            fs::Window from, uint64_t offset) {
    ROS2S_CO_TRY_ASSIGN(const Use file, use(number, offset, from.length));
    if (from.length == 0) co_return 0;
    co_await kernel_.before(file->node);
    const auto written = co_await write_there(call_below(call), *file, from, offset);
    if (!written) {
        server_.note_failure(file->node, written.error());
        co_return written;
    }
    if (*written > 0) {
        co_await kernel_.after_write(file->node, offset + *written, from.bytes()[*written - 1]);
    }
    if (!file->keeps_set_ids) server_.set_ids_may_be_gone(file->node);
    if (server_.file_system().is_deferred()) {
        ROS2S_CO_TRY(co_await server_.file_system().fsync(call_below(call), file->handle));
    }
    co_return written;
}

Task<Result<>> BorrowedTable::sync(const Call& call, fs::FileHandle number) {
    ROS2S_CO_TRY_ASSIGN(const Use file, use(number));
    co_return co_await server_.file_system().fsync(call_below(call), file->handle);
}

}  // namespace ros2s::fuse
