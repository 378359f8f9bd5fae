// ReaddirCookies: the names that a directory's handle has given out. A cookie is the number of a
// name, counted from 1 in the order of being given out, and is never used twice; reading goes on
// behind that name.
//
// Names are kept in pages, for seeks to what was given out before. They are bounded per handle, and
// for all handles of a file system together (ListingMemory). Whoever goes over the first bound
// loses the oldest names. Over the second one the handles that were not read for the longest time
// lose theirs: at first all but those of the last call and the one it went on from, which a reader
// may still be in the middle of; only where that is not enough all but the last name. A seek to a
// forgotten name fails (`invalid`).
//
// Owned by what is open; used on one core. The memory outlives the cookies.
#pragma once
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ros2s::fs {

class ReaddirCookies;

// What the handles of one file system keep.
class ListingMemory {
  public:
    static constexpr size_t bytes_max = size_t{8} << 20;

    [[nodiscard]] size_t bytes() const { return bytes_; }

  private:
    friend class ReaddirCookies;
    void used(ReaddirCookies& cookies);
    void make_room();
    size_t bytes_ = 0;
    std::list<ReaddirCookies*> handles_;  // that keep names; the one read last is the last
};

class ReaddirCookies {
  public:
    static constexpr size_t bytes_max = size_t{1} << 20;
    static constexpr uint64_t names_max = uint64_t{1} << 48;  // of any directory

    explicit ReaddirCookies(ListingMemory& memory) : memory_(memory) {}
    ReaddirCookies(const ReaddirCookies&) = delete;
    ReaddirCookies& operator=(const ReaddirCookies&) = delete;
    ~ReaddirCookies();

    // The name with that cookie; nothing when it was forgotten or never given out.
    [[nodiscard]] std::optional<std::string> find(uint64_t cookie) const;
    // The cookie that was given out last; 0 before the first. Its name is always kept.
    [[nodiscard]] uint64_t last() const { return next_ - 1; }
    // The directory has ended before it. Not so of a number that this handle has not come to yet:
    // it may be another handle's, and names would be missing.
    [[nodiscard]] bool is_behind_end(uint64_t cookie) const {
        return cookie >= next_ && (reached_end_ || cookie > names_max);
    }
    // A call that went on from `cookie` gives out names; their cookies follow one another from what
    // is returned.
    uint64_t begin(uint64_t cookie);
    void add(std::string_view name);
    // The call has given out its names. Others' may be forgotten.
    void end();
    // The last name was given out.
    void reached_end() { reached_end_ = true; }

  private:
    friend class ListingMemory;
    static constexpr size_t page_bytes = 4096;
    struct Page {
        uint64_t first = 0;            // cookie
        std::string names;             // one behind the other
        std::vector<uint32_t> ends{};  // of each in `names`
        [[nodiscard]] uint64_t last() const { return first + ends.size() - 1; }
        [[nodiscard]] size_t bytes() const {
            return sizeof(Page) + names.capacity() + ends.capacity() * sizeof(uint32_t);
        }
    };
    [[nodiscard]] std::string_view name_in(const Page& page, uint64_t cookie) const;
    void forget_pages(size_t count);
    void forget_before_last_call();
    void forget_all_but_last();
    void recount();

    ListingMemory& memory_;
    std::vector<Page> pages_;
    uint64_t next_ = 1;
    bool reached_end_ = false;
    uint64_t went_on_from_ = 0;  // the cookie that the last call had
    size_t bytes_ = 0;           // as ListingMemory counts them
    std::optional<std::list<ReaddirCookies*>::iterator> place_;
};

}  // namespace ros2s::fs
