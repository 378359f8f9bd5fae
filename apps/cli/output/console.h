// Console: the output of one run of the program, for a person or a program. Standard output has
// either sentences or, with --json, one JSON value. Progress and errors go to standard error.
#pragma once
#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "ros2s/base/json.h"
#include "ros2s/base/result.h"

namespace ros2s::cli {

class Console {
  public:
    explicit Console(bool json);

    [[nodiscard]] bool json() const { return json_; }
    // A line for people; nothing with --json.
    void say(std::string_view line) const;
    // The command's answer; nothing without --json. Once per run.
    void answer(const Json& value) const;
    // The one line at the end of a failed command.
    void complain(std::string_view sentence) const;
    // A line on standard error about a problem that does not stop the command.
    void warn(std::string_view sentence) const;
    // say() and complain() with fmt::format()'s arguments, at least one beside the format.
    template <class First, class... More>
    void say(fmt::format_string<First, More...> format, First&& first, More&&... more) const {
        say(fmt::format(format, std::forward<First>(first), std::forward<More>(more)...));
    }
    template <class First, class... More>
    void complain(fmt::format_string<First, More...> format, First&& first, More&&... more) const {
        complain(fmt::format(format, std::forward<First>(first), std::forward<More>(more)...));
    }
    // Call it before a successful exit. False, after a complaint, if standard output did not accept
    // everything.
    [[nodiscard]] bool finish() const;

    // A name of a file, for say(): as it is, except that a terminal gets \xHH for control
    // characters, line ends among them.
    [[nodiscard]] std::string name(std::string_view text) const;

  private:
    void put(std::string_view lines) const;
    // `kind`: the name of the sentence with --json. `prefix`: what stands before it otherwise.
    void put_on_stderr(const char* kind, const char* prefix, std::string_view sentence) const;

    bool json_;
    bool on_terminal_;
};

// "1.5 GiB", "12 KiB", "7 B".
[[nodiscard]] std::string human_bytes(uint64_t bytes);
// Parses a size such as "4G" or "512MiB". Errors: invalid, with a sentence.
[[nodiscard]] Result<uint64_t> size_of(std::string_view text, Report& report);
// For commands that a message suggests: quoted for a shell if necessary.
[[nodiscard]] std::string shell_word(std::string_view text);

}  // namespace ros2s::cli
