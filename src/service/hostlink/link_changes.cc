// Changes that are not durable, of a container with durability=fsync: whether they are lost.
#include "link_ask.h"
#include "ros2s/fs/unsynced.h"

namespace ros2s::hostlink {
namespace {

// While there are some, one request each time.
constexpr Duration changes_asked_every = std::chrono::seconds(1);

}  // namespace

void LinkClient::acknowledged(const session::MountLocation& place) {
    if (!is_deferred()) return;
    changes_.acknowledged(place, reactor_.now());
    if (!watches_changes_ && !is_closing()) {
        watches_changes_ = watching_.try_spawn(watch_changes(*this));
    }
}

// From then on the host knows the start of the store that has the changes.
Task<> LinkClient::watch_changes(LinkClient& self) {
    while (self.changes_.is_unsure() && !self.is_closing()) {
        const Call call{.deadline = self.reactor_.now() + self.options_.patience,
                        .stop = self.closing_.token()};
        (void)co_await self.ask_for_losses(call);
        if (!self.changes_.is_unsure()) break;
        (void)co_await sleep_for(self.reactor_, changes_asked_every, call.stop);
    }
    self.watches_changes_ = false;
}

Task<Result<>> LinkClient::ask_for_losses(const Call& call) {
    for (;;) {
        const session::MountLocation place = locator_.location();
        const Time sent = reactor_.now();
        const auto text = co_await get_xattr(call, fs::root_node, fs::unsynced_attribute);
        const bool has_none = !text && text.error().code == Code::no_attribute;
        if (!text && !has_none) co_return fail(text.error());
        if (place != locator_.location()) continue;
        const auto answer = fs::parse_unsynced(has_none ? "" : *text);
        if (!answer || answer->store_start == 0) co_return Result<>{};
        if (changes_.started(place, answer->store_start)) note_losses();
        changes_.durable_before(place, sent - std::chrono::milliseconds(answer->milliseconds + 1));
        co_return Result<>{};
    }
}

void LinkClient::note_losses() {
    is_loss_untold_ = true;
    for (auto& [handle, file] : open_) file.tells_loss = file.unsynced;
    options_.log.error(
        "{}: it was started again, and so was the storage behind it. Changes of this host that "
        "were not synced, at most those of its last second, may be lost. The next fsync of each "
        "file that was written and not synced fails with EIO. Write it again",
        options_.behind);
}

bool LinkClient::tells_loss(fs::FileHandle handle) {
    bool tells = std::exchange(is_loss_untold_, false);
    if (const auto file = opened(handle)) tells |= std::exchange((*file)->tells_loss, false);
    return tells;
}

}  // namespace ros2s::hostlink
