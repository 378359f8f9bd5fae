// Locations: the arguments of file commands, a path in a container or a local path, in one form: a
// FileSystem and a path in it. The same commands then serve both.
//
// A container is opened at most once per run, however many arguments name it, because a pool has
// one owner.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "commands.h"
#include "ros2s/api/deployment.h"
#include "ros2s/fs/file_system.h"

namespace ros2s::cli {

struct Location {
    fs::FileSystem* file_system = nullptr;
    std::string path;   // from the file system's root, without a leading '/'; "" is the root
    std::string name;   // the last one in `shown`; "": a container, ".", "/"
    std::string shown;  // as the user wrote it
    bool local = false;
    bool names_directory = false;  // it was written with a '/' at its end
    std::string travels;           // the path of its I/O, in words
    std::string limits;            // Deployment::limits()
    // The directory of this machine that is the file system's root: for local paths, and for a
    // container that is used through a mount. Otherwise "".
    std::string host;
};

// A name in a directory: commands create, remove and rename it.
struct Entry {
    fs::NodeId directory{};
    std::string name;
};

class Locations {
  public:
    // The use that the command makes of existing files.
    enum class Use : uint8_t { changes, looks };
    Locations(CommandContext context, Use use) : context_(context), looks_(use == Use::looks) {}
    Locations& operator=(Locations&&) = delete;
    // Call it after the last use of every location. Must be called.
    Task<> close();

    // Errors: those of Deployment::open; not_found (the local directory). Reported.
    Task<Result<Location>> open(std::string text);

  private:
    Task<Result<Location>> open_container(std::string text);
    Task<Result<Location>> open_local(std::string text);
    // Sets `location`'s file system and the path of its I/O. `uri` has no path.
    Task<Result<>> find_container(const api::Uri& uri, Location& location);

    struct Container {
        std::unique_ptr<api::Deployment> deployment;
        std::unique_ptr<fs::FileSystem> beside;  // set instead: a further container of a pool
        std::string travels;
        [[nodiscard]] fs::FileSystem* file_system() const {
            return beside != nullptr ? beside.get() : &deployment->file_system();
        }
    };
    CommandContext context_;
    const bool looks_;
    std::map<std::string, Container> containers_;  // by URI without a path
    std::vector<std::unique_ptr<fs::FileSystem>> local_;
};

// Runs `body` with locations, and closes them whatever its result.
Task<Result<>> with_locations(CommandContext context, FileOptions options,
                              Task<Result<>> (*body)(CommandContext, Locations&,
                                                     const FileOptions&),
                              Locations::Use use = Locations::Use::changes);

// Symbolic links inside the path are followed; the last one if `follow` or a '/' at the end
// requires it. Errors: not_directory (with a '/' at the end), those of the file system. Reported.
enum class Follow : uint8_t { no, yes };
Task<Result<fs::Attributes>> find(CommandContext context, const Location& location, Follow follow);
// The same, ignoring a '/' at the end. A missing file is not reported: the error is not_found.
Task<Result<fs::Attributes>> find_if_there(CommandContext context, const Location& location,
                                           Follow follow);
// The directory of the location's last component, which need not exist. Errors: invalid for the
// root.
Task<Result<Entry>> find_entry(CommandContext context, const Location& location);
// The same for a new name. If its directory is missing, the report has the command that makes it.
Task<Result<Entry>> find_new_entry(CommandContext context, const Location& location);
// Errors: not_directory, reported: the location was written with a '/' at its end and is not a
// directory.
Result<> check_slash(const CommandContext& context, const Location& location,
                     const fs::Attributes& there);
// Errors: not_found, reported: a new name was written with a '/' and will not be a directory.
Result<> check_slash_of_new(const CommandContext& context, const Location& location);
// `path` in the location's file system, in the location's form: a URI or a local path.
[[nodiscard]] std::string written_as(const Location& location, const std::string& path);

// For FileSystem::lookup_many(). The entries outlive the names.
[[nodiscard]] std::vector<std::string_view> names_of(std::span<const fs::DirectoryEntry> entries);
// All entries of a directory.
Task<Result<std::vector<fs::DirectoryEntry>>> read_directory(CommandContext context,
                                                             fs::FileSystem& file_system,
                                                             fs::NodeId directory);

// Reads an open file from `offset`; less than the buffer only at the end of the file. Errors:
// reported.
Task<Result<ConstBytes>> read_piece(CommandContext context, const Location& location,
                                    fs::FileHandle handle, uint64_t offset, Bytes buffer);

// One file may be reached in two ways: through a mount's path, and through the URI of the container
// that is mounted there. These compare the kernel's view. They are false if one of the two does not
// exist or is not a file of this machine.

// True if `from` is the name `name` in `to`, or `to` itself if `name` is empty.
[[nodiscard]] bool same_on_host(const Location& from, const Location& to, const std::string& name);
// True if `to` is, or is below, the directory `from`. If `to` does not exist, its directory counts.
[[nodiscard]] bool inside_on_host(const Location& from, const Location& to);

// Each source that a command puts into the directory `into` needs another name, because it would
// replace an earlier one. `names`: those of the earlier ones. Errors: exists, reported.
Result<> check_new_name(const CommandContext& context, const Location& from, const Location& into,
                        const std::string& name, std::set<std::string>& names);

// For commands that go on after the failure of one argument. All sentences but the last one are
// printed at once.
class Failures {
  public:
    explicit Failures(CommandContext context) : context_(context) {}
    // Takes the sentence in the command's report.
    void add(const Error& error);
    [[nodiscard]] bool any() const { return !last_; }
    // The last one, with its sentence in the report.
    [[nodiscard]] Result<> result() const;

  private:
    CommandContext context_;
    Result<> last_;
    std::string sentence_;
};

// "<what>: <why>", and what to do if that is known. `local` names what is full on no_space, if it
// is not a pool but belongs to this machine. `full` is the location of the full pool, if `what`
// says more than the location.
std::unexpected<Error> explain(CommandContext context, std::string_view what, const Error& error,
                               std::string_view local = {}, std::string_view full = {});

}  // namespace ros2s::cli
