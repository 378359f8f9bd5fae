// Walk: resolves a path of the C ABI to a node, by FileSystem::walk. It is in the frame of one
// call, on the core. Its destructor gives back the references that the call took.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ros2s/fs/file_system.h"
#include "ros2s/fs/path_walk.h"

namespace ros2s::api::c {

// A name in a directory, whether it exists or not.
struct NodeAndName {
    fs::NodeId parent{};
    std::string name;
};

// `path` below `base`, unless it starts with '/'.
[[nodiscard]] std::string join(std::string_view base, std::string_view path);

class Walk {
  public:
    Walk(fs::FileSystem& file_system, const Call& call) : fs_(file_system), call_(call) {}
    Walk& operator=(Walk&&) = delete;
    ~Walk();

    using Last = fs::LastLink;

    // The node at base/path, or at path if it starts with '/'. Errors: those of walk(); not_found
    // also if only the last name is missing.
    Task<Result<fs::Attributes>> to(std::string_view base, std::string_view path, Last last);
    // The place of the path's last name, which is not looked up. Errors also: invalid (the path has
    // no last name: "/", ".", "..").
    Task<Result<NodeAndName>> to_name(std::string_view base, std::string_view path);

    // The reference to the node stays with the caller, which must forget it.
    void keep();
    // Takes over a reference that an operation returned, to give it back with the others.
    void add(fs::NodeId node) { added_.push_back(node); }

  private:
    fs::FileSystem& fs_;
    const Call& call_;
    std::optional<fs::Walked> walked_;
    std::vector<fs::NodeId> added_;
};

}  // namespace ros2s::api::c
