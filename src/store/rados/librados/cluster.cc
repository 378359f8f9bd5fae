#include "cluster.h"

#include <errno.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <array>
#include <cstring>
#include <ranges>
#include <string_view>

#include "library.h"
#include "ros2s/base/trusted_file.h"
#include "ros2s/runtime/foreign_posts.h"

namespace ros2s::rados {
namespace {

constexpr size_t names_at_once = 1024;
// The manager counts the space. A cluster without one says 0, and nobody would write to that.
constexpr uint64_t uncounted_bytes = uint64_t{1} << 50;

// `code` is negative, as librados returns it.
std::unexpected<Error> failure(int code) {
    switch (-code) {
        case ENOENT: return fail(Code::not_found);
        case ECANCELED:
        case EEXIST: return fail(Code::condition_failed);
        case ETIMEDOUT: return fail(Code::deadline);
        case EOPNOTSUPP: return fail(Code::unsupported);
        case EDQUOT:
        case ENOSPC: return fail(Code::no_space);
        case EPERM:
        case EACCES:
        case ESHUTDOWN: return fail(Code::denied);
        default: return fail({.code = Code::io, .os_errno = -code});
    }
}

// librados opens its files without looking: a named pipe would block it, and a device would act.
Result<> check_kind(const std::string& path, Report& report) {
    struct stat facts{};
    if (::stat(path.c_str(), &facts) != 0 || S_ISREG(facts.st_mode)) return {};
    return report.fail(Code::invalid, "{} is not a regular file, but {}", path,
                       kind_of_file(facts.st_mode));
}

// The same for the files that the configuration names. Reading it opens the key ring, except for a
// client that does not show who it is.
Result<> check_kinds(const Librados& rados, const std::string& id, const std::string& conf,
                     Report& report) {
    ROS2S_TRY(check_kind(conf, report));
    rados_t looking = nullptr;
    if (rados.create(&looking, id.c_str()) < 0) return {};
    for (const char* role : {"client", "service", "cluster"}) {
        rados.conf_set(looking, fmt::format("auth_{}_required", role).c_str(), "none");
    }
    Result<> checked;
    if (rados.conf_read_file(looking, conf.c_str()) == 0) {
        for (const char* secret : {"keyring", "keyfile"}) {
            std::array<char, 4096> paths{};
            if (rados.conf_get(looking, secret, paths.data(), paths.size() - 1) < 0) continue;
            for (const auto path : std::views::split(std::string_view(paths.data()), ',')) {
                if (checked) checked = check_kind(std::string(std::string_view(path)), report);
            }
        }
    }
    rados.shutdown(looking);
    return checked;
}

class Connected;

// Awaits one asynchronous operation. `submit` gets its completion, and returns an error if it did
// not begin. The frame that awaits lives until librados has called back.
template <class Submit>
class [[nodiscard]] Operation {
  public:
    Operation(const Librados& rados, ForeignPosts& posts, Submit submit)
        : rados_(rados), posts_(posts), submit_(std::move(submit)) {}
    Operation& operator=(Operation&&) = delete;
    ~Operation() {
        if (completion_ != nullptr) rados_.aio_release(completion_);
    }
    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> handle) noexcept {
        post_.handle = handle;
        code_ = rados_.aio_create_completion2(this, called_back, &completion_);
        if (code_ < 0) return false;
        code_ = submit_(completion_);
        is_begun_ = code_ >= 0;
        return is_begun_;
    }
    int await_resume() const noexcept {
        return is_begun_ ? rados_.aio_get_return_value(completion_) : code_;
    }

  private:
    static void called_back(rados_completion_t, void* self) noexcept {
        auto& operation = *static_cast<Operation*>(self);
        operation.posts_.post(operation.post_);
    }
    const Librados& rados_;
    ForeignPosts& posts_;
    Submit submit_;
    RemotePost post_{};
    rados_completion_t completion_ = nullptr;
    int code_ = 0;
    bool is_begun_ = false;
};

class Connected final : public Cluster {
  public:
    Connected(Environment environment, ClusterOptions options, const Librados& rados)
        : environment_(std::move(environment)),
          options_(std::move(options)),
          rados_(rados),
          posts_(environment_.reactor) {}
    ~Connected() override { ROS2S_CHECK(handle_ == nullptr); }

    Task<Result<>> connect(Report& report);
    Task<Result<std::unique_ptr<Pool>>> open_pool(std::string name, Report& report) override;
    Task<> close() override {
        if (handle_ == nullptr) co_return;
        (void)co_await environment_.blocking.run(environment_.reactor, [this] {
            rados_.shutdown(handle_);
            return Result<>();
        });
        handle_ = nullptr;
    }

