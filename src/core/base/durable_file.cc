#include "durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

namespace ros2s {

Result<std::string> read_all(const Descriptor& file, size_t bytes_max) {
    std::string text;
    size_t have = 0;
    while (have <= bytes_max) {
        if (have == text.size())
            text.resize(std::min(std::max(size_t{4096}, 2 * have), bytes_max + 1));
        const ssize_t count = ::read(file.get(), text.data() + have, text.size() - have);
        if (count == 0) break;
        if (count > 0) have += static_cast<size_t>(count);
        if (count < 0 && errno != EINTR) return fail_errno(errno);
    }
    if (have > bytes_max) return fail(Code::too_large, bytes_max);
    text.resize(have);
    return text;
}

Result<std::string> read_file(const std::string& path, size_t bytes_max) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) return fail_errno(errno);
    return read_all(file, bytes_max);
}

Result<> replace_file(const std::string& path, std::string_view text, uint32_t mode) {
    const std::string fresh = path + ".new";
    ::unlink(fresh.c_str());  // one that was left may have another mode
    const Descriptor file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    if (file.get() < 0) return fail_errno(errno);
    while (!text.empty()) {
        const ssize_t count = ::write(file.get(), text.data(), text.size());
        if (count > 0) text.remove_prefix(static_cast<size_t>(count));
        if (count < 0 && errno != EINTR) return fail_errno(errno);
    }
    if (::fsync(file.get()) != 0 || ::rename(fresh.c_str(), path.c_str()) != 0)
        return fail_errno(errno);
    return sync_directory(parent_of(path));
}

std::string parent_of(const std::string& path) {
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

Result<> sync_directory(const std::string& directory) {
    const Descriptor opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (opened.get() < 0 || ::fsync(opened.get()) != 0) return fail_errno(errno);
    return {};
}

}  // namespace ros2s
