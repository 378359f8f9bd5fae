#include "ordered_map_index.h"

#include <cerrno>

namespace ros2s::engine {

class OrderedMapIndex final : public Index {
  public:
    OrderedMapIndex(OrderedMapMedium& medium, uint64_t generation)
        : medium_(medium), generation_(generation) {}

    Result<std::optional<std::string>> get(std::string_view key) override {
        const std::lock_guard lock(medium_.mutex_);
        ROS2S_TRY(usable());
        const auto found = medium_.map_.find(key);
        if (found == medium_.map_.end()) return std::optional<std::string>();
        return found->second;
    }

    std::optional<std::optional<std::string>> get_cached(std::string_view key) override {
        if (!asked_memory()) return std::nullopt;
        auto value = get(key);
        if (!value) return std::nullopt;
        return std::move(*value);
    }

    Result<IndexPage> scan(const IndexScan& scan) override {
        ROS2S_CHECK(scan.limit > 0);
        const std::lock_guard lock(medium_.mutex_);
        ROS2S_TRY(usable());
        IndexPage page;
        const auto& map = medium_.map_;
        if (!scan.to.empty() && scan.to <= scan.from) return page;
        const auto begin = map.lower_bound(scan.from);
        const auto end = scan.to.empty() ? map.end() : map.lower_bound(scan.to);
        size_t bytes = 0;
        // Returns false when the page is full, with `more` set.
        const auto take = [&](const auto& entry) {
            const size_t size = entry.first.size() + (scan.keys_only ? 0 : entry.second.size());
            if (page.entries.size() == scan.limit ||
                (!page.entries.empty() && bytes + size > scan.bytes_max)) {
                page.more = true;
                return false;
            }
            bytes += size;
            page.entries.push_back({entry.first, scan.keys_only ? "" : entry.second});
            return true;
        };
        if (scan.reverse) {
            for (auto at = end; at != begin;)
                if (!take(*--at)) break;
        } else {
            for (auto at = begin; at != end; ++at)
                if (!take(*at)) break;
        }
        return page;
    }

    std::optional<IndexPage> scan_cached(const IndexScan& request) override {
        if (!asked_memory()) return std::nullopt;
        auto page = scan(request);
        if (!page) return std::nullopt;
        return std::move(*page);
    }

    Result<> apply(IndexBatch batch) override {
        const std::lock_guard lock(medium_.mutex_);
        ROS2S_TRY(writable());
        OrderedMapMedium::Undo undo;
        undo.reserve(batch.count());
        batch.consume([&](std::string_view key, const std::string_view* value) {
            medium_.set(key, value, undo);
        });
        medium_.unflushed_.push_back(std::move(undo));
        return {};
    }

    Result<> flush() override {
        const std::lock_guard lock(medium_.mutex_);
        ROS2S_TRY(writable());
        medium_.unflushed_.clear();
        return {};
    }

    uint64_t memory_bytes() const override {
        const std::lock_guard lock(medium_.mutex_);
        return medium_.bytes_;
    }
    uint64_t disk_bytes() const override { return memory_bytes(); }

    Result<> close() override {
        closed_ = true;
        return {};
    }

  private:
    bool asked_memory() {
        const std::lock_guard lock(medium_.mutex_);
        return medium_.in_memory_ = !medium_.in_memory_;
    }
    Result<> usable() const {
        if (closed_) return fail(Code::closed);
        if (generation_ != medium_.generation_) return fail(Error{Code::io, EIO, 0});
        if (medium_.failure_) return fail(*medium_.failure_);
        return {};
    }

    Result<> writable() const {
        ROS2S_TRY(usable());
        if (medium_.full_) return fail(Error{Code::no_space, ENOSPC, 0});
        return {};
    }

    OrderedMapMedium& medium_;
    const uint64_t generation_;
    bool closed_ = false;
};

std::unique_ptr<Index> OrderedMapMedium::open() {
    const std::lock_guard lock(mutex_);
    return std::make_unique<OrderedMapIndex>(*this, generation_);
}

void OrderedMapMedium::crash(Random& random) {
    const std::lock_guard lock(mutex_);
    for (size_t lost = random.below(unflushed_.size() + 1); lost > 0; --lost) {
        take_back(std::move(unflushed_.back()));
        unflushed_.pop_back();
    }
    // The state that survived a crash is on the medium: the next crash cannot undo it.
    unflushed_.clear();
    failure_.reset();
    ++generation_;
}

void OrderedMapMedium::fail_with(const Error& error) {
    const std::lock_guard lock(mutex_);
    failure_ = error;
}

void OrderedMapMedium::set_full(bool full) {
    const std::lock_guard lock(mutex_);
    full_ = full;
}

size_t OrderedMapMedium::unflushed() const {
    const std::lock_guard lock(mutex_);
    return unflushed_.size();
}

void OrderedMapMedium::set(std::string_view key, const std::string_view* value, Undo& undo) {
    const auto found = map_.find(key);
    if (found == map_.end()) {
        if (value == nullptr) return;
        undo.emplace_back(key, std::nullopt);
        map_.emplace(key, *value);
        bytes_ += key.size() + value->size();
        return;
    }
    bytes_ -= key.size() + found->second.size();
    undo.emplace_back(key, std::move(found->second));
    if (value == nullptr) {
        map_.erase(found);
        return;
    }
    found->second = *value;
    bytes_ += key.size() + value->size();
}

void OrderedMapMedium::take_back(Undo undo) {
    Undo ignored;
    for (; !undo.empty(); undo.pop_back()) {
        auto& [key, value] = undo.back();
        const std::string_view view = value ? *value : std::string_view();
        set(key, value ? &view : nullptr, ignored);
        ignored.clear();
    }
}

}  // namespace ros2s::engine
