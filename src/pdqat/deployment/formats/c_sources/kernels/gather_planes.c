/* The codes that a window of a group sees, as bit planes: rows of the window, columns, channels. Padding is code 0. */
static void gather_planes(const convolution *layer, const tensor *from, int top, int left, int group, uint32_t *window)
{
    int words = plane_words(from->channels), channels = from->channels / layer->groups, at = 0;
    memset(window, 0, (size_t)(layer->row_words * from->planes) * sizeof *window);
    for (int row = 0; row < layer->kernel_height; row++)
        for (int column = 0; column < layer->kernel_width; column++, at += channels) {
            int y = top + row * layer->dilation_y, x = left + column * layer->dilation_x;
            if (y < 0 || y >= from->height || x < 0 || x >= from->width)
                continue;
            const uint32_t *pixel = (const uint32_t *)from->data + (y * from->width + x) * words * from->planes;
            for (int plane = 0; plane < from->planes; plane++)
                append_bits(window + plane * layer->row_words, at, pixel + plane * words, group * channels, channels);
        }
}
