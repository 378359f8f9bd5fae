// ros2store.hpp: ros2store.h for C++ 17 and later: handles that close themselves, errors as
// exceptions. Header only; link libros2store. ros2store.h documents each call.
//
//     ros2store::FileSystem fs("ros2s+local:///pool/main?dir=/srv/ros2s");
//     auto file = fs.open("hello", O_RDWR | O_CREAT);
//     file.pwrite("hello", 5, 0);
//
// Ownership: files, directories, queues and buffers share their FileSystem, which is closed with
// the last of them. In a forked child handles work as ros2store.h describes.
#ifndef ROS2STORE_ROS2STORE_HPP
#define ROS2STORE_ROS2STORE_HPP

#include <fcntl.h>
#include <ros2store/ros2store.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace ros2store {

// code() is the errno; what() has the library's sentence.
class Error : public std::system_error {
  public:
    Error(int os_errno, const std::string& sentence)
        : std::system_error(os_errno, std::generic_category(), sentence), sentence_(sentence) {}
    // The sentence alone.
    const std::string& sentence() const noexcept { return sentence_; }

  private:
    std::string sentence_;
};

namespace detail {

template <class T>
T checked(T result) {
    if (result < 0) throw Error(static_cast<int>(-result), ros2s_last_error());
    return result;
}

// The library reads up to the first NUL: it would use another name than the caller's.
inline const char* c_string(const std::string& text) {
    if (text.find('\0') != std::string::npos) {
        throw Error(EINVAL, "'" + std::string(text.c_str()) + "…': a name cannot have a NUL byte");
    }
    return text.c_str();
}

struct CloseFileSystem {
    void operator()(ros2s_fs* fs) const noexcept { ros2s_close(fs); }
};
using SharedFs = std::shared_ptr<ros2s_fs>;

// A handle inside a FileSystem: it is closed before its reference to the FileSystem is released.
template <class Handle, int (*close_handle)(Handle*)>
class Owned {
  public:
    Owned(SharedFs fs, Handle* handle) : fs_(std::move(fs)), handle_(handle) {}
    Owned(Owned&& other) noexcept
        : fs_(std::move(other.fs_)), handle_(std::exchange(other.handle_, nullptr)) {}
    Owned& operator=(Owned&& other) noexcept {
        if (this != &other) {
            reset();
            fs_ = std::move(other.fs_);
            handle_ = std::exchange(other.handle_, nullptr);
        }
        return *this;
    }
    ~Owned() { reset(); }

    Handle* get() const noexcept { return handle_; }
    const SharedFs& file_system() const noexcept { return fs_; }
    // Reports errors, which a destructor ignores. A file that requests of a queue use stays open
    // (EBUSY). After any other error the handle is closed.
    void close() {
        if (handle_ == nullptr) return;
        const int rc = close_handle(handle_);
        SharedFs last;  // released when the sentence of an error has been read
        if (rc != -EBUSY || !std::is_same_v<Handle, ros2s_file>) {
            handle_ = nullptr;
            last = std::move(fs_);
        }
        checked(rc);
    }

  private:
    void reset() noexcept {
        if (handle_ != nullptr) close_handle(handle_);
        handle_ = nullptr;
    }
    SharedFs fs_;
    Handle* handle_;
};

}  // namespace detail

class File {
  public:
    ssize_t pread(void* buffer, size_t bytes, uint64_t offset) const {
        return detail::checked(ros2s_pread(file_.get(), buffer, bytes, offset));
    }
    ssize_t pwrite(const void* buffer, size_t bytes, uint64_t offset) const {
        return detail::checked(ros2s_pwrite(file_.get(), buffer, bytes, offset));
    }
    void fsync() const { detail::checked(ros2s_fsync(file_.get())); }
    struct stat stat() const {
        struct stat out{};
        detail::checked(ros2s_fstat(file_.get(), &out));
        return out;
    }
    void truncate(uint64_t bytes) const { detail::checked(ros2s_ftruncate(file_.get(), bytes)); }
    // Throw as every call, also where another lock is in the way.
    void flock(int operation) const { detail::checked(ros2s_flock(file_.get(), operation)); }
    void lock(int command, struct flock& lock) const {
        detail::checked(ros2s_lock(file_.get(), command, &lock));
    }
    void punch_hole(uint64_t offset, uint64_t bytes) const {
        detail::checked(ros2s_punch_hole(file_.get(), offset, bytes));
    }
    uint64_t seek(uint64_t offset, int whence) const {
        return static_cast<uint64_t>(detail::checked(ros2s_seek(file_.get(), offset, whence)));
    }
    std::string path_report(ros2s_format format = ROS2S_TEXT) const {
        return text([&](char* out, size_t bytes) {
            return ros2s_path_report(file_.get(), format, out, bytes);
        });
    }
    std::string trace_read(uint64_t offset, uint64_t length,
                           ros2s_format format = ROS2S_TEXT) const {
        return text([&](char* out, size_t bytes) {
            return ros2s_trace_read(file_.get(), offset, length, format, out, bytes);
        });
    }
    void close() { file_.close(); }
    ros2s_file* get() const noexcept { return file_.get(); }

