// Result<T>: a value or an Error. An Error is small and trivially copyable: a code on which a
// caller can branch, an errno if the kernel gave one, and one number of detail.
//
// An Error contains no sentence for people. Operations that a person starts (open, create, parse)
// take a Report&. The code that detects the problem writes the sentence: what failed, on what, and
// what to do.
#pragma once
#include <fmt/core.h>

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace ros2s {

enum class Code : uint16_t {
    not_found,         // the named thing does not exist
    exists,            // it exists already
    invalid,           // an argument of the caller is not valid
    not_directory,     // a path component is not a directory
    is_directory,      // a file was needed
    not_empty,         // a directory still has entries
    loop,              // a rename into itself, or too many symbolic links
    name_too_long,     // over the stated limit
    no_space,          // the pool is full
    no_memory,         // over the memory budget
    read_only,         // the pool or mount does not accept writes
    denied,            // not permitted
    busy,              // in use (an exclusive owner, a mounted file system)
    condition_failed,  // a transaction's condition does not hold; detail = its index
    corrupt,           // the bytes read are not the bytes written; detail of a read of a file or
                       // array: the end of the bad block, 0 if unknown
    io,                // the device or kernel reported an error; see os_errno
    no_attribute,      // no such extended attribute
    too_small,         // the caller's buffer is too small; detail = the bytes needed
    too_large,         // over a limit; detail = the limit
    stale,             // a handle or update name that is no longer valid
    unsupported,       // this store or file system cannot do it
    bad_version,       // a format version that this program does not support; detail = the version
    cancelled,         // stopped by its stop token
    deadline,          // its deadline passed
    closed,            // the object was closed, or belongs to the process before fork()
    disconnected,      // the connection was lost; the request may or may not have been done
    name_taken,        // another request used this update name; this request was not done
    expired,           // a repetition whose stored reply is gone; it may or may not have been done
    over_cap,          // the container, or its owner, may use no more space
    leased,            // others keep what the request changes, and were asked to stop; ask again
};

// "not found", "the pool is full": lower case, without a full stop.
[[nodiscard]] std::string_view describe(Code code) noexcept;
// "not_found". Names never change: they are on the wire.
[[nodiscard]] std::string_view name_of(Code code) noexcept;
[[nodiscard]] std::optional<Code> code_of(std::string_view name) noexcept;

struct Error {
    Code code = Code::invalid;
    int32_t os_errno = 0;
    uint64_t detail = 0;
    friend bool operator==(const Error&, const Error&) = default;
};

// "the device or kernel reported an error (Input/output error)"
[[nodiscard]] std::string describe(const Error& error);

template <class T = void>
using Result = std::expected<T, Error>;

[[nodiscard]] inline std::unexpected<Error> fail(Code code, uint64_t detail = 0) {
    return std::unexpected(Error{code, 0, detail});
}
// `os_errno` is positive, as in errno. ENOSPC, EACCES and their like keep their own codes.
[[nodiscard]] std::unexpected<Error> fail_errno(int os_errno);
// The reverse, for callers that use errno: the kernel's own errno if there is one, else the
// nearest. 1 to 4095. `loop` becomes ELOOP. POSIX requires EINVAL for a rename of a directory into
// itself; the caller must map that case.
[[nodiscard]] int to_errno(const Error& error) noexcept;
[[nodiscard]] inline std::unexpected<Error> fail(const Error& error) {
    return std::unexpected(error);
}

// Collects the sentences that a person reads when an operation fails. The first is the cause. Its
// notes are for the log of this process only: a server does not send them to its clients.
class Report {
  public:
    // Returns fail(code), so that a failure is one line: `return report.fail(Code::busy, "…");`
    std::unexpected<Error> fail(Code code, std::string sentence) {
        say(std::move(sentence));
        return ros2s::fail(code);
    }
    std::unexpected<Error> fail(const Error& error, std::string sentence) {
        say(std::move(sentence));
        return std::unexpected(error);
    }
    void say(std::string sentence) {
        if (!text_.empty()) text_ += "; ";
        text_ += sentence;
    }
    // The same with fmt::format()'s arguments, at least one beside the format.
    template <class First, class... More>
    std::unexpected<Error> fail(const Error& error, fmt::format_string<First, More...> format,
                                First&& first, More&&... more) {
        return fail(error,
                    fmt::format(format, std::forward<First>(first), std::forward<More>(more)...));
    }
    template <class First, class... More>
    std::unexpected<Error> fail(Code code, fmt::format_string<First, More...> format, First&& first,
                                More&&... more) {
        return fail(Error{code}, format, std::forward<First>(first), std::forward<More>(more)...);
    }
    template <class First, class... More>
    void say(fmt::format_string<First, More...> format, First&& first, More&&... more) {
        say(fmt::format(format, std::forward<First>(first), std::forward<More>(more)...));
    }
    void note(const std::string& sentence) {
        if (!notes_.empty() && !sentence.empty()) notes_ += "; ";
        notes_ += sentence;
    }
    [[nodiscard]] const std::string& text() const { return text_; }
    [[nodiscard]] const std::string& notes() const { return notes_; }
    [[nodiscard]] bool empty() const { return text_.empty(); }

  private:
    std::string text_, notes_;
};

}  // namespace ros2s

// ROS2S_TRY is for plain functions (return). ROS2S_CO_TRY is for coroutines (co_return).
#define ROS2S_CONCAT_(a, b) a##b
#define ROS2S_CONCAT(a, b) ROS2S_CONCAT_(a, b)
#define ROS2S_TRY_WITH_(return_, temporary, expression) \
    do {                                                \
        auto temporary = (expression);                  \
        if (!temporary) [[unlikely]]                    \
            return_ std::unexpected(temporary.error()); \
    } while (false)
#define ROS2S_TRY_ASSIGN_WITH_(return_, temporary, target, ...) \
    auto temporary = (__VA_ARGS__);                             \
    if (!temporary) [[unlikely]]                                \
        return_ std::unexpected(temporary.error());             \
    target = std::move(*temporary)
#define ROS2S_TRY(...) ROS2S_TRY_WITH_(return, ROS2S_CONCAT(try_, __LINE__), (__VA_ARGS__))
#define ROS2S_CO_TRY(...) ROS2S_TRY_WITH_(co_return, ROS2S_CONCAT(try_, __LINE__), (__VA_ARGS__))
#define ROS2S_TRY_ASSIGN(target, ...) \
    ROS2S_TRY_ASSIGN_WITH_(return, ROS2S_CONCAT(try_, __LINE__), target, __VA_ARGS__)
#define ROS2S_CO_TRY_ASSIGN(target, ...) \
    ROS2S_TRY_ASSIGN_WITH_(co_return, ROS2S_CONCAT(try_, __LINE__), target, __VA_ARGS__)
