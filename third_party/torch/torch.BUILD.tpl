# %{origin}
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "torch",
    srcs = [
        "lib/libc10.so",
        "lib/libtorch_cpu.so",
    ] + %{runtime},
    hdrs = glob(["include/**"]),
    includes = [
        "include",
        "include/torch/csrc/api/include",
    ],
    linkopts = ["-lpthread"],
)

cc_library(
    name = "torch_cuda",
    srcs = glob([
        "lib/libc10_cuda.so",
        "lib/libtorch_cuda.so",
    ]),
    linkopts = ["-Wl,--allow-shlib-undefined"],
    deps = [":torch"],
)

cc_library(
    name = "torch_python",
    srcs = glob(["lib/libtorch_python.so"]),
    hdrs = glob(["pybind/**"]),
    includes = ["pybind"],
    deps = [":torch"],
)
