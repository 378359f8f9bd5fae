#include "instance.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "ros2s/runtime/fork.h"

namespace ros2s::api::c {

Instance::~Instance() = default;

void Instance::add_queue(Queue& queue) {
    queues_.push_back(&queue);
    reactor_->attach(queue);
}

void Instance::remove_queue(Queue& queue) {
    reactor_->detach(queue);
    std::erase(queues_, &queue);
}

void Instance::visit_metrics(const Mounted& mounted, const MetricVisitor& visit) const {
    if (pool_ != nullptr) pool_->visit_metrics(visit);
    if (mounted.network != nullptr) mounted.network->visit_metrics(visit);
}

void Instance::take_submitted() noexcept {
    for (Queue* queue : queues_) queue->take_all();
}

class Instances {
  public:
    // The process's own: a child of fork() gets an empty one, because the parent's lock may have
    // been held by a thread that the child does not have. It remembers whether the parent had used
    // what cannot be used again in a child.
    static Instances& of_process() {
        static std::atomic<Instances*> current = nullptr;
        Instances* found = current.load(std::memory_order_acquire);
        while (found == nullptr || found->mark_.in_forked_child()) {
            auto* made = new Instances;  // lives as long as the process
            made->forked_from_user_ =
                found != nullptr && (found->used_ || found->forked_from_user_);
            if (current.compare_exchange_strong(found, made)) return *made;
            delete made;
        }
        return *found;
    }

    Result<Attachment> attach(const Uri& uri, const std::string& program, Report& report);
    void detach(Attachment attachment);

  private:
    using Shared = std::shared_ptr<Instance>;

    Result<Attachment> join(Shared instance, const Uri& uri, Report& report);
    Result<Attachment> attach_pool(const Uri& uri, const std::string& program,
                                   const std::string& key, Report& report);
    Result<Attachment> attach_network(const Uri& uri, const std::string& program,
                                      const std::string& key, Report& report);
    Result<Attachment> attach_owner(Shared instance, const Uri& uri, const pool::OwnerRecord& owner,
                                    const std::string& program, Report& report);
    Result<Attachment> refuse_in_child(Report& report);
    void close_unused(const std::shared_ptr<Instance>& instance);