  private:
    friend class FileSystem;
    File(detail::SharedFs fs, ros2s_file* file) : file_(std::move(fs), file) {}
    // A report may grow between two calls. This calls once, with spare room.
    template <class Call>
    static std::string text(Call call) {
        std::string out(1 << 16, '\0');
        const auto size = static_cast<size_t>(detail::checked(call(out.data(), out.size())));
        out.resize(size < out.size() ? size : out.size() - 1);
        return out;
    }
    detail::Owned<ros2s_file, ros2s_file_close> file_;
};

class Directory {
  public:
    // Empty at the end.
    std::optional<ros2s_dirent> next() const {
        ros2s_dirent entry;
        if (detail::checked(ros2s_readdir(directory_.get(), &entry)) == 0) return std::nullopt;
        return entry;
    }
    // At most `most` entries with the attributes of their nodes, in few requests. Empty at the end.
    struct Entry {
        ros2s_dirent entry;
        struct stat stat;  // st_nlink is 0 if the name was removed meanwhile
    };
    std::vector<Entry> next_many(size_t most = 256) const {
        std::vector<ros2s_dirent> entries(most);
        std::vector<struct stat> stats(most);
        const auto count = static_cast<size_t>(detail::checked(
            ros2s_readdir_many(directory_.get(), entries.data(), stats.data(), most)));
        std::vector<Entry> found;
        for (size_t i = 0; i < count; ++i) found.push_back({entries[i], stats[i]});
        return found;
    }

    // Several names of the directory at once, in few requests. Each call tries all names and
    // returns an errno for each, 0 where it succeeded.
    using Names = std::vector<std::string>;
    std::vector<int> stat_many(const Names& names, std::vector<struct stat>& stats) const {
        stats.resize(names.size());
        return many(names, [&](ros2s_name_item* items) {
            return ros2s_stat_many(directory_.get(), items, stats.data(), names.size());
        });
    }
    std::vector<int> create_many(const Names& names, mode_t mode = 0644) const {
        return many(names, [&](ros2s_name_item* items) {
            return ros2s_create_many(directory_.get(), items, mode, names.size());
        });
    }
    std::vector<int> unlink_many(const Names& names) const {
        return many(names, [&](ros2s_name_item* items) {
            return ros2s_unlink_many(directory_.get(), items, names.size());
        });
    }
    // Writes whole files; see ros2s_write_many(). Sets each item's result.
    void write_many(std::vector<ros2s_write_item>& items, uint32_t flags = 0,
                    mode_t mode = 0644) const {
        detail::checked(
            ros2s_write_many(directory_.get(), items.data(), mode, flags, items.size()));
    }
    void close() { directory_.close(); }

  private:
    friend class FileSystem;
    template <class Call>
    static std::vector<int> many(const Names& names, Call call) {
        std::vector<ros2s_name_item> items;
        for (const std::string& name : names) items.push_back({detail::c_string(name), 0});
        detail::checked(call(items.data()));
        std::vector<int> errors;
        for (const ros2s_name_item& item : items) errors.push_back(static_cast<int>(-item.result));
        return errors;
    }
    Directory(detail::SharedFs fs, ros2s_dir* directory) : directory_(std::move(fs), directory) {}
    detail::Owned<ros2s_dir, ros2s_closedir> directory_;
};

class Buffer {
  public:
    bool is_pinned() const noexcept { return ros2s_buffer_is_pinned(buffer_.get()) != 0; }
    const ros2s_buffer* get() const noexcept { return buffer_.get(); }

  private:
    friend class FileSystem;
    Buffer(detail::SharedFs fs, ros2s_buffer* buffer) : buffer_(std::move(fs), buffer) {}
    detail::Owned<ros2s_buffer, ros2s_buffer_unregister> buffer_;
};

class Queue {
  public:
    // Returns the number of accepted requests; 0: reap first.
    uint32_t submit(const ros2s_request* requests, uint32_t count) const {
        return static_cast<uint32_t>(
            detail::checked(ros2s_queue_submit(queue_.get(), requests, count)));
    }
    bool submit(const ros2s_request& request) const { return submit(&request, 1) == 1; }
    static constexpr std::chrono::nanoseconds no_limit{-1};
    uint32_t reap(ros2s_completion* completions, uint32_t least, uint32_t most,
                  std::chrono::nanoseconds timeout = no_limit) const {
        return static_cast<uint32_t>(detail::checked(
            ros2s_queue_reap(queue_.get(), completions, least, most, timeout.count())));
    }
    int descriptor() const { return detail::checked(ros2s_queue_fd(queue_.get())); }
    void close() { queue_.close(); }

