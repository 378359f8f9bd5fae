#include "rename_order.h"

namespace ros2s::engine {
namespace {

class RenameOrder final : public rocksdb::FileSystemWrapper {
  public:
    explicit RenameOrder(const std::shared_ptr<rocksdb::FileSystem>& base)
        : FileSystemWrapper(base) {}
    const char* Name() const override { return "ros2store rename order"; }
    rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                                 const rocksdb::IOOptions& options,
                                 rocksdb::IODebugContext* debug) override {
        std::unique_ptr<rocksdb::FSDirectory> directory;
        auto status =
            target()->NewDirectory(to.substr(0, to.find_last_of('/')), options, &directory, debug);
        if (status.ok()) status = directory->Fsync(options, debug);
        if (status.ok()) status = target()->RenameFile(from, to, options, debug);
        return status;
    }
};

// RocksDB gets files, clock and threads from an Env in different ways. All except the files are
// base's.
class RenameOrderEnv final : public rocksdb::EnvWrapper {
  public:
    explicit RenameOrderEnv(const std::shared_ptr<rocksdb::Env>& base) : EnvWrapper(base) {
        use(*base);
    }
    explicit RenameOrderEnv(rocksdb::Env* base) : EnvWrapper(base) { use(*base); }
    rocksdb::Status RenameFile(const std::string& from, const std::string& to) override {
        return file_system_->RenameFile(from, to, {}, nullptr);
    }

  private:
    void use(const rocksdb::Env& base) {
        file_system_ = std::make_shared<RenameOrder>(base.GetFileSystem());
        system_clock_ = base.GetSystemClock();
    }
};

}  // namespace

std::shared_ptr<rocksdb::Env> env_with_rename_order(std::shared_ptr<rocksdb::Env> base) {
    // RocksDB's default Env has no owner and exists as long as the process.
    if (!base) return std::make_shared<RenameOrderEnv>(rocksdb::Env::Default());
    return std::make_shared<RenameOrderEnv>(base);
}

rocksdb::Status sync_directory(rocksdb::FileSystem& files, const std::string& directory) {
    std::unique_ptr<rocksdb::FSDirectory> opened;
    rocksdb::Status status = files.NewDirectory(directory, {}, &opened, nullptr);
    if (status.ok()) status = opened->Fsync({}, nullptr);
    return status;
}

}  // namespace ros2s::engine
