#include "app_host.h"

#include <fmt/format.h>

namespace ros2s::sim {

using fs::Attributes;
using fs::NodeId;

// The control plane's names: plain calls, under names of their own, until a DPU that lives answers.
class AppHost::Names final : public fs::Namespace {
  public:
    explicit Names(AppHost& host)
        : host_(host), slots_(host.world_.core(), host.client_, 256, 256) {}
    using AttributesTask = Task<Result<Attributes>>;

    AttributesTask lookup(const Call& call, NodeId parent, std::string_view name) override {
        co_return co_await ask<Attributes>(
            call, [&](auto& at, const Call& named) { return at.fs().lookup(named, parent, name); });
    }
    AttributesTask mkdir(const Call& call, NodeId parent, std::string_view name, mode_t mode,
                         fs::Owner owner) override {
        co_return co_await ask<Attributes>(call, [&](auto& at, const Call& named) {
            return at.fs().mkdir(named, parent, name, mode, owner);
        });
    }
    AttributesTask mknod(const Call& call, NodeId parent, std::string_view name, mode_t mode,
                         dev_t device, fs::Owner owner) override {
        co_return co_await ask<Attributes>(call, [&](auto& at, const Call& named) {
            return at.fs().mknod(named, parent, name, mode, device, owner);
        });
    }
    AttributesTask symlink(const Call& call, NodeId parent, std::string_view name,
                           std::string_view target, fs::Owner owner) override {
        co_return co_await ask<Attributes>(call, [&](auto& at, const Call& named) {
            return at.fs().symlink(named, parent, name, target, owner);
        });
    }
    AttributesTask link(const Call& call, NodeId node, NodeId parent,
                        std::string_view name) override {
        co_return co_await ask<Attributes>(call, [&](auto& at, const Call& named) {
            return at.fs().link(named, node, parent, name);
        });
    }
    Task<Result<>> unlink(const Call& call, NodeId parent, std::string_view name) override {
        co_return co_await ask<void>(
            call, [&](auto& at, const Call& named) { return at.fs().unlink(named, parent, name); });
    }
    Task<Result<>> rmdir(const Call& call, NodeId parent, std::string_view name) override {
        co_return co_await ask<void>(
            call, [&](auto& at, const Call& named) { return at.fs().rmdir(named, parent, name); });
    }
    Task<Result<>> rename(const Call& call, NodeId parent, std::string_view name, NodeId new_parent,
                          std::string_view new_name, RenameFlags flags) override {
        co_return co_await ask<void>(call, [&](auto& at, const Call& named) {
            return at.fs().rename(named, parent, name, new_parent, new_name, flags);
        });
    }
    Task<Result<std::string>> readlink(const Call& call, NodeId node) override {
        co_return co_await ask<std::string>(
            call, [&](auto& at, const Call& named) { return at.fs().readlink(named, node); });
    }
    AttributesTask get_attributes(const Call& call, NodeId node) override {
        co_return co_await ask<Attributes>(
            call, [&](auto& at, const Call& named) { return at.fs().get_attributes(named, node); });
    }
    AttributesTask set_attributes(const Call& call, NodeId node,
                                  const fs::SetAttributes& changes) override {
        co_return co_await ask<Attributes>(call, [&](auto& at, const Call& named) {
            return at.fs().set_attributes(named, node, changes);
        });
    }
    Task<Result<std::string>> get_xattr(const Call& call, NodeId node,
                                        std::string_view name) override {
        co_return co_await ask<std::string>(call, [&](auto& at, const Call& named) {
            return at.fs().get_xattr(named, node, name);
        });
    }
    Task<Result<>> set_xattr(const Call& call, NodeId node, std::string_view name, ConstBytes value,
                             fs::SetXattr how) override {
        co_return co_await ask<void>(call, [&](auto& at, const Call& named) {
            return at.fs().set_xattr(named, node, name, value, how);
        });
    }
    Task<Result<>> remove_xattr(const Call& call, NodeId node, std::string_view name) override {
        co_return co_await ask<void>(call, [&](auto& at, const Call& named) {
            return at.fs().remove_xattr(named, node, name);
        });
    }
    Task<Result<std::vector<std::string>>> list_xattrs(const Call& call, NodeId node) override {
        co_return co_await ask<std::vector<std::string>>(
            call, [&](auto& at, const Call& named) { return at.fs().list_xattrs(named, node); });
    }
    Task<Result<fs::Opened>> open(const Call& call, NodeId node, fs::OpenFlags flags) override {
        co_return co_await ask<fs::Opened>(call, [&](auto& at, const Call& named) {
            return opened(at, at.fs().open(named, node, flags));
        });
    }
    Task<Result<fs::Opened>> create(const Call& call, NodeId parent, std::string_view name,
                                    mode_t mode, fs::OpenFlags flags, fs::Owner owner) override {
        co_return co_await ask<fs::Opened>(call, [&](auto& at, const Call& named) {
            return opened(at, at.fs().create(named, parent, name, mode, flags, owner));
        });
    }
    Task<Result<>> close(const Call& call, fs::FileHandle handle) override {
        const auto at = host_.dpu_.enter(host_.place_);
        if (!at || !at->mount->closing(handle)) co_return fail(Code::stale);
        co_return co_await at->fs().close(call, handle);
    }
    Task<Result<std::vector<fs::DirectoryEntry>>> readdir(const Call& call, fs::FileHandle handle,
                                                          uint64_t cookie, size_t limit) override {
        co_return co_await ask<std::vector<fs::DirectoryEntry>>(
            call, [&](auto& at, const Call& named) {
                return at.fs().readdir(named, handle, cookie, limit);
            });
    }
    Task<Result<fs::FileSystemSpace>> space(const Call& call) override {
        co_return co_await ask<fs::FileSystemSpace>(
            call, [&](auto& at, const Call& named) { return at.fs().space(named); });
    }
    void forget(NodeId /*node*/, uint64_t /*count*/) override {}  // Dfs keeps nothing for it

