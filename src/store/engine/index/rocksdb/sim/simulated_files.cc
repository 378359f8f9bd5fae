// The RocksDB side of SimulatedFiles: its file system interface over a Tree.
#include "simulated_files.h"

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/system_clock.h>

#include "tree.h"

namespace ros2s::engine {
namespace {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

// With the message of RocksDB's own file system for the same errno.
IOStatus status_of(const Error& error, const std::string& path) {
    const std::string what = describe(error);
    switch (error.code) {
        case Code::not_found: return IOStatus::PathNotFound(path, what);
        case Code::no_space: return IOStatus::NoSpace(path, what);
        case Code::busy: return IOStatus::IOError("While lock file: " + path, what);
        default: return IOStatus::IOError(path, what);
    }
}
template <class T>
IOStatus status_of(const Result<T>& result, const std::string& path) {
    return result ? IOStatus::OK() : status_of(result.error(), path);
}

// The common state of an open file.
struct Handle {
    std::shared_ptr<Tree> tree;
    Tree::Generation generation;
    InodePtr inode;
    std::string path;

    IOStatus read(uint64_t offset, size_t n, Slice* result, char* scratch) const {
        const auto copied = tree->read(generation, *inode, offset, n, scratch);
        if (copied) *result = Slice(scratch, *copied);
        return status_of(copied, path);
    }
};

class SequentialFile final : public rocksdb::FSSequentialFile {
  public:
    explicit SequentialFile(Handle handle) : handle_(std::move(handle)) {}
    IOStatus Read(size_t n, const IOOptions&, Slice* result, char* scratch,
                  IODebugContext*) override {
        auto status = handle_.read(at_, n, result, scratch);
        if (status.ok()) at_ += result->size();
        return status;
    }
    IOStatus Skip(uint64_t n) override {
        at_ += n;
        return IOStatus::OK();
    }

  private:
    Handle handle_;
    uint64_t at_ = 0;
};

class RandomAccessFile final : public rocksdb::FSRandomAccessFile {
  public:
    explicit RandomAccessFile(Handle handle) : handle_(std::move(handle)) {}
    IOStatus Read(uint64_t offset, size_t n, const IOOptions&, Slice* result, char* scratch,
                  IODebugContext*) const override {
        return handle_.read(offset, n, result, scratch);
    }

