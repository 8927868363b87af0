/* The codes that a window of a group sees: rows of the window, columns, channels. Padding is code 0. */
static void gather_bytes(const convolution *layer, const tensor *from, int top, int left, int group, int16_t *window)
{
    int channels = from->channels / layer->groups;
    for (int row = 0; row < layer->kernel_height; row++)
        for (int column = 0; column < layer->kernel_width; column++) {
            int y = top + row * layer->dilation_y, x = left + column * layer->dilation_x;
            if (y < 0 || y >= from->height || x < 0 || x >= from->width) {
                for (int channel = 0; channel < channels; channel++)
                    *window++ = 0;
                continue;
            }
            int at = (y * from->width + x) * from->pixel_step + group * channels * from->channel_step;
            for (int channel = 0; channel < channels; channel++, at += from->channel_step)
                *window++ = from->is_signed ? ((const int8_t *)from->data)[at] : ((const uint8_t *)from->data)[at];
        }
}
