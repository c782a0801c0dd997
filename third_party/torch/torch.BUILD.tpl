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
    deps = [":cudart"],
)

# CUDA's runtime, without headers: @cuda takes it from here, since a program links but one.
cc_library(
    name = "cudart",
    srcs = %{cudart},
)
%{cuda_rules}

cc_library(
    name = "torch_python",
    srcs = glob(["lib/libtorch_python.so"]),
    hdrs = glob(["pybind/**"]),
    includes = ["pybind"],
    deps = [":torch"],
)
