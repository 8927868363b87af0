/* A pixel of a convolution of lines of bits: products of bits are ANDs, and their sum is a population count. */
KERNEL void convolve_lines(const convolution *layer, const tensor *lines, const tensor *to, int pixel)
{
    int outputs = to->channels, block = MODEL_COPIES ? 16 : outputs; /* as many sums as a vector holds */
    const uint32_t *words = (const uint32_t *)data_of(lines) + pixel % to->width * layer->stride_x;
    const int32_t *sums = (const int32_t *)words + lines->planes * lines->channels * lines->width;
    int32_t all = 0;
    if (layer->start != 0) /* the sum of the window's codes, times start */
        for (int column = 0; column < layer->kernel_width; column++)
            all += layer->start * sums[column];
    for (int first = 0; first < outputs; first += block) {
        int count = outputs - first < block ? outputs - first : block;
        multiply_lines(layer, lines, words, all, layer->indices + first, outputs, arena.row + first, count);
    }
}
