// Walk: from a path of the C ABI to a node, by fs::walk. Lives in the frame of one call, on the
// core; when it dies it gives back the references that the call took.
#pragma once
#include <sys/stat.h>

#include <string>
#include <string_view>
#include <vector>

#include "ros2s/fs/file_system.h"
#include "ros2s/fs/path_walk.h"

namespace ros2s::api::c {

// A name in a directory, whether something is there or not.
struct Place {
    fs::NodeId parent{};
    std::string name;
};

class Walk {
  public:
    Walk(fs::FileSystem& file_system, const Call& call) : fs_(file_system), call_(call) {}
    Walk(const Walk&) = delete;
    Walk& operator=(const Walk&) = delete;
    ~Walk();

    using Last = fs::LastLink;

    // The node at base/path, or at path where it starts with '/'. Errors: those of fs::walk;
    // not_found also where only the last name is missing: then missing() has its place.
    Task<Result<fs::Attributes>> to(std::string_view base, std::string_view path, Last last);
    // Where the last name of the path is or could be; it is not looked up. Errors also: invalid
    // (the path has no last name: "/", ".", "..").
    Task<Result<Place>> to_place(std::string_view base, std::string_view path);
    [[nodiscard]] const Place& missing() const { return missing_; }

    // The reference to the node found stays with the caller, who forgets it.
    void keep();
    // A reference that an operation returned is given back with the others.
    void add(fs::NodeId node) { added_.push_back(node); }

  private:
    fs::FileSystem& fs_;
    const Call& call_;
    std::optional<fs::Walked> walked_;
    std::vector<fs::NodeId> added_;
    Place missing_;
};

}  // namespace ros2s::api::c
