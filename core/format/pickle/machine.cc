#include "shardwright/core/format/pickle/machine.h"

#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/pickle/builder.h"

namespace shardwright::pickle {
namespace {

enum Op : uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersId = 'Q',
  kReduce = 'R',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kEmptyList = ']',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kEmptyDict = '}',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kList = 'l',
  kDict = 'd',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kEmptyTuple = ')',
  kSetItems = 'u',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kProto = 0x80,
  kNewObj = 0x81,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kNewObjEx = 0x92,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
  kByteArray8 = 0x96,
};

constexpr int kMaxProtocol = 5;

template <typename... Parts>
absl::Status DataLoss(const Parts&... parts) {
  return absl::DataLossError(absl::StrCat(parts...));
}

}  // namespace

// Runs the opcodes over a stack of node numbers.
class Machine {
 public:
  Machine(const std::shared_ptr<const std::string>& bytes, uint64_t begin)
      : bytes_(*bytes), at_(begin), builder_(bytes) {}

  absl::StatusOr<Parsed> Run() {
    while (true) {
      const uint64_t position = at_;
      SW_ASSIGN_OR_RETURN(const absl::string_view op, Take(1));
      const auto code = static_cast<uint8_t>(op[0]);
      if (code == kStop) return Stop();
      SW_RETURN_IF_ERROR(Step(code)) << absl::StrFormat("pickle opcode 0x%02x at byte %d", code, position);
    }
  }

 private:
  absl::StatusOr<Parsed> Stop() {
    if (!marks_.empty() || stack_.size() != 1) {
      return DataLoss("the pickle ends with ", stack_.size(), " values, want 1");
    }
    return Parsed{builder_.Take(stack_[0]), at_};
  }

  // The next bytes; what is short of them is a pickle that was cut.
  absl::StatusOr<absl::string_view> Take(uint64_t length) {
    if (length > bytes_.size() - at_) {
      return absl::OutOfRangeError(
          absl::StrCat("the pickle is cut: ", length, " bytes wanted at byte ", at_, " of ", bytes_.size()));
    }
    const absl::string_view taken = bytes_.substr(at_, length);
    at_ += length;
    return taken;
  }

  // A little-endian number of `width` bytes.
  absl::StatusOr<uint64_t> Number(int width) {
    SW_ASSIGN_OR_RETURN(const absl::string_view bytes, Take(width));
    uint64_t value = 0;
    for (int i = width; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
    return value;
  }

  // Bytes behind their length.
  absl::StatusOr<absl::string_view> Counted(int width) {
    SW_ASSIGN_OR_RETURN(const uint64_t length, Number(width));
    return Take(length);
  }

  absl::StatusOr<absl::string_view> Line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == absl::string_view::npos) return absl::OutOfRangeError("the pickle is cut in a name");
    SW_ASSIGN_OR_RETURN(absl::string_view line, Take(end + 1 - at_));
    line.remove_suffix(1);
    return line;
  }

  size_t Floor() const { return marks_.empty() ? 0 : marks_.back(); }

  absl::Status Need(size_t count) const {
    if (stack_.size() >= Floor() + count) return absl::OkStatus();
    return DataLoss(count, " values wanted, there are ", stack_.size() - Floor());
  }

  absl::Status Push(absl::StatusOr<NodeId> node) {
    SW_RETURN_IF_ERROR(node.status());
    stack_.push_back(*node);
    return absl::OkStatus();
  }

  NodeId Pop() {
    const NodeId top = stack_.back();
    stack_.pop_back();
    return top;
  }

  // What was pushed since the last mark.
  absl::StatusOr<std::vector<NodeId>> PopToMark() {
    if (marks_.empty()) return DataLoss("no mark");
    std::vector<NodeId> items(stack_.begin() + static_cast<ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }

  absl::Status Step(uint8_t op);
  absl::Status StepValue(uint8_t op);
  absl::Status StepStack(uint8_t op);
  absl::Status StepObject(uint8_t op);
  absl::Status Put(uint64_t index);
  absl::Status Get(uint64_t index);
  absl::Status Tuple(size_t count);
  absl::Status MakeDict();
  absl::Status Call(size_t values);
  absl::Status StackGlobal();

  const absl::string_view bytes_;
  uint64_t at_;
  Builder builder_;
  std::vector<NodeId> stack_;
  std::vector<size_t> marks_;                   // heights of the stack
  absl::flat_hash_map<uint64_t, NodeId> memo_;  // sparse: an index may be anything
};

