/* The codes that a window of a group sees, as bit planes: rows of the window, columns, channels. Padding is code 0. */
KERNEL void gather_planes(const convolution *layer, const tensor *from, window at, int is_inside, int group,
                          uint32_t *restrict bits)
{
    int words = plane_words(from->channels), channels = from->channels / layer->groups, end = 0;
    memset(bits, 0, (size_t)(layer->row_words * from->planes) * sizeof *bits);
    for (int row = 0; row < layer->kernel_height; row++)
        for (int column = 0; column < layer->kernel_width; column++, end += channels) {
            int y = at.top + row * layer->dilation_y, x = at.left + column * layer->dilation_x;
            if (!is_inside && is_outside(from, y, x))
                continue;
            const uint32_t *pixel = (const uint32_t *)data_of(from) + (y * from->width + x) * words * from->planes;
            for (int plane = 0; plane < from->planes; plane++)
                append_bits(bits + plane * layer->row_words, end, pixel + plane * words, group * channels, channels);
        }
}
