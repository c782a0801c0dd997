#include "shardwright/core/models/models.h"

#include "shardwright/core/models/gpt.h"
#include "shardwright/core/models/moe_gpt.h"

namespace shardwright {

ModelTable BuiltinModels() {
  return ModelTable("model", {
                                 {"gpt", GptFactory()},
                                 {"moe_gpt", MoeGptFactory()},
                             });
}

}  // namespace shardwright
