#!/usr/bin/env bash
# Installs what building Shardwright needs, where it is missing: Debian 12 packages, and LibTorch in .venv.
#
#   tools/setup.sh            what the build and the quickstart need
#   tools/setup.sh --tests    and what tools/test.sh needs
#
# Packages are installed as root or through sudo that asks no password; without either, the command to run is printed.
# LibTorch: $SHARDWRIGHT_TORCH, else the active python's torch if it fits, else the wheel is installed into .venv.
set -euo pipefail
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

packages=(
  g++ git python3 python3-venv python3-pip fortunes
  bazel-bootstrap bazel-platforms bazel-rules-java bazel-rules-proto bazel-skylib
  libabsl-dev libgflags-dev libgoogle-glog-dev libprotobuf-dev protobuf-compiler
  libgloo-dev libisal-dev libxxhash-dev nlohmann-json3-dev zlib1g-dev libzstd-dev
)
test_packages=(libgtest-dev libgmock-dev libbenchmark-dev clang-format clang-tidy shellcheck patchelf)

# The wheel alone: torch's Python dependencies are 4 GB that the C++ side does not use.
torch_wheels=('torch==2.15.0')
cuda_wheels=('nvidia-cuda-runtime<14' 'nvidia-cuda-cupti<14')

missing_packages() {
  command -v dpkg-query >/dev/null || die "tools/setup.sh knows Debian 12 only. Install what these packages hold, then build with Bazel: $*"
  local installed
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^installed //p') || true
  comm -13 <(sort <<<"$installed") <(printf '%s\n' "$@" | sort)
}

# as_root COMMAND...: false if that cannot be.
become_root() {
  if [ "$(id -u)" = 0 ]; then as_root=(env); else as_root=(sudo -n env); fi
  [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }
}

install_packages() {
  local missing
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  become_root || die "these packages are missing, and installing them needs root. Run this, then $0 again:

  apt-get update && apt-get install --no-install-recommends ${missing[*]}
"
  stage "installing ${#missing[@]} Debian packages: ${missing[*]}"
  local apt=("${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  quietly apt-update "${apt[@]}" update || die "apt-get update failed: is a Debian mirror configured and reachable?"
  quietly apt-install "${apt[@]}" install --no-install-recommends "${missing[@]}" || die "apt-get install failed"
  stage_done
}

find_torch() { python3 "$project/third_party/torch/find_torch.py" 2>"$logs/find-torch.log"; }

has_cuda_toolkit() { [ -e /usr/local/cuda/lib64/libcudart.so.13 ] && [ -e /usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13 ]; }

# A .venv of ours that has no fitting torch was interrupted or is outdated: it is made anew. Another's is only added to.
make_venv() {
  local venv=$1 mark=$1/made-by-shardwright-setup
  [ -e "$mark" ] && rm -rf "$venv"
  [ -e "$venv/bin/python" ] && return 0
  mkdir -p "$venv" && touch "$mark" && quietly venv python3 -m venv "$venv"
}

install_torch() {
  find_torch >/dev/null && return 0
  [ -z "${SHARDWRIGHT_TORCH:-}" ] || die "SHARDWRIGHT_TORCH does not name a fitting LibTorch: $(cat "$logs/find-torch.log")"
  local venv=$project/.venv wheels=("${torch_wheels[@]}")
  has_cuda_toolkit || wheels+=("${cuda_wheels[@]}")
  stage "installing LibTorch into .venv (540 MB to download): ${wheels[*]}"
  make_venv "$venv" || die "python3 -m venv failed"
  quietly pip "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --no-deps "${wheels[@]}" ||
    die "pip could not install torch: is a package index configured and reachable, and are 2 GB of disk free?"
  find_torch >/dev/null || die "LibTorch was installed but does not serve: $(cat "$logs/find-torch.log")"
  stage_done
}

main() {
  local wanted=("${packages[@]}")
  case "${1:-}" in
    '') ;;
    --tests) wanted+=("${test_packages[@]}") ;;
    -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "$0: unknown option $1, expected --tests or nothing" >&2; exit 2 ;;
  esac
  local start=$EPOCHREALTIME
  install_packages "${wanted[@]}"
  install_torch
  say "set up: $(find_torch | sed -n 's/^version=/LibTorch /p'), Debian packages all there ($(seconds_since "$start") s)"
}

main "$@"