absl::Status Machine::Step(uint8_t op) {
  switch (op) {
    case kProto: {
      SW_ASSIGN_OR_RETURN(const uint64_t protocol, Number(1));
      return protocol <= kMaxProtocol ? absl::OkStatus() : DataLoss("protocol ", protocol, ", want at most 5");
    }
    case kFrame: {
      SW_ASSIGN_OR_RETURN(const uint64_t length, Number(8));
      if (length <= bytes_.size() - at_) return absl::OkStatus();
      return absl::OutOfRangeError(absl::StrCat("a frame of ", length, " bytes is cut"));
    }
    case kMark:
      marks_.push_back(stack_.size());
      return absl::OkStatus();
    case kPop:
      if (stack_.size() == Floor() && !marks_.empty()) {
        marks_.pop_back();
        return absl::OkStatus();
      }
      SW_RETURN_IF_ERROR(Need(1));
      stack_.pop_back();
      return absl::OkStatus();
    case kPopMark:
      return PopToMark().status();
    case kDup:
      SW_RETURN_IF_ERROR(Need(1));
      stack_.push_back(stack_.back());
      return absl::OkStatus();
    default:
      return StepValue(op);
  }
}

absl::Status Machine::StepValue(uint8_t op) {
  const auto string = [&](int width) -> absl::Status {
    SW_ASSIGN_OR_RETURN(const absl::string_view text, Counted(width));
    return Push(builder_.String(text));
  };
  const auto bytes = [&](int width) -> absl::Status {
    SW_ASSIGN_OR_RETURN(const absl::string_view text, Counted(width));
    return Push(builder_.BytesOf(text));
  };
  const auto integer = [&](int width) -> absl::Status {
    SW_ASSIGN_OR_RETURN(const uint64_t value, Number(width));
    return Push(builder_.Int(width == 4 ? static_cast<int32_t>(value) : static_cast<int64_t>(value)));
  };
  switch (op) {
    case kNone:
      return Push(builder_.None());
    case kNewTrue:
      return Push(builder_.Bool(true));
    case kNewFalse:
      return Push(builder_.Bool(false));
    case kBinInt:
      return integer(4);
    case kBinInt1:
      return integer(1);
    case kBinInt2:
      return integer(2);
    case kLong1:
    case kLong4: {
      SW_ASSIGN_OR_RETURN(const absl::string_view digits, Counted(op == kLong1 ? 1 : 4));
      return Push(builder_.Long(digits));
    }
    case kBinFloat: {
      SW_ASSIGN_OR_RETURN(const absl::string_view big_endian, Take(8));
      uint64_t value = 0;
      for (const char byte : big_endian) value = value << 8 | static_cast<uint8_t>(byte);
      return Push(builder_.Float(std::bit_cast<double>(value)));
    }
    case kShortBinString:
    case kShortBinUnicode:
      return string(1);
    case kBinString:
    case kBinUnicode:
      return string(4);
    case kBinUnicode8:
      return string(8);
    case kShortBinBytes:
      return bytes(1);
    case kBinBytes:
      return bytes(4);
    case kBinBytes8:
    case kByteArray8:
      return bytes(8);
    default:
      return StepStack(op);
  }
}

absl::Status Machine::StepStack(uint8_t op) {
  switch (op) {
    case kEmptyTuple:
      return Push(builder_.EmptyTuple());
    case kEmptyList:
      return Push(builder_.Sequence(Kind::kList, {}));
    case kEmptyDict:
      return Push(builder_.Sequence(Kind::kDict, {}));
    case kEmptySet:
      return Push(builder_.Sequence(Kind::kSet, {}));
    case kTuple1:
      return Tuple(1);
    case kTuple2:
      return Tuple(2);
    case kTuple3:
      return Tuple(3);
    case kTuple:
    case kList:
    case kFrozenSet: {
      SW_ASSIGN_OR_RETURN(const std::vector<NodeId> items, PopToMark());
      return Push(builder_.Sequence(op == kTuple ? Kind::kTuple : op == kList ? Kind::kList : Kind::kSet, items));
    }
    case kDict:
      return MakeDict();
    case kBinPut: {
      SW_ASSIGN_OR_RETURN(const uint64_t index, Number(1));
      return Put(index);
    }
    case kLongBinPut: {
      SW_ASSIGN_OR_RETURN(const uint64_t index, Number(4));
      return Put(index);
    }
    case kMemoize:
      return Put(memo_.size());
    case kBinGet: {
      SW_ASSIGN_OR_RETURN(const uint64_t index, Number(1));
      return Get(index);
    }
    case kLongBinGet: {
      SW_ASSIGN_OR_RETURN(const uint64_t index, Number(4));
      return Get(index);
    }
    default:
      return StepObject(op);
  }
}

