// Tangled from chapters/a3_kernels/7_columns_and_embedding.py — edit there, or here and run `readtorch sync`.
#include "aten/native/cuda/memory_access.cuh"

constexpr int PIECE = 64;

// sorted: indices in order. order: the row of dy of each. by_count: divide each sum by the length of its run.
// head, tail: (pieces, columns).
template <class T>
__global__ void __launch_bounds__(128) embedding_backward_pieces(
    const T* dy, const long long* sorted, const long long* order, T* dw, acc_t<T>* head, acc_t<T>* tail, long long padding, long long by_count,
    long long count, long long columns) {
    using A = acc_t<T>;
    long long column = blockIdx.y * 128LL + threadIdx.x;
    if (column >= columns) return;
    long long start = blockIdx.x * (long long)PIECE;
    int size = int(min((long long)PIECE, count - start));
    const long long* index = sorted + start;
    bool from_before = start > 0 && sorted[start - 1] == index[0];
    A sum = 0;
    int run = 0;
    for (int first = 0; first < size; first += 4) {
        A values[4];  // four loads are under way before the first is needed
#pragma unroll
        for (int k = 0; k < 4; k++)
            values[k] = first + k < size ? widen(dy[order[start + first + k] * columns + column]) : A(0);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            int i = first + k;
            if (i >= size) break;
            long long word = index[i];
            if (word != padding) sum += values[k];
            run++;
            bool last = i + 1 == size;
            if (!last && index[i + 1] == word) continue;
            bool goes_on = last && start + size < count && index[size] == word;
            if (from_before)
                head[blockIdx.x * columns + column] = sum;  // the first run of the piece, and perhaps its only one
            else if (goes_on)
                tail[blockIdx.x * columns + column] = sum;
            else if (word != padding)
                dw[word * columns + column] = narrowed<T>(by_count ? sum / A(run) : sum);
            from_before = false;
            sum = 0;
            run = 0;
        }
    }
}

__device__ __forceinline__ long long run_before(const long long* sorted, long long at) {
    long long start = at / PIECE * PIECE, from = at;
    while (from > start && sorted[from - 1] == sorted[at]) from--;
    return from;
}

// Completes the run that begins in a piece and goes on in the next ones.
template <class T>
__global__ void __launch_bounds__(128) embedding_backward_join(
    const long long* sorted, T* dw, const acc_t<T>* head, const acc_t<T>* tail, long long padding, long long by_count, long long count,
    long long columns) {
    using A = acc_t<T>;
    long long column = blockIdx.y * 128LL + threadIdx.x;
    if (column >= columns) return;
    long long piece = blockIdx.x, end = (piece + 1) * PIECE;
    if (end >= count) return;  // the last piece goes on nowhere
    long long word = sorted[end - 1];
    if (sorted[end] != word || word == padding) return;
    long long from = run_before(sorted, end - 1);
    if (from == piece * PIECE && from > 0 && sorted[from - 1] == word) return;  // began earlier
    A sum = tail[piece * columns + column];
    long long to = end;
    for (long long next = piece + 1; to < count && sorted[to] == word; next++) {
        sum += head[next * columns + column];
        long long stop = min(count, (next + 1) * PIECE);
        while (to < stop && sorted[to] == word) to++;
    }
    dw[word * columns + column] = narrowed<T>(by_count ? sum / A(to - from) : sum);
}
