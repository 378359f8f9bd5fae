#include "scan.h"

#include <algorithm>

#include "ros2s/runtime/nursery.h"

namespace ros2s::engine {
namespace {

// Nodes stay on their core: their values travel.
Task<Result<Loader::Page>> scan_at(Core& core, std::string from, std::string to, size_t limit,
                                   bool reverse) {
    ROS2S_CO_TRY_ASSIGN(Loader::Page page,
                        co_await core.loader.scan(std::move(from), std::move(to), limit, reverse));
    for (Loader::Item& item : page.items) {
        if (item.node == nullptr) continue;
        item.raw = encode(*item.node);
        item.node = nullptr;
    }
    co_return page;
}
Task<> scan_into(Result<Loader::Page>& page, Core& core, Core& home, std::string from,
                 std::string to, size_t limit, bool reverse) {
    page = co_await at(core, home, scan_at(core, std::move(from), std::move(to), limit, reverse));
}

}  // namespace

Task<Result<Loader::Page>> scan(Cores& cores, std::string from, std::string to, size_t limit,
                                bool reverse) {
    Core& home = cores.home();
    if (cores.is_one()) {
        co_return co_await home.loader.scan(std::move(from), std::move(to), limit, reverse);
    }
    std::vector<Result<Loader::Page>> pages(cores.size());
    {
        Nursery side_by_side(home.env.reactor, cores.size());
        for (uint32_t i = 0; i < cores.size(); ++i) {
            co_await side_by_side.spawn(
                scan_into(pages[i], cores[i], home, from, to, limit, reverse));
        }
        co_await side_by_side.join();
    }
    Loader::Page all;
    for (Result<Loader::Page>& of_core : pages) {
        ROS2S_CO_TRY_ASSIGN(Loader::Page page, std::move(of_core));
        if (page.more) {
            const bool nearer = reverse ? page.next > all.next : page.next < all.next;
            if (!all.more || nearer) all.next = page.next;
            all.more = true;
        }
        all.items.insert(all.items.end(), std::make_move_iterator(page.items.begin()),
                         std::make_move_iterator(page.items.end()));
    }
    if (all.more) {
        std::erase_if(all.items, [&](const Loader::Item& item) {
            return reverse ? item.key < all.next : item.key >= all.next;
        });
    }
    std::ranges::sort(all.items, {}, &Loader::Item::key);
    if (reverse) std::ranges::reverse(all.items);
    co_return all;
}

}  // namespace ros2s::engine
