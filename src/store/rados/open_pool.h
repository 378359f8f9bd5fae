// RadosStore::OpenPool: the parts that serve requests on an open pool, in dependency order. Each is
// a class that names what it uses.
#pragma once
#include "chain_reader.h"
#include "rados_store.h"
#include "sweeper.h"
#include "updater.h"

namespace ros2s::rados {

class RadosStore::OpenPool {
  public:
    OpenPool(Reactor& reactor, Pool& metadata, Pool& data, RadosOptions options);

    const Env env;
    Epochs epochs;
    object::PinTable pins;
    Coordinator coordinator;
    Heads heads;
    Containers containers;
    Reader reader;
    ChainReader chains;
    Tidier tidier;
    Replies replies;
    PayloadWriter payloads;
    Rewriter rewriter;
    Publisher publisher;
    Updater updater;
    Sweeper sweeper;
};

}  // namespace ros2s::rados
