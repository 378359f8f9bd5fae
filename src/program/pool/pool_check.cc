#include "ros2s/pool/pool_check.h"

#include <algorithm>
#include <map>

#include "pool_engine.h"
#include "ros2s/base/bytes.h"

namespace ros2s::pool {
namespace {

class Check {
  public:
    Check(const Call& call, engine::EngineStore& engine, const PoolCheckOptions& options)
        : call_(call), engine_(engine), options_(options) {}

    Task<Result<CheckedPool>> run() {
        ROS2S_CO_TRY_ASSIGN(const auto records, co_await engine_.list_containers(call_));
        for (const auto& record : records) labels_[record.id] = record.properties.label;
        ROS2S_CO_TRY_ASSIGN(const auto index, co_await engine_.check(call_, engine_options()));
        pool_.used_bytes = index.used_blocks * block_bytes;
        pool_.total_bytes = index.total_blocks * block_bytes;
        pool_.replayed_groups = index.replayed_groups;
        for (const engine::CheckedContainer& each : index.containers) {
            CheckedContainer container{.label = each.record.properties.label,
                                       .is_retired = each.retired,
                                       .objects = each.objects,
                                       .akeys = each.akeys,
                                       .bytes = each.blocks * block_bytes};
            if (!each.retired && index.is_index_readable) {
                ROS2S_CO_TRY_ASSIGN(container.files,
                                    co_await names_of(each.record.id, container.label));
            }
            container.problems = problems_[container.label];
            pool_.containers.push_back(std::move(container));
        }
        std::ranges::sort(pool_.containers, {}, &CheckedContainer::label);
        co_return pool_;
    }

  private:
    void problem(const std::string& label, const std::string& sentence) {
        ++pool_.problems;
        ++problems_[label];
        options_.problem(label, sentence);
    }
    // A container that is being removed has no label any more.
    [[nodiscard]] std::string label_of(object::ContainerId id) const {
        const auto found = labels_.find(id);
        return found == labels_.end() ? "" : found->second;
    }
    engine::CheckOptions engine_options() {
        engine::CheckOptions options{.data = options_.data};
        options.problem = [this](object::ContainerId id, const std::string& sentence) {
            problem(label_of(id), sentence);
        };
        options.unjudged = [this](object::ContainerId id, const std::string& sentence) {
            options_.unjudged(label_of(id), sentence);
        };
        if (options_.progress) {
            options.progress = [this](uint64_t done, uint64_t total) {
                options_.progress(false, done * block_bytes, total * block_bytes);
            };
        }
        return options;
    }
    // Empty: it has no file system, or cannot be judged.
    Task<Result<std::optional<fs::CheckedNames>>> names_of(object::ContainerId id,
                                                           std::string label) {
        fs::NamesCheckOptions options;
        options.problem = [&](const std::string& sentence) { problem(label, sentence); };
        if (options_.progress) {
            options.progress = [this](uint64_t nodes) { options_.progress(true, nodes, 0); };
        }
        const auto names = co_await fs::check_names(call_, engine_, id, options);
        if (names) co_return *names;
        const Code code = names.error().code;
        if (code == Code::corrupt) {
            options_.unjudged(label, "its names and files, because an entry cannot be read");
        } else if (code == Code::bad_version) {
            options_.unjudged(label, "its names and files: use a newer version of ros2store");
        } else if (code != Code::not_found) {
            co_return fail(names.error());
        }
        co_return std::nullopt;
    }

    const Call& call_;
    engine::EngineStore& engine_;
    const PoolCheckOptions& options_;
    CheckedPool pool_;
    std::map<object::ContainerId, std::string> labels_;
    std::map<std::string, uint64_t> problems_;  // by label
};

}  // namespace

Task<Result<CheckedPool>> check_pool(const Call& call, Environment environment,
                                     std::string directory, PoolCheckOptions options,
                                     Report& report) {
    OwnerRecord present;
    ROS2S_CO_TRY_ASSIGN(auto taken, co_await take_pool(environment.reactor, std::move(directory),
                                                       {}, present, report, PoolUse::reading));
    ROS2S_CO_TRY_ASSIGN(auto engine, co_await open_engine(environment, taken.directory, report));
    auto checked = co_await Check(call, *engine, options).run();
    const auto closed = co_await engine->close();
    if (!checked) {
        if (report.empty()) {
            report.say("the check of the pool in {} ended: {}", taken.directory.directory,
                       describe(checked.error()));
        }
        co_return fail(checked.error());
    }
    ROS2S_CO_TRY(closed);
    checked->name = taken.directory.config.pool;
    checked->devices = taken.directory.devices.size();
    co_return checked;
}

}  // namespace ros2s::pool
