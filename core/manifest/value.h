// Extras: what a checkpoint holds besides tensors, as typed values. Never a pickle: reading one runs no code.
#ifndef SHARDWRIGHT_CORE_MANIFEST_VALUE_H_
#define SHARDWRIGHT_CORE_MANIFEST_VALUE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace shardwright {

// A reference to a tensor of the same checkpoint.
struct TensorReference {
  std::string name;
  friend bool operator==(const TensorReference&, const TensorReference&) = default;
};

// An object of a foreign class ("argparse.Namespace"): kept by name, never constructed.
struct OpaqueObject {
  std::string global;
  friend bool operator==(const OpaqueObject&, const OpaqueObject&) = default;
};

// Raw bytes, apart from text.
struct Bytes {
  std::string data;
  friend bool operator==(const Bytes&, const Bytes&) = default;
};

// Value semantics; deep comparison. Maps keep sorted order, so that equal extras serialise equally.
class Value {
 public:
  using List = std::vector<Value>;
  using Map = std::map<std::string, Value>;
  using Variant =
      std::variant<std::monostate, bool, int64_t, double, std::string, Bytes, List, Map, TensorReference, OpaqueObject>;

  Value() = default;
  Value(bool v) : v_(v) {}                        // NOLINT: implicit by purpose, as all below
  Value(int v) : v_(int64_t{v}) {}                // NOLINT
  Value(int64_t v) : v_(v) {}                     // NOLINT
  Value(double v) : v_(v) {}                      // NOLINT
  Value(const char* v) : v_(std::string(v)) {}    // NOLINT
  Value(std::string v) : v_(std::move(v)) {}      // NOLINT
  Value(Bytes v) : v_(std::move(v)) {}            // NOLINT
  Value(List v) : v_(std::move(v)) {}             // NOLINT
  Value(Map v) : v_(std::move(v)) {}              // NOLINT
  Value(TensorReference v) : v_(std::move(v)) {}  // NOLINT
  Value(OpaqueObject v) : v_(std::move(v)) {}     // NOLINT

  bool is_null() const { return std::holds_alternative<std::monostate>(v_); }
  // Null if the value has another type.
  template <typename T>
  const T* get_if() const {
    return std::get_if<T>(&v_);
  }
  template <typename T>
  T* get_if() {
    return std::get_if<T>(&v_);
  }
  const Variant& variant() const { return v_; }

  friend bool operator==(const Value& a, const Value& b) { return a.v_ == b.v_; }

 private:
  Variant v_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MANIFEST_VALUE_H_
