#include "publisher.h"

#include <algorithm>
#include <tuple>

#include "ros2s/engine/rules/commit_rules.h"

namespace ros2s::engine {
namespace {

// Second rounds that may be in progress; beyond that the next group waits.
constexpr size_t rounds_max = 256;

// For one core, where everything can be reached directly.
class DirectEffects final : public Effects {
  public:
    DirectEffects(State& state, NodeCache& summaries) : state_(state), summaries_(summaries) {}
    void used(BlockAddress address) override { state_.mark_used(address); }
    void freed(BlockAddress address, uint64_t group) override { state_.mark_free(address, group); }
    void summary(const SummaryChange& change) override {
        apply_summary(summaries_, change);
        state_.count(change);
    }

  private:
    State& state_;
    NodeCache& summaries_;
};

// Records the effects of a core's part of a group, until core 0 applies them.
class KeptEffects final : public Effects {
  public:
    struct Block {
        BlockAddress address{};
        bool used = false;  // or freed
    };
    struct Summary {
        size_t order = 0;
        SummaryChange change;
        std::string akey, dkey;
    };
    void used(BlockAddress address) override { blocks.push_back({address, true}); }
    void freed(BlockAddress address, uint64_t) override { blocks.push_back({address, false}); }
    void summary(const SummaryChange& change) override {
        summaries.push_back({order, change, std::string(change.akey), std::string(change.dkey)});
    }

