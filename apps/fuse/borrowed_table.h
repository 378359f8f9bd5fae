// BorrowedTable: the files that programs have borrowed, by the numbers of the programs' handles,
// and what is done with their bytes: as by the kernel's requests, but without the kernel.
//
// Used on the server's core.
#pragma once
#include <map>
#include <set>
#include <utility>

#include "borrowed_file_system.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::fuse {

class KernelView;
class Server;

class BorrowedTable final : public BorrowedFileSystem::Files {
  public:
    BorrowedTable(Server& server, KernelView& kernel);

    // `handle`: the descriptor's. Returns the program's handle. `keeps_set_ids`: it is root's.
    fs::FileHandle add(fs::NodeId node, fs::FileHandle handle, bool keeps_set_ids);
    // The descriptor is being closed: nothing more begins. Returns when nothing uses its handle.
    Task<> end(fs::FileHandle handle);
    [[nodiscard]] bool has(fs::FileHandle handle) const { return of_descriptors_.contains(handle); }

    Task<Result<uint64_t>> read(const Call& call, fs::FileHandle number, fs::Window into,
                                uint64_t offset) override;
    Task<Result<uint64_t>> write(const Call& call, fs::FileHandle number, fs::Window from,
                                 uint64_t offset) override;
    Task<Result<>> sync(const Call& call, fs::FileHandle number) override;
    Task<> close(fs::FileHandle number) override;

  private:
    struct File {
        fs::NodeId node{};
        fs::FileHandle handle{};  // of the descriptor
        bool keeps_set_ids = false;
        bool has_ended = false;  // with the descriptor
        uint32_t users = 0;      // operations
    };
    // An operation on a file.
    class Use {
      public:
        Use(BorrowedTable& table, File& file) : table_(&table), file_(&file) { ++file.users; }
        Use(Use&& other) noexcept
            : table_(std::exchange(other.table_, nullptr)), file_(other.file_) {}
        Use(const Use&) = delete;
        Use& operator=(const Use&) = delete;
        Use& operator=(Use&&) = delete;
        ~Use() {
            if (table_ != nullptr && --file_->users == 0) table_->idle_.wake_all();
        }
        const File* operator->() const { return file_; }
        const File& operator*() const { return *file_; }

      private:
        BorrowedTable* table_;
        File* file_;
    };
    // Errors: stale; invalid (no file is so long).
    Result<Use> use(fs::FileHandle number, uint64_t offset = 0, uint64_t bytes = 0);
    Task<> until_unused(fs::FileHandle number);
    Task<Result<uint64_t>> write_there(const Call& call, const File& file, fs::Window from,
                                       uint64_t offset);

    Server& server_;
    KernelView& kernel_;
    uint64_t last_ = 0;
    std::map<fs::FileHandle, File> files_;
    std::map<fs::FileHandle, std::set<fs::FileHandle>> of_descriptors_;
    Event idle_;
};

}  // namespace ros2s::fuse
