// FilesBelow: the base of a FileSystem that decides about names, and passes the bytes of open files
// to the file system below. Its users have checked the rights when the file was opened.
//
// The file system below outlives it. Used on its core.
#pragma once
#include "ros2s/fs/file_system.h"

namespace ros2s::access {

class FilesBelow : public fs::FileSystem {
  public:
    using Call = ros2s::Call;
    using FileHandle = fs::FileHandle;
    using NodeId = fs::NodeId;
    using Window = fs::Window;
    using AttributesTask = Task<Result<fs::Attributes>>;
    using OpenedTask = Task<Result<fs::Opened>>;
    using LockTask = Task<Result<std::optional<object::Lock>>>;

    Task<Result<bool>> was_done(const Call& call) override { return inner_.was_done(call); }
    Task<Result<fs::FileSystemSpace>> space(const Call& call) override {
        return inner_.space(call);
    }
    Task<Result<uint64_t>> pread(const Call& call, FileHandle handle, Window into,
                                 uint64_t offset) override {
        return inner_.pread(call, handle, into, offset);
    }
    std::optional<fs::LocatedRead> locate(FileHandle handle, uint64_t offset, uint64_t length,
                                          object::FetchItem& item) override {
        return inner_.locate(handle, offset, length, item);
    }
    bool finish_located(FileHandle handle, const object::FetchItem& item) override {
        return inner_.finish_located(handle, item);
    }
    Task<Result<uint64_t>> pwrite(const Call& call, FileHandle handle, Window from,
                                  uint64_t offset) override {
        return inner_.pwrite(call, handle, from, offset);
    }
    [[nodiscard]] bool is_deferred() const override { return inner_.is_deferred(); }
    Task<Result<>> fsync(const Call& call, FileHandle handle) override {
        return inner_.fsync(call, handle);
    }
    Task<Result<>> punch_hole(const Call& call, FileHandle handle, uint64_t offset,
                              uint64_t length) override {
        return inner_.punch_hole(call, handle, offset, length);
    }
    Task<Result<>> allocate(const Call& call, FileHandle handle, uint64_t offset, uint64_t length,
                            bool keeps_size) override {
        return inner_.allocate(call, handle, offset, length, keeps_size);
    }
    Task<Result<uint64_t>> seek(const Call& call, FileHandle handle, uint64_t offset,
                                fs::SeekFor what) override {
        return inner_.seek(call, handle, offset, what);
    }
    LockTask lock(const Call& call, FileHandle handle, const object::Lock& lock,
                  fs::LockHow how) override {
        return inner_.lock(call, handle, lock, how);
    }
    Result<fs::PathReport> path_report(FileHandle handle) const override {
        return inner_.path_report(handle);
    }

  protected:
    explicit FilesBelow(fs::FileSystem& inner) : inner_(inner) {}

    fs::FileSystem& inner_;
};

}  // namespace ros2s::access
