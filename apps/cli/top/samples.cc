#include "samples.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace ros2s::cli {
namespace {

bool take(std::string_view& line, char c) {
    if (!line.starts_with(c)) return false;
    line.remove_prefix(1);
    return true;
}

std::string take_name(std::string_view& line) {
    const size_t size = std::min(line.size(), line.find_first_not_of("abcdefghijklmnopqrstuvwxyz"
                                                                     "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                                     "0123456789_:"));
    std::string name(line.substr(0, size));
    line.remove_prefix(size);
    return name;
}

// "text", with \\, \" and \n for three characters.
std::optional<std::string> take_text(std::string_view& line) {
    if (!take(line, '"')) return std::nullopt;
    std::string text;
    while (!line.empty()) {
        if (take(line, '"')) return text;
        char c = line.front();
        line.remove_prefix(1);
        if (c == '\\') {
            if (line.empty()) break;
            c = line.front() == 'n' ? '\n' : line.front();
            line.remove_prefix(1);
        }
        text.push_back(c);
    }
    return std::nullopt;
}

// {a="1",b="2"}, also with a comma at the end, or nothing.
bool take_labels(std::string_view& line, Sample& sample) {
    if (!take(line, '{')) return true;
    while (!take(line, '}')) {
        std::string name = take_name(line);
        if (name.empty() || !take(line, '=')) return false;
        auto text = take_text(line);
        if (!text) return false;
        sample.labels.insert_or_assign(std::move(name), std::move(*text));
        if (!take(line, ',') && !line.starts_with('}')) return false;
    }
    return true;
}

// A time may follow the value. It is ignored.
bool parse_line(std::string_view line, Sample& sample) {
    sample.name = take_name(line);
    if (sample.name.empty() || !take_labels(line, sample) || !take(line, ' ')) return false;
    std::string_view word = line.substr(0, line.find(' '));
    if (word.size() > 1) take(word, '+');
    const auto [at, error] =  // also of Inf and NaN
        std::from_chars(word.data(), word.data() + word.size(), sample.value);
    return error == std::errc() && at == word.data() + word.size();
}

}  // namespace

std::string_view Sample::label(std::string_view wanted) const {
    const auto found = labels.find(wanted);
    return found == labels.end() ? std::string_view() : std::string_view(found->second);
}

Result<std::vector<Sample>> parse_samples(std::string_view page, Report& report) {
    std::vector<Sample> samples;
    for (size_t number = 1; !page.empty(); ++number) {
        const size_t end = std::min(page.size(), page.find('\n'));
        const std::string_view line = page.substr(0, end);
        page.remove_prefix(std::min(page.size(), end + 1));
        if (line.empty() || line.starts_with('#')) continue;
        if (!parse_line(line, samples.emplace_back())) {
            return report.fail(Code::corrupt, "line {} is not a metric", number);
        }
    }
    return samples;
}

}  // namespace ros2s::cli