    std::vector<Block> blocks;
    std::vector<Summary> summaries;
};

Task<> release_nodes(Core& core, std::vector<Node*> nodes) {
    for (Node* node : nodes) node->held = false;
    core.loader.published();
    co_return;
}

Task<> tell_to_stop(Core& core) {
    core.stopping = true;
    core.news.wake_all();
    co_return;
}

}  // namespace

struct Publisher::Part {
    std::vector<Node*> pins;
    KeptEffects effects;
    uint64_t unread = UINT64_MAX;
};

Publisher::Publisher(const Environment& env, Cores& cores, State& state)
    : turn(env.reactor, 1),
      cores_(cores),
      state_(state),
      unread_(cores.size(), UINT64_MAX),
      rounds_(env.reactor, rounds_max) {}

// Applies the part of the group that is in the core's entries.
void Publisher::apply_entries(Core& core, const AppliedGroup& group, Transactions transactions,
                              Effects& effects) {
    for (size_t t = 0; t < transactions.size(); ++t) {
        const TransactionRecord& transaction = transactions[t];
        const Applying now = group.transaction(t, transaction.container);
        for (const Change& change : transaction.changes) {
            ++effects.order;
            const bool here = change.spans_dkeys() ||
                              cores_.partition().core_of(transaction.container, change.object,
                                                         change.dkey) == core.number;
            if (here) apply_change(core.cache, now, change, effects);
        }
    }
    core.visible = group.sequence;
}

// Applies the part that is in the pool's state, after all entries and summaries.
void Publisher::finish(const AppliedGroup& group, Transactions transactions) {
    for (size_t t = 0; t < transactions.size(); ++t) {
        state_.note(group.transaction(t, transactions[t].container), transactions[t]);
    }
    state_.finish(group, transactions.size());
}

// ---- several cores -------------------------------------------------------------------------

void Publisher::apply_part(Core& core, const AppliedGroup& group, Transactions transactions,
                           Part& part) {
    for (Node* node : part.pins) node->held = rules.hold_nodes;
    apply_entries(core, group, transactions, part.effects);
    part.unread = core.unread_told = core.reads.unread_upto();
    core.note_memory();
}

Task<> Publisher::apply_at(Core& core, const AppliedGroup& group, Transactions transactions,
                           Part& part) {
    apply_part(core, group, transactions, part);
    co_return;
}

Task<> Publisher::first_round(Core& core, const AppliedGroup& group, Transactions transactions,
                              Part& part) {
    co_await at(core, cores_.home(), apply_at(core, group, transactions, part));
    // Here, in the order of the core's reports.
    unread_[core.number] = part.unread;
}

void Publisher::apply_totals(const AppliedGroup& group, Transactions transactions,
                             std::span<Part> parts) {
    // In the order of the transactions' changes, and an object's end after its entries': as on one
    // core.
    using Order = std::tuple<size_t, SummaryChange::What, size_t>;
    std::vector<std::pair<Order, const SummaryChange*>> summaries;
    for (Part& part : parts) {
        // A block belongs to one core, and its uses are in order.
        for (const KeptEffects::Block& block : part.effects.blocks) {
            if (block.used) {
                state_.mark_used(block.address);
            } else {
                state_.mark_free(block.address, group.sequence);
            }
        }
        for (KeptEffects::Summary& one : part.effects.summaries) {
            one.change.akey = one.akey;
            one.change.dkey = one.dkey;
            summaries.emplace_back(Order{one.order, one.change.what, summaries.size()},
                                   &one.change);
        }
    }
    if (rules.apply_totals_in_order) std::ranges::sort(summaries);
    for (const auto& [order, change] : summaries) {
        apply_summary(cores_.home().cache, *change);
        state_.count(*change);
    }
    finish(group, transactions);
}

Task<> Publisher::publish(AppliedGroup group, Transactions transactions,
                          std::span<Node* const> pins) {
    Core& home = cores_.home();
    if (cores_.is_one()) {
        DirectEffects effects(state_, home.cache);
        apply_entries(home, group, transactions, effects);
        finish(group, transactions);
        co_return;
    }
    co_await turn.acquire();
    const SemaphoreHold held(turn);
    std::vector<Part> parts(cores_.size());
    for (Node* node : pins) parts[node->core].pins.push_back(node);
    {
        Nursery round(home.env.reactor, cores_.size());
        for (uint32_t i = 1; i < cores_.size(); ++i) {
            if (parts[i].pins.empty()) continue;
            co_await round.spawn(first_round(cores_[i], group, transactions, parts[i]));
        }
        apply_part(home, group, transactions, parts[0]);
        co_await round.join();
    }
    apply_totals(group, transactions, parts);
    const bool containers = std::ranges::any_of(transactions, [](const auto& transaction) {
        return std::ranges::any_of(transaction.changes, &Change::is_of_container);
    });
    if (containers) co_await cores_.share_containers(state_.visible_containers());
    for (uint32_t i = 1; i < cores_.size(); ++i) {
        if (parts[i].pins.empty()) continue;
        co_await rounds_.spawn(
            at(cores_[i], home, release_nodes(cores_[i], std::move(parts[i].pins))));
    }
    for (Node* node : parts[0].pins) node->held = false;
    home.loader.published();
}

// ---- reads under way -----------------------------------------------------------------------

uint64_t Publisher::unread_upto() const {
    uint64_t unread = cores_.home().reads.unread_upto();
    if (!rules.count_all_reads) return unread;
    for (uint32_t i = 1; i < cores_.size(); ++i) unread = std::min(unread, unread_[i]);
    return unread;
}

void Publisher::read_ended(Core& core) {
    if (core.number == 0) {
        reads_moved();
    } else if (core.unread_told != UINT64_MAX && core.reads.unread_upto() > core.unread_told) {
        core.news.wake_all();
    }
}

Task<> Publisher::listen(Core& core) {
    Reactor& home = cores_.home().env.reactor;
    co_await hop(core.env.reactor);
    while (!core.stopping) {
        const uint64_t unread = core.reads.unread_upto();
        if (core.unread_told == UINT64_MAX || unread <= core.unread_told) {
            co_await core.news;
            continue;
        }
        core.unread_told = unread;
        co_await hop(home);
        unread_[core.number] = unread;
        reads_moved();
        co_await hop(core.env.reactor);
    }
    co_await hop(home);
}

Task<> Publisher::stop_listening() {
    for (uint32_t i = 1; i < cores_.size(); ++i) {
        co_await at(cores_[i], cores_.home(), tell_to_stop(cores_[i]));
    }
}

}  // namespace ros2s::engine
