// BorrowedFileSystem: the file system of programs to which a mount lends files. It has no names and
// no nodes. Its only operations are those on the bytes of the borrowed files; they are made by
// Files, which the mount implements. All others are `denied`.
#pragma once
#include "ros2s/fs/file_system.h"

namespace ros2s::fuse {

class BorrowedFileSystem final : public fs::FileSystem {
    using NodeId = fs::NodeId;
    using FileHandle = fs::FileHandle;
    using Name = std::string_view;
    using AttributesTask = Task<Result<fs::Attributes>>;

  public:
    // Errors of all: stale (it is not borrowed, or not any more), those of the mount's file system.
    class Files {
      public:
        virtual ~Files() = default;
        virtual Task<Result<uint64_t>> read(const Call&, FileHandle file, fs::Window into,
                                            uint64_t offset) = 0;
        virtual Task<Result<uint64_t>> write(const Call&, FileHandle file, fs::Window from,
                                             uint64_t offset) = 0;
        virtual Task<Result<>> sync(const Call&, FileHandle file) = 0;
        virtual Task<> close(FileHandle file) = 0;
    };
    explicit BorrowedFileSystem(Files& files) : files_(files) {}

    Task<> close_all() override { co_return; }
    Task<Result<uint64_t>> pread(const Call& call, FileHandle handle, fs::Window into,
                                 uint64_t offset) override {
        return files_.read(call, handle, into, offset);
    }
    Task<Result<uint64_t>> pwrite(const Call& call, FileHandle handle, fs::Window from,
                                  uint64_t offset) override {
        return files_.write(call, handle, from, offset);
    }
    Task<Result<>> fsync(const Call& call, FileHandle handle) override {
        return files_.sync(call, handle);
    }
    Task<Result<>> close(const Call&, FileHandle handle) override {
        co_await files_.close(handle);
        co_return Result<>{};
    }
    void forget(NodeId, uint64_t) override {}
    Result<fs::PathReport> path_report(FileHandle) const override { return fail(Code::denied); }

    Task<Result<>> punch_hole(const Call&, FileHandle, uint64_t, uint64_t) override {
        return refuse<void>();
    }
    Task<Result<uint64_t>> seek(const Call&, FileHandle, uint64_t, fs::SeekFor) override {
        return refuse<uint64_t>();
    }
    Task<Result<>> read_many(const Call&, NodeId, std::span<fs::ReadManyItem>) override {
        return refuse<void>();
    }
    AttributesTask lookup(const Call&, NodeId, Name) override { return refuse<fs::Attributes>(); }
    AttributesTask mkdir(const Call&, NodeId, Name, mode_t, fs::Owner) override {
        return refuse<fs::Attributes>();
    }
    AttributesTask mknod(const Call&, NodeId, Name, mode_t, dev_t, fs::Owner) override {
        return refuse<fs::Attributes>();
    }
    AttributesTask symlink(const Call&, NodeId, Name, Name, fs::Owner) override {
        return refuse<fs::Attributes>();
    }
    AttributesTask link(const Call&, NodeId, NodeId, Name) override {
        return refuse<fs::Attributes>();
    }
    Task<Result<>> unlink(const Call&, NodeId, Name) override { return refuse<void>(); }
    Task<Result<>> rmdir(const Call&, NodeId, Name) override { return refuse<void>(); }
    Task<Result<>> rename(const Call&, NodeId, Name, NodeId, Name, RenameFlags) override {
        return refuse<void>();
    }
    Task<Result<std::string>> readlink(const Call&, NodeId) override {
        return refuse<std::string>();
    }
    AttributesTask get_attributes(const Call&, NodeId) override { return refuse<fs::Attributes>(); }
    AttributesTask set_attributes(const Call&, NodeId, const fs::SetAttributes&) override {
        return refuse<fs::Attributes>();
    }
    Task<Result<std::string>> get_xattr(const Call&, NodeId, Name) override {
        return refuse<std::string>();
    }
    Task<Result<>> set_xattr(const Call&, NodeId, Name, ConstBytes, fs::SetXattr) override {
        return refuse<void>();
    }
    Task<Result<>> remove_xattr(const Call&, NodeId, Name) override { return refuse<void>(); }
    Task<Result<std::vector<std::string>>> list_xattrs(const Call&, NodeId) override {
        return refuse<std::vector<std::string>>();
    }
    Task<Result<fs::Opened>> open(const Call&, NodeId, fs::OpenFlags) override {
        return refuse<fs::Opened>();
    }
    Task<Result<fs::Opened>> create(const Call&, NodeId, Name, mode_t, fs::OpenFlags,
                                    fs::Owner) override {
        return refuse<fs::Opened>();
    }
    Task<Result<std::vector<fs::DirectoryEntry>>> readdir(const Call&, FileHandle, uint64_t,
                                                          size_t) override {
        return refuse<std::vector<fs::DirectoryEntry>>();
    }
    Task<Result<fs::FileSystemSpace>> space(const Call&) override {
        return refuse<fs::FileSystemSpace>();
    }

  private:
    template <class T>
    static Task<Result<T>> refuse() {
        co_return fail(Code::denied);
    }
    Files& files_;
};

}  // namespace ros2s::fuse
