// TreeWork: what one application does to a file system through clients that die, and what it must
// find there. It has names of its own in directories that others use as well. A model has what is
// acknowledged. The operation in flight at a death may be done or not, but never in part; if it has
// a name, the application repeats it through another client.
//
// SharedFiles: a log to which all append, and blocks that all write and read (BlockHistory).
#pragma once
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ros2s/base/random.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/sim/block_history.h"

namespace ros2s::sim {

inline constexpr uint64_t trial_chunk_bytes = 65536;  // of the files

struct SharedFiles {
    static constexpr size_t block_bytes = 4096, blocks_max = 6;
    std::array<fs::NodeId, 2> directories{};
    fs::NodeId log{}, blocks{};
    BlockHistory history{blocks_max};
    std::map<std::string, bool> records;  // of the log: whether it was acknowledged
    std::vector<std::string> problems;

    Task<Result<>> prepare(fs::FileSystem& files);
    // The log has each record once, at most once if it was not acknowledged, and nothing else.
    Task<> judge(fs::FileSystem& files);
};

class TreeWork {
  public:
    // `is_named`: its operations may be repeated. `name` begins its names.
    TreeWork(uint64_t seed, std::string name, bool is_named, Reactor& reactor, SharedFiles& shared);

    // Operations through the client's file system, until one fails or `stop` is true.
    Task<Result<>> work(fs::FileSystem& files, const bool& stop);
    // Repeats the operation that failed, if it has a name. Returns whether it did.
    Task<Result<bool>> repeat(fs::FileSystem& files);
    // A refused operation is not repeated.
    void give_up() { may_repeat_ = false; }
    // Looks at all its names. If they are neither as before nor as after the operation that failed,
    // or, with `is_over`, not as they were seen last, that is a problem.
    Task<> look(fs::FileSystem& files, bool is_over);
    // Removes all.
    Task<Result<>> remove_all(fs::FileSystem& files);
    [[nodiscard]] uint64_t operations() const { return operations_; }
    [[nodiscard]] uint64_t repeated() const { return repeated_; }

  private:
    struct Name {
        size_t directory = 0;
        std::string text;
        friend auto operator<=>(const Name&, const Name&) = default;
    };
    struct File {
        bool is_directory = false;
        std::string bytes;
        friend bool operator==(const File&, const File&) = default;
    };
    struct Model {
        std::map<Name, uint64_t> names;
        std::map<uint64_t, File> files;  // by number
    };
    struct Operation {
        enum class Kind : uint8_t {
            create,
            mkdir,
            append,
            write,
            truncate,
            rename,
            exchange,
            link,
            unlink,
            read,
            append_record,
            write_block,
            read_block,
        };
        Kind kind{};
        Name from{}, to{};
        uint64_t offset = 0;  // or the size, or the block
        uint64_t stamp = 0;   // of a block
        std::string bytes{};
        bool is_directory = false;
        bool is_open = false;  // unlink: the file is open, and used afterwards
    };
    struct Fact {
        File file;
        uint32_t links = 0;
        Name same;  // the first name of its node
        friend bool operator==(const Fact&, const Fact&) = default;
    };
    using Facts = std::map<Name, Fact>;

    [[nodiscard]] Operation draw();
    [[nodiscard]] Name any(bool is_directory);
    [[nodiscard]] Name fresh();
    [[nodiscard]] static std::string describe_operation(const Operation& operation);
    static void apply(Model& model, const Operation& operation, uint64_t number);
    [[nodiscard]] static Facts facts_of(const Model& model);
    // "name (4096 bytes, 1 link)": what one of the two has, and the other does not.
    [[nodiscard]] static std::string difference(const Facts& one, const Facts& other);
    Task<Result<Facts>> find(fs::FileSystem& files);
    Task<Result<>> execute(fs::FileSystem& files, const Operation& operation, const Call& call);
    Task<Result<>> write_to(fs::FileSystem& files, fs::NodeId node, const Operation& operation,
                            const Call& call);
    Task<Result<>> unlink_open(fs::FileSystem& files, const Operation& operation, const Call& call);
    Task<Result<std::string>> read_node(fs::FileSystem& files, fs::NodeId node);
    Task<Result<>> read_block(fs::FileSystem& files, size_t block);
    void done(const Operation& operation);
    [[nodiscard]] fs::NodeId directory(const Name& name) const {
        return shared_.directories.at(name.directory);
    }

    Random random_;
    const std::string name_;
    const bool is_named_;
    Reactor& reactor_;
    SharedFiles& shared_;
    Model model_;
    std::optional<Operation> tried_;  // and failed
    bool may_repeat_ = false;
    bool is_seen_ = false;  // that it was done, so that the model has it
    UpdateName update_;
    uint64_t next_ = 0;  // of names, files and records
    uint64_t operations_ = 0, repeated_ = 0;
};

}  // namespace ros2s::sim
