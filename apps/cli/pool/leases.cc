// ros2store leases, evict: which mounts keep what they have read of containers.
#include <fmt/format.h>

#include "pool_access.h"
#include "pool_location.h"

namespace ros2s::cli {
namespace {

constexpr auto answer_within = std::chrono::seconds(10);

Call bounded_call(const CommandContext& context) {
    return {.deadline = context.environment.reactor.now() + answer_within,
            .stop = context.call.stop};
}

double seconds_of(Duration time) { return std::chrono::duration<double>(time).count(); }

Json json_of(const control::SeenHolder& holder) {
    return Json::object({{"holder", holder.name},
                         {"container", holder.container},
                         {"tenant", holder.tenant},
                         {"from", holder.from},
                         {"program", holder.program},
                         {"session", holder.session},
                         {"held_s", seconds_of(holder.held)},
                         {"nodes", holder.nodes},
                         {"recalls", holder.recalls},
                         {"recalled_s", seconds_of(holder.recalled)},
                         {"ends", holder.ends}});
}

void say_holder(const Console& console, const control::SeenHolder& holder) {
    std::string waiting;
    if (holder.recalls > 0) {
        waiting = fmt::format("; {} asked back, the first {:.1f} s ago", holder.recalls,
                              seconds_of(holder.recalled));
    }
    console.say("{} in {}: {} (session {}, {}, {}), {} nodes, for {:.0f} s{}{}", holder.name,
                holder.container, holder.tenant.empty() ? "unknown" : holder.tenant, holder.session,
                holder.program, holder.from, holder.nodes, seconds_of(holder.held), waiting,
                holder.ends ? "; its leases end" : "");
}

}  // namespace

Task<Result<>> leases(CommandContext context, LeaseOptions options) {
    ROS2S_CO_TRY_ASSIGN(const api::Uri uri, pool_uri(options.location, context.report));
    const std::string container = is_uri(options.location) ? uri.container : "";
    ROS2S_CO_TRY_ASSIGN(const auto pool, co_await access_pool_of(context, uri));
    auto seen = co_await pool->leases(bounded_call(context), container);
    co_await pool->close();
    ROS2S_CO_TRY(seen);
    if (!options.holder.empty()) {
        std::erase_if(seen->holders, [&](const auto& each) { return each.name != options.holder; });
        if (seen->holders.empty()) {
            co_return context.report.fail(
                Code::not_found,
                "no mount that is called '{}' has leases there: leave out --holder to see all",
                options.holder);
        }
    }
    std::vector<Json> holders, barred;
    for (const control::SeenHolder& each : seen->holders) {
        say_holder(context.console, each);
        holders.push_back(json_of(each));
    }
    if (holders.empty()) context.console.say("no mount has leases");
    for (const auto& [tenant, time] : seen->barred) {
        context.console.say("{} was slow to answer, and gets no leases for {:.0f} s", tenant,
                            seconds_of(time));
        barred.push_back(Json::object({{"tenant", tenant}, {"for_s", seconds_of(time)}}));
    }
    context.console.answer(
        Json::object({{"holders", Json::array(holders)}, {"barred", Json::array(barred)}}));
    co_return Result<>{};
}

Task<Result<>> evict(CommandContext context, LeaseOptions options) {
    if (options.holder.empty()) {
        co_return context.report.fail(
            Code::invalid, "the name of the holder is empty: `ros2store leases` shows the names");
    }
    ROS2S_CO_TRY_ASSIGN(const api::Uri uri, container_uri(options.location, context.report));
    ROS2S_CO_TRY_ASSIGN(const auto pool, co_await access_pool_of(context, uri));
    const auto done = co_await pool->evict(bounded_call(context), uri.container, options.holder);
    co_await pool->close();
    ROS2S_CO_TRY(done);
    context.console.say("the leases of {} in {}/{} end", options.holder, uri.pool, uri.container);
    context.console.answer(Json::object({{"holder", options.holder}}));
    co_return Result<>{};
}

}  // namespace ros2s::cli
