// Tangled from chapters/a3_kernels/2_batch_norm.py — edit there, or here and run `readtorch sync`.
// Count, mean, and sum of squared distances from the mean.
template <class A>
struct Welford {
    A mean, m2, count;
    static __device__ Welford none() { return {0, 0, 0}; }

    __device__ __forceinline__ void merge(const Welford& more) {
        A total = count + more.count;
        A share = total > 0 ? more.count / total : A(0);
        A far = more.mean - mean;
        mean += far * share;
        m2 += more.m2 + far * far * count * share;
        count = total;
    }
    __device__ __forceinline__ Welford down(int away) const {
        return {__shfl_down_sync(~0u, mean, away), __shfl_down_sync(~0u, m2, away), __shfl_down_sync(~0u, count, away)};
    }
    __device__ __forceinline__ Welford first() const {
        return {__shfl_sync(~0u, mean, 0), __shfl_sync(~0u, m2, 0), __shfl_sync(~0u, count, 0)};
    }
};

// N summaries side by side, one per lane of a vector: they see equally many numbers, so one division serves all.
template <class A, int N>
struct WelfordVec {
    A mean[N], m2[N], count;
    __device__ __forceinline__ void clear() {
        count = 0;
#pragma unroll
        for (int k = 0; k < N; k++) mean[k] = m2[k] = 0;
    }
    __device__ __forceinline__ void add(const A (&x)[N]) {
        count += 1;
        A share = A(1) / count;
#pragma unroll
        for (int k = 0; k < N; k++) {
            A far = x[k] - mean[k];
            mean[k] += far * share;
            m2[k] += far * (x[k] - mean[k]);
        }
    }
    __device__ __forceinline__ Welford<A> lane(int k) const { return {mean[k], m2[k], count}; }
    __device__ __forceinline__ Welford<A> merged() const {
        Welford<A> all = lane(0);
#pragma unroll
        for (int k = 1; k < N; k++) all.merge(lane(k));
        return all;
    }
};
