// Tree: the directories and files of SimulatedFiles, and the effect of a crash on them. It does not
// depend on RocksDB.
//
// Invariant: `synced` <= content.size(); a directory's `entries` are its `durable` ones with
// `pending` applied in order.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ros2s/base/random.h"
#include "ros2s/base/result.h"

namespace ros2s::engine {

struct Inode {
    using Entries = std::map<std::string, std::shared_ptr<Inode>>;
    // The names that one operation sets, or removes if the inode is null: all or none of them.
    using Change = std::vector<std::pair<std::string, std::shared_ptr<Inode>>>;

    bool is_directory = false;
    std::string content;
    size_t synced = 0;  // this much of the content is durable
    Entries entries, durable;
    std::vector<Change> pending;
};
using InodePtr = std::shared_ptr<Inode>;

class Tree {
  public:
    Tree();

    // The calling mount's. Every operation passes it, and fails with io if it is outdated.
    using Generation = uint64_t;
    [[nodiscard]] Generation generation() const;

    // Paths are absolute. Errors: not_found, exists, not_directory, is_directory, not_empty,
    // no_space, io (frozen by a crash, or a sync that was made to fail).
    Result<InodePtr> create(Generation g, std::string_view path);
    Result<InodePtr> find(Generation g, std::string_view path) const;
    Result<> append(Generation g, Inode& file, std::string_view data);
    Result<> truncate(Generation g, Inode& file, size_t size);
    Result<> sync(Generation g, Inode& file_or_directory);
    // Copies at most `length` bytes; returns the number of copied bytes.
    Result<size_t> read(Generation g, const Inode& file, uint64_t offset, size_t length,
                        char* to) const;
    Result<size_t> size(Generation g, const Inode& file) const;
    Result<> make_directory(Generation g, std::string_view path);
    Result<> remove(Generation g, std::string_view path, bool directory);
    Result<> rename(Generation g, std::string_view from, std::string_view to);
    Result<std::vector<std::string>> list(Generation g, std::string_view path) const;
    // Advisory; a crash removes it. Errors: busy.
    Result<> lock(Generation g, const std::string& path);
    Result<> unlock(Generation g, const std::string& path);

    void crash(Random& random);
    void crash_after(uint64_t changes, uint64_t seed);
    bool cancel_crash();
    void fail_syncs(bool fail);
    void set_capacity(uint64_t bytes);
    [[nodiscard]] uint64_t changes() const;
    [[nodiscard]] uint64_t bytes() const;
    [[nodiscard]] uint64_t unsynced() const;

  private:
    struct Entry {
        InodePtr directory;
        std::string name;
    };
    // These require the lock.
    [[nodiscard]] Result<> usable(Generation g) const;
    [[nodiscard]] Result<InodePtr> walk(std::string_view path) const;
    [[nodiscard]] Result<Entry> place(std::string_view path) const;
    static void change(Inode& directory, Inode::Change change);
    // Counts a change that was just made, and crashes if that is planned.
    [[nodiscard]] Result<> changed();
    void crash_locked(Random& random);

    // RocksDB's threads make concurrent calls.
    mutable std::mutex mutex_;
    InodePtr root_;
    Generation generation_ = 0;
    std::set<std::string> locks_;
    uint64_t changes_ = 0;
    uint64_t capacity_ = UINT64_MAX;
    bool fail_syncs_ = false;
    struct PlannedCrash {
        uint64_t at;
        uint64_t seed;
        bool happened = false;
    };
    std::optional<PlannedCrash> planned_;
};

}  // namespace ros2s::engine