  private:
    Handle handle_;
};

class WritableFile final : public rocksdb::FSWritableFile {
  public:
    explicit WritableFile(Handle handle) : handle_(std::move(handle)) {}
    using FSWritableFile::Append;
    IOStatus Append(const Slice& data, const IOOptions&, IODebugContext*) override {
        return status_of(
            handle_.tree->append(handle_.generation, *handle_.inode, {data.data(), data.size()}),
            handle_.path);
    }
    IOStatus Truncate(uint64_t size, const IOOptions&, IODebugContext*) override {
        return status_of(handle_.tree->truncate(handle_.generation, *handle_.inode, size),
                         handle_.path);
    }
    IOStatus Sync(const IOOptions&, IODebugContext*) override {
        return status_of(handle_.tree->sync(handle_.generation, *handle_.inode), handle_.path);
    }
    IOStatus Flush(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
    IOStatus Close(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
    uint64_t GetFileSize(const IOOptions&, IODebugContext*) override {
        return handle_.tree->size(handle_.generation, *handle_.inode).value_or(0);
    }

  private:
    Handle handle_;
};

class Directory final : public rocksdb::FSDirectory {
  public:
    explicit Directory(Handle handle) : handle_(std::move(handle)) {}
    IOStatus Fsync(const IOOptions&, IODebugContext*) override {
        return status_of(handle_.tree->sync(handle_.generation, *handle_.inode), handle_.path);
    }
    IOStatus Close(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }

  private:
    Handle handle_;
};

class Lock final : public rocksdb::FileLock {
  public:
    explicit Lock(std::string path) : path_(std::move(path)) {}
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

class FileSystem final : public rocksdb::FileSystem {
  public:
    explicit FileSystem(std::shared_ptr<Tree> tree)
        : tree_(std::move(tree)), generation_(tree_->generation()) {}
    const char* Name() const override { return "ros2store simulated files"; }

    IOStatus NewSequentialFile(const std::string& path, const FileOptions&,
                               std::unique_ptr<rocksdb::FSSequentialFile>* result,
                               IODebugContext*) override {
        return open<SequentialFile>(path, tree_->find(generation_, path), result);
    }
    IOStatus NewRandomAccessFile(const std::string& path, const FileOptions&,
                                 std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
                                 IODebugContext*) override {
        return open<RandomAccessFile>(path, tree_->find(generation_, path), result);
    }
    IOStatus NewWritableFile(const std::string& path, const FileOptions&,
                             std::unique_ptr<rocksdb::FSWritableFile>* result,
                             IODebugContext*) override {
        return open<WritableFile>(path, tree_->create(generation_, path), result);
    }
    IOStatus NewDirectory(const std::string& path, const IOOptions&,
                          std::unique_ptr<rocksdb::FSDirectory>* result, IODebugContext*) override {
        return open<Directory>(path, tree_->find(generation_, path), result);
    }

    IOStatus FileExists(const std::string& path, const IOOptions&, IODebugContext*) override {
        const auto found = tree_->find(generation_, path);
        if (!found && found.error().code == Code::not_found) return IOStatus::NotFound(path);
        return status_of(found, path);
    }
    IOStatus GetChildren(const std::string& path, const IOOptions&,
                         std::vector<std::string>* result, IODebugContext*) override {
        auto names = tree_->list(generation_, path);
        if (names) *result = std::move(*names);
        return status_of(names, path);
    }
    IOStatus DeleteFile(const std::string& path, const IOOptions&, IODebugContext*) override {
        return status_of(tree_->remove(generation_, path, false), path);
    }
    IOStatus CreateDir(const std::string& path, const IOOptions&, IODebugContext*) override {
        return status_of(tree_->make_directory(generation_, path), path);
    }
    IOStatus CreateDirIfMissing(const std::string& path, const IOOptions&,
                                IODebugContext*) override {
        if (const auto found = tree_->find(generation_, path); found && (*found)->is_directory)
            return IOStatus::OK();
        return status_of(tree_->make_directory(generation_, path), path);
    }
    IOStatus DeleteDir(const std::string& path, const IOOptions&, IODebugContext*) override {
        return status_of(tree_->remove(generation_, path, true), path);
    }
    IOStatus GetFileSize(const std::string& path, const IOOptions&, uint64_t* size,
                         IODebugContext*) override {
        const auto found = tree_->find(generation_, path);
        if (!found) return status_of(found, path);
        const auto bytes = tree_->size(generation_, **found);
        *size = bytes.value_or(0);
        return status_of(bytes, path);
    }
    IOStatus GetFileModificationTime(const std::string& path, const IOOptions&, uint64_t* time,
                                     IODebugContext*) override {
        *time = 0;
        return status_of(tree_->find(generation_, path), path);
    }
    IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions&,
                        IODebugContext*) override {
        return status_of(tree_->rename(generation_, from, to), from);
    }
    IOStatus IsDirectory(const std::string& path, const IOOptions&, bool* is_directory,
                         IODebugContext*) override {
        const auto found = tree_->find(generation_, path);
        *is_directory = found && (*found)->is_directory;
        return status_of(found, path);
    }
    IOStatus LockFile(const std::string& path, const IOOptions&, rocksdb::FileLock** lock,
                      IODebugContext*) override {
        const auto locked = tree_->lock(generation_, path);
        *lock = locked ? new Lock(path) : nullptr;
        return status_of(locked, path);
    }
    IOStatus UnlockFile(rocksdb::FileLock* lock, const IOOptions&, IODebugContext*) override {
        const std::unique_ptr<Lock> held(static_cast<Lock*>(lock));
        return status_of(tree_->unlock(generation_, held->path()), held->path());
    }
    IOStatus GetTestDirectory(const IOOptions&, std::string* path, IODebugContext*) override {
        *path = "/";
        return IOStatus::OK();
    }
    IOStatus GetAbsolutePath(const std::string& path, const IOOptions&, std::string* absolute,
                             IODebugContext*) override {
        *absolute = path;
        return IOStatus::OK();
    }

  private:
    template <class File, class Base>
    IOStatus open(const std::string& path, const Result<InodePtr>& inode,
                  std::unique_ptr<Base>* result) {
        if (inode) *result = std::make_unique<File>(Handle{tree_, generation_, *inode, path});
        return status_of(inode, path);
    }

    const std::shared_ptr<Tree> tree_;
    const Tree::Generation generation_;
};

// After a failed flush RocksDB waits a second before it continues; a simulated crash fails many.
class SleeplessClock final : public rocksdb::SystemClockWrapper {
  public:
    SleeplessClock() : SystemClockWrapper(rocksdb::SystemClock::Default()) {}
    const char* Name() const override { return "ros2store sleepless clock"; }
    void SleepForMicroseconds(int) override {}
};

class SimulatedEnv final : public rocksdb::EnvWrapper {
  public:
    explicit SimulatedEnv(const std::shared_ptr<rocksdb::FileSystem>& files)
        : EnvWrapper(rocksdb::NewCompositeEnv(files)) {
        file_system_ = files;
        system_clock_ = std::make_shared<SleeplessClock>();
    }
};

}  // namespace

SimulatedFiles::SimulatedFiles() : tree_(std::make_shared<Tree>()) {}
SimulatedFiles::~SimulatedFiles() = default;

std::shared_ptr<rocksdb::Env> SimulatedFiles::mount() {
    return std::make_shared<SimulatedEnv>(std::make_shared<FileSystem>(tree_));
}

void SimulatedFiles::crash(Random& random) { tree_->crash(random); }
void SimulatedFiles::crash_after(uint64_t changes, uint64_t seed) {
    tree_->crash_after(changes, seed);
}
bool SimulatedFiles::cancel_crash() { return tree_->cancel_crash(); }
void SimulatedFiles::fail_syncs(bool fail) { tree_->fail_syncs(fail); }
void SimulatedFiles::set_capacity(uint64_t bytes) { tree_->set_capacity(bytes); }
uint64_t SimulatedFiles::changes() const { return tree_->changes(); }
uint64_t SimulatedFiles::bytes() const { return tree_->bytes(); }
uint64_t SimulatedFiles::unsynced() const { return tree_->unsynced(); }

}  // namespace ros2s::engine
