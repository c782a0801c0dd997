#include "shardwright/core/models/models.h"

#include "shardwright/core/models/gpt.h"

namespace shardwright {

ModelTable BuiltinModels() {
  return ModelTable("model", {
                                 {"gpt", GptFactory()},
                             });
}

}  // namespace shardwright