  private:
    friend class FileSystem;
    Queue(detail::SharedFs fs, ros2s_queue* queue) : queue_(std::move(fs), queue) {}
    detail::Owned<ros2s_queue, ros2s_queue_destroy> queue_;
};

class FileSystem {
  public:
    explicit FileSystem(const std::string& uri, const std::string& program = {}) {
        ros2s_open_options options{};
        options.struct_bytes = sizeof options;
        options.program = program.empty() ? nullptr : detail::c_string(program);
        ros2s_fs* fs = nullptr;
        detail::checked(ros2s_open(detail::c_string(uri), &options, &fs, nullptr, 0));
        fs_.reset(fs, detail::CloseFileSystem{});
    }

    File open(const std::string& path, int flags = O_RDONLY, mode_t mode = 0644) const {
        ros2s_file* file = nullptr;
        detail::checked(ros2s_file_open(fs_.get(), detail::c_string(path), flags, mode, &file));
        return File(fs_, file);
    }
    Directory open_directory(const std::string& path) const {
        ros2s_dir* directory = nullptr;
        detail::checked(ros2s_opendir(fs_.get(), detail::c_string(path), &directory));
        return Directory(fs_, directory);
    }
    std::vector<std::string> list(const std::string& path = "") const {
        std::vector<std::string> names;
        const Directory directory = open_directory(path);
        while (const auto entry = directory.next()) names.emplace_back(entry->name);
        return names;
    }
    Queue make_queue(uint32_t depth) const {
        ros2s_queue* queue = nullptr;
        detail::checked(ros2s_queue_create(fs_.get(), depth, &queue));
        return Queue(fs_, queue);
    }
    // Host memory, which must outlive the Buffer.
    Buffer register_buffer(void* address, size_t bytes) const {
        ros2s_memory memory{};
        memory.struct_bytes = sizeof memory;
        memory.kind = ROS2S_MEMORY_HOST;
        memory.address = address;
        memory.bytes = bytes;
        ros2s_buffer* buffer = nullptr;
        detail::checked(ros2s_buffer_register(fs_.get(), &memory, &buffer));
        return Buffer(fs_, buffer);
    }

    // Works on blocks of a cache; see ros2s_blocks(). Sets each block's result. Returns the number
    // of leading blocks without an error.
    size_t blocks(ros2s_opcode opcode, std::vector<ros2s_block>& blocks,
                  std::chrono::nanoseconds pinned_for = {}) const {
        return static_cast<size_t>(
            detail::checked(ros2s_blocks(fs_.get(), opcode, blocks.data(), blocks.size(),
                                         static_cast<uint64_t>(pinned_for.count()))));
    }

    struct stat stat(const std::string& path) const {
        struct stat out{};
        detail::checked(ros2s_stat(fs_.get(), detail::c_string(path), &out));
        return out;
    }
    struct stat lstat(const std::string& path) const {
        struct stat out{};
        detail::checked(ros2s_lstat(fs_.get(), detail::c_string(path), &out));
        return out;
    }
    bool exists(const std::string& path) const {
        struct stat out{};
        const int rc = ros2s_stat(fs_.get(), detail::c_string(path), &out);
        if (rc == -ENOENT || rc == -ENOTDIR) return false;
        detail::checked(rc);
        return true;
    }
    void mkdir(const std::string& path, mode_t mode = 0755) const {
        detail::checked(ros2s_mkdir(fs_.get(), detail::c_string(path), mode));
    }
    void rmdir(const std::string& path) const {
        detail::checked(ros2s_rmdir(fs_.get(), detail::c_string(path)));
    }
    void unlink(const std::string& path) const {
        detail::checked(ros2s_unlink(fs_.get(), detail::c_string(path)));
    }
    void rename(const std::string& from, const std::string& to, uint32_t flags = 0) const {
        detail::checked(
            ros2s_rename(fs_.get(), detail::c_string(from), detail::c_string(to), flags));
    }
    void link(const std::string& path, const std::string& new_path) const {
        detail::checked(ros2s_link(fs_.get(), detail::c_string(path), detail::c_string(new_path)));
    }
    void symlink(const std::string& target, const std::string& path) const {
        detail::checked(ros2s_symlink(fs_.get(), detail::c_string(target), detail::c_string(path)));
    }
    std::string readlink(const std::string& path) const {
        char target[4096];
        const auto size = detail::checked(
            ros2s_readlink(fs_.get(), detail::c_string(path), target, sizeof target));
        return std::string(target, static_cast<size_t>(size));
    }
    struct statvfs space() const {
        struct statvfs out{};
        detail::checked(ros2s_statfs(fs_.get(), &out));
        return out;
    }
    // For C calls without a method here.
    ros2s_fs* get() const noexcept { return fs_.get(); }

  private:
    detail::SharedFs fs_;
};

}  // namespace ros2store
#endif
