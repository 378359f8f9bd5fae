// Config tables: each module has one plain struct of settings, and a function that lists its
// members as fields. From this list come the parser of a YAML file, its error messages, and the
// documented file with all defaults.
//
//     struct CacheConfig {
//         uint64_t memory_bytes = 512 << 20;
//         Duration idle = std::chrono::microseconds(100);
//     };
//     config::Group describe(CacheConfig& c) {
//         return {"cache", "What is kept in memory.", {
//             config::size("memory", c.memory_bytes, 16 << 20, 1ull << 40, "Memory for …."),
//             config::duration("idle", c.idle, 0s, 1s, "How long …."),
//         }};
//     }
//     CacheConfig cache;
//     ROS2S_TRY(config::parse(text, "DIR/config.yaml", {describe(cache)}, report));
//
// A file is a map of groups, each a map of settings: `cache: {memory: 1GiB}`, or the same over
// several lines. The settings of a group with an empty name are at the top level. A setting that
// the file omits keeps its default. A setting that is not in the table is refused.
//
// A field points at a member of the struct and must not outlive the struct. Its default is the
// value of the member when the field is created.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ros2s/base/result.h"
#include "ros2s/base/setting_place.h"

namespace ros2s::config {

class Field {
  public:
    enum class Kind : uint8_t { size, count, duration, flag, text, choice };
    using Target =
        std::variant<uint32_t*, uint64_t*, std::chrono::nanoseconds*, bool*, std::string*>;

    Field(Kind kind, std::string_view name, Target target, std::string_view help);
    Field& between(uint64_t least, uint64_t most);
    Field& among(std::vector<std::string_view> choices);
    // The setting is mandatory: a file without it is refused.
    Field& required();

    [[nodiscard]] std::string_view name() const { return name_; }
    [[nodiscard]] std::string_view help() const { return help_; }
    [[nodiscard]] bool is_required() const { return required_; }
    // "Size, 16MiB to 1TiB."
    [[nodiscard]] std::string type() const;
    // As written in a file. For a required field, default_text() is empty.
    [[nodiscard]] std::string value_text() const;
    [[nodiscard]] std::string default_text() const;

    // A parsed value, checked against type and range, not yet stored.
    struct Value {
        uint64_t number = 0;
        std::string text;
    };
    // Errors: invalid, with a sentence that gives a valid value.
    [[nodiscard]] Result<Value> read(std::string_view text, Report& report) const;
    void store(const Value& value) const;

  private:
    [[nodiscard]] Value current() const;
    [[nodiscard]] std::string format(const Value& value) const;
    [[nodiscard]] std::string range() const;

    Kind kind_;
    bool required_ = false;
    std::string_view name_, help_;
    Target target_;
    uint64_t least_ = 0, most_ = UINT64_MAX;
    std::vector<std::string_view> choices_;
    Value default_;
};

// Names and help texts are literals: a name in snake_case, and one or two full sentences of help.
// Ranges include both ends.
[[nodiscard]] Field size(std::string_view name, uint64_t& value, uint64_t least, uint64_t most,
                         std::string_view help);
[[nodiscard]] Field count(std::string_view name, uint32_t& value, uint32_t least, uint32_t most,
                          std::string_view help);
[[nodiscard]] Field count(std::string_view name, uint64_t& value, uint64_t least, uint64_t most,
                          std::string_view help);
[[nodiscard]] Field duration(std::string_view name, std::chrono::nanoseconds& value,
                             std::chrono::nanoseconds least, std::chrono::nanoseconds most,
                             std::string_view help);
[[nodiscard]] Field flag(std::string_view name, bool& value, std::string_view help);
[[nodiscard]] Field text(std::string_view name, std::string& value, std::string_view help);
// One of a few words.
[[nodiscard]] Field choice(std::string_view name, std::string& value,
                           std::vector<std::string_view> choices, std::string_view help);

// Texts under keys that the file chooses.
using Entries = std::map<std::string, std::string>;
// The text under that key, or the other one if it was not given.
[[nodiscard]] std::string text_in(const Entries& entries, const std::string& key,
                                  std::string otherwise);
// Entries under keys that the file chooses. Each entry may have the listed keys.
struct Records {
    struct Key {
        std::string_view name, help;
    };
    std::vector<Key> keys;
    std::map<std::string, Entries>* into = nullptr;
    std::string_view example{};  // one line, for the documented file
    // If set, a record is `NAME: {KIND: {KEY: TEXT, …}}`, or `NAME: KIND` if there are no keys.
    std::string_view kind{};
    // Gets their lines, for messages about texts that are parsed later.
    RecordLines* lines = nullptr;
};

struct Group {
    // Empty: its settings are at the top level of the file. A setting there may have the name of a
    // group; a file then contains only one of the two.
    std::string_view name;
    std::string_view help;
    std::vector<Field> fields;
    // Used instead of fields; no entries by default.
    Entries* entries = nullptr;
    // Used instead of fields: one without a kind, or several kinds.
    std::vector<Records> records{};
    // Gets the lines of its settings, for messages about texts that are parsed later.
    KeyLines* lines = nullptr;
};
using Table = std::vector<Group>;

// Reads the text of a YAML file into the structs behind the table. `where` names the file in
// messages. If parsing fails, no member has changed, and the report has one sentence for each
// problem, with its line. Errors: invalid, too_large (over 1 MiB).
[[nodiscard]] Result<> parse(std::string_view yaml, std::string_view where, const Table& table,
                             Report& report);

// The file for the current values of the structs: every setting with its documentation. A setting
// that has its default is written as a comment, so that a better default of a later version
// applies.
[[nodiscard]] std::string document(const Table& table);
template <class Settings>
[[nodiscard]] std::string document(const Settings& settings, Table (*describe)(Settings&)) {
    // A field's default is the value that it was created with.
    Settings copy;
    const Table table = describe(copy);
    copy = settings;
    return document(table);
}

}  // namespace ros2s::config
