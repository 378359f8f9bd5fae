#include "readdir_cookies.h"

#include <algorithm>

namespace ros2s::fs {

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

std::optional<std::string> ReaddirCookies::find(uint64_t cookie) const {
    const auto page = std::ranges::lower_bound(pages_, cookie, {}, &Page::last);
    if (page == pages_.end() || cookie < page->first) return std::nullopt;
    return std::string(name_in(*page, cookie));
}

uint64_t ReaddirCookies::begin(uint64_t cookie, uint64_t tenant) {
    if (share_ == nullptr) {
        tenant_ = tenant;
        share_ = &memory_.shares_[tenant];
        place_ = share_->handles.insert(share_->handles.end(), this);
    }
    went_on_from_ = cookie;
    return next_;
}

void ReaddirCookies::add(std::string_view name) {
    if (pages_.empty() || pages_.back().names.size() + name.size() > page_bytes) {
        pages_.push_back({.first = next_, .names = {}});
    }
    Page& page = pages_.back();
    page.names += name;
    page.ends.push_back(static_cast<uint32_t>(page.names.size()));
    ++next_;
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
    const std::string last(name_in(pages_.back(), next_ - 1));
    std::vector<Page>().swap(pages_);
    pages_.push_back(
        {.first = next_ - 1, .names = last, .ends = {static_cast<uint32_t>(last.size())}});
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
