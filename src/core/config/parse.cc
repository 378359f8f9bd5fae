// The YAML part of config tables: the only file that uses yaml-cpp.
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>

#include "config.h"
#include "units.h"

namespace ros2s::config {
namespace {

constexpr size_t yaml_bytes_max = 1024 * 1024;

// The edit distance of two names: letters added, omitted, replaced or swapped with a neighbour.
size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
    for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
    for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
    for (size_t i = 1; i <= a.size(); ++i) {
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
            d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[a.size()][b.size()];
}

// The position of a second document or a stray bracket. YAML::Load ignores what follows the first
// document, and YAML::LoadAll makes documents of a stray bracket without end.
std::optional<YAML::Mark> mark_behind_first_document(const std::string& yaml) {
    struct Handler final : YAML::EventHandler {
        YAML::Mark start;
        void OnDocumentStart(const YAML::Mark& mark) override { start = mark; }
        void OnDocumentEnd() override {}
        void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
        void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
        void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                      const std::string&) override {}
        void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                             YAML::EmitterStyle::value) override {}
        void OnSequenceEnd() override {}
        void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                        YAML::EmitterStyle::value) override {}
        void OnMapEnd() override {}
    };
    std::istringstream stream(yaml);
    YAML::Parser parser(stream);
    Handler handler;
    if (!parser.HandleNextDocument(handler) || !parser.HandleNextDocument(handler))
        return std::nullopt;
    return handler.start;
}

class Parser {
  public:
    Parser(std::string_view where, const Table& table, Report& report)
        : where_(where), table_(table), report_(report) {}

    Result<> run(std::string_view yaml) {
        if (yaml.size() > yaml_bytes_max)
            return report_.fail(Code::too_large, std::string(where_) +
                                                     ": larger than 1 MiB, the limit for "
                                                     "settings; check the path");
        try {
            if (const auto rest = mark_behind_first_document(std::string(yaml))) {
                wrong(*rest,
                      "the settings end before this line; remove what follows, or a line "
                      "of --- between them");
            } else {
                top(YAML::Load(std::string(yaml)));
            }
        } catch (const YAML::Exception& exception) {
            wrong(exception.mark, "not YAML: " + exception.msg +
                                      "; settings are lines of the form `key: value`, indented "
                                      "with spaces");
        }
        if (!failed_) missing();
        if (failed_) return fail(Code::invalid);
        for (const auto& [field, value] : values_) field->store(value);
        for (auto& [into, found] : entries_) *into = std::move(found);
        for (auto& [into, found] : lines_) *into = std::move(found);
        for (auto& [kind, found] : records_) {
            *kind->into = std::move(found.entries);
            if (kind->lines != nullptr) *kind->lines = std::move(found.lines);
        }
        return {};
    }

  private:
    struct FoundRecords {
        std::map<std::string, Entries> entries;
        RecordLines lines;
    };

    void wrong(const YAML::Mark& mark, std::string_view sentence) {
        std::string text(where_);
        if (!mark.is_null()) text += ":" + std::to_string(mark.line + 1);
        report_.say(text + ": " + std::string(sentence));
        failed_ = true;
    }

    void top(const YAML::Node& node) {
        if (node.IsNull()) return;
        if (!node.IsMap()) {
            wrong(node.Mark(),
                  "the file is not a list of settings; write lines of the form `key: value`");
            return;
        }
        std::vector<std::string_view> known;
        for (const auto& group : table_) {
            if (!group.name.empty()) known.push_back(group.name);
            if (group.name.empty())
                for (const auto& field : group.fields) known.push_back(field.name());
        }
        KeyLines seen;
        for (const auto& entry : node) {
            const auto key = name_of(entry.first, seen);
            if (!key) continue;
            const Group* const group = key->empty() ? nullptr : find_group(*key);
            const Field* const field = find_field(find_group(""), *key);
            if (group != nullptr && (field == nullptr || entry.second.IsMap())) {
                settings(entry.first, entry.second, *group);
            } else if (field != nullptr) {
                setting(entry.first, entry.second, "", *field);
            } else {
                unknown(entry.first, *key, "", known);
            }
        }
        keep_lines(find_group(""), std::move(seen));
    }

