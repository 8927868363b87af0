/* What a row of windows sees of an image, column by column: each has rows as a window has them, and of them channels.
   Padding is code 0. */
KERNEL void gather_columns(const convolution *layer, const tensor *from, const tensor *columns, int window_row)
{
    int size = columns->channels, channels = from->channels, top = window_row * layer->stride_y - layer->pad_y;
    int inside = columns->width - layer->pad_x < from->width ? columns->width - layer->pad_x : from->width;
    uint8_t *first = (uint8_t *)data_of(columns) + layer->pad_x * size;
    memset(data_of(columns), 0, (size_t)(columns->width * size));
    for (int row = 0; row < layer->kernel_height; row++, first += channels) {
        int y = top + row * layer->dilation_y;
        if (y < 0 || y >= from->height)
            continue;
        for (int channel = 0; channel < channels; channel++) {
            const uint8_t *restrict pixel = (const uint8_t *)data_of(from) + y * from->width * from->pixel_step;
            uint8_t *restrict code = first + channel;
            pixel += channel * from->channel_step;
            for (int x = 0; x < inside; x++)
                code[x * size] = pixel[x * from->pixel_step];
        }
    }
}
