#include "config.h"

#include <algorithm>
#include <charconv>

#include "ros2s/base/check.h"
#include "ros2s/base/text_parts.h"
#include "units.h"

namespace ros2s::config {

Field::Field(Kind kind, std::string_view name, Target target, std::string_view help)
    : kind_(kind), name_(name), help_(help), target_(target) {
    ROS2S_CHECK(!name.empty() && !help.empty());
    default_ = current();
}

Field& Field::between(uint64_t least, uint64_t most) {
    ROS2S_CHECK(least <= default_.number && default_.number <= most);
    least_ = least;
    most_ = most;
    return *this;
}

Field& Field::among(std::vector<std::string_view> choices) {
    choices_ = std::move(choices);
    ROS2S_CHECK(std::ranges::count(choices_, default_.text) == 1);
    return *this;
}

Field& Field::required() {
    required_ = true;
    return *this;
}

Field::Value Field::current() const {
    return std::visit(
        [](const auto* value) -> Value {
            using T = std::remove_cvref_t<decltype(*value)>;
            if constexpr (std::is_same_v<T, std::string>) {
                return {0, *value};
            } else if constexpr (std::is_same_v<T, std::chrono::nanoseconds>) {
                return {static_cast<uint64_t>(value->count()), {}};
            } else {
                return {static_cast<uint64_t>(*value), {}};
            }
        },
        target_);
}

void Field::store(const Value& value) const {
    struct Write {
        const Value& value;
        void operator()(std::string* text) const { *text = value.text; }
        void operator()(std::chrono::nanoseconds* time) const {
            *time = std::chrono::nanoseconds(static_cast<int64_t>(value.number));
        }
        void operator()(bool* flag) const { *flag = value.number != 0; }
        void operator()(uint32_t* number) const { *number = static_cast<uint32_t>(value.number); }
        void operator()(uint64_t* number) const { *number = value.number; }
    };
    std::visit(Write{value}, target_);
}

std::string Field::format(const Value& value) const {
    switch (kind_) {
        case Kind::size: return format_size(value.number);
        case Kind::count: return std::to_string(value.number);
        case Kind::duration:
            return format_duration(std::chrono::nanoseconds(static_cast<int64_t>(value.number)));
        case Kind::flag: return value.number != 0 ? "true" : "false";
        case Kind::text:
        case Kind::choice: break;
    }
    return double_quoted(value.text);
}

std::string Field::value_text() const { return format(current()); }
std::string Field::default_text() const { return required_ ? std::string() : format(default_); }

std::string Field::range() const {
    if (kind_ == Kind::choice) {
        std::string list;
        for (size_t i = 0; i < choices_.size(); ++i) {
            if (i > 0) list += i + 1 == choices_.size() ? " or " : ", ";
            list += choices_[i];
        }
        return list;
    }
    if (kind_ == Kind::flag) return "true or false";
    if (kind_ == Kind::text) return "text";
    return format({least_, {}}) + " to " + format({most_, {}});
}

std::string Field::type() const {
    switch (kind_) {
        case Kind::size: return "Size, " + range() + ".";
        case Kind::count: return "Number, " + range() + ".";
        case Kind::duration: return "Duration, " + range() + ".";
        case Kind::flag: return "True or false.";
        case Kind::text: return "Text.";
        case Kind::choice: return "One of " + range() + ".";
    }
    return {};
}

Result<Field::Value> Field::read(std::string_view text, Report& report) const {
    const std::string given = '"' + shown(text) + '"';
    const auto no = [&](std::string_view what) {
        return report.fail(Code::invalid, given + " is not " + std::string(what));
    };
    Result<uint64_t> number = fail(Code::invalid);
    switch (kind_) {
        case Kind::text: return Value{0, std::string(text)};
        case Kind::choice:
            if (std::ranges::count(choices_, text) == 1) return Value{0, std::string(text)};
            return no("one of the choices; write " + range());
        case Kind::flag:
            if (text == "true" || text == "false") return Value{text == "true" ? 1u : 0u, {}};
            return no("true or false; write one of these");
        case Kind::size: number = parse_size(text); break;
        case Kind::duration:
            if (const auto time = parse_duration(text)) {
                number = static_cast<uint64_t>(time->count());
            } else {
                number = fail(time.error());
            }
            break;
        case Kind::count: {
            uint64_t value = 0;
            const auto [end, error] =
                std::from_chars(text.data(), text.data() + text.size(), value);
            if (error == std::errc::result_out_of_range) {
                number = fail(Code::too_large);
            } else if (error == std::errc() && end == text.data() + text.size()) {
                number = value;
            }
        }
    }
    if (!number && number.error().code == Code::invalid) {
        if (kind_ == Kind::size)
            return no("a size; write a whole number and a unit, such as " + format({most_, {}}) +
                      " or " + format(default_));
        if (kind_ == Kind::duration)
            return no(
                "a duration; write a whole number and a unit (ns, us, ms, s, min, h), such as " +
                format(default_.number != 0 ? default_ : Value{most_, {}}));
        return no("a whole number; write " + range());
    }
    if (!number || *number < least_ || *number > most_)
        return report.fail(Code::invalid, given + " is out of range; write " + range());
    return Value{*number, {}};
}

Field size(std::string_view name, uint64_t& value, uint64_t least, uint64_t most,
           std::string_view help) {
    return Field(Field::Kind::size, name, &value, help).between(least, most);
}
Field count(std::string_view name, uint32_t& value, uint32_t least, uint32_t most,
            std::string_view help) {
    return Field(Field::Kind::count, name, &value, help).between(least, most);
}
Field count(std::string_view name, uint64_t& value, uint64_t least, uint64_t most,
            std::string_view help) {
    return Field(Field::Kind::count, name, &value, help).between(least, most);
}
Field duration(std::string_view name, std::chrono::nanoseconds& value,
               std::chrono::nanoseconds least, std::chrono::nanoseconds most,
               std::string_view help) {
    return Field(Field::Kind::duration, name, &value, help)
        .between(static_cast<uint64_t>(least.count()), static_cast<uint64_t>(most.count()));
}
Field flag(std::string_view name, bool& value, std::string_view help) {
    return {Field::Kind::flag, name, &value, help};
}
Field text(std::string_view name, std::string& value, std::string_view help) {
    return {Field::Kind::text, name, &value, help};
}
Field choice(std::string_view name, std::string& value, std::vector<std::string_view> choices,
             std::string_view help) {
    return Field(Field::Kind::choice, name, &value, help).among(std::move(choices));
}

namespace {

// Appends `text` as comment lines of at most 100 columns.
void comment(std::string& out, std::string_view text, size_t indent) {
    const std::string start = std::string(indent, ' ') + "#";
    size_t column = 0;
    while (!text.empty()) {
        const auto end = std::min(text.find(' '), text.size());
        const auto word = text.substr(0, end);
        if (column == 0 || column + 1 + word.size() > 100) {
            if (column != 0) out += '\n';
            out += start;
            column = start.size();
        }
        out += ' ';
        out += word;
        column += 1 + word.size();
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    out += '\n';
}

void document_entries(std::string& out, const Group& group) {
    const std::string_view mark = group.entries->empty() ? "# " : "";
    out += std::string(mark) + std::string(group.name) + ":\n";
    for (const auto& [name, text] : *group.entries) {
        out += "  " + double_quoted(name) + ": " + double_quoted(text) + "\n";
    }
}

std::string text_of(const Entries& entries) {
    std::string text;
    for (const auto& [key, value] : entries) {
        text += (text.empty() ? "" : ", ") + key + ": " + double_quoted(value);
    }
    return "{" + text + "}";
}

void document_records(std::string& out, const Group& group) {
    const std::string name(group.name);
    std::string examples, lines;
    for (const Records& records : group.records) {
        const std::string kind(records.kind);
        const std::string prefix = kind.empty() ? "" : kind + ".";
        for (const Records::Key& key : records.keys) {
            comment(out, prefix + std::string(key.name) + ": " + std::string(key.help), 0);
        }
        examples += "#   " + std::string(records.example) + "\n";
        for (const auto& [each, entries] : *records.into) {
            const std::string own = records.keys.empty() ? kind : text_of(entries);
            const bool wraps = !kind.empty() && !records.keys.empty();
            lines += "  " + double_quoted(each) + ": " +
                     (wraps ? "{" + kind + ": " + own + "}" : own) + "\n";
        }
    }
    out += lines.empty() ? "# " + name + ":\n" + examples : name + ":\n" + lines;
}

}  // namespace

std::string text_in(const Entries& entries, const std::string& key, std::string otherwise) {
    const auto found = entries.find(key);
    return found == entries.end() ? std::move(otherwise) : found->second;
}

std::string document(const Table& table) {
    std::string out;
    for (const auto& group : table) {
        if (!out.empty()) out += '\n';
        if (!group.help.empty()) comment(out, group.help, 0);
        const bool top = group.name.empty();
        const size_t indent = top ? 0 : 2;
        if (group.entries != nullptr) {
            document_entries(out, group);
            continue;
        }
        if (!group.records.empty()) {
            document_records(out, group);
            continue;
        }
        const bool changed = std::ranges::any_of(group.fields, [](const Field& field) {
            return field.is_required() || field.value_text() != field.default_text();
        });
        // A group with only comments would be a key without a value.
        if (!top) out += (changed ? "" : "# ") + std::string(group.name) + ":\n";
        for (const auto& field : group.fields) {
            std::string words = std::string(field.help()) + " " + field.type();
            if (!field.is_required()) words += " Default: " + field.default_text() + ".";
            comment(out, words, indent);
            const bool commented =
                !field.is_required() && field.value_text() == field.default_text();
            out += commented ? "# " + std::string(indent, ' ') : std::string(indent, ' ');
            out += std::string(field.name()) + ": " + field.value_text() + "\n";
        }
    }
    return out;
}

}  // namespace ros2s::config
