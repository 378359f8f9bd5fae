// DirectoryWork: random operations on files and names of every kind, in a directory of one client,
// with a model of the directory. Every operation must succeed, and the directory must match the
// model.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/base/random.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::sim {

class DirectoryWork {
  public:
    // Works in the directory `name` of the root, which begin() creates. Another mount of the
    // container, `other`, removes names of open files. `world` has the clock of the storage
    // server, which writes get their times from.
    DirectoryWork(World& world, fs::FileSystem& files, fs::FileSystem& other, std::string name,
                  Random& random)
        : world_(world), files_(files), other_(other), name_(std::move(name)), random_(random) {}

    Task<Result<>> begin();
    // Does one operation. what() names it.
    Task<Result<>> step();
    // After the last step.
    Task<Result<>> finish();
    // Differences from the model: those found by reads, and the current ones according to `files`.
    Task<std::vector<std::string>> compare(fs::FileSystem& files) const;
    [[nodiscard]] const char* what() const { return what_; }

  private:
    using Model = std::map<std::string, std::string>;
    Model::iterator any();
    [[nodiscard]] std::string fresh() const;
    [[nodiscard]] std::string text();

    Task<Result<>> create();
    Task<Result<>> put(const std::string& name, fs::OpenFlags flags, std::string bytes,
                       uint64_t offset);
    Task<Result<>> check_time(std::string name, WallTime before, WallTime called, uint64_t steps);
    Task<Result<>> append();
    Task<Result<>> append_to(Model::iterator at);
    Task<Result<>> write();
    Task<Result<>> truncate();
    Task<Result<>> rename();
    Task<Result<>> exchange();
    Task<Result<>> unlink();
    Task<Result<>> read();
    Task<Result<>> passing();
    Task<Result<>> many();
    void expect(std::span<const std::string_view> names, const std::vector<Result<>>& results,
                std::optional<Code> last);
    Task<Result<>> nameless();
    Task<Result<>> take_name();
    Task<Result<>> end_nameless();
    Task<std::string> compare_file(fs::FileSystem& files, std::string name,
                                   std::string expected) const;

    World& world_;
    fs::FileSystem& files_;
    fs::FileSystem& other_;
    const std::string name_;
    Random& random_;
    fs::NodeId node_{};
    Model model_;
    // A file that loses its name while it is open.
    struct Nameless {
        fs::FileHandle handle;
        std::string name;
        std::string expected;
        int appends = 0;
    };
    std::optional<Nameless> open_;
    uint64_t step_ = 0;
    const char* what_ = "";
    std::vector<std::string> differs_;
};

}  // namespace ros2s::sim
