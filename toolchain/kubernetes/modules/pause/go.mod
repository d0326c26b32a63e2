// Built by toolchain/kubernetes/build.py.
module symphony/toolchain/pause

go 1.24.0

tool symphony/toolchain/pause
