# %{origin}
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "cudart",
    srcs = %{cudart_srcs},
    hdrs = glob([
        "include/*.h",
        "include/*.hpp",
        "include/crt/**",
    ]),
    includes = ["include"],
    deps = %{cudart_deps},
)

cc_library(
    name = "nccl",
    srcs = ["lib/libnccl.so.2"],
    hdrs = glob([
        "nccl/nccl*.h",
        "nccl/nccl_device/**",
    ]),
    includes = ["nccl"],
    deps = [":cudart"],
)
