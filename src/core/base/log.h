// Log: one line per event, to a sink that the program chooses. The data path counts instead of
// logging. A Log is passed in; there is no global one.
//
// Thread rule: say() may be called from any thread. A sink receives whole lines and does its own
// locking.
#pragma once
#include <fmt/core.h>

#include <functional>
#include <string>
#include <string_view>

namespace ros2s {

enum class LogLevel : uint8_t { debug, info, warning, error };
[[nodiscard]] std::string_view to_string(LogLevel level) noexcept;

class Log {
  public:
    using Sink = std::function<void(LogLevel, std::string_view line)>;
    // Drops everything.
    Log() = default;
    explicit Log(Sink sink, LogLevel least = LogLevel::info)
        : sink_(std::move(sink)), least_(least) {}
    // A line may have names that a peer chose: control characters become \xHH, so that it stays one
    // line.
    void say(LogLevel level, std::string_view line) const;
    void info(std::string_view line) const { say(LogLevel::info, line); }
    void warning(std::string_view line) const { say(LogLevel::warning, line); }
    void error(std::string_view line) const { say(LogLevel::error, line); }
    // The same with fmt::format()'s arguments, at least one beside the format.
    template <class First, class... More>
    void info(fmt::format_string<First, More...> format, First&& first, More&&... more) const {
        info(fmt::format(format, std::forward<First>(first), std::forward<More>(more)...));
    }
    template <class First, class... More>
    void warning(fmt::format_string<First, More...> format, First&& first, More&&... more) const {
        warning(fmt::format(format, std::forward<First>(first), std::forward<More>(more)...));
    }
    template <class First, class... More>
    void error(fmt::format_string<First, More...> format, First&& first, More&&... more) const {
        error(fmt::format(format, std::forward<First>(first), std::forward<More>(more)...));
    }

  private:
    Sink sink_;
    LogLevel least_ = LogLevel::info;
};

// Writes lines to standard error, each with its level. If standard error is the socket of journald
// ($JOURNAL_STREAM is set), the level is journald's <N> prefix.
[[nodiscard]] Log log_to_stderr(LogLevel least = LogLevel::info);

}  // namespace ros2s
