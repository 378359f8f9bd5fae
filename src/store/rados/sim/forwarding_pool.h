// ForwardingPool: a Pool that passes every request to another one. Test doubles that delay, count
// or fail requests derive from it and override only that.
//
// It owns nothing. The pool below outlives it.
#pragma once
#include "ros2s/rados/pool.h"

namespace ros2s::rados {

class ForwardingPool : public Pool {
  public:
    explicit ForwardingPool(Pool& below) : below_(below) {}

    [[nodiscard]] std::string name() const override { return below_.name(); }
    [[nodiscard]] std::string description() const override { return below_.description(); }
    Task<Result<>> apply(const Change& change) override { return below_.apply(change); }
    Task<Result<ReadReply>> read(const Read& read) override { return below_.read(read); }
    Task<Result<uint64_t>> read_data(const ObjectName& object, uint64_t offset,
                                     Bytes into) override {
        return below_.read_data(object, offset, into);
    }
    [[nodiscard]] std::unique_ptr<Listing> list(std::string space) override {
        return below_.list(std::move(space));
    }
    Task<Result<object::PoolSpace>> space() override { return below_.space(); }

  protected:
    [[nodiscard]] Pool& below() const { return below_; }

  private:
    Pool& below_;
};

}  // namespace ros2s::rados