    [[nodiscard]] const Librados& rados() const { return rados_; }
    [[nodiscard]] rados_t handle() const { return handle_; }
    [[nodiscard]] const ClusterOptions& options() const { return options_; }
    // Runs on a helper thread: librados blocks there.
    template <class F>
    [[nodiscard]] auto block(F function) {
        return environment_.blocking.run(environment_.reactor, std::move(function));
    }
    template <class Submit>
    [[nodiscard]] auto wait_for(Submit submit) {
        return Operation<Submit>(rados_, posts_, std::move(submit));
    }

  private:
    std::unexpected<Error> refused(int code, Report& report) const;

    Environment environment_;
    const ClusterOptions options_;
    const Librados& rados_;
    ForeignPosts posts_;
    rados_t handle_ = nullptr;
    std::string limit_;  // seconds that a request may take
};

std::unexpected<Error> Connected::refused(int code, Report& report) const {
    const std::string cluster = fmt::format("the RADOS cluster of {}", options_.conf);
    switch (-code) {
        case ETIMEDOUT:
            return report.fail(
                Code::deadline,
                "{} does not answer within {} s: check its monitors (ceph -s) and 'mon host' there",
                cluster, limit_);
        case ENOENT:
        case EACCES:
        case EPERM:
        case EINVAL:
        case EOPNOTSUPP:
            return report.fail(Code::denied,
                               "{} refuses {} ({}): name its user, and a key ring with its key "
                               "there ('keyring = FILE')",
                               cluster, options_.user, std::strerror(-code));
        default:
            return report.fail(failure(code).error(),
                               "cannot connect to {}: {}; check its monitors (ceph -s)", cluster,
                               std::strerror(-code));
    }
}

Task<Result<>> Connected::connect(Report& report) {
    const std::string id =
        options_.user.starts_with("client.") ? options_.user.substr(7) : options_.user;
    limit_ = std::to_string(options_.time_limit / std::chrono::seconds(1));
    bool is_read = true;
    const Result<int> connected = co_await block([&]() -> Result<int> {
        ROS2S_TRY(check_kinds(rados_, id, options_.conf, report));
        if (const int code = rados_.create(&handle_, id.c_str()); code < 0) return code;
        int code = rados_.conf_read_file(handle_, options_.conf.c_str());
        is_read = code == 0;
        if (!is_read) return code;
        std::array<char, 32> configured{};
        code = rados_.conf_get(handle_, "rados_osd_op_timeout", configured.data(),
                               configured.size() - 1);
        // Without one, librados would wait for ever.
        if (code == 0 && std::atof(configured.data()) >= 1) limit_ = configured.data();
        // It writes nothing of its own.
        for (const auto& [name, value] : {std::pair{"rados_osd_op_timeout", limit_.c_str()},
                                          {"rados_mon_op_timeout", limit_.c_str()},
                                          {"client_mount_timeout", limit_.c_str()},
                                          {"log_to_stderr", "false"},
                                          {"err_to_stderr", "false"},
                                          {"log_file", ""},
                                          {"admin_socket", ""}}) {
            if (code = rados_.conf_set(handle_, name, value); code < 0) return code;
        }
        return rados_.connect(handle_);
    });
    if (!connected) co_return fail(connected.error());
    if (*connected >= 0) co_return Result<>{};
    if (!is_read) {
        const Code code = *connected == -ENOENT ? Code::not_found : Code::invalid;
        co_return report.fail(
            code, "cannot read the Ceph configuration {} ({}): name that of the cluster",
            options_.conf, std::strerror(-*connected));
    }
    co_return refused(*connected, report);
}

// ---- a pool --------------------------------------------------------------------------------

class ConnectedListing;

class ConnectedPool final : public Pool {
  public:
    ConnectedPool(Connected& cluster, std::string name, rados_ioctx_t context)
        : cluster_(cluster), name_(std::move(name)), context_(context) {}
    ~ConnectedPool() override { cluster_.rados().ioctx_destroy(context_); }
    [[nodiscard]] std::string name() const override { return name_; }
    [[nodiscard]] std::string description() const override {
        return fmt::format("pool '{}' of the RADOS cluster of {}", name_, cluster_.options().conf);
    }
    Task<Result<>> apply(const Change& change) override;
    Task<Result<ReadReply>> read(const Read& read) override;
    Task<Result<uint64_t>> read_data(const ObjectName& object, uint64_t offset,
                                     Bytes into) override;
    [[nodiscard]] std::unique_ptr<Listing> list(std::string space) override;
    Task<Result<object::PoolSpace>> space() override;