    void keep_lines(const Group* group, KeyLines lines) {
        if (group != nullptr && group->lines != nullptr) {
            lines_.emplace_back(group->lines, std::move(lines));
        }
    }

    void settings(const YAML::Node& at, const YAML::Node& node, const Group& group) {
        const std::string name(group.name);
        if (node.IsNull()) return;
        if (!node.IsMap()) {
            wrong(at.Mark(), "\"" + name +
                                 "\" is a group, not a setting; write its settings "
                                 "indented below it, one a line");
            return;
        }
        if (group.entries != nullptr) {
            KeyLines unused;
            entries_.emplace_back(group.entries, entries(node, name, group.help, unused));
            return;
        }
        if (!group.records.empty()) {
            records(node, group);
            return;
        }
        std::vector<std::string_view> known;
        for (const auto& field : group.fields) known.push_back(field.name());
        KeyLines seen;
        for (const auto& entry : node) {
            const auto key = name_of(entry.first, seen);
            if (!key) continue;
            if (const Field* field = find_field(&group, *key)) {
                setting(entry.first, entry.second, name + ".", *field);
            } else {
                unknown(entry.first, *key, group.name, known);
            }
        }
        keep_lines(&group, std::move(seen));
    }

    // `lines` gets those of the keys.
    Entries entries(const YAML::Node& node, const std::string& group, std::string_view help,
                    KeyLines& lines, const std::vector<std::string_view>& known = {}) {
        Entries found;
        for (const auto& entry : node) {
            const auto key = name_of(entry.first, lines);
            if (!key) continue;
            if (!known.empty() && std::ranges::find(known, *key) == known.end()) {
                unknown(entry.first, *key, group, known);
            } else if (!entry.second.IsScalar()) {
                wrong(entry.first.Mark(), group + "." + shown(*key) +
                                              ": one text is needed here; " + std::string(help));
            } else {
                found.emplace(*key, entry.second.Scalar());
            }
        }
        return found;
    }

    void records(const YAML::Node& node, const Group& group) {
        std::vector<FoundRecords> found(group.records.size());
        KeyLines seen;
        for (const auto& record : node) {
            const auto name = name_of(record.first, seen);
            if (!name) continue;
            const std::string path = std::string(group.name) + "." + shown(*name);
            const auto it = std::ranges::find_if(
                group.records, [&](const Records& each) { return is_of(record.second, each); });
            if (it == group.records.end()) {
                std::string examples;
                for (const Records& each : group.records) {
                    examples += (examples.empty() ? "" : ", or ") + std::string(each.example);
                }
                wrong(record.first.Mark(),
                      path + ": it has settings of its own; for example " + examples);
                continue;
            }
            auto& records = found[static_cast<size_t>(it - group.records.begin())];
            Entries& into = records.entries[*name];
            if (it->keys.empty()) continue;
            std::vector<std::string_view> known;
            for (const Records::Key& key : it->keys) known.push_back(key.name);
            const std::string kind(it->kind);
            KeyLines& lines = records.lines[*name];
            into = kind.empty()
                       ? entries(record.second, path, group.help, lines, known)
                       : entries(record.second[kind], path + "." + kind, group.help, lines, known);
            lines.insert_or_assign("", seen.at(*name));
        }
        for (size_t i = 0; i < found.size(); ++i) {
            records_.emplace_back(&group.records[i], std::move(found[i]));
        }
    }

    static bool is_of(const YAML::Node& record, const Records& records) {
        const std::string kind(records.kind);
        if (records.keys.empty()) return record.IsScalar() && record.Scalar() == kind;
        if (kind.empty()) return record.IsMap();
        return record.IsMap() && record.size() == 1 && record[kind] && record[kind].IsMap();
    }

