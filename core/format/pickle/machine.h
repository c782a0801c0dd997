// The restricted pickle machine: reads protocols 2 to 5 into a graph of plain data, and runs nothing.
//
//   SW_ASSIGN_OR_RETURN(Parsed parsed, Parse(std::make_shared<const std::string>(bytes)));
//   parsed.graph.Get(parsed.graph.root(), "state_dict");
//
// Opcodes that name objects by number (EXT), by text (protocol 0) or out of band are refused; so are items for what can
// have none, and state for what is a tensor already. Memory is proportional to the pickle's length.
#ifndef SHARDWRIGHT_CORE_FORMAT_PICKLE_MACHINE_H_
#define SHARDWRIGHT_CORE_FORMAT_PICKLE_MACHINE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "shardwright/core/format/pickle/graph.h"

namespace shardwright::pickle {

// Longest pickle that is read: about a million tensors' worth, several times over.
inline constexpr uint64_t kMaxPickleBytes = 1ull << 30;

struct Parsed {
  Graph graph;
  uint64_t end = 0;  // behind its STOP
};

// Reads the pickle that begins at `begin`. kOutOfRange if the bytes end before its STOP; kDataLoss, naming opcode and
// position, for anything that is no pickle or not to be read.
absl::StatusOr<Parsed> Parse(const std::shared_ptr<const std::string>& bytes, uint64_t begin = 0);

}  // namespace shardwright::pickle

#endif  // SHARDWRIGHT_CORE_FORMAT_PICKLE_MACHINE_H_
