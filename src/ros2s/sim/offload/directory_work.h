// DirectoryWork: random operations on files and names of every kind, in a directory of one client,
// with a model of the directory. Every operation must succeed, and the directory must match the
// model.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "ros2s/base/random.h"
#include "ros2s/fs/file_system.h"

namespace ros2s::sim {

class DirectoryWork {
  public:
    // Whether files are used after they were unlinked. Not if the container is mounted twice,
    // because a mount punches files without names.
    enum class Unlinked : uint8_t { unused, used };
    // Works in the directory `name` of the root, which begin() creates.
    DirectoryWork(fs::FileSystem& files, std::string name, Random& random, Unlinked unlinked)
        : files_(files), name_(std::move(name)), random_(random), unlinked_(unlinked) {}

    Task<Result<>> begin();
    // Does one operation. what() names it.
    Task<Result<>> step();
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
    Task<Result<>> append();
    Task<Result<>> append_to(Model::iterator at);
    Task<Result<>> write();
    Task<Result<>> truncate();
    Task<Result<>> rename();
    Task<Result<>> exchange();
    Task<Result<>> unlink();
    Task<Result<>> read();
    Task<Result<>> passing();
    Task<Result<>> nameless();
    Task<std::string> compare_file(fs::FileSystem& files, std::string name,
                                   std::string expected) const;

    fs::FileSystem& files_;
    const std::string name_;
    Random& random_;
    const Unlinked unlinked_;
    fs::NodeId node_{};
    Model model_;
    uint64_t step_ = 0;
    const char* what_ = "";
    std::vector<std::string> differs_;
};

}  // namespace ros2s::sim
