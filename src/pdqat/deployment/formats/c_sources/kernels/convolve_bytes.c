/* A convolution of codes with weights of 8 bits: products of bytes. */
static void convolve_bytes(const convolution *layer, const tensor *from, const tensor *to)
{
    int outputs = to->channels / layer->groups;
    int terms = layer->kernel_height * layer->kernel_width * (from->channels / layer->groups);
    for (int pixel = 0; pixel < pixels_of(to); pixel++) {
        int top = pixel / to->width * layer->stride_y - layer->pad_y;
        int left = pixel % to->width * layer->stride_x - layer->pad_x;
        for (int group = 0; group < layer->groups; group++) {
            gather_bytes(layer, from, top, left, group, arena.codes);
            for (int output = group * outputs; output < (group + 1) * outputs; output++) {
                const int8_t *weights = layer->bytes + output * terms;
                int32_t sum = 0;
                for (int term = 0; term < terms; term++)
                    sum += weights[term] * arena.codes[term];
                arena.row[output] = sum;
            }
        }
        finish(layer->finish, arena.row, to, pixel);
    }
}
