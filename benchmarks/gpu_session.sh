#!/usr/bin/env bash
# One session on a machine with a GPU, in at most ten minutes: tests, benchmarks, a recording of the book.
#
#     benchmarks/gpu_session.sh [FOLDER]          results go to FOLDER (default: gpu-session)
#     benchmarks/gpu_session.sh --dry-run         the same steps on simulated devices, cut short; needs no GPU
#
# Needs Python with NumPy, pytest and CuPy, and installs nothing; PyTorch, where it is installed, is what results are compared with.
# pytest-xdist, where it is installed, shares the library's tests among processes. Where the sources came without git's history, set
# READTORCH_REVISION: results say what they are of. Each step has a time of its own, so that one that fails or hangs costs the others
# nothing; together they have 9 minutes and 40 seconds. Exit status: the number of steps that failed.
set -u
cd "$(dirname "$0")/.." || exit 1
export PYTHONPATH="$PWD/src" PYTHONDONTWRITEBYTECODE=1
python=${PYTHON:-python3}
dry=""
if [ "${1:-}" = "--dry-run" ]; then
    dry=yes
    export READTORCH_SIM_CUDA=4
    shift
fi
out=${1:-${OUT:-gpu-session}}
mkdir -p "$out"
failed=0
workers="-p no:xdist"
"$python" -c "import xdist" 2> /dev/null && workers="-n $(($(nproc) / 2))"

step() { # step NAME SECONDS COMMAND...
    local name=$1 seconds=$2 began=$SECONDS
    shift 2
    timeout --kill-after=5 "$seconds" "$@" > "$out/$name.txt" 2>&1
    local rc=$?
    echo "$name: $([ $rc -eq 0 ] && echo ok || echo "FAILED ($rc)") in $((SECONDS - began)) s"
    tail -n 3 "$out/$name.txt" | sed 's/^/    /'
    [ $rc -eq 0 ] || failed=$((failed + 1))
}

step probe 30 "$python" -c 'import readtorch as t; t.cuda.init(); print(t.cuda.get_device_properties(0)); x = t.rand(9, device="cuda"); print(x @ x)'
if [ -n "$dry" ]; then
    step kernels 60 "$python" -m pytest -q -n 0 -m gpu tests/gpu --co
    step library 200 "$python" -m pytest -q -n 0 tests/library/test_tensor.py tests/library/test_cuda_graphs.py --device cuda
    step benchmarks 200 "$python" benchmarks/gpu.py --dry-run
    step recording 200 "$python" -m readtorch.literate.record --device cuda -o "$out/recording.zip" --part-seconds 150 01_import/d7_torch_cuda 01_import/d8_cuda_graphs
    if "$python" -m readtorch.literate.record --import "$out/recording.zip" > "$out/import.txt" 2>&1; then
        echo "import: FAILED, a simulated device's recording was let in"
        failed=$((failed + 1))
    else
        echo "import: refused, as it must be: $(tail -n 1 "$out/import.txt")"
    fi
else
    step kernels 90 "$python" -m pytest -q -p no:xdist -m gpu tests/gpu
    # shellcheck disable=SC2086  # two words
    step library 110 "$python" -m pytest -q $workers --device cuda tests/library --ignore tests/library/test_architecture.py --ignore tests/library/test_each_module_imports.py
    step benchmarks 120 "$python" benchmarks/gpu.py --json "$out/gpu.json"
    step recording 230 "$python" -m readtorch.literate.record --device cuda -o "$out/recording.zip" --seconds 220 --part-seconds 40
fi
echo "results are in $out. Bring them in with:"
echo "    readtorch record --import $out/recording.zip    # into docs/recordings/"
echo "    cp $out/gpu.json benchmarks/results/gpu.json"
exit "$failed"