  private:
    Connected& cluster_;
    const std::string name_;
    const rados_ioctx_t context_;
};

Task<Result<std::unique_ptr<Pool>>> Connected::open_pool(std::string name, Report& report) {
    rados_ioctx_t context = nullptr;
    const Result<int> opened = co_await block(
        [&]() -> Result<int> { return rados_.ioctx_create(handle_, name.c_str(), &context); });
    if (*opened < 0) {
        const auto failed = failure(*opened);
        co_return report.fail(
            failed.error(),
            failed.error().code == Code::not_found
                ? fmt::format("the RADOS cluster of {} has no pool '{}': make it (ceph osd pool "
                              "create {}), or name another",
                              options_.conf, name, name)
                : fmt::format("cannot open pool '{}' of the RADOS cluster of {}: {}", name,
                              options_.conf, std::strerror(-*opened)));
    }
    co_return std::make_unique<ConnectedPool>(*this, std::move(name), context);
}

// The pointers and lengths that librados wants of a list of strings.
struct Pointers {
    std::vector<const char*> bytes;
    std::vector<size_t> lengths;
    void add(const std::string& text) {
        bytes.push_back(text.data());
        lengths.push_back(text.size());
    }
};

Task<Result<>> ConnectedPool::apply(const Change& change) {
    const Librados& rados = cluster_.rados();
    const rados_write_op_t op = rados.create_write_op();
    if (change.expect == Change::Expect::absent) {
        rados.write_op_create(op, LIBRADOS_CREATE_EXCLUSIVE, nullptr);
    }
    if (!change.equal.empty()) rados.write_op_assert_exists(op);
    for (const auto& [key, value] : change.equal) {
        rados.write_op_omap_cmp2(op, key.data(), LIBRADOS_CMPXATTR_OP_EQ, value.data(), key.size(),
                                 value.size(), nullptr);
    }
    Pointers keys, values, removed;
    for (const auto& [key, value] : change.set) {
        keys.add(key);
        values.add(value);
    }
    for (const std::string& key : change.remove) removed.add(key);
    if (change.remove_object) {
        rados.write_op_remove(op);
    } else {
        if (!change.data.empty()) {
            rados.write_op_write_full(op, reinterpret_cast<const char*>(change.data.data()),
                                      change.data.size());
        }
        if (!keys.bytes.empty()) {
            rados.write_op_omap_set2(op, keys.bytes.data(), values.bytes.data(),
                                     keys.lengths.data(), values.lengths.data(), keys.bytes.size());
        }
        if (!removed.bytes.empty()) {
            rados.write_op_omap_rm_keys2(op, removed.bytes.data(), removed.lengths.data(),
                                         removed.bytes.size());
        }
    }
    const int code = co_await cluster_.wait_for([&](rados_completion_t completion) {
        // A full pool answers, instead of keeping the request until there is space. Beyond its last
        // reserve it also keeps forced requests that do not ask for an answer. The operation takes
        // the namespace with it, so the next one may set another.
        const int flags = change.even_if_full
                              ? LIBRADOS_OPERATION_FULL_TRY | LIBRADOS_OPERATION_FULL_FORCE
                              : LIBRADOS_OPERATION_FULL_TRY;
        rados.ioctx_set_namespace(context_, change.object.space.c_str());
        return rados.aio_write_op_operate(op, context_, completion, change.object.name.c_str(),
                                          nullptr, flags);
    });
    rados.release_write_op(op);
    if (code >= 0) co_return Result<>{};
    if (code == -ENOENT && !change.equal.empty()) co_return fail(Code::condition_failed);
    co_return failure(code);
}

Task<Result<ReadReply>> ConnectedPool::read(const Read& read) {
    const Librados& rados = cluster_.rados();
    const rados_read_op_t op = rados.create_read_op();
    Pointers keys;
    for (const std::string& key : read.keys) keys.add(key);
    rados_omap_iter_t of_keys = nullptr, of_range = nullptr;
    int keys_code = 0, range_code = 0;
    unsigned char more = 0;
    if (!read.keys.empty()) {
        rados.read_op_omap_get_vals_by_keys2(op, keys.bytes.data(), keys.bytes.size(),
                                             keys.lengths.data(), &of_keys, &keys_code);
    }
    const KeyRange& range = read.range;
    if (range.limit > 0) {
        rados.read_op_omap_get_vals2(op, range.after.c_str(), range.prefix.c_str(),
                                     std::min(range.limit, keys_per_read), &of_range, &more,
                                     &range_code);
    }
    int code = co_await cluster_.wait_for([&](rados_completion_t completion) {
        rados.ioctx_set_namespace(context_, read.object.space.c_str());
        return rados.aio_read_op_operate(op, context_, completion, read.object.name.c_str(), 0);
    });
    if (code >= 0 && keys_code < 0) code = keys_code;
    if (code >= 0 && range_code < 0) code = range_code;
    ReadReply reply;
    const auto take = [&](rados_omap_iter_t values, bool is_range) {
        if (values == nullptr) return;
        char *key = nullptr, *value = nullptr;
        size_t key_bytes = 0, value_bytes = 0;
        // The iterator of a request that got no answer must not be used, only given back.
        while (code >= 0 &&
               rados.omap_get_next2(values, &key, &value, &key_bytes, &value_bytes) == 0 &&
               key != nullptr) {
            std::string name(key, key_bytes);
            if (is_range && !range.end.empty() && name >= range.end) {
                more = 0;
                break;
            }
            if (is_range) reply.last = name;
            reply.values.emplace(std::move(name), std::string(value, value_bytes));
        }
        rados.omap_get_end(values);
    };
    take(of_keys, false);
    take(of_range, true);
    reply.more = more != 0 && !reply.last.empty();
    rados.release_read_op(op);
    if (code < 0) co_return failure(code);
    co_return reply;
}

Task<Result<uint64_t>> ConnectedPool::read_data(const ObjectName& object, uint64_t offset,
                                                Bytes into) {
    const Librados& rados = cluster_.rados();
    const rados_read_op_t op = rados.create_read_op();
    size_t count = 0;
    int read_code = 0;
    rados.read_op_read(op, offset, into.size(), reinterpret_cast<char*>(into.data()), &count,
                       &read_code);
    int code = co_await cluster_.wait_for([&](rados_completion_t completion) {
        rados.ioctx_set_namespace(context_, object.space.c_str());
        return rados.aio_read_op_operate(op, context_, completion, object.name.c_str(), 0);
    });
    rados.release_read_op(op);
    if (code >= 0 && read_code < 0) code = read_code;
    if (code < 0) co_return failure(code);
    co_return count;
}

// Has a context of its own: it is used on another thread.
class ConnectedListing final : public Listing {
  public:
    ConnectedListing(Connected& cluster, std::string pool, std::string space)
        : cluster_(cluster), pool_(std::move(pool)), space_(std::move(space)) {}
    ~ConnectedListing() override {
        if (list_ != nullptr) cluster_.rados().nobjects_list_close(list_);
        if (context_ != nullptr) cluster_.rados().ioctx_destroy(context_);
    }
    Task<Result<std::vector<std::string>>> next() override {
        co_return co_await cluster_.block([this] { return next_names(); });
    }