  private:
    static Task<Result<fs::Opened>> opened(Dpu::Using& at, Task<Result<fs::Opened>> opening) {
        auto result = co_await std::move(opening);
        if (result) at.mount->opened(result->handle);
        co_return result;
    }
    template <class T, class Work>
    Task<Result<T>> ask(const Call& call, Work work) {
        co_await slots_.wait();
        const auto slot = slots_.take();
        UpdateName name{
            .client = slot.id().client, .slot = slot.id().slot, .sequence = slot.id().sequence};
        for (;; name.repeated = true) {
            const session::MountLocation at = host_.place_;
            {
                auto entered = host_.dpu_.enter(at);
                if (entered) {
                    const Call named{.deadline = call.deadline, .update = &name};
                    auto result = co_await work(*entered, named);
                    if (host_.dpu_.has(at.session)) co_return result;
                }
            }
            if (!co_await host_.moved(call, at)) co_return fail(Code::stale);
        }
    }
    AppHost& host_;
    rpc::UpdateSlots slots_;
};

AppHost::AppHost(World& world, fabric::sim::Network& network, Dpu& dpu, uint8_t number)
    : world_(world),
      network_(network),
      dpu_(dpu),
      process_(fmt::format("host {}", number)),
      following_(world.core(), 1),
      reopening_(world.core(), 1) {
    client_.bytes[0] = number;
    client_.bytes[15] = 2;
}
AppHost::~AppHost() = default;

Task<Result<std::string>> AppHost::take(Report& /*report*/) {
    if (!dpu_.has(session_)) {
        ROS2S_CO_TRY_ASSIGN(session_, dpu_.open_session(client_));
    }
    co_return dpu_.issue_ticket(session_);
}

Task<> AppHost::connect() {
    Report report;
    domain_ = network_.open_domain(world_.core(), process_);
    auto channel =
        co_await rpc::Channel::open(world_.core(), *domain_, dpu_.process(), *this,
                                    {.service = hostlink::file_service, .client = client_}, report);
    ROS2S_CHECK(channel);
    channel_ = std::move(*channel);
    const auto mounted = co_await dpu_.mount(session_);
    ROS2S_CHECK(mounted);
    place_ = {.session = session_, .mount = *mounted};
    names_ = std::make_unique<Names>(*this);
    link_ = std::make_unique<hostlink::LinkClient>(
        world_.core(), *channel_, *names_, *this,
        hostlink::LinkClient::Options{.client = client_, .behind = "a simulated DPU"});
    co_await following_.spawn(follow(*this));
}

Task<> AppHost::follow(AppHost& self) {
    const Call call;
    while (!self.leaving_) {
        co_await sleep_for(self.world_.core(), std::chrono::milliseconds(1));
        if (self.session_ == self.place_.session) continue;
        const session::SessionId session = self.session_;
        const auto mounted = co_await self.dpu_.mount(session);
        if (!mounted) continue;
        self.place_ = {.session = session, .mount = *mounted};
        (void)self.reopening_.try_spawn(self.link_->reopen_all(call));
    }
}

Task<bool> AppHost::moved(const Call& /*call*/, session::MountLocation from) {
    while (place_ == from && !dpu_.has(from.session) && !leaving_) {
        co_await sleep_for(world_.core(), std::chrono::milliseconds(1));
    }
    co_return place_ != from;
}

Task<> AppHost::disconnect() {
    co_await link_->close_all();
    leaving_ = true;
    co_await following_.join();
    co_await reopening_.join();
    link_.reset();
    names_.reset();
    co_await channel_->close();
    channel_.reset();
    co_await domain_->close();
    domain_.reset();
}

}  // namespace ros2s::sim