    ForkMark mark_;
    bool used_ = false;  // a pool or a network was opened, or tried
    bool forked_from_user_ = false;
    std::mutex mutex_;
    std::map<std::string, Shared> instances_;  // by key_of()
};

namespace {

// What goes wrong without anybody asking is said on standard error, unless the environment says
// how much is wanted: ROS2STORE_LOG=debug, info, warning, error or off.
Log log_of_process() {
    const char* wanted = std::getenv("ROS2STORE_LOG");
    const std::string_view level = wanted == nullptr ? "warning" : wanted;
    if (level == "off") return {};
    for (const auto each : {LogLevel::debug, LogLevel::info, LogLevel::error}) {
        if (level == to_string(each)) return log_to_stderr(each);
    }
    return log_to_stderr(LogLevel::warning);
}

Result<std::shared_ptr<Instance>> start_instance(const Uri& uri, Report& report) {
    ROS2S_TRY_ASSIGN(auto reactor, create_reactor(uri, report));
    ROS2S_TRY(reactor->start(report));
    return std::make_shared<Instance>(std::move(reactor), log_of_process());
}

// A pool directory, by whatever path it is reached; a container behind a network as it is named.
Result<std::string> key_of(Uri uri, Report& report) {
    if (uri.transport != Uri::Transport::local) {
        uri.path.clear();
        return uri.to_string();
    }
    struct stat directory{};
    if (::stat(uri.dir.c_str(), &directory) == 0) {
        return fmt::format("{}:{}", directory.st_dev, directory.st_ino);
    }
    const int cause = errno;
    return report.fail(fail_errno(cause).error(),
                       fmt::format("cannot open the pool directory {} ({}); `ros2store up {}` "
                                   "makes one",
                                   uri.dir, std::strerror(cause), uri.dir));
}

}  // namespace

Result<Attachment> Instances::attach(const Uri& uri, const std::string& program, Report& report) {
    const std::scoped_lock lock(mutex_);
    ROS2S_TRY_ASSIGN(const std::string key, key_of(uri, report));
    if (const auto found = instances_.find(key); found != instances_.end()) {
        return join(found->second, uri, report);
    }
    return uri.transport == Uri::Transport::local ? attach_pool(uri, program, key, report)
                                                  : attach_network(uri, program, key, report);
}

Result<Attachment> Instances::attach_pool(const Uri& uri, const std::string& program,
                                          const std::string& key, Report& report) {
    if (forked_from_user_) {
        // A mount is another process's, and so can be used.
        const auto owner = pool::find_owner(uri.dir);
        if (!owner || owner->mount_point.empty() || !stands_in(*owner, uri)) {
            return refuse_in_child(report);
        }
        ROS2S_TRY_ASSIGN(auto instance, start_instance(uri, report));
        return attach_owner(std::move(instance), uri, *owner, program, report);
    }
    ROS2S_TRY_ASSIGN(auto instance, start_instance(uri, report));
    pool::OwnerRecord owner;
    Report refusal;
    auto pool = instance->run([&] {
        return pool::EmbeddedPool::open(instance->environment(), uri.dir, {.program = program},
                                        owner, refusal);
    });
    // A refusal for its owner's sake comes before anything of the pool is touched.
    used_ = used_ || pool || pool.error().code != Code::busy;
    if (!pool) {
        if (pool.error().code == Code::busy && stands_in(owner, uri)) {
            return attach_owner(std::move(instance), uri, owner, program, report);
        }
        return report.fail(pool.error(), refusal.text());
    }
    instance->pool_ = std::move(*pool);
    instances_.emplace(key, instance);
    auto attached = join(instance, uri, report);
    if (!attached) close_unused(instance);
    return attached;
}

Result<Attachment> Instances::attach_network(const Uri& uri, const std::string& program,
                                             const std::string& key, Report& report) {
    if (forked_from_user_) return refuse_in_child(report);
    ROS2S_TRY_ASSIGN(auto instance, start_instance(uri, report));
    used_ = true;
    const Call call;
    ROS2S_TRY_ASSIGN(auto network, instance->run([&] {
        return NetworkContainer::open(call, instance->environment(), uri, {.program = program},
                                      report);
    }));
    Mounted& mounted = instance->mounted_[uri.container];
    mounted.network = std::move(network);
    mounted.path = mounted.network->path();
    mounted.users = 1;
    instances_.emplace(key, instance);
    return Attachment{std::move(instance), &mounted};
}

// The index library and gRPC keep helper threads for the whole process, which a child lacks: it
// would wait for them for ever.
Result<Attachment> Instances::refuse_in_child(Report& report) {
    return report.fail(Code::unsupported,
                       "this process was forked from one that had opened a pool, and can open none "
                       "itself: start it as a new program (exec; in Python, multiprocessing's "
                       "start method 'spawn')");
}

Result<Attachment> Instances::join(Shared instance, const Uri& uri, Report& report) {
    if (instance->pool_ != nullptr)
        ROS2S_TRY(check_pool_name(uri, instance->pool_->name(), report));
    auto found = instance->mounted_.find(uri.container);
    if (found == instance->mounted_.end()) {
        const Call call;
        ROS2S_TRY_ASSIGN(auto opened, instance->run([&] {
            return instance->pool_->open_container(call, uri.container, {}, report);
        }));
        found = instance->mounted_.try_emplace(uri.container).first;
        found->second.own = std::move(opened);
        found->second.path = instance->pool_->path();
    }
    ++found->second.users;
    return Attachment{std::move(instance), &found->second};
}

// Such an instance is in no table: whether the owner still stands in is asked each time.
Result<Attachment> Instances::attach_owner(Shared instance, const Uri& uri,
                                           const pool::OwnerRecord& owner,
                                           const std::string& program, Report& report) {
    used_ = used_ || owner.mount_point.empty();
    const Call call;
    ROS2S_TRY_ASSIGN(auto through, instance->run([&] {
        return open_through_owner(call, instance->environment(), uri, owner, {.program = program},
                                  report);
    }));
    Mounted& mounted = instance->mounted_[uri.container];
    mounted.own = std::move(through.file_system);
    mounted.network = std::move(through.network);
    mounted.path = std::move(through.path);
    mounted.users = 1;
    return Attachment{std::move(instance), &mounted};
}

namespace {

Task<> close_mounted(Mounted& mounted) {
    if (mounted.own) co_await mounted.own->close_all();
    mounted.own.reset();
    if (mounted.network) co_await mounted.network->close();
    mounted.network.reset();
}

Task<> close_pool(std::unique_ptr<pool::EmbeddedPool> pool) { co_await pool->close(); }

}  // namespace

void Instances::detach(Attachment attachment) {
    const std::scoped_lock lock(mutex_);
    if (--attachment.mounted->users > 0) return;
    Instance& instance = *attachment.instance;
    for (auto it = instance.mounted_.begin(); it != instance.mounted_.end(); ++it) {
        if (&it->second != attachment.mounted) continue;
        instance.run([&] { return close_mounted(it->second); });
        instance.mounted_.erase(it);
        break;
    }
    close_unused(attachment.instance);
}

void Instances::close_unused(const std::shared_ptr<Instance>& instance) {
    if (!instance->mounted_.empty()) return;
    if (instance->pool_ != nullptr) {
        instance->run([&] { return close_pool(std::move(instance->pool_)); });
    }
    std::erase_if(instances_, [&](const auto& entry) { return entry.second == instance; });
    instance->reactor_->stop();
    instance->reactor_->join();
}

Result<Attachment> attach(const Uri& uri, const std::string& program, Report& report) {
    return Instances::of_process().attach(uri, program, report);
}

void detach(Attachment attachment) { Instances::of_process().detach(std::move(attachment)); }

}  // namespace ros2s::api::c
