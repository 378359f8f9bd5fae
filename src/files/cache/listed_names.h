// ListedNames: the names that listings returned lately, in their order. A program that has listed a
// directory often looks up each name next. Then one request can look up many of them.
//
// Used on one core. Bounded: names of a few directories. What is left out costs requests only.
#pragma once
#include <algorithm>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ros2s/fs/file_system.h"

namespace ros2s::cache {

class ListedNames {
  public:
    static constexpr size_t directories_max = 4;
    static constexpr size_t names_max = 4096;  // of each

    // The reply of a listing from this cookie on.
    void add(fs::NodeId directory, uint64_t cookie,
             const std::vector<fs::DirectoryEntry>& entries) {
        List* list = find(directory);
        if (list != nullptr && cookie == 0) *list = {.directory = directory};
        if (list == nullptr) {
            if (lists_.size() == directories_max) lists_.pop_front();
            list = &lists_.emplace_back(List{.directory = directory});
        }
        for (const fs::DirectoryEntry& each : entries) {
            if (list->names.size() == names_max) break;
            list->names.push_back(each.name);
        }
    }
    // The name was looked up. Returns those behind it in the listing, at most so many, if
    // `is_known(name before it)`: its user looks up one name after the other.
    std::vector<std::string_view> after(fs::NodeId directory, std::string_view name, size_t most,
                                        auto is_known) {
        List* const list = find(directory);
        if (list == nullptr) return {};
        const auto from = list->names.begin() + static_cast<ptrdiff_t>(list->next);
        const auto end =
            from + static_cast<ptrdiff_t>(std::min(window, list->names.size() - list->next));
        const auto found = std::find(from, end, name);
        if (found == end) return {};
        const auto next = found + 1;
        list->next = static_cast<size_t>(next - list->names.begin());
        if (found == list->names.begin() || !is_known(std::string_view(*(found - 1)))) return {};
        const auto count = std::min<size_t>(most, static_cast<size_t>(list->names.end() - next));
        return {next, next + static_cast<ptrdiff_t>(count)};
    }
    void clear() { lists_.clear(); }

  private:
    // Names that were looked up before without being seen here: they were kept elsewhere.
    static constexpr size_t window = 1024;
    struct List {
        fs::NodeId directory{};
        std::vector<std::string> names{};
        size_t next = 0;  // behind the last one that was looked up
    };
    [[nodiscard]] List* find(fs::NodeId directory) {
        const auto found = std::ranges::find(lists_, directory, &List::directory);
        return found == lists_.end() ? nullptr : &*found;
    }
    std::deque<List> lists_;  // the oldest first
};

}  // namespace ros2s::cache