absl::Status Machine::StepObject(uint8_t op) {
  switch (op) {
    case kGlobal: {
      SW_ASSIGN_OR_RETURN(const absl::string_view module, Line());
      SW_ASSIGN_OR_RETURN(const absl::string_view name, Line());
      return Push(builder_.Global(module, name));
    }
    case kStackGlobal:
      return StackGlobal();
    case kReduce:
    case kNewObj:
      return Call(2);
    case kNewObjEx:
      return Call(3);
    case kBinPersId:
      SW_RETURN_IF_ERROR(Need(1));
      return Push(builder_.Persistent(Pop()));
    case kBuild: {
      SW_RETURN_IF_ERROR(Need(2));
      const NodeId state = Pop();
      return builder_.Build(stack_.back(), state);
    }
    case kAppend: {
      SW_RETURN_IF_ERROR(Need(2));
      const NodeId item = Pop();
      return builder_.Append(stack_.back(), {item});
    }
    case kSetItem: {
      SW_RETURN_IF_ERROR(Need(3));
      const NodeId value = Pop();
      const NodeId key = Pop();
      return builder_.SetItems(stack_.back(), {key, value});
    }
    case kAppends:
    case kSetItems:
    case kAddItems: {
      SW_ASSIGN_OR_RETURN(const std::vector<NodeId> items, PopToMark());
      SW_RETURN_IF_ERROR(Need(1));
      if (op == kAppends) return builder_.Append(stack_.back(), items);
      return op == kSetItems ? builder_.SetItems(stack_.back(), items) : builder_.AddToSet(stack_.back(), items);
    }
    default:
      return DataLoss("not an opcode that is read here");
  }
}

absl::Status Machine::Put(uint64_t index) {
  SW_RETURN_IF_ERROR(Need(1));
  memo_[index] = stack_.back();
  return absl::OkStatus();
}

absl::Status Machine::Get(uint64_t index) {
  const auto found = memo_.find(index);
  if (found == memo_.end()) return DataLoss("nothing was stored under ", index);
  stack_.push_back(found->second);
  return absl::OkStatus();
}

absl::Status Machine::Tuple(size_t count) {
  SW_RETURN_IF_ERROR(Need(count));
  const std::vector<NodeId> items(stack_.end() - static_cast<ptrdiff_t>(count), stack_.end());
  stack_.resize(stack_.size() - count);
  return Push(builder_.Sequence(Kind::kTuple, items));
}

absl::Status Machine::MakeDict() {
  SW_ASSIGN_OR_RETURN(const std::vector<NodeId> items, PopToMark());
  const NodeId dict = builder_.Sequence(Kind::kDict, {});
  SW_RETURN_IF_ERROR(builder_.SetItems(dict, items));
  return Push(dict);
}

absl::Status Machine::Call(size_t values) {
  SW_RETURN_IF_ERROR(Need(values));
  const NodeId keywords = values == 3 ? Pop() : kNoNode;
  const NodeId arguments = Pop();
  const NodeId callee = Pop();
  SW_ASSIGN_OR_RETURN(const NodeId call, builder_.Call(callee, arguments));
  // Keyword arguments of a constructor are kept where its state would be looked for.
  if (keywords != kNoNode && builder_.kind(call) == Kind::kCall) {
    SW_RETURN_IF_ERROR(builder_.Build(call, keywords));
  }
  return Push(call);
}

absl::Status Machine::StackGlobal() {
  SW_RETURN_IF_ERROR(Need(2));
  const NodeId name = Pop();
  const NodeId module = Pop();
  if (builder_.kind(name) != Kind::kString || builder_.kind(module) != Kind::kString) {
    return DataLoss("a global whose name is no string");
  }
  return Push(builder_.Global(builder_.graph().text(module), builder_.graph().text(name)));
}

absl::StatusOr<Parsed> Parse(const std::shared_ptr<const std::string>& bytes, uint64_t begin) {
  if (bytes->size() > kMaxPickleBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a pickle of ", bytes->size(), " bytes: at most ", kMaxPickleBytes, " are read"));
  }
  if (begin >= bytes->size()) return absl::OutOfRangeError("the pickle is empty");
  return Machine(bytes, begin).Run();
}

}  // namespace shardwright::pickle
