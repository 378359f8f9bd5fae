#include "trusted_file.h"

#include <fmt/format.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <string_view>

#include "ros2s/base/durable_file.h"

namespace ros2s {
namespace {

constexpr int links_max = 40;  // the kernel's limit
// The file is made or removed by others again and again.
constexpr int attempts_max = 16;

enum class Checks { all, links };

// Walks to what a path names.
class Walk {
  public:
    // `flags` are those of the opening.
    Walk(const std::string& path, int flags, Report& report, Checks checks = Checks::all)
        : path_(path), report_(report), flags_(flags), checks_(checks) {}

    // Reaches the last name: parent(), name(), and its facts(). Errors: those of open_trusted();
    // `missing` is true if that name alone does not exist.
    Result<> go() {
        ROS2S_TRY(begin());
        while (!parts_.empty()) ROS2S_TRY(step());
        return {};
    }
    [[nodiscard]] int parent() const { return parent_.get(); }
    // The end of the path, opened with O_PATH.
    [[nodiscard]] Descriptor take() { return std::move(last_); }
    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] const struct stat& facts() const { return facts_; }
    [[nodiscard]] bool missing() const { return missing_; }

    // Errors: denied. `where`: the path of what has the facts.
    [[nodiscard]] Result<> check(const struct stat& facts) const {
        const std::string where = where_ + name_;
        const std::string subject = is_itself() ? "it" : where + ", on its path,";
        if (checks_ == Checks::links && !S_ISLNK(facts.st_mode)) return {};
        if (!is_trusted(facts.st_uid)) {
            return report_.fail(
                Code::denied,
                "{} cannot be trusted: {} belongs to another user (uid {}), who could change it. "
                "Run the program as that user, or use a place that belongs to {}",
                path_, subject, facts.st_uid,
                ::geteuid() == 0 ? "root" : fmt::format("uid {} or to root", ::geteuid()));
        }
        const bool others_write = (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0;
        const bool is_sticky = S_ISDIR(facts.st_mode) && (facts.st_mode & S_ISVTX) != 0;
        // A group of administrators may use a disk. It reads and writes all data on it anyway. To
        // write to a socket is to connect to it.
        const bool is_node =
            S_ISBLK(facts.st_mode) || S_ISCHR(facts.st_mode) || S_ISSOCK(facts.st_mode);
        if (!others_write || is_sticky || is_node || S_ISLNK(facts.st_mode)) return {};
        return report_.fail(Code::denied,
                            "{} cannot be trusted: {} may be changed by other users (owner uid {}, "
                            "mode {:04o}). If nobody has changed what is there: chmod go-w '{}'",
                            path_, subject, facts.st_uid, facts.st_mode & 07777U, where);
    }
    [[nodiscard]] std::unexpected<Error> failed(int cause) const {
        return report_.fail(fail_errno(cause).error(), "cannot {} {}{}: {}",
                            (flags_ & O_ACCMODE) == O_RDONLY ? "read" : "open", path_,
                            is_itself() ? "" : fmt::format(" ({}{})", where_, name_),
                            std::strerror(cause));
    }

  private:
    Result<> begin() {
        if (path_.contains('\0') || path_.empty()) return failed(ENOENT);
        std::string whole = path_;
        if (!path_.starts_with('/')) {
            std::array<char, PATH_MAX> here{};
            if (::getcwd(here.data(), here.size()) == nullptr) return failed(errno);
            whole = fmt::format("{}/{}", here.data(), path_);
        }
        push(whole);
        return from_root();
    }
    Result<> from_root() {
        where_.clear();
        name_ = "/";
        parent_ = Descriptor(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
        if (parent_.get() < 0 || ::fstat(parent_.get(), &facts_) != 0) return failed(errno);
        root_owner_ = facts_.st_uid;
        ROS2S_TRY(check(facts_));
        where_ = "/";
        name_ = ".";
        return {};
    }
    // In front of what remains.
    void push(std::string_view path) {
        std::deque<std::string> parts;
        while (!path.empty()) {
            const auto part = path.substr(0, path.find('/'));
            path.remove_prefix(std::min(part.size() + 1, path.size()));
            if (!part.empty() && part != ".") parts.emplace_back(part);
        }
        parts_.insert(parts_.begin(), parts.begin(), parts.end());
    }
    // The next name. A directory in the last place is not entered.
    Result<> step() {
        name_ = std::move(parts_.front());
        parts_.pop_front();
        constexpr int flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
        // An automount is mounted only if a directory is asked for.
        Descriptor next(::openat(parent_.get(), name_.c_str(), flags | O_DIRECTORY));
        if (next.get() < 0 && errno == ENOTDIR) {
            next = Descriptor(::openat(parent_.get(), name_.c_str(), flags));
        }
        if (next.get() < 0) {
            missing_ = errno == ENOENT && parts_.empty();
            return failed(errno);
        }
        if (::fstat(next.get(), &facts_) != 0) return failed(errno);
        ROS2S_TRY(check(facts_));
        if (S_ISLNK(facts_.st_mode)) return follow(next.get());
        if (parts_.empty()) {
            last_ = std::move(next);
            return {};
        }
        if (!S_ISDIR(facts_.st_mode)) return failed(ENOTDIR);
        where_ += name_ + '/';
        parent_ = std::move(next);
        name_ = ".";
        return {};
    }
    Result<> follow(int link) {
        if (parts_.empty() && (flags_ & O_NOFOLLOW) != 0) {
            return report_.fail(Error{Code::loop, ELOOP},
                                "{} is a symbolic link: put the file itself there", path_);
        }
        if (++links_ > links_max) return failed(ELOOP);
        std::array<char, PATH_MAX> target{};
        const ssize_t size = ::readlinkat(link, "", target.data(), target.size());
        if (size < 0) return failed(errno);
        const std::string_view text(target.data(), static_cast<size_t>(size));
        push(text);
        name_ = ".";
        return text.starts_with('/') ? from_root() : Result<>{};
    }
    // No directory of the path, and no target of a link.
    [[nodiscard]] bool is_itself() const { return parts_.empty() && links_ == 0; }
    [[nodiscard]] bool is_trusted(uid_t owner) const {
        return owner == 0 || owner == ::geteuid() || owner == root_owner_;
    }

    const std::string& path_;
    Report& report_;
    const int flags_;
    const Checks checks_;
    std::deque<std::string> parts_;  // that remain
    Descriptor parent_, last_;
    std::string where_;  // the path of parent_, with a slash at its end
    std::string name_;
    struct stat facts_{};
    uid_t root_owner_ = 0;
    int links_ = 0;
    bool missing_ = false;
};

std::unexpected<Error> not_regular(const std::string& path, mode_t mode, Report& report) {
    return report.fail(Code::invalid, "{} is not a regular file, but {}", path, kind_of_file(mode));
}

}  // namespace

bool is_distrust(const Error& error) { return error.code == Code::denied && error.os_errno == 0; }

std::string_view kind_of_file(uint32_t mode) {
    switch (mode & S_IFMT) {
        case S_IFREG: return "a regular file";
        case S_IFDIR: return "a directory";
        case S_IFIFO: return "a named pipe";
        case S_IFSOCK: return "a socket";
        case S_IFLNK: return "a symbolic link";
        case S_IFBLK:
        case S_IFCHR: return "a device";
        default: return "something else";
    }
}

Result<Descriptor> open_trusted(const std::string& path, int flags, Report& report, uint32_t mode) {
    for (int attempt = 0;; ++attempt) {
        Report said;
        Walk walk(path, flags, said);
        const auto there = walk.go();
        const bool makes = walk.missing() && (flags & O_CREAT) != 0;
        if (!there && !makes) return report.fail(there.error(), said.text());
        if (there && !S_ISREG(walk.facts().st_mode)) {
            return not_regular(path, walk.facts().st_mode, report);
        }
        Descriptor file(::openat(walk.parent(), walk.name().c_str(),
                                 (flags & ~O_CREAT) | (makes ? O_CREAT | O_EXCL : 0) | O_NOFOLLOW |
                                     O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                                 mode));
        const int cause = file.get() < 0 ? errno : 0;
        // Somebody with the right to do so made or removed it meanwhile.
        if ((cause == EEXIST || cause == ENOENT) && (flags & O_CREAT) != 0 &&
            attempt < attempts_max) {
            continue;
        }
        struct stat facts{};
        if (cause != 0 || ::fstat(file.get(), &facts) != 0) {
            const auto failed = walk.failed(cause != 0 ? cause : errno);
            return report.fail(failed.error(), said.text());
        }
        if (!S_ISREG(facts.st_mode)) return not_regular(path, facts.st_mode, report);
        if (const auto checked = walk.check(facts); !checked) {
            return report.fail(checked.error(), said.text());
        }
        return file;
    }
}

namespace {

Result<std::string> read_opened(const Descriptor& file, const std::string& path, size_t bytes_max,
                                Report& report) {
    auto text = read_all(file, bytes_max);
    if (text) return text;
    const Error error = text.error();
    if (error.code == Code::too_large) {
        return report.fail(error, "{} has more than {} bytes", path, bytes_max);
    }
    return report.fail(error, "cannot read {}: {}", path, std::strerror(error.os_errno));
}

}  // namespace

Result<std::string> read_trusted(const std::string& path, size_t bytes_max, Report& report) {
    ROS2S_TRY_ASSIGN(const Descriptor file, open_trusted(path, O_RDONLY, report));
    return read_opened(file, path, bytes_max, report);
}

Result<std::string> read_private(const std::string& path, size_t bytes_max, uint32_t mode_max,
                                 Report& report) {
    ROS2S_TRY_ASSIGN(const Descriptor file, open_trusted(path, O_RDONLY, report));
    struct stat facts{};
    if (::fstat(file.get(), &facts) == 0 && (facts.st_mode & 07777U & ~mode_max) == 0) {
        return read_opened(file, path, bytes_max, report);
    }
    return report.fail(Code::denied,
                       "{0} is a secret that others can read (mode {1:04o}): replace the secret, "
                       "and chmod {2:o} {0}",
                       path, facts.st_mode & 07777U, mode_max);
}

Result<Descriptor> open_data_directory(const std::string& path, Report& report) {
    Walk walk(path, O_RDONLY, report, Checks::links);
    ROS2S_TRY(walk.go());
    if (!S_ISDIR(walk.facts().st_mode)) return walk.failed(ENOTDIR);
    Descriptor directory = walk.take();
    if (directory.get() >= 0) return directory;
    // "/", or a link to it.
    return Descriptor(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

Result<> check_trusted(const std::string& path, Report& report) {
    Report said;
    Walk walk(path, O_RDONLY, said);
    const auto there = walk.go();
    if (there || !is_distrust(there.error())) return {};
    return report.fail(there.error(), said.text());
}

}  // namespace ros2s
