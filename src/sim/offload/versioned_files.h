// VersionedFiles: files whose size is the number of their last change. Clients change them and look
// at them, also often, so that their hosts answer from leases. Each look must see a size that was
// true between its begin and its end:
// - its change began before the look ended;
// - it had not been overtaken when the look began: by a change that began after it ended, nor by
//   one that was seen by an earlier look.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "ros2s/base/random.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::sim {

class VersionedFiles {
  public:
    explicit VersionedFiles(Reactor& reactor) : reactor_(reactor) {}
    // Makes the files, before any client works.
    Task<Result<>> prepare(fs::FileSystem& files);
    static constexpr size_t count = 8;
    // A change, or some looks. Errors: those of the file system.
    Task<Result<>> step(fs::FileSystem& files, size_t index, Random& random);
    Task<Result<>> look_often(fs::FileSystem& files, size_t index, Random& random);
    [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }
    [[nodiscard]] uint64_t looks() const { return looks_; }

  private:
    struct Change {
        Time begun{}, ended = Time::max();
    };
    struct Look {
        Time ended{};
        size_t version = 0;
    };
    struct File {
        std::vector<Change> changes;  // by version
        std::vector<Look> looks;
    };
    Task<Result<>> change(fs::FileSystem& files, size_t index);
    Task<Result<>> look(fs::FileSystem& files, size_t index);
    void judge(size_t index, size_t version, Time begun);
    // The change had surely been replaced by the other one.
    static bool is_older(const Change& change, const Change& other) {
        return change.ended < other.begun;
    }

    Reactor& reactor_;
    std::array<File, count> files_;
    uint64_t looks_ = 0;
    std::vector<std::string> problems_;
};

}  // namespace ros2s::sim
