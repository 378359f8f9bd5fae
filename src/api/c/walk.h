// Walk: from a path to a node. Used within one call, on the core; the references that its lookups
// took are dropped when it dies, except the one that is kept.
#pragma once
#include <sys/stat.h>

#include <string>
#include <string_view>
#include <vector>

#include "ros2s/fs/file_system.h"

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

    enum class Last : uint8_t { follow, keep };  // what to do with a symbolic link at the end

    // The node at base/path, or at path where it starts with '/'. Errors: not_found,
    // not_directory, loop (over 40 symbolic links), name_too_long. When only the last name is
    // missing, missing() has its place.
    Task<Result<fs::Attributes>> to(std::string_view base, std::string_view path, Last last);
    // Where the last name of the path is or could be. Errors also: invalid (the path has no last
    // name: "/", ".", ".."; a trailing '/' is dropped).
    Task<Result<Place>> to_place(std::string_view base, std::string_view path);
    [[nodiscard]] const Place& missing() const { return missing_; }

    // The reference to the node stays with the caller, who forgets it.
    void keep(fs::NodeId node);
    // A reference that an operation returned is dropped with the others.
    void add(fs::NodeId node) { looked_up_.push_back(node); }

  private:
    Task<Result<>> enter(std::string_view base, std::string_view path);
    Task<Result<fs::Attributes>> run(Last last);
    Task<Result<>> step(std::string name, bool is_last, Last last);
    void push_front(std::string_view path);

    static constexpr int links_max = 40;
    static constexpr size_t path_bytes_max = 64 * 1024;

    fs::FileSystem& fs_;
    const Call& call_;
    std::vector<std::string> rest_;      // components still to come, the next one last
    std::vector<fs::Attributes> trail_;  // from the root to where the walk stands
    std::vector<fs::NodeId> looked_up_;
    Place missing_;
    int links_ = 0;
    bool directory_wanted_ = false;
};

}  // namespace ros2s::api::c
