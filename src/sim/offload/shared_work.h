// SharedWork: work in which the clients of a trial interfere with each other, and the check of its
// result:
// - appends to one log: each record whole, once, those of a client in its order, and visible to
//   every read that begins after its acknowledgement;
// - exclusive creation of the same names, and renames of the same files: one client wins each;
// - blocks of one file that all write and read (BlockHistory).
// Only the blocks are idempotent, so an operation that is done twice or not at all is detected.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ros2s/base/random.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/sim/block_history.h"

namespace ros2s::sim {

class SharedWork {
  public:
    SharedWork(Reactor& reactor, size_t clients);

    // Makes the files, before any client works.
    Task<Result<>> prepare(fs::FileSystem& files);
    // One operation of a client, which has one at a time and keeps a file open. Errors: those of
    // the file system, if it should have succeeded.
    Task<Result<>> step(size_t client, fs::FileSystem& files, Random& random);
    // At the end, through any file system.
    Task<> judge(fs::FileSystem& files);
    [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }

    struct Totals {
        uint64_t appends = 0, creations = 0, renames = 0, reads = 0, writes = 0;
        Totals& operator+=(const Totals& other);
    };
    [[nodiscard]] const Totals& totals() const { return totals_; }

  private:
    struct Client {
        uint64_t appended = 0;
        uint64_t name = 0;   // the next one to create
        uint64_t token = 0;  // the next one to rename
        std::optional<fs::FileHandle> blocks;
    };
    // The clients that won each name, in the order of the replies.
    using Winners = std::vector<std::vector<size_t>>;

    Task<Result<>> append(size_t client, fs::FileSystem& files);
    Task<Result<>> read_log(size_t client, fs::FileSystem& files);
    Task<Result<>> create(size_t client, fs::FileSystem& files);
    Task<Result<>> rename(size_t client, fs::FileSystem& files);
    Task<Result<>> write(size_t client, fs::FileSystem& files, Random& random);
    Task<Result<>> read(size_t client, fs::FileSystem& files, Random& random);
    Task<Result<fs::FileHandle>> blocks_of(size_t client, fs::FileSystem& files, Random& random);
    Task<Result<fs::FileHandle>> open(fs::FileSystem& files, std::string name, fs::OpenFlags flags);
    Task<Result<std::string>> read_all(fs::FileSystem& files, std::string name);
    void judge_log(const std::string& text);
    void judge_winners(std::string_view what, const Winners& winners, uint64_t tried);
    Task<> judge_names(fs::FileSystem& files);
    void look(std::string_view found, uint64_t first, Time begin);

    Reactor& reactor_;
    std::vector<Client> clients_;
    Winners created_, renamed_;
    BlockHistory blocks_;
    Totals totals_;
    std::vector<std::string> problems_;
};

}  // namespace ros2s::sim
