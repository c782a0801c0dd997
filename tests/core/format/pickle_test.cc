#include <memory>

#include "absl/strings/str_cat.h"
#include "shardwright/core/format/pickle/globals.h"
#include "shardwright/core/format/pickle/machine.h"
#include "tests/testing/status_matchers.h"

namespace shardwright::pickle {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::string_literals;

absl::StatusOr<Graph> ParseAll(std::string bytes) {
  SW_ASSIGN_OR_RETURN(Parsed parsed, Parse(std::make_shared<const std::string>(std::move(bytes))));
  return std::move(parsed.graph);
}

TEST(MachineTest, PlainValuesOfEveryProtocol) {
  // {'a': [1, -2, 2.5, None, True], 'b': ('x', b'\x80')}
  SW_ASSERT_OK_AND_ASSIGN(const Graph graph, ParseAll("\x80\x04\x95\x2d\0\0\0\0\0\0\0}\x94(\x8c\x01"
                                                      "a\x94]\x94(K\x01J\xfe\xff\xff\xffG@\x04\0\0\0\0\0\0N\x88"
                                                      "e\x8c\x01"
                                                      "b\x94\x8c\x01x\x94"
                                                      "C\x01\x80\x94\x86\x94u."s));
  const NodeId root = graph.root();
  ASSERT_EQ(graph.kind(root), Kind::kDict);
  const NodeId list = graph.Get(root, "a");
  ASSERT_EQ(graph.items(list).size(), 5u);
  EXPECT_EQ(graph.Int(graph.items(list)[0]), 1);
  EXPECT_EQ(graph.Int(graph.items(list)[1]), -2);
  EXPECT_EQ(graph.real(graph.items(list)[2]), 2.5);
  EXPECT_EQ(graph.kind(graph.items(list)[3]), Kind::kNone);
  EXPECT_EQ(graph.Bool(graph.items(list)[4]), true);
  const NodeId pair = graph.Get(root, "b");
  EXPECT_EQ(graph.String(graph.items(pair)[0]), "x");
  EXPECT_EQ(graph.text(graph.items(pair)[1]), "\x80");
}

TEST(MachineTest, LongIntegers) {
  SW_ASSERT_OK_AND_ASSIGN(const Graph graph,
                          ParseAll("\x80\x02(\x8a\0\x8a\x01\xff\x8a\x09\xff\xff\xff\xff\xff\xff\xff\x7f\0"
                                   "\x8a\x09\0\0\0\0\0\0\0\x80\0t."s));
  const auto items = graph.items(graph.root());
  EXPECT_EQ(graph.Int(items[0]), 0);
  EXPECT_EQ(graph.Int(items[1]), -1);
  EXPECT_EQ(graph.Int(items[2]), INT64_MAX);
  EXPECT_EQ(graph.kind(items[3]), Kind::kBigInt);
}

TEST(MachineTest, TheSameMemoIsTheSameObject) {
  SW_ASSERT_OK_AND_ASSIGN(const Graph graph, ParseAll("\x80\x02]q\x05h\x05\x86."s));
  EXPECT_EQ(graph.items(graph.root())[0], graph.items(graph.root())[1]);
}

TEST(MachineTest, ListsMayHoldThemselves) {
  SW_ASSERT_OK_AND_ASSIGN(const Graph graph, ParseAll("\x80\x02]q\0h\0a."s));
  EXPECT_THAT(graph.items(graph.root()), ElementsAre(graph.root()));
}

TEST(MachineTest, SparseMemosCostNothing) {
  EXPECT_THAT(ParseAll("\x80\x02Nr\xff\xff\xff\xff."s), IsOk());
}

TEST(MachineTest, WellKnownConstructorsMakePlainData) {
  // {'o': OrderedDict(), 's': set([1]), 'b': _codecs.encode('\xe9', 'latin1')} as protocol 2 writes them.
  SW_ASSERT_OK_AND_ASSIGN(const Graph graph,
                          ParseAll("\x80\x02}(X\x01\0\0\0occollections\nOrderedDict\n)R"
                                   "X\x01\0\0\0sc__builtin__\nset\n]K\x01"
                                   "a\x85R"
                                   "X\x01\0\0\0bc_codecs\nencode\nX\x02\0\0\0\xc3\xa9X\x06\0\0\0latin1\x86Ru."s));
  EXPECT_EQ(graph.kind(graph.Get(graph.root(), "o")), Kind::kDict);
  EXPECT_EQ(graph.kind(graph.Get(graph.root(), "s")), Kind::kSet);
  EXPECT_EQ(graph.items(graph.Get(graph.root(), "s")).size(), 1u);
  EXPECT_EQ(graph.text(graph.Get(graph.root(), "b")), "\xe9");
}

TEST(MachineTest, UnknownCallsStayCalls) {
  SW_ASSERT_OK_AND_ASSIGN(const Graph graph, ParseAll("\x80\x02"
                                                      "cmy.module\nConfig\n)\x81}X\x01\0\0\0xK\x07sb."s));
  ASSERT_EQ(graph.kind(graph.root()), Kind::kCall);
  EXPECT_EQ(graph.GlobalName(graph.root()), "my.module.Config");
  EXPECT_EQ(graph.Int(graph.Get(graph.root(), "x")), 7);
  EXPECT_THAT(CheckHarmless(graph), IsOk());
}

TEST(MachineTest, WhatIsNoPickleIsRefused) {
  struct Refusal {
    std::string bytes;
    const char* message;
  };
  const Refusal refusals[] = {
      {"\x80\x06N."s, "protocol 6"},
      {"\x80\x02\x85."s, "1 values wanted"},
      {"\x80\x02h\x05."s, "nothing was stored"},
      {"\x80\x02}(NNNu."s, "a key without a value"},
      {"\x80\x02}]Ns."s, "a list for a key"},
      {"\x80\x02)Na."s, "appended to a tuple"},
      {"\x80\x02NN."s, "2 values, want 1"},
      {"\x80\x02(N."s, "1 values, want 1"},
      {"\x80\x02X\x01\0\0\0\xff."s, "not UTF-8"},
      {"\x80\x02(ios\nsystem\n."s, "0x69"},
      {"\x80\x02P1\n."s, "0x50"},
      {"\x80\x02\x82\x01."s, "0x82"},
      {"\x80\x02Nt."s, "no mark"},
      {"\x80\x02N)R."s, "a call of None"},
      {"\x80\x02"
       "ctorch._utils\n_rebuild_tensor_v2\n)R}b."s,
       "state for a tensor"},
  };
  for (const Refusal& refusal : refusals) {
    EXPECT_THAT(ParseAll(refusal.bytes), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(refusal.message)))
        << refusal.message;
  }
}

