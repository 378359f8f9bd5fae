// ReaddirCookies: the names that a directory's handle has returned. A cookie is the number of a
// name, counted from 1 in the order of its first return. It is never reused for another name.
// Reading continues after that name. A name that is read again, after a seek, keeps its cookie:
// seeks take no memory.
//
// Names are kept in pages, for seeks to earlier names. They are bounded per handle, and for many
// handles together (ListingMemory). A handle over the first limit loses its oldest names. A seek to
// a forgotten name fails (`invalid`).
//
// Owned by the open directory; used on one core. The ListingMemory outlives the cookies.
#pragma once
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/fs/listing_memory.h"

namespace ros2s::fs {

class ReaddirCookies {
  public:
    static constexpr size_t bytes_max = size_t{1} << 20;
    static constexpr uint64_t names_max = uint64_t{1} << 48;  // more than any directory has

    explicit ReaddirCookies(ListingMemory& memory) : memory_(memory) {}
    ReaddirCookies& operator=(ReaddirCookies&&) = delete;
    ~ReaddirCookies();

    // The name with that cookie. Empty if it was forgotten or never returned.
    [[nodiscard]] std::optional<std::string> find(uint64_t cookie) const;
    // The last cookie that was returned; 0 before the first. Its name is always kept.
    [[nodiscard]] uint64_t last() const { return next_ - 1; }
    // True if the directory ends before this cookie. False for a number that this handle has not
    // reached. Such a number may belong to another handle, and names would be missing.
    [[nodiscard]] bool is_behind_end(uint64_t cookie) const {
        return cookie >= next_ && (reached_end_ || cookie > names_max);
    }
    // Begins a call that continues after `cookie`. All calls of a handle are of one tenant.
    void begin(uint64_t cookie, uint64_t tenant);
    // The next name of the call. Returns its cookie.
    uint64_t add(std::string_view name);
    // Ends the call. Names of other handles may then be forgotten.
    void end();
    // The last name of the directory was returned.
    void reached_end() { reached_end_ = true; }

  private:
    friend class ListingMemory;
    static constexpr size_t page_bytes = 4096;
    struct Page {
        uint64_t first = 0;            // cookie
        std::string names;             // one after the other
        std::vector<uint32_t> ends{};  // end of each name in `names`
        [[nodiscard]] uint64_t last() const { return first + ends.size() - 1; }
        [[nodiscard]] size_t bytes() const {
            return sizeof(Page) + names.capacity() + ends.capacity() * sizeof(uint32_t);
        }
    };
    [[nodiscard]] std::string_view name_in(const Page& page, uint64_t cookie) const;
    // Empty if it is not kept: no name is.
    [[nodiscard]] std::string_view name_with(uint64_t cookie) const;
    void append(uint64_t cookie, std::string_view name);
    void forget_pages(size_t count);
    void forget_before_last_call();
    void forget_all_but_last();
    void recount();

    ListingMemory& memory_;
    std::vector<Page> pages_;
    uint64_t next_ = 1;
    bool reached_end_ = false;
    uint64_t went_on_from_ = 0;              // the cookie of the last call
    uint64_t expected_ = 0;                  // of the next name, if it was returned before
    uint64_t returned_ = 0;                  // the last cookie that a call returned
    size_t bytes_ = 0;                       // as counted by ListingMemory
    ListingMemory::Share* share_ = nullptr;  // from the first call on
    uint64_t tenant_ = 0;
    std::list<ReaddirCookies*>::iterator place_;
};

}  // namespace ros2s::fs
