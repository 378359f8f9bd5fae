// Files that a program acts upon: settings, keys, certificates, tenants, locks. A user who can
// change such a file, or a directory of its path, can make the program act with the rights of its
// user. So the file and all directories of its path must belong to root or to the user of this
// process, and nobody else may write to them.
//
// The path is walked from "/" by descriptors, so the program opens the same file that it checked.
// - A directory in which others may create names is accepted if it is sticky (/tmp): there, what
//   belongs to root or to this user can be replaced by nobody else.
// - A symbolic link is followed if it belongs to root or to this user. Its target is walked in the
//   same way. (Its own mode has no meaning, and its directory was checked.)
// - In a user namespace root of the machine has the number that has no user. The owner of "/"
//   counts as root: he could replace every path.
// - Only a regular file is opened. A named pipe or a device would block, or act on being opened.
//
// Blocking system calls; any thread.
#pragma once
#include <fcntl.h>

#include <string>

#include "ros2s/base/descriptor.h"
#include "ros2s/base/result.h"

namespace ros2s {

// `flags` as of open(2): with O_CREAT a missing file is made with `mode`; with O_NOFOLLOW a link in
// the last place is refused. Errors, each with a sentence: denied without an errno (others could
// change it; the sentence names the file, its owner and what to do), invalid (not a regular file),
// loop, those of the file system.
[[nodiscard]] Result<Descriptor> open_trusted(const std::string& path, int flags, Report& report,
                                              uint32_t mode = 0600);
// The content of the file. Errors, with a sentence: those of open_trusted(), too_large (over
// `bytes_max`).
[[nodiscard]] Result<std::string> read_trusted(const std::string& path, size_t bytes_max,
                                               Report& report);
// The same for a secret. `mode_max`: the permission bits that it may have, such as 0600. Errors,
// with a sentence: those of read_trusted(), denied without an errno (others can read it).
[[nodiscard]] Result<std::string> read_private(const std::string& path, size_t bytes_max,
                                               uint32_t mode_max, Report& report);
// Checks what the path names, of any kind, and its directories, as far as they exist. For paths
// that something else opens. Errors, with a sentence: denied without an errno. A file that cannot
// be examined is no error here. Opening it reports the error.
[[nodiscard]] Result<> check_trusted(const std::string& path, Report& report);
// For a directory whose content is data, such as one that a server offers, and may belong to
// anybody. Its owner can exchange it for another directory of his, but not for a link to one that
// he may not read: only links are checked. The descriptor is of O_PATH. Errors, with a sentence:
// those of open_trusted(), not_directory.
[[nodiscard]] Result<Descriptor> open_data_directory(const std::string& path, Report& report);
// An error of these functions says that others could change the file.
[[nodiscard]] bool is_distrust(const Error& error);
// "a named pipe", "a directory"; for st_mode.
[[nodiscard]] std::string_view kind_of_file(uint32_t mode);

}  // namespace ros2s
