// The pages in docs/formats/ say what the code does: fields of bodies as they are declared, offsets
// and sizes of structures as they lie in memory.
#include <gtest/gtest.h>

#include <fstream>
#include <span>
#include <sstream>
#include <utility>
#include <vector>

#include "field_text.h"
#include "files/fs/records.h"
#include "net/fabric/shm/layout.h"
#include "net/rpc/fields.h"
#include "ros2s/cipher/block_cipher.h"
#include "ros2s/engine/format/checkpoint.h"
#include "ros2s/engine/format/record.h"
#include "ros2s/engine/format/target.h"
#include "ros2s/engine/format/values.h"
#include "ros2s/fabric/hello.h"
#include "ros2s/fabric/key.h"
#include "ros2s/fabric/lanes/greeting.h"
#include "ros2s/fabric/packet/packet.h"
#include "service/hostlink/names_wire.h"
#include "store/cipher/key_record_fields.h"
#include "store/engine/format/change_fields.h"
#include "store/engine/format/superblock_layout.h"
#include "store/engine/format/value_fields.h"
#include "store/rados/record_fields.h"
#include "store/remote/fields.h"
#include "trust/capability/fields.h"

namespace ros2s {
namespace {

std::string page(const std::string& name) {
    std::ifstream file(FORMATS + name);
    EXPECT_TRUE(file.is_open()) << name;
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

// ---- structures -----------------------------------------------------------------------------

using Ranges = std::vector<std::pair<size_t, size_t>>;  // offset, bytes

// The rows of the first table after `heading`. A row "8 | 2 + 4" has two fields.
Ranges places_of(const std::string& page, const std::string& heading) {
    const size_t at = page.find(heading);
    EXPECT_NE(at, std::string::npos) << heading;
    std::istringstream rows(page.substr(page.find("|---", at)));
    Ranges places;
    std::string row;
    for (std::getline(rows, row); std::getline(rows, row) && row.starts_with('|');) {
        std::istringstream cells(row.substr(1));
        size_t offset = 0, bytes = 0;
        char mark = 0;
        for (cells >> offset >> mark; cells >> bytes >> mark; offset += bytes) {
            places.emplace_back(offset, bytes);
            if (mark == '|') break;
        }
    }
    return places;
}
template <class T, class... Members>
Ranges places_of(Members T::*... members) {
    const T object{};
    const auto* const begin = reinterpret_cast<const char*>(&object);
    return {
        {reinterpret_cast<const char*>(&(object.*members)) - begin, sizeof(object.*members)}...};
}

// The text of the fields of default parts.
class PlacesOut {
  public:
    [[nodiscard]] const Ranges& places() const { return places_; }
    void number(std::integral auto value) { add(sizeof value); }
    void uuid(const Uuid& uuid) { add(uuid.bytes.size()); }
    void text(std::string_view text) { add(sizeof(uint32_t) + text.size()); }
    void raw(const void* /*bytes*/, size_t count) { add(count); }

  private:
    void add(size_t bytes) {
        if (bytes > 0) places_.emplace_back(at_, bytes);
        at_ += bytes;
    }
    Ranges places_;
    size_t at_ = 0;
};
template <class... Parts>
Ranges places_of_fields(auto fields) {
    FieldWriter<PlacesOut> out;
    [&](const auto&... parts) { fields(out, parts...); }(Parts()...);
    return out.places();
}

TEST(FormatPages, StructureLayoutsMatchThePages) {
    const std::string fabric = page("fabric.md");
    using fabric::RemoteKey;
    EXPECT_EQ(
        places_of(fabric, "## Remote key"),
        places_of(&RemoteKey::magic, &RemoteKey::version, &RemoteKey::rights, &RemoteKey::memory,
                  &RemoteKey::reserved, &RemoteKey::domain, &RemoteKey::session, &RemoteKey::lease,
                  &RemoteKey::slot, &RemoteKey::generation, &RemoteKey::address, &RemoteKey::length,
                  &RemoteKey::device, &RemoteKey::native_bytes, &RemoteKey::native,
                  &RemoteKey::crc));
    using fabric::Hello;
    EXPECT_EQ(places_of(fabric, "## Hello"),
              places_of(&Hello::magic, &Hello::version, &Hello::answer, &Hello::provider,
                        &Hello::domain, &Hello::session, &Hello::message_bytes_max,
                        &Hello::incoming_bytes_max, &Hello::memory_bytes, &Hello::operations_max,
                        &Hello::appended_bytes, &Hello::passed_bytes, &Hello::memory_first_blocks,
                        &Hello::reserved, &Hello::zero, &Hello::crc));
    using fabric::lanes::Greeting;
    EXPECT_EQ(places_of(fabric, "## Through a network library"),
              places_of(&Greeting::channel, &Greeting::address_bytes, &Greeting::address_crc));
    using Lane = fabric::lanes::FrameHeader;
    EXPECT_EQ(
        places_of(fabric, "with a header of 24 bytes"),
        places_of(&Lane::magic, &Lane::version, &Lane::reserved, &Lane::channel, &Lane::sequence));
    using fabric::Packet;
    EXPECT_EQ(places_of(fabric, "## Packets"),
              places_of(&Packet::type, &Packet::flags, &Packet::result, &Packet::length,
                        &Packet::operation, &Packet::offset, &Packet::count));
    using fabric::shm::ShmHello;
    EXPECT_EQ(
        places_of(page("shm.md"), "# Shared memory"),
        places_of(&ShmHello::to_server_bytes, &ShmHello::to_client_bytes, &ShmHello::control_bytes,
                  &ShmHello::payload_bytes, &ShmHello::slots, &ShmHello::zero));
    using Frame = rpc::FrameHeader;
    EXPECT_EQ(
        places_of(page("rpc.md"), "## Header"),
        places_of(&Frame::magic, &Frame::version, &Frame::kind, &Frame::flags, &Frame::method,
                  &Frame::source_windows, &Frame::sink_windows, &Frame::session, &Frame::request,
                  &Frame::client, &Frame::sequence, &Frame::slot, &Frame::body_bytes,
                  &Frame::payload_bytes, &Frame::sink_bytes, &Frame::remaining_ns, &Frame::trace,
                  &Frame::tag, &Frame::reserved, &Frame::crc));
    using cipher::Cell;
    EXPECT_EQ(places_of(page("cipher.md"), "**Cell**"),
              places_of(&Cell::format, &Cell::suite, &Cell::length, &Cell::key_version,
                        &Cell::counter, &Cell::salt, &Cell::tag, &Cell::reserved));
    const std::string dfs = page("dfs.md");
    using fs::Superblock;
    EXPECT_EQ(places_of(dfs, "**Superblock**"),
              places_of(&Superblock::magic, &Superblock::version, &Superblock::name,
                        &Superblock::format, &Superblock::features_needed, &Superblock::chunk_bytes,
                        &Superblock::created_ns, &Superblock::reserved));
    using fs::InodeRecord;
    EXPECT_EQ(
        places_of(dfs, "**InodeRecord**"),
        places_of(&InodeRecord::magic, &InodeRecord::version, &InodeRecord::target_bytes,
                  &InodeRecord::mode, &InodeRecord::links, &InodeRecord::uid, &InodeRecord::gid,
                  &InodeRecord::flags, &InodeRecord::device, &InodeRecord::parent,
                  &InodeRecord::created_ns, &InodeRecord::accessed_ns, &InodeRecord::modified_ns,
                  &InodeRecord::modified_epoch, &InodeRecord::changed_ns,
                  &InodeRecord::changed_epoch, &InodeRecord::reserved2));
    using Record = engine::RecordHeader;
    EXPECT_EQ(places_of(page("journal.md"), "## Record"),
              places_of(&Record::magic, &Record::version, &Record::crc, &Record::pool,
                        &Record::incarnation, &Record::id, &Record::previous_id, &Record::next_id,
                        &Record::sequence, &Record::durable_upto, &Record::first_epoch,
                        &Record::wall_time_ns, &Record::payload_bytes, &Record::transactions,
                        &Record::header_crc, &Record::reserved));
    using Checkpoint = engine::CheckpointSlot;
    EXPECT_EQ(places_of(page("checkpoint.md"), "# Checkpoint slot"),
              places_of(&Checkpoint::magic, &Checkpoint::version, &Checkpoint::crc,
                        &Checkpoint::pool, &Checkpoint::number, &Checkpoint::applied,
                        &Checkpoint::position, &Checkpoint::next_id, &Checkpoint::previous_id,
                        &Checkpoint::next_epoch, &Checkpoint::incarnation, &Checkpoint::reserved));
    using Block = engine::SuperblockLayout;
    EXPECT_EQ(
        places_of(page("superblock.md"), "# Superblock"),
        places_of(&Block::magic, &Block::version, &Block::crc, &Block::incompatible_features,
                  &Block::read_only_features, &Block::pool, &Block::generation,
                  &Block::device_number, &Block::device_count, &Block::checkpoint_first,
                  &Block::journal_first, &Block::journal_blocks, &Block::created_ns,
                  &Block::targets, &Block::segment_blocks, &Block::index_directory, &Block::devices,
                  &Block::identities, &Block::reached_generation, &Block::reserved));
    EXPECT_EQ(places_of(page("capability.md"), "# Capabilities"),
              (places_of_fields<capability::Capability, uint16_t>(capability::capability_fields)));
}

// ---- fields ---------------------------------------------------------------------------------

std::string row(const auto&... cells) {
    std::string text = "|";
    ((text += fmt::format(" {} |", cells)), ...);
    return text;
}
void expect_rows(const std::string& name, std::span<const std::string> rows) {
    const std::string text = page(name);
    for (const std::string& row : rows) {
        EXPECT_TRUE(text.find('\n' + row + '\n') != std::string::npos)
            << "docs/formats/" << name << " should say:\n"
            << row;
    }
}

TEST(FormatPages, IndexFieldsMatchThePage) {
    using namespace engine;
    const std::string rows[] = {
        row("4", "summary", field_text<SummaryValue>(summary_fields)),
        row("6", "container", field_text<ContainerValue>(container_fields)),
        row("7", "meta", field_text<MetaValue>(meta_fields)),
        row("9", "reply", field_text<ReplyValue>(reply_fields)),
        row("10", "owner", field_text<OwnerValue>(owner_fields)),
    };
    expect_rows("index.md", rows);
}

TEST(FormatPages, JournalFieldsMatchThePage) {
    using namespace engine;
    const std::string rows[] = {
        row("transaction",
            field_text<TransactionRecord>(transaction_fields) + ", `u32` changes, each {change}"),
        row("change", field_text<Change>(change_fields) + ", each of its pieces {piece}"),
        row("piece", field_text<Change::Piece>(piece_fields) + ", each run {" +
                         field_text<BlockRun>(run_fields) + "}, each block {`u32` CRC}"),
    };
    expect_rows("journal.md", rows);
}

TEST(FormatPages, TargetsMatchThePage) {
    object::ContainerId container;
    for (uint8_t i = 0; i < 16; ++i) container.uuid.bytes[i] = static_cast<uint8_t>(0x50 + i);
    const object::ObjectId object{0x0102030405060708, 0x090a0b0c0d0e0f10};
    const auto example = [&](const char* shown, std::string_view dkey) {
        return row(shown, engine::target_of(container, object, dkey, 16),
                   engine::target_of(container, object, dkey, 4096));
    };
    const std::string rows[] = {example("(empty)", ""), example("`a`", "a"),
                                example("`file-name`", "file-name")};
    expect_rows("targets.md", rows);
}

TEST(FormatPages, CapabilityAndKeyFieldsMatchThePages) {
    const std::string wanted[] = {
        row("request",
            field_text<capability::CapabilityRequest, uint16_t>(capability::request_fields))};
    expect_rows("capability.md", wanted);
    using namespace cipher;
    const std::string keys[] = {
        row("keys", field_text<KeyRecord, KeyRecordHead>(key_record_fields))};
    expect_rows("cipher.md", keys);
}

template <class Record>
std::string record_row(const char* tag) {
    return row(tag, field_text<Record>(rados::fields_of(static_cast<const Record*>(nullptr))));
}
TEST(FormatPages, RadosRecordFieldsMatchThePage) {
    using namespace rados;
    const std::string rows[] = {
        record_row<Head>("H"),         record_row<Column>("C"),
        record_row<InlineBytes>("B"),  record_row<Entry>("E"),
        record_row<Segment>("S"),      record_row<Pending>("P"),
        record_row<Coordination>("T"), record_row<PoolRecord>("R"),
        record_row<ClockRecord>("K"),  record_row<rados::ContainerValue>("N"),
    };
    expect_rows("rados.md", rows);
}

// Puts {NAME} in place of the fields of each part.
void name_parts(std::string& row, std::span<const std::pair<std::string, std::string>> parts) {
    for (const auto& [name, fields] : parts) {
        for (size_t at = 0; (at = row.find(fields, at)) != std::string::npos;) {
            row.replace(at, fields.size(), '{' + name + '}');
            at += name.size();
        }
    }
}

TEST(FormatPages, RpcBodyFieldsMatchThePage) {
    using namespace object;
    namespace s = remote;
    namespace f = hostlink;
    const std::string fetched = field_text<std::vector<FetchItem>>(s::fetched_fields);
    const std::string file = field_text<f::FileBody>(f::file_fields);
    const std::string moved = field_text<f::MovedBody>(f::moved_fields);
    const std::string node = field_text<f::NodeBody>(f::node_fields);
    const std::string make = field_text<f::MakeBody>(f::make_fields);
    const std::string attributes = field_text<fs::Attributes>(f::attributes_fields);
    const std::string opened = field_text<fs::Opened>(f::opened_fields);
    const std::string content = field_text<std::string>(f::content_fields);
    const std::string names = field_text<f::NamesBody>(f::names_fields);
    const std::string lock_reply = field_text<std::optional<Lock>>(lock_reply_fields);
    const std::string codes = field_text<f::CodesBody>(f::codes_fields);
    // What several bodies have: a row of its own, and its name in the others.
    const std::pair<std::string, std::string> parts[] = {
        {"attributes", attributes}, {"make", make}, {"names", names},   {"range", file},
        {"moved", moved},           {"name", node}, {"items", fetched},
    };
    std::vector<std::string> rows{
        row("hello", field_text<rpc::HelloBody>(rpc::hello_fields)),
        row("welcome", field_text<rpc::WelcomeBody>(rpc::welcome_fields)),
        row("failure", field_text<rpc::FailureBody>(rpc::failure_fields)),
        row("trace", field_text<uint64_t, uint32_t>(rpc::trace_fields)),
        row("step of a trace", field_text<rpc::StepBody>(rpc::step_fields)),
        row("status", field_text<Result<>>(rpc::status_fields)),
        row("object", field_text<ObjectId>(s::object_fields)),
        row("lock", field_text<Lock>(lock_fields)),

        row("1 describe", "empty", field_text<s::Description>(s::description_fields)),
        row("2 fetch", field_text<ContainerId, std::vector<FetchItem>>(s::fetch_fields), fetched),
        row("3 update", field_text<ContainerId, Transaction>(s::update_fields),
            field_text<Commit>(s::commit_fields)),
        row("4 list", field_text<ContainerId, ListRequest>(s::list_fields),
            field_text<std::vector<ListEntry>, bool>(s::listed_fields)),
        row("5 query", field_text<ContainerId, ObjectId, Akey>(s::query_fields),
            field_text<QueryReply>(s::queried_fields)),
        row("6 create container", field_text<s::Creation>(s::create_fields),
            field_text<ContainerRecord>(s::container_fields)),
        row("7 destroy container", field_text<s::Destruction>(s::destroy_fields), "empty"),
        row("8 list containers", field_text<std::string>(s::list_containers_fields),
            field_text<std::vector<ContainerRecord>, bool>(s::containers_fields)),
        row("9 space", field_text<ContainerId>(s::space_request_fields),
            field_text<PoolSpace>(s::space_fields)),
        row("10 pin", field_text<ContainerId, Uuid, FetchItem>(s::pin_fields), fetched),
        row("11 unpin", field_text<ContainerId, Uuid, ObjectId>(s::unpin_fields),
            field_text<bool>(s::unpinned_fields)),
        row("12 fetch chain",
            field_text<ContainerId, Uuid, std::vector<FetchItem>, std::vector<Link>>(
                s::chain_fields),
            field_text<std::vector<FetchItem>, std::vector<Link>>(s::chained_fields)),
        row("13 pinned again", field_text<ContainerId, Uuid>(s::pinned_again_fields),
            field_text<bool>(s::refused_a_punch_fields)),
        row("14 lock", field_text<ContainerId, Uuid, LockRequest>(s::lock_request_fields),
            lock_reply),
        row("15 listen", field_text<ContainerId, Uuid, Listening>(s::listen_fields),
            field_text<LeaseNews>(s::news_fields)),
        row("16 sync", field_text<ContainerId, Uuid, Acknowledged>(s::sync_fields),
            field_text<uint64_t>(s::synced_fields)),

        row("user", field_text<fs::UserClaim>(f::user_fields)),
        row("leases", field_text<std::vector<Leased>>(f::leases_fields)),
        row("1 read", file, moved),
        row("2 write", file, moved),
        row("3 sync", file, "empty"),
        row("4 punch hole", file, moved),
        row("5 look up", node, attributes),
        row("6 attributes", node, attributes),
        row("7 list", field_text<f::ReaddirBody>(f::readdir_fields),
            field_text<std::vector<fs::DirectoryEntry>>(f::entries_fields)),
        row("8 read many",
            field_text<f::ReadManyBody, std::vector<fs::ReadManyItem>>(f::read_many_fields),
            "each {" + field_text<fs::ReadManyItem, uint32_t>(f::read_answer_fields) + "}"),
        row("9 make directory", make, attributes),
        row("10 make node", make, attributes),
        row("11 make symbolic link", make, attributes),
        row("12 link", field_text<f::LinkBody>(f::link_fields), attributes),
        row("13 unlink", node, "empty"),
        row("14 remove directory", node, "empty"),
        row("15 rename", field_text<f::RenameBody>(f::rename_fields), "empty"),
        row("16 read link", node, content),
        row("17 set attributes", field_text<f::SetAttributesBody>(f::set_attributes_fields),
            attributes),
        row("18 get xattr", node, content),
        row("19 set xattr", field_text<f::SetXattrBody>(f::set_xattr_fields), "empty"),
        row("20 remove xattr", node, "empty"),
        row("21 list xattrs", node, field_text<std::vector<std::string>>(f::xattr_names_fields)),
        row("22 open", field_text<f::OpenBody>(f::open_fields), opened),
        row("23 create", field_text<f::CreateBody>(f::create_fields), opened),
        row("24 close", field_text<f::HandleBody>(f::handle_fields), "empty"),
        row("25 forget", field_text<f::ForgetBody>(f::forget_fields), "empty"),
        row("26 space", field_text<f::MountBody>(f::mount_fields),
            field_text<fs::FileSystemSpace>(f::space_fields)),
        row("27 walk", field_text<f::WalkBody>(f::walk_fields),
            field_text<fs::Walked>(f::walked_fields)),
        row("28 open path", field_text<f::OpenPathBody>(f::open_path_fields), opened),
        row("29 look up many", names, field_text<std::vector<f::FoundName>>(f::found_names_fields)),
        row("30 create many", names, codes),
        row("31 unlink many", names, codes),
        row("32 list many", field_text<f::ReaddirManyBody>(f::readdir_many_fields),
            field_text<std::vector<f::FoundEntry>>(f::found_entries_fields)),
        row("33 write pieces", field_text<f::FileBody, Checksums>(f::pieces_fields), moved),
        row("34 seek", file, moved),
        row("35 lock", field_text<f::LockBody>(f::lock_body_fields), lock_reply),
        row("36 allocate", file, moved),
        row("37 allocate inside", file, moved),
        row("38 look up names", names,
            field_text<std::vector<f::FoundName>>(f::found_names_fields)),
        row("39 listen", field_text<f::ListenBody>(f::listen_fields),
            field_text<session::LeaseNews>(f::news_fields)),
        row("40 read node", field_text<f::NodeReadBody>(f::node_read_fields), moved),
        row("41 blocks", field_text<f::BlocksBody, std::vector<f::SentBlock>>(f::blocks_fields),
            codes),
    };
    const std::string last = std::to_string(f::method_count) + ' ';
    EXPECT_TRUE(rows.back().starts_with("| " + last)) << "no row for the method " << last;
    for (std::string& row : rows) name_parts(row, parts);
    for (const auto& [name, fields] : parts) rows.push_back(row(name, fields));
    expect_rows("rpc.md", rows);
}

}  // namespace
}  // namespace ros2s
