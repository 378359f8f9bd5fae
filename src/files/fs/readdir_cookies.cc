#include "readdir_cookies.h"

#include <algorithm>

namespace ros2s::fs {
namespace {

// Names that were removed since they were returned may be between two names that are read again.
constexpr uint64_t removed_names_max = 16;

}  // namespace

ReaddirCookies::~ReaddirCookies() {
    if (share_ == nullptr) return;
    memory_.bytes_ -= bytes_;
    share_->bytes -= bytes_;
    share_->handles.erase(place_);
    if (share_->handles.empty()) memory_.shares_.erase(tenant_);
}

std::string_view ReaddirCookies::name_in(const Page& page, uint64_t cookie) const {
    const size_t index = cookie - page.first;
    const uint32_t begin = index == 0 ? 0 : page.ends[index - 1];
    return std::string_view(page.names).substr(begin, page.ends[index] - begin);
}

std::string_view ReaddirCookies::name_with(uint64_t cookie) const {
    const auto page = std::ranges::lower_bound(pages_, cookie, {}, &Page::last);
    if (page == pages_.end() || cookie < page->first) return {};
    return name_in(*page, cookie);
}

std::optional<std::string> ReaddirCookies::find(uint64_t cookie) const {
    const std::string_view name = name_with(cookie);
    if (name.empty()) return std::nullopt;
    return std::string(name);
}

void ReaddirCookies::begin(uint64_t cookie, uint64_t tenant) {
    if (share_ == nullptr) {
        tenant_ = tenant;
        share_ = &memory_.shares_[tenant];
        place_ = share_->handles.insert(share_->handles.end(), this);
    }
    went_on_from_ = cookie;
    expected_ = cookie + 1;
}

uint64_t ReaddirCookies::add(std::string_view name) {
    const uint64_t end = std::min(next_, expected_ + removed_names_max);
    for (uint64_t cookie = expected_; cookie < end; ++cookie) {
        if (name_with(cookie) != name) continue;
        expected_ = cookie + 1;
        return returned_ = cookie;
    }
    const bool is_at_end = expected_ == next_;
    append(next_, name);
    returned_ = next_++;
    if (is_at_end) expected_ = next_;
    return returned_;
}

void ReaddirCookies::append(uint64_t cookie, std::string_view name) {
    const bool has_room = !pages_.empty() && pages_.back().last() + 1 == cookie &&
                          pages_.back().names.size() + name.size() <= page_bytes;
    if (!has_room) pages_.push_back({.first = cookie, .names = {}});
    Page& page = pages_.back();
    page.names += name;
    page.ends.push_back(static_cast<uint32_t>(page.names.size()));
}

void ReaddirCookies::end() {
    recount();
    size_t oldest = 0;
    for (size_t left = bytes_; left > bytes_max && oldest + 1 < pages_.size(); ++oldest) {
        left -= pages_[oldest].bytes();
    }
    forget_pages(oldest);
    memory_.used(*this);
}

void ReaddirCookies::recount() {
    size_t bytes = 0;
    for (const Page& page : pages_) bytes += page.bytes();
    memory_.bytes_ = memory_.bytes_ - bytes_ + bytes;
    share_->bytes = share_->bytes - bytes_ + bytes;
    bytes_ = bytes;
}

void ReaddirCookies::forget_pages(size_t count) {
    pages_.erase(pages_.begin(), pages_.begin() + static_cast<ptrdiff_t>(count));
    recount();
}

void ReaddirCookies::forget_before_last_call() {
    const auto kept = std::ranges::lower_bound(pages_, went_on_from_, {}, &Page::last);
    forget_pages(static_cast<size_t>(kept - pages_.begin()));
}

void ReaddirCookies::forget_all_but_last() {
    if (pages_.empty() || (pages_.size() == 1 && pages_.front().ends.size() == 1)) return;
    const std::string returned(name_with(returned_)), last(name_with(next_ - 1));
    std::vector<Page>().swap(pages_);
    if (returned_ < next_ - 1 && !returned.empty()) append(returned_, returned);
    append(next_ - 1, last);
    recount();
}

void ListingMemory::used(ReaddirCookies& cookies) {
    std::list<ReaddirCookies*>& handles = cookies.share_->handles;
    handles.splice(handles.end(), handles, cookies.place_);
    if (bytes_ > bytes_max_) make_room();
}

void ListingMemory::make_room() {
    std::vector<const Share*> by_size;
    for (const auto& [tenant, share] : shares_) by_size.push_back(&share);
    std::ranges::sort(by_size, std::greater(), &Share::bytes);
    for (const Share* share : by_size) make_room(*share);
}

void ListingMemory::make_room(const Share& share) const {
    for (const auto forget :
         {&ReaddirCookies::forget_before_last_call, &ReaddirCookies::forget_all_but_last}) {
        for (ReaddirCookies* handle : share.handles) {
            if (bytes_ <= bytes_max_) return;
            (handle->*forget)();
        }
    }
}

}  // namespace ros2s::fs