    void setting(const YAML::Node& at, const YAML::Node& node, const std::string& prefix,
                 const Field& field) {
        const std::string name = prefix + std::string(field.name());
        if (node.IsNull()) {
            wrong(at.Mark(), name + ": no value is given; write one, or remove the line");
            return;
        }
        if (!node.IsScalar()) {
            wrong(at.Mark(), name + ": a list or a group is given where one value is needed; " +
                                 std::string(field.type()));
            return;
        }
        Report why;
        auto value = field.read(node.Scalar(), why);
        if (!value) {
            wrong(at.Mark(), name + ": " + why.text());
            return;
        }
        values_.emplace_back(&field, std::move(*value));
    }

    std::optional<std::string> name_of(const YAML::Node& key, KeyLines& seen) {
        if (!key.IsScalar()) {
            wrong(key.Mark(),
                  "a list or a group is given where a name is needed; write lines of the "
                  "form `key: value`");
            return std::nullopt;
        }
        const auto [first, added] = seen.emplace(key.Scalar(), key.Mark().line + 1);
        if (added) return key.Scalar();
        wrong(key.Mark(), "\"" + shown(key.Scalar()) + "\" is given twice, first in line " +
                              std::to_string(first->second) + "; remove one of them");
        return std::nullopt;
    }

    void unknown(const YAML::Node& at, const std::string& key, std::string_view group,
                 const std::vector<std::string_view>& known) {
        std::string sentence = "there is no setting \"" + shown(key) + "\"";
        if (!group.empty()) sentence += " in \"" + std::string(group) + "\"";
        sentence += remedy(key, group, known);
        wrong(at.Mark(), sentence);
    }

    std::string remedy(const std::string& key, std::string_view group,
                       const std::vector<std::string_view>& known) const {
        for (const auto& other : table_) {
            if (other.name == group || find_field(&other, key) == nullptr) continue;
            if (other.name.empty()) return "; it belongs at the top of the file, not indented";
            return "; it belongs in the group \"" + std::string(other.name) + "\"";
        }
        if (key.size() <= 100 && !known.empty()) {
            const auto nearest = *std::ranges::min_element(
                known, {}, [&](std::string_view name) { return distance(key, name); });
            if (distance(key, nearest) <= 1 + nearest.size() / 3)
                return "; did you mean \"" + std::string(nearest) + "\"?";
        }
        std::string names;
        for (const auto name : known) names += (names.empty() ? "" : ", ") + std::string(name);
        return known.empty() ? "; remove it" : "; remove it, or use one of: " + names;
    }

    void missing() {
        for (const auto& group : table_) {
            for (const auto& field : group.fields) {
                const bool given = std::ranges::any_of(
                    values_, [&](const auto& value) { return value.first == &field; });
                if (!field.is_required() || given) continue;
                const std::string prefix = group.name.empty() ? "" : std::string(group.name) + ".";
                wrong(YAML::Mark::null_mark(), "the setting " + prefix + std::string(field.name()) +
                                                   " is missing; add it. " +
                                                   std::string(field.help()));
            }
        }
    }

    const Group* find_group(std::string_view name) const {
        const auto found = std::ranges::find(table_, name, &Group::name);
        return found == table_.end() ? nullptr : &*found;
    }
    static const Field* find_field(const Group* group, std::string_view name) {
        if (group == nullptr) return nullptr;
        const auto found = std::ranges::find(group->fields, name, &Field::name);
        return found == group->fields.end() ? nullptr : &*found;
    }

    const std::string_view where_;
    const Table& table_;
    Report& report_;
    std::vector<std::pair<const Field*, Field::Value>> values_;
    std::vector<std::pair<Entries*, Entries>> entries_;
    std::vector<std::pair<KeyLines*, KeyLines>> lines_;
    std::vector<std::pair<const Records*, FoundRecords>> records_;
    bool failed_ = false;
};

}  // namespace

Result<> parse(std::string_view yaml, std::string_view where, const Table& table, Report& report) {
    return Parser(where, table, report).run(yaml);
}

}  // namespace ros2s::config