  private:
    Result<std::vector<std::string>> next_names() {
        const Librados& rados = cluster_.rados();
        if (context_ == nullptr) {
            int code = rados.ioctx_create(cluster_.handle(), pool_.c_str(), &context_);
            if (code < 0) return failure(code);
            const bool all = space_ == all_spaces;
            rados.ioctx_set_namespace(context_, all ? LIBRADOS_ALL_NSPACES : space_.c_str());
            code = rados.nobjects_list_open(context_, &list_);
            if (code < 0) return failure(code);
        }
        std::vector<std::string> names;
        const char *name = nullptr, *key = nullptr, *space = nullptr;
        size_t name_bytes = 0, key_bytes = 0, space_bytes = 0;
        while (names.size() < names_at_once) {
            const int code = rados.nobjects_list_next2(list_, &name, &key, &space, &name_bytes,
                                                       &key_bytes, &space_bytes);
            if (code == -ENOENT) break;  // the end
            if (code < 0) return failure(code);
            names.emplace_back(name, name_bytes);
        }
        return names;
    }
    Connected& cluster_;
    const std::string pool_, space_;
    rados_ioctx_t context_ = nullptr;
    rados_list_ctx_t list_ = nullptr;
};

std::unique_ptr<Listing> ConnectedPool::list(std::string space) {
    return std::make_unique<ConnectedListing>(cluster_, name_, std::move(space));
}

Task<Result<object::PoolSpace>> ConnectedPool::space() {
    rados_cluster_stat_t facts{};
    const Result<int> code = co_await cluster_.block(
        [&]() -> Result<int> { return cluster_.rados().cluster_stat(cluster_.handle(), &facts); });
    if (*code < 0) co_return failure(*code);
    if (facts.kb == 0) co_return object::PoolSpace{uncounted_bytes, uncounted_bytes};
    co_return object::PoolSpace{.total_bytes = facts.kb << 10, .free_bytes = facts.kb_avail << 10};
}

}  // namespace

Task<Result<std::unique_ptr<Cluster>>> Cluster::connect(Environment environment,
                                                        ClusterOptions options, Report& report) {
    // It stays loaded: its threads may still be ending when the last cluster is closed.
    struct Loaded {
        Report report{};
        Result<Librados> library = Librados::load(report);
    };
    static const Loaded loaded;
    if (!loaded.library) co_return report.fail(loaded.library.error(), loaded.report.text());
    auto cluster =
        std::make_unique<Connected>(std::move(environment), std::move(options), *loaded.library);
    if (const auto connected = co_await cluster->connect(report); !connected) {
        co_await cluster->close();
        co_return fail(connected.error());
    }
    co_return std::move(cluster);
}

}  // namespace ros2s::rados