TEST(MachineTest, LengthsBeyondTheEndAreCutPickles) {
  for (const std::string& bytes : {""s, "\x80"s,
                                   "\x80\x02X\xff\xff\xff\xff"
                                   "abc"s,
                                   "\x80\x02\x8d\0\0\0\0\0\0\0\x80"s, "\x80\x02\x8b\0\0\0\x80"s,
                                   "\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7fN."s, "\x80\x02N"s,
                                   "\x80\x02"
                                   "cos"s}) {
    EXPECT_THAT(ParseAll(bytes), StatusIs(absl::StatusCode::kOutOfRange));
  }
}

// Nothing recurses: neither the machine nor whoever destroys the graph.
TEST(MachineTest, DeepNestsAreFine) {
  constexpr int kDepth = 1'000'000;
  std::string bytes = "\x80\x02" + std::string(kDepth, ']') + std::string(kDepth - 1, 'a') + ".";
  SW_ASSERT_OK_AND_ASSIGN(const Graph graph, ParseAll(std::move(bytes)));
  EXPECT_GE(graph.size(), static_cast<size_t>(kDepth));
}

// Thirty levels, each ten times the one below: 10^30 leaves in a few hundred bytes.
TEST(MachineTest, SharedPartsAreNotMultiplied) {
  std::string bytes = "\x80\x02]q"s + '\0';
  for (int level = 0; level < 30; ++level) {
    bytes += "(";
    for (int i = 0; i < 10; ++i) bytes += "h"s + static_cast<char>(level);
    bytes += "tq"s + static_cast<char>(level + 1) + "0";
  }
  // The list that was there first, and the uppermost tuple.
  SW_ASSERT_OK_AND_ASSIGN(const Graph graph, ParseAll(bytes + "h" + static_cast<char>(30) + "\x86."));
  EXPECT_LT(graph.size(), 100u);
}

TEST(GlobalsTest, WhatWouldActIsHostile) {
  for (const auto& [module, name] : {std::pair("os", "system"),
                                     {"posix", "system"},
                                     {"builtins", "eval"},
                                     {"subprocess", "Popen"},
                                     {"importlib", "import_module"},
                                     {"torch", "serialization.os.system"},
                                     {"runpy", "run_path"},
                                     {"operator", "attrgetter"}}) {
    EXPECT_TRUE(IsHostileGlobal(module, name)) << module << "." << name;
  }
  for (const auto& [module, name] : {std::pair("collections", "OrderedDict"),
                                     {"argparse", "Namespace"},
                                     {"pathlib", "PosixPath"},
                                     {"functools", "partial"},
                                     {"posixpath", "join"},
                                     {"mymodel", "Config.Inner"},
                                     {"types", "SimpleNamespace"}}) {
    EXPECT_FALSE(IsHostileGlobal(module, name)) << module << "." << name;
  }
}

TEST(GlobalsTest, GetattrReachesNestedClassesOnly) {
  const auto check = [](const std::string& attribute) -> absl::Status {
    SW_ASSIGN_OR_RETURN(const Graph graph, ParseAll("\x80\x02"
                                                    "c__builtin__\ngetattr\ncmy\nOuter\nX" +
                                                    std::string(1, static_cast<char>(attribute.size())) + "\0\0\0"s +
                                                    attribute + "\x86R."));
    return CheckHarmless(graph);
  };
  EXPECT_THAT(check("Inner"), IsOk());
  for (const char* hostile : {"os", "__class__", "system", "eval", "a.b"}) {
    EXPECT_THAT(check(hostile), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(hostile))) << hostile;
  }
}

}  // namespace
}  // namespace shardwright::pickle
