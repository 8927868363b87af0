/* A convolution of codes with weights of 8 bits: products of bytes. */
static void convolve_bytes(const convolution *layer, const tensor *from, const tensor *to)
{
    int outputs = to->channels / layer->groups;
    int terms = layer->kernel_height * layer->kernel_width * (from->channels / layer->groups);
    for (int pixel = 0; pixel < pixels_of(to); pixel++) {
        int top = pixel / to->width * layer->stride_y - layer->pad_y;
        int left = pixel % to->width * layer->stride_x - layer->pad_x;
        const int8_t *weights = layer->bytes;
        for (int group = 0; group < layer->groups; group++) {
            int32_t *sums = arena.row + group * outputs;
            gather_bytes(layer, from, top, left, group, arena.codes);
            for (int term = terms; term % 4 != 0; term++)
                arena.codes[term] = 0;
            for (int output = 0; output < outputs; output++)
                sums[output] = 0;
            for (int term = 0; term < terms; term += 4, weights += 4 * outputs)
                add_four_products(sums, weights, arena.codes + term, outputs);
        }
        finish(layer->finish, arena.row, to, pixel);
    }
}
