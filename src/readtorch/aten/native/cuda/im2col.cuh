// Tangled from chapters/a3_kernels/7_columns_and_embedding.py — edit there, or here and run `readtorch sync`.
// x: (planes, height, width). columns: (planes, kernel_h, kernel_w, out_h, out_w).
template <class T>
__global__ void __launch_bounds__(256) im2col(
    const T* x, T* columns, long long planes, long long height, long long width, long long kernel_h, long long kernel_w, long long out_h,
    long long out_w, long long pad_h, long long pad_w, long long stride_h, long long stride_w, long long dilation_h, long long dilation_w) {
    int place = blockIdx.x * 256 + threadIdx.x, places = int(out_h * out_w);
    if (place >= places) return;
    int top = int(place / int(out_w) * stride_h - pad_h), left = int(place % int(out_w) * stride_w - pad_w);
    for (long long plane = blockIdx.y; plane < planes; plane += gridDim.y) {
        const T* image = x + plane * height * width;
        T* column = columns + plane * kernel_h * kernel_w * places + place;
        for (int i = 0; i < kernel_h; i++) {
            int row = top + i * int(dilation_h);
            for (int j = 0; j < kernel_w; j++) {
                int at = left + j * int(dilation_w);
                bool inside = row >= 0 && row < height && at >= 0 && at < width;
                *column = inside ? image[row * width + at] : T{};
                column += places;
            }
        }
    }
}

template <class T>
__global__ void __launch_bounds__(256) col2im(
    const T* columns, T* x, long long planes, long long height, long long width, long long kernel_h, long long kernel_w, long long out_h,
    long long out_w, long long pad_h, long long pad_w, long long stride_h, long long stride_w, long long dilation_h, long long dilation_w) {
    using A = acc_t<T>;
    int pixel = blockIdx.x * 256 + threadIdx.x;
    if (pixel >= height * width) return;
    int y = pixel / int(width) + int(pad_h), across = pixel % int(width) + int(pad_w);
    long long places = out_h * out_w;
    for (long long plane = blockIdx.y; plane < planes; plane += gridDim.y) {
        const T* column = columns + plane * kernel_h * kernel_w * places;
        A sum = 0;
        for (int i = 0; i < kernel_h; i++) {
            int row = y - i * int(dilation_h);
            if (row < 0 || row % int(stride_h) || row / int(stride_h) >= out_h) continue;
            for (int j = 0; j < kernel_w; j++) {
                int at = across - j * int(dilation_w);
                if (at < 0 || at % int(stride_w) || at / int(stride_w) >= out_w) continue;
                sum += widen(column[(i * kernel_w + j) * places + row / int(stride_h) * out_w + at / int(stride_w)]);
            }
        }
        x[plane * height * width + pixel] = narrowed<T>(sum);
    }
}
